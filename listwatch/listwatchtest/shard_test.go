package listwatchtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

// What kube-apiserver answers to shardSelector; all of its answers are in test/e2e.
func TestShardSelector(t *testing.T) {
	const other = "shardRange(object.metadata.namespace, '0x0000000000000000', '0x4000000000000000')" // "default" is not in it
	const all = "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')"
	for _, c := range []struct {
		name, method, query, selector string
		sharding                      listwatchtest.Sharding
		code, items                   int
		echo, says                    string
	}{
		{name: "narrowed", selector: other, sharding: listwatchtest.ShardingOn, code: 200, items: 1, echo: other},
		{name: "all", selector: "  " + all + " ", sharding: listwatchtest.ShardingOn, code: 200, items: 3, echo: all},
		{name: "one page of all", selector: all, query: "&limit=2", sharding: listwatchtest.ShardingOn, code: 200, items: 2, echo: all},
		{name: "deleted", method: http.MethodDelete, selector: other, sharding: listwatchtest.ShardingOn, code: 200, items: 1, echo: other},
		{name: "bad", selector: "x", sharding: listwatchtest.ShardingOn, code: 500, says: "invalid shard selector: unexpected expression kind 3"},
		{name: "bad watch", selector: "x", query: "&watch=1", sharding: listwatchtest.ShardingOn, code: 500, says: "invalid shard selector"},
		{name: "empty", sharding: listwatchtest.ShardingOn, code: 200, items: 3},
		{name: "off", selector: other, code: 200, items: 3},
		{name: "off and bad", selector: "x", code: 200, items: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := listwatchtest.Start(listwatchtest.Config{Sharding: c.sharding})
			defer srv.Close()
			for _, name := range []string{"default/a", "default/b", "other/c"} {
				namespace, name, _ := strings.Cut(name, "/")
				if err := srv.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
					t.Fatal(err)
				}
			}
			path := "/api/v1/pods"
			if c.method != "" {
				path = "/api/v1/namespaces/other/pods" // there is no deleting in all namespaces
			}
			method := c.method
			if method == "" {
				method = http.MethodGet
			}
			req, err := http.NewRequest(method, srv.URL()+path+"?shardSelector="+url.QueryEscape(c.selector)+c.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			var list struct {
				Metadata metav1.ListMeta
				Items    []struct{}
				Message  string
			}
			if err := json.Unmarshal(body, &list); err != nil {
				t.Fatal(err)
			}
			echo := ""
			if list.Metadata.ShardInfo != nil {
				echo = list.Metadata.ShardInfo.Selector
			}
			if resp.StatusCode != c.code || len(list.Items) != c.items || echo != c.echo || !strings.HasPrefix(list.Message, c.says) {
				t.Errorf("%d, %s", resp.StatusCode, body)
			}
			if list.Metadata.RemainingItemCount != nil {
				t.Errorf("remainingItemCount of what is narrowed: %d", *list.Metadata.RemainingItemCount)
			}
		})
	}
	defer func() {
		if recover() == nil {
			t.Error("Sharding 7 is taken")
		}
	}()
	listwatchtest.New(listwatchtest.Config{Sharding: 7})
}
