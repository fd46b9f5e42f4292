package listwatch

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// paged serves pods p0 to p6, limit a page.
func paged(w http.ResponseWriter, r *http.Request) {
	const total = 7
	q := r.URL.Query()
	from, _ := strconv.Atoi(q.Get("continue"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	to := total
	meta := `"resourceVersion":"42"`
	if limit > 0 && from+limit < total {
		to = from + limit
		meta += `,"continue":"` + strconv.Itoa(to) + `","remainingItemCount":` + strconv.Itoa(total-to)
	}
	body := `{"kind":"PodList","metadata":{` + meta + `},"items":[`
	for i := from; i < to; i++ {
		if i > from {
			body += ","
		}
		body += `{"metadata":{"name":"p` + strconv.Itoa(i) + `"}}`
	}
	answerWith(200, mediaJSON, body+`]}`)(w, r)
}

// "Pages lists with opts.Limit items a request and follows the continue tokens"
func TestPages(t *testing.T) {
	server := note(t, paged)
	lw := newFor[*corev1.Pod](t, server.URL, nil)
	sink := &recorder[*corev1.Pod]{}
	opts := metav1.ListOptions{Limit: 3, ResourceVersion: "40", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, LabelSelector: "a"}
	meta, err := Pages(t.Context(), lw, opts, sink)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "calls", sink.calls, []string{"meta", "p0", "p1", "p2", "meta", "p3", "p4", "p5", "meta", "p6"})
	diff(t, "metadata", meta, metav1.ListMeta{ResourceVersion: "42"})
	if left := sink.meta[0].RemainingItemCount; left == nil || *left != 4 {
		t.Errorf("remainingItemCount of the first page is %v", left)
	}
	var queries []string
	for _, r := range server.seen() {
		queries = append(queries, r.URL.RawQuery)
	}
	diff(t, "queries", queries, []string{
		"labelSelector=a&limit=3&resourceVersion=40&resourceVersionMatch=NotOlderThan",
		"continue=3&labelSelector=a&limit=3", "continue=6&labelSelector=a&limit=3",
	})
}

// "Where a server moves on between pages, the list's is that of the first page that names one"
func TestPagesOfSeveralVersions(t *testing.T) {
	for want, rvs := range map[string][3]string{
		"7": {"7", "9", "11"},
		"9": {"", "9", "11"},
		"8": {"8", "3", ""},
		"":  {},
	} {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			page, _ := strconv.Atoi(r.URL.Query().Get("continue"))
			meta := metav1.ListMeta{ResourceVersion: rvs[page]}
			if page < 2 {
				meta.Continue = strconv.Itoa(page + 1)
			}
			body, _ := json.Marshal(&corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList"}, ListMeta: meta})
			answerWith(200, mediaJSON, string(body))(w, r)
		})
		meta, err := Pages(t.Context(), newFor[*corev1.Pod](t, server.URL, nil), metav1.ListOptions{Limit: 1}, &recorder[*corev1.Pod]{})
		if err != nil || meta.ResourceVersion != want {
			t.Errorf("pages of %q: the list is of %q, %v, want %q", rvs, meta.ResourceVersion, err, want)
		}
	}
}

// "without a limit it is one List"
func TestPagesWithoutALimit(t *testing.T) {
	server := note(t, paged)
	sink := &recorder[*corev1.Pod]{}
	if _, err := Pages(t.Context(), newFor[*corev1.Pod](t, server.URL, nil), metav1.ListOptions{}, sink); err != nil {
		t.Fatal(err)
	}
	if len(server.seen()) != 1 || len(sink.items) != 7 {
		t.Errorf("%d requests, %d items", len(server.seen()), len(sink.items))
	}
}

// "A token that expired ends it with an *Error whose Reason is Expired and Continue is set."
func TestPagesWithAnExpiredToken(t *testing.T) {
	wire, _ := specimen(t, "error-continue-expired")
	first := `{"kind":"PodList","metadata":{"resourceVersion":"1","continue":"tok"},"items":[{"metadata":{"name":"a"}}]}`
	server := serveRaw(t, func(r *http.Request) []byte {
		if r.URL.Query().Get("continue") != "" {
			return wire
		}
		return []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + first)
	})
	sink := &recorder[*corev1.Pod]{}
	_, err := Pages(t.Context(), newFor[*corev1.Pod](t, server.addr, nil), metav1.ListOptions{Limit: 1}, sink)
	if e := mustFail(t, err, reason.Expired); !e.Continue || e.Status().Continue == "" {
		t.Errorf("error is %+v", e)
	}
	if len(sink.items) != 1 {
		t.Errorf("%d items", len(sink.items))
	}
	// Without a token the same answer is not about one.
	_, _, err = list[*corev1.Pod](t, serveSpecimen(t, "error-list-rv-exact-expired").addr, metav1.ListOptions{}, nil)
	if e := mustFail(t, err, reason.Expired); e.Continue {
		t.Errorf("error is %+v", e)
	}
}

func TestPagesEnd(t *testing.T) {
	server := serve(t, answerWith(200, mediaJSON, `{"kind":"PodList","metadata":{"continue":"same"},"items":[]}`))
	lw := newFor[*corev1.Pod](t, server.URL, nil)
	_, err := Pages(t.Context(), lw, metav1.ListOptions{Limit: 1}, &recorder[*corev1.Pod]{})
	if mustFail(t, err, reason.Decode); !errors.Is(err, errSamePage) {
		t.Errorf("error is %v", err)
	}
	full := errors.New("full")
	sink := &recorder[*corev1.Pod]{onItem: func(o *decode.Object[*corev1.Pod]) error {
		if o.Meta.Name == "p4" {
			return full
		}
		return nil
	}}
	if _, err := Pages(t.Context(), newFor[*corev1.Pod](t, serve(t, paged).URL, nil), metav1.ListOptions{Limit: 3}, sink); err != full {
		t.Errorf("error is %v, want the sink's", err)
	}
}
