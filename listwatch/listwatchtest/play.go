package listwatchtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Play is a script that a server plays. Its methods are safe for use by several
// goroutines.
type Play struct {
	server *Server
	script *Script
	began  time.Time
	done   chan struct{}

	mu         sync.Mutex // guards what follows
	next       int        // index of the step that is awaited
	ended      time.Time  // when the last byte of an answer went out
	over       bool       // done is closed
	fault      error
	transcript []string
}

// Play answers lists and watches of the script's resource as the script says,
// beginning now. A request that is not the one the script awaits is a fault,
// and hangs, unless the script says "else serve". A script that was played
// before is replaced. It needs HTTP/1.1 connections.
func (s *Server) Play(script *Script) *Play {
	now := time.Now()
	p := &Play{server: s, script: script, began: now, ended: now, done: make(chan struct{})}
	if len(script.steps) == 0 {
		p.finishLocked()
	}
	s.playing.Store(p)
	return p
}

// Done is closed when the last answer has been given, or is held open, and at
// the first fault.
func (p *Play) Done() <-chan struct{} { return p.done }

// Wait waits for Done and returns Err. When ctx ends first, its error names the
// request that did not come.
func (p *Play) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.Err()
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.next >= len(p.script.steps) {
			return fmt.Errorf("%s: the last answer is not over: %w", p.script.Name, context.Cause(ctx))
		}
		st := p.script.steps[p.next]
		return fmt.Errorf("%s: %s did not come: %w", st.pos, &st.request, context.Cause(ctx))
	}
}

// Err returns the first request that did not come as the script wants it, with
// FILE:LINE, or nil.
func (p *Play) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// Transcript returns what the client asked and the server sent so far, a line
// each, with the time since Play.
func (p *Play) Transcript() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.transcript, "\n")
}

func (p *Play) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteLocked(format, args...)
}

func (p *Play) noteLocked(format string, args ...any) {
	if len(p.transcript) < maxRequests {
		p.transcript = append(p.transcript, fmt.Sprintf("%9s ", time.Since(p.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
	}
}

// touch notes that bytes of an answer go out now.
func (p *Play) touch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = time.Now()
}

// finish is the end of the answer of the last step.
func (p *Play) finish(last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last {
		p.finishLocked()
	}
}

func (p *Play) finishLocked() {
	if !p.over {
		p.over = true
		close(p.done)
	}
}

// failLocked keeps the first fault. It returns nil, for there is no step to play.
func (p *Play) failLocked(format string, args ...any) {
	if p.fault == nil {
		p.fault = fmt.Errorf(format, args...)
		p.noteLocked("! %v", p.fault)
	}
	p.finishLocked()
}

func (p *Play) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failLocked("%w", err)
}

// outcome is what becomes of a request.
type outcome uint8

const (
	played outcome = iota // the step answers it
	served                // the server answers it, as without a script
	hung                  // it is a fault
)

// take gives a request to the step that awaits it.
func (p *Play) take(got *arrival) (st *scriptStep, last bool, what outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gap := time.Since(p.ended)
	if p.next < len(p.script.steps) && p.fault == nil {
		st = p.script.steps[p.next]
	}
	var why string
	switch {
	case p.fault != nil:
		p.noteLocked("> %s", got)
		return nil, false, hung
	case st == nil:
		why = fmt.Sprintf("%s: after the last request came %s", p.script.Name, got)
	default:
		if why = st.request.differs(got); why != "" {
			why = fmt.Sprintf("%s: awaited %s, got %s: %s", st.pos, &st.request, got, why)
		}
	}
	switch {
	case why != "" && p.script.serve:
		p.noteLocked("> %s (served)", got)
		return nil, false, served
	case why != "":
		p.noteLocked("> %s", got)
		p.failLocked("%s", why)
		return nil, false, hung
	}
	p.noteLocked("> %s", got)
	if st.timed && (gap < st.low || gap > st.high) {
		p.failLocked("%s: %s came %v after the last answer, not %v to %v", st.pos, got, gap.Round(time.Millisecond), st.low, st.high)
		return nil, false, hung
	}
	p.next++
	return st, p.next == len(p.script.steps), played
}

// awaitsDial reports whether the next step is about a connection, so that none
// may be left for the request behind it.
func (p *Play) awaitsDial() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next < len(p.script.steps) && p.fault == nil && p.script.steps[p.next].request.verb == "DIAL"
}

// dial plays a DIAL step, if one is next. A nil error lets the connection pass.
func (p *Play) dial(ctx context.Context) error {
	if !p.awaitsDial() {
		return nil
	}
	st, last, what := p.take(&arrival{verb: "DIAL"})
	if what != played {
		return nil
	}
	defer p.finish(last)
	for _, a := range st.actions {
		p.note("< %s", a.text)
		switch word, rest, _ := strings.Cut(a.text, " "); word {
		case "delay":
			// It was parsed before.
			if d, err := parseSpan(rest); err == nil {
				if err := wait(ctx, d); err != nil {
					return err
				}
			}
		case "hang":
			<-ctx.Done()
			p.touch()
			return ctx.Err()
		case "refused":
			p.touch()
			return os.NewSyscallError("connect", syscall.ECONNREFUSED)
		case "RST":
			p.touch()
			return os.NewSyscallError("connect", syscall.ECONNRESET)
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// arrival is a request as a script sees it.
type arrival struct {
	verb  string // as in a script
	query url.Values
	r     *http.Request
	info  requestInfo
}

func newArrival(r *http.Request, info requestInfo) *arrival {
	a := &arrival{verb: strings.ToUpper(info.verb), query: r.URL.Query(), r: r, info: info}
	if a.verb == "WATCH" && a.query.Get("sendInitialEvents") == "true" {
		a.verb = "WATCHLIST"
	}
	return a
}

// param returns what a parameter of a script's request is in this one.
func (a *arrival) param(key string) string {
	switch key {
	case "rv":
		return a.query.Get("resourceVersion")
	case "match":
		return a.query.Get("resourceVersionMatch")
	case "timeout":
		return a.query.Get("timeoutSeconds")
	case "bookmarks":
		return a.query.Get("allowWatchBookmarks")
	case "fields":
		return a.query.Get("fieldSelector")
	case "labels":
		return a.query.Get("labelSelector")
	case "namespace":
		return a.info.namespace
	case "accept":
		if strings.HasPrefix(a.r.Header.Get("Accept"), mediaProtobuf) {
			return "protobuf"
		}
		return "json"
	case "gzip":
		return fmt.Sprint(acceptsGzip(a.r))
	}
	return a.query.Get(key) // limit and continue
}

func (a *arrival) String() string {
	if a.verb == "DIAL" {
		return a.verb
	}
	s := a.verb + " rv=" + a.param("rv")
	for _, key := range []string{"limit", "continue"} {
		if v := a.param(key); v != "" {
			s += " " + key + "=" + v
		}
	}
	return s
}

// expectation is the request that a step awaits.
type expectation struct {
	verb   string
	params map[string]string
}

// strict are the parameters that must be absent where a script does not name them.
var strict = []string{"rv", "limit", "continue"}

// differs says in what a request is not the one that is awaited, "" when it is.
func (e *expectation) differs(got *arrival) string {
	if e.verb != got.verb {
		return "another verb"
	}
	if e.verb == "DIAL" {
		return ""
	}
	for _, key := range requestParams {
		want, named := e.params[key]
		if !named && !slices.Contains(strict, key) {
			continue
		}
		if have := got.param(key); want != "*" && have != want {
			return fmt.Sprintf("%s is %q, not %q", key, have, want)
		}
	}
	return ""
}

func (e *expectation) String() string {
	s := e.verb
	for _, key := range requestParams {
		if v, ok := e.params[key]; ok {
			s += " " + key + "=" + v
		}
	}
	return s
}

// handle plays the step that a request belongs to; next is the server itself.
func (p *Play) handle(w http.ResponseWriter, r *http.Request, info requestInfo, next http.Handler) {
	got := newArrival(r, info)
	if info.gvr.Resource != p.script.resource || info.subresource != "" || (info.verb != "list" && info.verb != "watch") {
		next.ServeHTTP(w, r)
		return
	}
	st, last, what := p.take(got)
	switch {
	case what == served:
		next.ServeHTTP(w, r)
	case what == hung:
		select {
		case <-r.Context().Done():
		case <-p.server.done:
		}
	case st.served():
		p.serve(w, r, st, last, next)
	default:
		x, err := newExchange(p, st, got, w)
		if err != nil {
			p.fail(fmt.Errorf("%s: %w", st.pos, err))
			return
		}
		x.run(last)
	}
}

// serve lets the server answer a step.
func (p *Play) serve(w http.ResponseWriter, r *http.Request, st *scriptStep, last bool, next http.Handler) {
	defer p.finish(last)
	if p.awaitsDial() {
		w.Header().Set("Connection", "close")
	}
	for _, a := range st.actions {
		p.note("< %s", a.text)
		if word, rest, _ := strings.Cut(a.text, " "); word == "delay" {
			if d, err := parseSpan(rest); err == nil && wait(r.Context(), d) != nil {
				return
			}
		}
	}
	if last && st.request.verb != "LIST" {
		p.finish(true) // a watch that is served is held open
	}
	next.ServeHTTP(w, r)
	p.touch()
}

// errOver ends an answer before its last line.
var errOver = errors.New("the answer is over")

// resetter is a connection that can be reset instead of closed.
type resetter interface{ Reset() error }

// resetConn closes a connection as a peer that vanished does: with RST.
func resetConn(c net.Conn) error {
	switch c := c.(type) {
	case *gatedConn:
		return errors.Join(resetConn(c.Conn), c.Close())
	case *net.TCPConn:
		return errors.Join(c.SetLinger(0), c.Close())
	case *returnedConn:
		return resetConn(c.Conn)
	case resetter:
		return c.Reset()
	}
	return c.Close()
}
