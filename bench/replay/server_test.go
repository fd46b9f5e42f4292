package replay

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a server with its two handlers and a Remote.
type harness struct {
	*Server
	cfg    Config
	urls   map[Compression]string
	remote Remote
}

func start(t *testing.T, c Config) *harness {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	plain, packed, control := httptest.NewServer(s.Handler(Plain)), httptest.NewServer(s.Handler(Gzip)), httptest.NewServer(s.Control())
	t.Cleanup(func() {
		for _, h := range []*httptest.Server{plain, packed, control} {
			h.CloseClientConnections()
			h.Close()
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return &harness{s, c, map[Compression]string{Plain: plain.URL, Gzip: packed.URL}, Remote{URL: control.URL}}
}

// get makes a request that asks for gzip, and returns the body decompressed.
func (h *harness) get(ctx context.Context, c Compression, query string) (io.ReadCloser, *http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.urls[c]+"/api/v1/namespaces/shop/pods?"+query, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", h.cfg.MediaType)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(ctx, func() { _ = resp.Body.Close() })
	packed := c == Gzip && resp.StatusCode == http.StatusOK
	if got := resp.Header.Get("Content-Encoding"); (got == "gzip") != packed {
		return nil, nil, fmt.Errorf("Content-Encoding is %q of a handler with compression %d", got, c)
	}
	if packed {
		z, err := gzip.NewReader(resp.Body)
		return z, resp, err
	}
	return resp.Body, resp, nil
}

// watch opens a watch and returns how to read its events.
func (h *harness) watch(ctx context.Context, c Compression, query string) func() (apiwatch.EventType, runtime.Object, error) {
	// A gzip header comes with the first event: the body is opened beside the test.
	type opened struct {
		body io.ReadCloser
		err  error
	}
	bodies := make(chan opened, 1)
	go func() {
		body, _, err := h.get(ctx, c, "watch=1&"+query)
		bodies <- opened{body, err}
	}()
	var dec *restwatch.Decoder
	return func() (apiwatch.EventType, runtime.Object, error) {
		if dec == nil {
			o := <-bodies
			if o.err != nil {
				return "", nil, o.err
			}
			info := specimen.Serializer(h.cfg.MediaType)
			dec = restwatch.NewDecoder(
				streaming.NewDecoder(info.StreamSerializer.Framer.NewFrameReader(o.body), info.StreamSerializer.Serializer),
				scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion),
			)
		}
		return dec.Decode()
	}
}

// each runs f for both encodings and compressions.
func each(t *testing.T, c Config, f func(t *testing.T, h *harness, c Compression)) {
	for name, mediaType := range map[string]string{"json": specimen.JSON, "protobuf": specimen.Protobuf} {
		for packed, compression := range map[string]Compression{"plain": Plain, "gzip": Gzip} {
			t.Run(name+" "+packed, func(t *testing.T) {
				c := c
				c.MediaType = mediaType
				f(t, start(t, c), compression)
			})
		}
	}
}

// TestList: each list has the pods, at a resourceVersion above that of the one before.
func TestList(t *testing.T) {
	each(t, Config{Pods: 20}, func(t *testing.T, h *harness, c Compression) {
		for i := range 2 {
			body, _, err := h.get(t.Context(), c, "")
			if err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(body)
			if err != nil {
				t.Fatal(err)
			}
			if len(raw) != h.CollectionBytes() {
				t.Errorf("%d bytes, CollectionBytes says %d", len(raw), h.CollectionBytes())
			}
			obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), raw)
			if err != nil {
				t.Fatal(err)
			}
			list := obj.(*corev1.PodList)
			if want := strconv.Itoa(firstVersion + i); len(list.Items) != 20 || list.ResourceVersion != want {
				t.Errorf("list %d has %d pods at %s, want 20 at %s", i, len(list.Items), list.ResourceVersion, want)
			}
		}
	})
}

// TestCommands: what a watch is told by the server's methods and from another process it sends,
// in the order of resourceVersions.
func TestCommands(t *testing.T) {
	each(t, Config{Pods: 7}, func(t *testing.T, h *harness, c Compression) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next := h.watch(ctx, c, "resourceVersion="+strconv.Itoa(firstVersion))
		version := specimen.FirstUpdate
		expect := func(n int) {
			t.Helper()
			for range n {
				typ, obj, err := next()
				if err != nil {
					t.Fatal(err)
				}
				pod, ok := obj.(*corev1.Pod)
				if typ != apiwatch.Modified || !ok || pod.ResourceVersion != strconv.Itoa(version) {
					t.Fatalf("%s of %v, want MODIFIED at %d", typ, obj, version)
				}
				version++
			}
		}
		for _, told := range []Controller{h.Server, h.remote} {
			if err := told.Watches(ctx, 1); err != nil {
				t.Fatal(err)
			}
			if err := told.Prepare(ctx, 5); err != nil {
				t.Fatal(err)
			}
			n, err := told.Send(ctx, 8) // some were prepared, some were not
			if err != nil || n < 8*4_000 || n > 8*12_000 {
				t.Fatalf("Send says %d bytes, %v", n, err)
			}
			expect(8)
			if err := told.Pace(ctx, 6, 3_000); err != nil {
				t.Fatal(err)
			}
			expect(6)
			if err := told.Pace(ctx, 6, 0); err == nil {
				t.Error("a pace of 0 was accepted")
			}
		}
		if err := h.remote.Expire(ctx); err != nil {
			t.Fatal(err)
		}
		typ, obj, err := next()
		if s, ok := obj.(*metav1.Status); err != nil || typ != apiwatch.Error || !ok || s.Code != http.StatusGone {
			t.Fatalf("%s of %v, %v; want an ERROR with 410", typ, obj, err)
		}
		if _, _, err := next(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after the ERROR: %v, want the end", err)
		}
		log, err := h.remote.Requests(ctx)
		if err != nil || len(log) != 1 || !strings.Contains(log[0], "watch=1") {
			t.Errorf("the requests were %q, %v", log, err)
		}
	})
}

// TestPaceIsNotFaster: events come when they are due and not before.
func TestPaceIsNotFaster(t *testing.T) {
	h := start(t, Config{MediaType: specimen.Protobuf, Pods: 3})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := h.watch(ctx, Plain, "")
	begun := time.Now()
	if err := h.Pace(ctx, 21, 200); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < 100*time.Millisecond {
		t.Errorf("21 events at 200 a second took %v, the last is due after 100ms", took)
	}
	if _, _, err := next(); err != nil {
		t.Fatal(err)
	}
}

// TestRestart: a client that comes from a list gets the first event again, one that resumes does not.
func TestRestart(t *testing.T) {
	h := start(t, Config{MediaType: specimen.JSON, Pods: 3})
	for i, tc := range []struct{ from, want int }{
		{firstVersion, specimen.FirstUpdate}, {specimen.FirstUpdate, specimen.FirstUpdate + 1}, {firstVersion + 1, specimen.FirstUpdate},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		next := h.watch(ctx, Plain, "resourceVersion="+strconv.Itoa(tc.from))
		if err := h.Watches(ctx, i+1); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Send(ctx, 1); err != nil {
			t.Fatal(err)
		}
		_, obj, err := next()
		if err != nil {
			t.Fatal(err)
		}
		if got := obj.(*corev1.Pod).ResourceVersion; got != strconv.Itoa(tc.want) {
			t.Errorf("a watch from %d begins with %s, want %d", tc.from, got, tc.want)
		}
		cancel()
	}
	if n, err := h.remote.Opened(t.Context()); err != nil || n != 3 {
		t.Errorf("%d watches were opened, %v; want 3", n, err)
	}
}

func TestWatchList(t *testing.T) {
	const query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	each(t, Config{Pods: 5, WatchList: true}, func(t *testing.T, h *harness, c Compression) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next := h.watch(ctx, c, query)
		for i := range 5 {
			typ, obj, err := next()
			if err != nil || typ != apiwatch.Added || obj.(*corev1.Pod).Name != specimen.Pod(i).Name {
				t.Fatalf("initial event %d is %s of %v, %v", i, typ, obj, err)
			}
		}
		typ, obj, err := next()
		if err != nil || typ != apiwatch.Bookmark || obj.(*corev1.Pod).Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Fatalf("the end mark is %s of %v, %v", typ, obj, err)
		}
		if _, err := h.Send(ctx, 1); err != nil {
			t.Fatal(err)
		}
		if typ, _, err := next(); err != nil || typ != apiwatch.Modified {
			t.Errorf("after the mark: %s, %v", typ, err)
		}
	})
	h := start(t, Config{MediaType: specimen.JSON, Pods: 1})
	if _, resp, err := h.get(t.Context(), Plain, "watch=1&"+query); err != nil || resp.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("without Config.WatchList a watch-list is answered with %v, %v", resp, err)
	}
}

// TestErrors: nothing waits for ever, and says what it waited for.
func TestErrors(t *testing.T) {
	h := start(t, Config{MediaType: specimen.JSON, Pods: 1})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, sendErr := h.Send(ctx, 1)
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"send without a watch":    {sendErr, "no watch is open: enough"},
		"watches that never come": {h.Watches(ctx, 1), "0 of 1 watches were opened: enough"},
		"remote":                  {Remote{URL: "http://127.0.0.1:1"}.Expire(t.Context()), "telling the server to expire"},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one that says %q", name, tc.err, tc.want)
		}
	}
	if _, err := New(Config{MediaType: "application/cbor", Pods: 1}); err == nil || !strings.Contains(err.Error(), "MediaType") {
		t.Errorf("cbor: %v", err)
	}
	if _, err := New(Config{MediaType: specimen.JSON}); err == nil || !strings.Contains(err.Error(), "pods") {
		t.Errorf("no pods: %v", err)
	}
	other := *h
	other.cfg.MediaType = specimen.Protobuf
	if _, resp, err := other.get(t.Context(), Plain, ""); err != nil || resp.StatusCode != http.StatusNotAcceptable {
		t.Errorf("another encoding is answered with %v, %v", resp, err)
	}
}

// TestClientLeaves: a command whose client goes away ends with an error.
func TestClientLeaves(t *testing.T) {
	h := start(t, Config{MediaType: specimen.JSON, Pods: 3})
	ctx, cancel := context.WithCancel(t.Context())
	next := h.watch(ctx, Plain, "")
	done := make(chan error, 1)
	go func() {
		_, err := h.Send(t.Context(), 1_000_000) // more than sockets hold
		done <- err
	}()
	if _, _, err := next(); err != nil { // the command is being carried out
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a million events were sent to nobody")
	}
}

// TestNextWatchTakesTheCommand: a command that comes after a watch has ended waits for the next one.
func TestNextWatchTakesTheCommand(t *testing.T) {
	h := start(t, Config{MediaType: specimen.JSON, Pods: 3})
	first, leave := context.WithCancel(t.Context())
	h.watch(first, Plain, "")
	if err := h.Watches(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	ended := h.current.ended
	h.mu.Unlock()
	leave()
	<-ended

	sent := make(chan error, 1)
	go func() {
		_, err := h.Send(t.Context(), 1)
		sent <- err
	}()
	next := h.watch(t.Context(), Plain, "")
	if typ, _, err := next(); err != nil || typ != apiwatch.Modified {
		t.Errorf("the second watch got %s, %v", typ, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
