package listwatch

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

// FuzzChunks: the same bytes of a watch, sent over HTTP in another shape (chunk
// sizes, extensions, zeros, segments, members of gzip), give the same events.
func FuzzChunks(f *testing.F) {
	for _, name := range []string{"watch-churn-json", "watch-churn-proto"} {
		_, body := specimen(f, name)
		for i, size := range []uint16{1, 7, 4096, 60000} {
			f.Add(body[:min(len(body), 8000)], strings.HasSuffix(name, "proto"), size, uint16(100*i), uint8(i))
		}
	}
	srv := listwatchtest.New(listwatchtest.Config{})
	lw, err := New[*corev1.Pod](Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods"), MaxItemBytes: 64 << 10})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		lw.Close()
		srv.Close()
	})
	f.Fuzz(func(t *testing.T, body []byte, proto bool, size, segment uint16, how uint8) {
		if len(body) > 16<<10 {
			return // the fuzzer is slow with large ones
		}
		head := "< as json\n"
		if proto {
			head = "< as protobuf\n"
		}
		want := watched(t, srv, lw, head+"< chunk all", body)
		shape := fmt.Sprintf("< chunk %d zeros=%d", int(size)+1, how%5)
		if how&8 != 0 {
			shape += " upper ext=a=\"b\""
		}
		if how&16 != 0 {
			shape += " blocks"
		}
		// Not too many writes: each is one of a pipe.
		if n := max(int(segment), len(body)/200); n > 0 {
			shape += fmt.Sprintf("\n< segment %d", n)
		}
		zip := []string{"", "\n< gzip stream", "\n< gzip members", "\n< gzip unflushed"}[how>>5&3]
		if got := watched(t, srv, lw, head+shape+zip, body); got != want {
			t.Errorf("%s\ngives\n%s\nin one chunk it is\n%s", shape+zip, got, want)
		}
	})
}

// watched plays a watch whose body is this and returns its events, a line each.
func watched(t *testing.T, srv *listwatchtest.Server, lw *ListerWatcher[*corev1.Pod], shape string, body []byte) string {
	t.Helper()
	script, err := listwatchtest.ParseScript("watch", fmt.Appendf(nil, "> WATCH rv=1\n%s\n< text %q", shape, body))
	if err != nil {
		t.Fatal(err)
	}
	play := srv.Play(script)
	w, err := lw.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatalf("%v\n%s", err, play.Transcript())
	}
	defer w.Stop()
	var events strings.Builder
	for {
		ev, err := w.Next()
		if err != nil {
			// A text would quote what had come by then.
			fmt.Fprintf(&events, "end: eof %v", errors.Is(err, io.EOF))
			return events.String()
		}
		pod, err := ev.Object.Decode()
		fmt.Fprintf(&events, "%s %s %s %v %s\n", ev.Type, ev.Object.Meta.Key(), ev.Object.Meta.ResourceVersion, err != nil, ev.Object.Meta.UID)
		if err == nil && pod != nil {
			fmt.Fprintf(&events, "  %s %s\n", pod.Spec.NodeName, pod.Status.Phase)
		}
	}
}
