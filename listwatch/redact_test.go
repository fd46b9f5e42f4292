package listwatch

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// "Tokens, passwords and URL user info are in no error", by whichever way an object is decoded.
func TestSecretsInNoWayOfDecoding(t *testing.T) {
	const item = `{"metadata":{"name":"a","creationTimestamp":"` + plantedToken + `"}}`
	plain, err := decode.New[*corev1.Pod]()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Decode(decode.JSON, []byte(item)); err == nil || !strings.Contains(err.Error(), plantedToken) {
		t.Fatalf("the decoder's own error does not quote what it could not read: %v", err)
	}
	server := serve(t, answerWith(200, mediaJSON, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`+item+`]}`))
	got := &ways{}
	if _, err := newFor[*corev1.Pod](t, server.URL, withToken).List(t.Context(), metav1.ListOptions{}, got); err != nil {
		t.Fatal(err)
	}
	for way, err := range map[string]error{"Decode": got.decode, "DecodeShared": got.shared} {
		if err == nil || strings.Contains(err.Error(), plantedToken) {
			t.Errorf("%s: error is %v", way, err)
		}
	}
	if !got.packs || got.pack != nil {
		t.Errorf("Pack: %t, %v; want bytes that nobody has looked at", got.packs, got.pack)
	}
}

// ways tries each way of decoding an item.
type ways struct {
	decode, shared, pack error
	packs                bool
}

func (w *ways) Meta(metav1.ListMeta) error { return nil }
func (w *ways) Item(o *decode.Object[*corev1.Pod]) error {
	_, w.decode = o.Decode()
	_, _, w.shared = o.DecodeShared(nil, decode.Parts{})
	_, w.packs, w.pack = o.Pack()
	return nil
}
