package listwatch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"
)

// An attempt is one HTTP request and its answer. It knows what is being waited
// for and how long that may take, owns the connections that were dialed for
// it until it got one, and ends all of it when its context does.
type attempt struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limits limits

	refused string // an Authorization header that is not to be sent; set before the request is

	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	waiting string // "" is nothing
	limit   time.Duration
	ready   bool          // the request has its connection
	shaking bool          // a connection is there and in its TLS handshake
	dialed  []func() bool // stop closing the connection at ctx's end
	secret  string        // the Authorization header that was sent
	conn    *readAhead    // that the request was sent on, nil if it is not known
}

// limits are the timeouts of one attempt.
type limits struct{ dial, handshake, header time.Duration }

type attemptKey struct{}

// attemptOf returns the attempt that a request's context belongs to, nil for a
// request that is not ours (an auth provider may send some of its own).
func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// newAttempt returns an attempt that lives no longer than parent. The returned
// context is the one to send the request with.
func newAttempt(parent context.Context, l limits) (*attempt, context.Context) {
	a := &attempt{limits: l}
	a.ctx, a.cancel = context.WithCancelCause(parent)
	ctx := context.WithValue(a.ctx, attemptKey{}, a)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { a.connecting() },
		GotConn: func(info httptrace.GotConnInfo) {
			a.connected(info.Conn)
			a.wait("the response header", l.header) // the request is one write
		},
		TLSHandshakeStart: func() { a.shake(l.handshake) },
	})
	// Before any of these there may be an exec plugin or a token refresh, and a
	// RoundTripper of the caller's own calls none of them.
	a.wait("an answer", l.dial+l.handshake+l.header)
	return a, ctx
}

// wait says what is waited for from now on, and ends the attempt with a
// TimeoutError if it takes longer than limit.
func (a *attempt) wait(waiting string, limit time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waitLocked(waiting, limit)
}

func (a *attempt) waitLocked(waiting string, limit time.Duration) {
	a.waiting, a.limit = waiting, limit
	if a.timer == nil {
		a.timer = time.AfterFunc(limit, a.expire)
		return
	}
	a.timer.Reset(limit)
}

// shake says that a TLS handshake begins. It may be that of a connection which
// the request no longer waits for.
func (a *attempt) shake(limit time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ready {
		a.shaking = true
		a.waitLocked("the TLS handshake", limit)
	}
}

// cut reports whether err ended a connection in its TLS handshake.
func (a *attempt) cut(err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shaking && !a.ready &&
		(errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
			errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}

// rest says that nothing is waited for.
func (a *attempt) rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = ""
	if a.timer != nil {
		a.timer.Stop()
	}
}

func (a *attempt) expire() {
	a.mu.Lock()
	waiting, limit := a.waiting, a.limit
	a.mu.Unlock()
	if waiting != "" {
		a.cancel(&TimeoutError{Waiting: waiting, Limit: limit})
	}
}

// end releases all that the attempt holds. Idempotent.
func (a *attempt) end(cause error) {
	a.rest()
	a.cancel(cause)
}

func (a *attempt) connecting() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready, a.shaking = false, false // also when a stale connection is replaced by a new one
	a.waitLocked("a connection", a.limits.dial)
}

func (a *attempt) connected(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready, a.conn = true, aheadOf(conn)
	for _, stop := range a.dialed {
		stop()
	}
	a.dialed = nil
}

// own closes conn when the attempt ends before it has a connection: conn may be
// in a handshake that nobody waits for any more. Afterwards the connection is
// net/http's, which may give it to any request.
func (a *attempt) own(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ready {
		a.dialed = append(a.dialed, context.AfterFunc(a.ctx, func() { conn.Close() }))
	}
}

// authorization is the Authorization header that was sent, "" for none.
func (a *attempt) authorization() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.secret
}

func (a *attempt) setSecret(authorization string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secret = authorization
}
