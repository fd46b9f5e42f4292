package listwatch

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"
)

// An attempt is one HTTP request and its answer. It knows what is being waited
// for and how long that may take, owns the connections that were dialed for
// it until it got one, and ends all of it when its context does.
type attempt struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limits limits

	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	waiting string // "" is nothing
	limit   time.Duration
	ready   bool          // the request has its connection
	dialed  []func() bool // stop closing the connection at ctx's end
	secret  string        // the Authorization header that was sent
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
		GotConn: func(httptrace.GotConnInfo) {
			a.connected()
			a.wait("the response header", l.header) // the request is one write
		},
		TLSHandshakeStart: func() { a.step("the TLS handshake", l.handshake) },
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

// step is wait for the hooks of a dial, which may belong to a connection that
// the request no longer waits for.
func (a *attempt) step(waiting string, limit time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ready {
		a.waitLocked(waiting, limit)
	}
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
	a.ready = false // also when a stale connection is replaced by a new one
	a.waitLocked("a connection", a.limits.dial)
}

func (a *attempt) connected() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = true
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

func (a *attempt) setSecret(authorization string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secret = authorization
}

// redact overwrites with asterisks, length kept, the credentials of the request
// in what came back: some proxies and test servers echo the request.
func (a *attempt) redact(text string) string {
	a.mu.Lock()
	authorization := a.secret
	a.mu.Unlock()
	scheme, credentials, _ := strings.Cut(authorization, " ")
	secrets := []string{credentials}
	if strings.EqualFold(scheme, "Basic") {
		if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil {
			_, password, _ := strings.Cut(string(plain), ":")
			secrets = append(secrets, password)
		}
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, strings.Repeat("*", len(secret)))
		}
	}
	return text
}

// redactError is redact for an error, which stays the same one when there is
// nothing to hide.
func (a *attempt) redactError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if shown := a.redact(text); shown != text {
		return errors.New(shown)
	}
	return err
}
