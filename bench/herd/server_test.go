package herd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// condition is what a server is to those who ask it.
type condition uint8

const (
	healthy     condition = iota
	gone                  // nobody listens: a dial is refused
	busy                  // 429
	busyHint              // 429 and Retry-After: 1, as an API server whose storage initializes
	failing               // 503
	failingHint           // 503 and Retry-After: 1
	hanging               // no header; what hangs is reset at the end of it
)

func (c condition) String() string {
	return [...]string{"healthy", "gone", "429", "429, Retry-After: 1", "503", "503, Retry-After: 1", "hanging"}[c]
}

// schedule is one outage.
type schedule struct {
	down time.Duration // from the kill until somebody listens
	then condition     // what it is from then on
	ill  time.Duration // how long that lasts; then it is ready
	// forgets: the watch cache is empty after the restart, so that watches
	// from before it are told 410, as real API servers do.
	forgets bool
}

func (s schedule) String() string {
	text := "down " + short(s.down)
	switch {
	case s.down == 0:
		text = "connections break, nothing else"
	case s.ill > 0 && s.then == healthy:
		text += ", serves " + short(s.ill) + " before it is ready"
	case s.ill > 0:
		text += ", " + s.then.String() + " for " + short(s.ill)
	}
	if s.forgets {
		return text + ", 410"
	}
	return text + ", resumable"
}

func short(d time.Duration) string {
	text := d.String()
	text = strings.TrimSuffix(text, "m0s") + strings.Repeat("m", strings.Count(text, "m0s"))
	return text
}

// server is the model: an API server with pods, each on a node with one client.
// It answers at once and never tires; what is measured is what it is asked.
type server struct {
	tally *tally

	mu    sync.Mutex // guards all below
	is    condition
	nodes []node
	rv    int
	start int           // watches from before it expired
	cut   chan struct{} // closed when what hangs is reset
}

// node is the part of the server's state that one client sees.
type node struct {
	pods []pod
	open *stream // its last watch; nil before the first
	idle bool    // it has an open connection without a request
}

type pod struct {
	rv  int
	raw []byte
}

func newServer(t *tally, clients, podsPerNode int) *server {
	s := &server{tally: t, nodes: make([]node, clients), rv: 1000}
	for n := range s.nodes {
		for range podsPerNode {
			s.create(n, fmt.Sprintf("pod-%02d", len(s.nodes[n].pods)))
		}
	}
	return s
}

// newPod is the pod that tells a fresh client.
const newPod = "new"

// create adds a pod and tells an open watch of it. The caller holds the lock, or is alone.
func (s *server) create(n int, name string) {
	s.rv++
	raw := fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":"%08x-0000-4000-8000-000000000000",`+
		`"resourceVersion":"%d","creationTimestamp":"2026-03-01T08:00:00Z","labels":{"app":"shop","pod-template-hash":"5d8c7f9b6"}},`+
		`"spec":{"nodeName":"node-%d","restartPolicy":"Always","containers":[{"name":"main","image":"registry.example/shop:2.14.3",`+
		`"resources":{"requests":{"cpu":"100m","memory":"128Mi"}}}]},"status":{"phase":"Running","podIP":"10.1.2.3",`+
		`"conditions":[{"type":"Ready","status":"True"}]}}`, name, s.rv, s.rv, n)
	p := pod{s.rv, raw}
	s.nodes[n].pods = append(s.nodes[n].pods, p)
	s.nodes[n].open.send(event("ADDED", p.raw))
}

func event(typ string, raw []byte) []byte {
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", typ, raw)
}

func bookmark(rv int, annotations string) []byte {
	return event("BOOKMARK", fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d","creationTimestamp":null%s},`+
		`"spec":{"containers":null},"status":{}}`, rv, annotations))
}

// beat sends the bookmark of the minute.
func (s *server) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.nodes {
		s.nodes[n].open.send(bookmark(s.rv, ""))
	}
}

// watches is how many clients have an open watch.
func (s *server) watches() (open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.nodes {
		if s.nodes[n].open.alive() {
			open++
		}
	}
	return open
}

// tell ends every watch with an ERROR event 429 that asks to come back after so
// many seconds.
func (s *server) tell(seconds int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too many",`+
		`"reason":"TooManyRequests","details":{"retryAfterSeconds":%d},"code":429}`, seconds)
	for n := range s.nodes {
		s.nodes[n].open.send(event("ERROR", told))
		s.nodes[n].open.end(io.EOF)
	}
}

// kill ends the process: every connection breaks in the middle. The cluster
// goes on, so that a resourceVersion from before is one of the past.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is = gone
	s.rv += 1000
	for n := range s.nodes {
		s.nodes[n].open.end(io.ErrUnexpectedEOF)
		s.nodes[n].idle = false
	}
}

// listen brings it back in a condition.
func (s *server) listen(is condition, forgets bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is, s.cut = is, make(chan struct{})
	if forgets {
		s.start = s.rv
	}
}

// ready makes it healthy and creates a pod on each node.
func (s *server) ready() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.is = healthy
	close(s.cut)
	for n := range s.nodes {
		s.create(n, newPod)
	}
}

// roundTripTime is the time from a client to the server and back.
const roundTripTime = time.Millisecond

// RoundTrip implements http.RoundTripper for all clients.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	n, err := strconv.Atoi(strings.TrimPrefix(query.Get("fieldSelector"), "spec.nodeName=node-"))
	if err != nil {
		return nil, fmt.Errorf("%s is scoped to no node", req.URL)
	}
	trace := httptrace.ContextClientTrace(req.Context())
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(req.Host)
	}
	time.Sleep(roundTripTime)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if !s.connect(n) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	return s.answer(req, n, query)
}

// connect gives the client a connection, unless it has an idle one.
func (s *server) connect(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[n].idle {
		s.nodes[n].idle = false
		return true
	}
	s.tally.arrive(dial)
	return s.is != gone
}

func (s *server) answer(req *http.Request, n int, query url.Values) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := list
	switch {
	case query.Get("sendInitialEvents") == "true":
		what = watchList
	case query.Get("watch") != "":
		what = watch
	}
	s.tally.arrive(what)
	switch s.is {
	case gone: // between connection and request
		return nil, syscall.ECONNRESET
	case busy, busyHint:
		return s.refuse(n, s.is == busyHint, http.StatusTooManyRequests, "TooManyRequests"), nil
	case failing, failingHint:
		return s.refuse(n, s.is == failingHint, http.StatusServiceUnavailable, "ServiceUnavailable"), nil
	case hanging:
		return s.hang(req.Context())
	}
	switch what {
	case list:
		return s.whole(n, s.list(n)), nil
	case watchList:
		w := s.watch(req.Context(), n)
		for _, p := range s.nodes[n].pods {
			s.tally.list(w.send(event("ADDED", p.raw)))
		}
		w.send(bookmark(s.rv, `,"annotations":{"k8s.io/initial-events-end":"true"}`))
		return answer(http.StatusOK, w), nil
	default:
		from, err := strconv.Atoi(query.Get("resourceVersion"))
		if err != nil {
			return nil, fmt.Errorf("a watch without a resourceVersion: %s", req.URL)
		}
		if from < s.start {
			return s.whole(n, event("ERROR", status(http.StatusGone, "Expired"))), nil
		}
		w := s.watch(req.Context(), n)
		for _, p := range s.nodes[n].pods {
			if p.rv > from {
				w.send(event("ADDED", p.raw))
			}
		}
		return answer(http.StatusOK, w), nil
	}
}

// hang waits without an answer. It is called with the lock held.
func (s *server) hang(ctx context.Context) (*http.Response, error) {
	cut := s.cut
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-cut:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *server) list(n int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[`, s.rv)
	for i, p := range s.nodes[n].pods {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(p.raw)
	}
	b.WriteString("]}\n")
	s.tally.list(b.Len())
	return b.Bytes()
}

func (s *server) watch(ctx context.Context, n int) *stream {
	w := newStream()
	context.AfterFunc(ctx, func() { w.end(context.Cause(ctx)) })
	s.nodes[n].open = w
	return w
}

// whole is an answer with an end, after which the connection is idle.
func (s *server) whole(n int, body []byte) *http.Response {
	s.nodes[n].idle = true
	return answer(http.StatusOK, io.NopCloser(bytes.NewReader(body)))
}

func (s *server) refuse(n int, hint bool, code int, reason string) *http.Response {
	resp := s.whole(n, status(code, reason))
	resp.StatusCode, resp.Status = code, strconv.Itoa(code)+" "+http.StatusText(code)
	if hint {
		resp.Header.Set("Retry-After", "1")
	}
	return resp
}

func status(code int, reason string) []byte {
	return fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"not now","reason":%q,"code":%d}`, reason, code)
}

func answer(code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: strconv.Itoa(code) + " " + http.StatusText(code),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1, Body: body,
	}
}

// stream is the body of a watch: what was sent is read, then a read waits.
type stream struct {
	mu   sync.Mutex // guards all below
	more *sync.Cond
	sent []byte
	err  error // what ends it, once sent is read
}

func newStream() *stream {
	w := &stream{}
	w.more = sync.NewCond(&w.mu)
	return w
}

// send appends to what is to be read and returns its length. On a stream that
// has ended, or on none, it does nothing.
func (w *stream) send(b []byte) int {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0
	}
	w.sent = append(w.sent, b...)
	w.more.Broadcast()
	return len(b)
}

func (w *stream) alive() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err == nil
}

func (w *stream) end(err error) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
		w.more.Broadcast()
	}
}

// Read implements io.Reader.
func (w *stream) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.sent) == 0 {
		if w.err != nil {
			return 0, w.err
		}
		w.more.Wait()
	}
	n := copy(p, w.sent)
	w.sent = w.sent[n:]
	return n, nil
}

// Close implements io.Closer.
func (w *stream) Close() error {
	w.end(net.ErrClosed)
	return nil
}

var (
	_ http.RoundTripper = (*server)(nil)
	_ io.ReadCloser     = (*stream)(nil)
)
