package simulator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// verb is what a request asks for.
type verb string

const (
	list      verb = "list"
	page      verb = "page" // of a list, after the first
	watch     verb = "watch"
	watchList verb = "watch-list"
)

// server is the model API server. RoundTrip and the bodies that it returns
// compute what the server would have done up to now; between two things that
// happen they sleep on the caller's goroutine.
type server struct {
	sched *Schedule
	world *world
	start time.Time
	turn  chan struct{} // of settle: a bubble allows one waiter at a time

	mu       sync.Mutex // guards what follows
	shadow   *shadow
	log      transcript
	once     []*pending // faults of one request or stream, by time
	requests int
	bodies   int // handed out and not closed
}

// pending is a fault that befalls what comes first.
type pending struct {
	Fault
	used bool
}

func newServer(s *Schedule) *server {
	srv := &server{sched: s, world: newWorld(s), start: time.Now(), turn: make(chan struct{}, 1)}
	srv.shadow = &shadow{s: srv}
	for _, f := range s.Faults {
		if f.Kind.request() || f.Kind.stream() {
			srv.once = append(srv.once, &pending{Fault: f})
		}
	}
	return srv
}

// now is the time since the start of the run.
func (s *server) now() time.Duration { return time.Since(s.start) }

// settle waits until everybody else has done what there is to do at this moment.
func (s *server) settle() {
	s.turn <- struct{}{}
	synctest.Wait()
	<-s.turn
}

// over reports whether a fault belongs to a time that is over at t.
func (s *server) over(f *Fault, t time.Duration) bool {
	return f.At < s.sched.Chaos && t >= s.sched.Chaos
}

// window returns the fault of one of the kinds that is under way at t.
func (s *server) window(t time.Duration, kinds ...FaultKind) *Fault {
	for i := range s.sched.Faults {
		f := &s.sched.Faults[i]
		if f.At > t {
			break
		}
		if t >= f.At+f.For || s.over(f, t) {
			continue
		}
		for _, k := range kinds {
			if f.Kind == k {
				return f
			}
		}
	}
	return nil
}

// befalls takes the fault that one request of a verb meets now.
func (s *server) befalls(a *attempt, now time.Duration) *Fault {
	for _, f := range s.once {
		if f.At > now {
			break
		}
		if f.used || !f.Kind.request() || s.over(&f.Fault, now) {
			continue
		}
		if f.Verb != "" && f.Verb != a.verb && !(f.Verb == list && a.verb == page) {
			continue
		}
		if f.Kind == Stale && a.query.Get("resourceVersion") == "" {
			continue // the newest state is read from etcd, which does not lag
		}
		// A server that does not send marks does so for a while.
		fault := f.Fault
		if f.N--; f.N <= 0 || f.Kind != NoMark && f.Kind != LostMark {
			f.used = true
		}
		return &fault
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	a := s.arrive(req)
	if err := pause(ctx, s.sched.Server.Latency); err != nil {
		return nil, err
	}
	resp, err := s.answer(ctx, a)
	if resp == nil && err == nil {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if resp != nil {
		resp.Request, resp.Proto, resp.ProtoMajor, resp.ProtoMinor = req, "HTTP/1.1", 1, 1
		resp.Status = fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		resp.ContentLength = -1
	}
	return resp, err
}

// pause sleeps, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *server) arrive(req *http.Request) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := req.URL.Query()
	a := &attempt{query: q, asked: s.now(), rv: q.Get("resourceVersion"), verb: list, enc: decode.JSON}
	switch {
	case q.Get("continue") != "":
		a.verb = page
	case q.Get("sendInitialEvents") == "true":
		a.verb = watchList
	case q.Get("watch") != "":
		a.verb = watch
	}
	accept := req.Header.Get("Accept")
	a.jsonOnly = !strings.Contains(accept, "protobuf")
	if strings.HasPrefix(accept, "application/vnd.kubernetes.protobuf") {
		a.enc = decode.Protobuf
	}
	a.gzip = req.Header.Get("Accept-Encoding") == "gzip"
	s.requests++
	a.id = s.requests
	s.log.add(a.asked, "request %d: %s rv=%q%s", a.id, a.verb, a.rv, optional(" limit=", q.Get("limit"))+optional(" continue=", q.Get("continue")))
	s.shadow.request(a)
	return a
}

func optional(label, value string) string {
	if value == "" {
		return ""
	}
	return label + value
}

// answer returns what the server says now; neither a response nor an error is silence.
func (s *server) answer(ctx context.Context, a *attempt) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	a.answered = now
	if f := s.window(now, Blackhole); f != nil {
		s.log.add(now, "  %d: no byte passes", a.id)
		a.failed(classTransport)
		return nil, nil
	}
	if f := s.window(now, Down, Restart, Restore); f != nil {
		s.log.add(now, "  %d: refused", a.id)
		a.failed(classTransport)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if f := s.window(now, Sick); f != nil {
		return s.refuse(a, *f, now), nil
	}
	if f := s.window(now, NoList); f != nil && a.verb == watchList {
		return s.refuse(a, *f, now), nil
	}
	if f := s.window(now, NoWatch); f != nil && a.verb == watch {
		return s.refuse(a, *f, now), nil
	}
	f := s.befalls(a, now)
	if f == nil {
		f = &Fault{Kind: End} // none of those below
	} else {
		s.log.add(now, "  %d: meets %s", a.id, faultNames[f.Kind])
	}
	switch f.Kind {
	case Answer:
		return s.refuse(a, *f, now), nil
	case Page:
		a.failed(classNonsense)
		return s.respond(200, "text/html", []byte("<html><title>Log in</title><body>Who are you?</body></html>")), nil
	case WrongType:
		a.failed(classNonsense)
		contentType := "application/yaml"
		if f.HTTP {
			contentType = "application/json;as=Table;g=meta.k8s.io;v=v1"
		}
		return s.respond(200, contentType, []byte("kind: PodList\n")), nil
	case Silence:
		a.failed(classTransport)
		return nil, nil
	case Reset:
		a.failed(classTransport)
		return nil, errReset
	}
	switch a.verb {
	case watch, watchList:
		return s.watch(ctx, a, f, now), nil
	}
	return s.list(ctx, a, f, now), nil
}

// refuse answers with an error.
func (s *server) refuse(a *attempt, f Fault, now time.Duration) *http.Response {
	e := f.Form.says()
	code := e.http
	header := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
	var hint time.Duration
	switch f.Retry {
	case Seconds:
		header.Set("Retry-After", strconv.Itoa(int(f.After/time.Second)))
		hint = f.After
	case Date:
		header.Set("Retry-After", time.Now().Add(f.After).UTC().Format(http.TimeFormat))
		// Dates have no fractions, so it may be understood as almost a second less.
		hint = time.Now().Add(f.After).UTC().Truncate(time.Second).Sub(time.Now().UTC().Truncate(time.Second))
	case Nonsense:
		header.Set("Retry-After", pickText(f.Part, "abc", "-1", "1e3", ""))
	}
	status := e.status(f)
	if f.Retry == Detail && f.Form != Empty503 {
		hint = f.After
	}
	a.refused(e.class, code, now, hint)
	s.log.add(now, "  %d: answers %s (HTTP %d)%s", a.id, formNames[f.Form], code, optional(", Retry-After ", header.Get("Retry-After")))
	body := []byte(nil)
	if f.Form != Empty503 {
		enc := decode.JSON
		if a.enc == decode.Protobuf && f.Part%2 == 0 {
			enc = decode.Protobuf
		}
		header.Set("Content-Type", mediaType(enc, false))
		body = statusBytes(enc, &status)
	}
	return &http.Response{StatusCode: code, Header: header, Body: s.plainBody(body)}
}

func pickText(n int, of ...string) string { return of[n%len(of)] }

func mediaType(enc decode.Encoding, stream bool) string {
	switch {
	case enc == decode.JSON:
		return "application/json"
	case stream:
		return "application/vnd.kubernetes.protobuf;stream=watch"
	}
	return "application/vnd.kubernetes.protobuf"
}

// said is an error as a server says it.
type said struct {
	http    int
	code    int32
	reason  metav1.StatusReason
	message string
	class   class
}

// says returns what a form is.
func (f Form) says() said {
	const tooLarge = "Too large resource version"
	switch f {
	case Expired410:
		return said{410, 410, metav1.StatusReasonExpired, "too old resource version", classExpired}
	case Gone410:
		return said{410, 410, metav1.StatusReasonGone, "gone", classExpired}
	case Bare410:
		return said{410, 410, "", "too old", classExpired}
	case ExpiredOnly:
		return said{500, 0, metav1.StatusReasonExpired, "too old resource version", classExpired}
	case Internal500:
		return said{500, 500, metav1.StatusReasonInternalError, "etcdserver: leader changed", classSick}
	case Unavailable503, Empty503:
		return said{503, 503, metav1.StatusReasonServiceUnavailable, "apiserver is shutting down", classSick}
	case Throttled429:
		return said{429, 429, metav1.StatusReasonTooManyRequests, "too many requests", classSick}
	case Initializing429:
		return said{429, 429, metav1.StatusReasonTooManyRequests, "storage is (re)initializing", classSick}
	case TooLarge504:
		return said{504, 504, metav1.StatusReasonTimeout, "Timeout: " + tooLarge + ": 9, current: 8", classTooLarge}
	case TooLargeText504:
		return said{504, 504, "", tooLarge + ": 9, current: 8", classTooLarge}
	case Timeout504:
		return said{504, 504, metav1.StatusReasonTimeout, "Timeout: request did not complete within the allotted timeout", classSick}
	case Denied403:
		return said{403, 403, metav1.StatusReasonForbidden, `pods is forbidden: User "sim" cannot list resource "pods"`, classDenied}
	case Denied401:
		return said{401, 401, metav1.StatusReasonUnauthorized, "Unauthorized", classDenied}
	case NoRoute404:
		return said{404, 404, metav1.StatusReasonNotFound, "the server could not find the requested resource", classNonsense}
	case Invalid422:
		return said{422, 422, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden", classNonsense}
	case BadRequest400:
		return said{400, 400, metav1.StatusReasonBadRequest, "unknown parameter", classNonsense}
	case NotAllowed405:
		return said{405, 405, metav1.StatusReasonMethodNotAllowed, "not allowed", classNonsense}
	case NotAcceptable406:
		return said{406, 406, metav1.StatusReasonNotAcceptable, "not acceptable", classNonsense}
	case NoSuchThing501:
		return said{501, 501, "", "not implemented", classSick}
	}
	return said{500, 0, "", "", classSick}
}

func (e said) status(f Fault) metav1.Status {
	s := metav1.Status{Status: metav1.StatusFailure, Code: e.code, Reason: e.reason, Message: e.message}
	if f.Form == TooLarge504 {
		s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}}
	}
	if f.Retry == Detail {
		if s.Details == nil {
			s.Details = &metav1.StatusDetails{}
		}
		s.Details.RetryAfterSeconds = int32(f.After / time.Second)
	}
	return s
}

// tooLarge is what a server says of a resourceVersion that it has not seen.
var tooLarge = Fault{Form: TooLarge504, Retry: Detail, After: time.Second}

// list answers a list or one of its pages.
func (s *server) list(ctx context.Context, a *attempt, f *Fault, now time.Duration) *http.Response {
	h := s.world.at(now)
	n := h.upTo(now)
	after := ""
	switch {
	case a.verb == page:
		rv, id, name := parseToken(a.query.Get("continue"))
		if id != h.id || rv > h.rvOf(n) || rv < lastMark(h, now) {
			return s.refuse(a, Fault{Form: Expired410}, now)
		}
		n, after = h.after(rv), name
	case a.rv != "":
		if f.Kind == Stale {
			n = max(n-f.N, 0)
			if n < len(h.log) {
				a.lag = max(now-h.log[n].at, 0) // pages are of the state of the first one
			}
		}
		if asked := number(a.rv); asked > h.rvOf(n) && f.Kind != Stale {
			return s.refuse(a, tooLarge, now)
		}
	}
	limit := int(number(a.query.Get("limit")))
	var items []*version
	state := h.state(n)
	token, left := "", 0
	for _, name := range names(state) {
		switch {
		case name <= after:
		case limit > 0 && len(items) == limit:
			if token == "" {
				token = fmt.Sprintf("%d.%d.%s", h.rvOf(n), h.id, items[limit-1].name)
			}
			left++
		default:
			items = append(items, state[name])
		}
	}
	a.state, a.h = h.rvOf(n), h
	raw := listBytes(a.enc, h.rvOf(n), token, int64(left), items)
	s.log.add(now, "  %d: %d items at %d%s", a.id, len(items), h.rvOf(n), optional(", continue ", token))
	header := http.Header{"Content-Type": {mediaType(a.enc, false)}}
	if a.gzip && a.id%2 == 0 {
		z := gzipped{how: oneMember}
		raw, _ = z.part(raw)
		raw = append(raw, z.end()...)
		header.Set("Content-Encoding", "gzip")
	}
	b := &body{s: s, a: a, ctx: ctx, chunk: s.sched.Server.Chunk}
	at := len(raw) * f.Part / 100
	switch f.Kind {
	case CutList:
		b.queue = []part{{avail: now, data: raw[:at]}}
		b.end = io.ErrUnexpectedEOF
	case HangList:
		b.queue = []part{{avail: now, data: raw[:at]}}
		b.dead = true
	case SlowList:
		b.queue = []part{{avail: now, data: raw[:at]}, {avail: now + f.For, data: raw[at:]}}
		b.end = io.EOF
	default:
		b.queue = []part{{avail: now, data: raw}}
		b.end = io.EOF
	}
	if f.Kind != CutList && f.Kind != HangList {
		last := &b.queue[len(b.queue)-1]
		last.own = max(len(last.data)-24, 1) // without the ends of the list and of gzip
		last.read = func() { s.shadow.listed(a, h, n, token == "") }
	}
	s.bodies++
	return &http.Response{StatusCode: 200, Header: header, Body: b}
}

// lastMark is the resourceVersion of the last compaction.
func lastMark(h *history, now time.Duration) int64 {
	rv := h.base
	for _, m := range h.floors {
		if m.at <= now {
			rv = max(rv, m.rv)
		}
	}
	return rv
}

func parseToken(token string) (rv int64, history int, name string) {
	fields := strings.SplitN(token, ".", 3)
	if len(fields) != 3 {
		return -1, -1, ""
	}
	return number(fields[0]), int(number(fields[1])), fields[2]
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func (s *server) respond(code int, contentType string, raw []byte) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Body: s.plainBody(raw)}
}

// plainBody is a body that is there at once.
func (s *server) plainBody(raw []byte) io.ReadCloser {
	s.bodies++
	return &plainBody{Reader: bytes.NewReader(raw), s: s}
}

type plainBody struct {
	io.Reader
	s      *server
	closed bool
}

func (b *plainBody) Close() error {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.s.bodies--
	}
	return nil
}

// errReset is what a client sees of a reset connection.
var errReset = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

// fail notes a broken promise.
func (s *server) fail(promise, format string, args ...any) {
	s.log.fail(s.now(), promise, fmt.Sprintf(format, args...))
}

var _ http.RoundTripper = (*server)(nil)
