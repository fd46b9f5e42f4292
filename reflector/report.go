package reflector

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// denial is the last refusal that was told in full.
type denial struct {
	what string
	at   time.Time
}

// denialRepeat is how often the same refusal is told again.
const denialRepeat = time.Hour

// downTold is how many attempts in a row that found nobody listening are told aloud.
const downTold = 3

// nodeRule is the rule that the credentials of a kubelet meet (KEP-4601).
const nodeRule = "node credentials may list and watch pods only with the field selector spec.nodeName=<own node>"

// report logs a transition. The keys are stable: reflector, resource, state,
// next, reason, rv, attempt, delay, err.
func (r *Reflector[T]) report(ctx context.Context, from state, e exit, next state, delay time.Duration, attempt int) {
	level := slog.LevelWarn
	switch e.why {
	case "":
		level = slog.LevelDebug
	case reason.EOF:
		level = slog.LevelDebug
	case reason.Transport:
		// A server that is down is asked every few seconds, for hours perhaps.
		if e.pace == down && attempt > downTold {
			level = slog.LevelDebug
		}
	case reason.Stopped, reason.Expired, reason.WatchListUnsupported:
		level = slog.LevelInfo
	case reason.Forbidden, reason.Unauthorized:
		if r.denied(ctx, e.err, delay) {
			level = slog.LevelDebug
		}
	}
	if !r.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("state", string(from.name())), slog.String("next", string(next.name())), slog.String("rv", r.session.rv),
	}
	if e.why != "" {
		attrs = append(attrs, slog.String("reason", string(e.why)))
	}
	if delay > 0 {
		attrs = append(attrs, slog.Int("attempt", attempt), slog.Duration("delay", delay.Round(time.Millisecond)))
	}
	if e.err != nil && e.why != reason.EOF && e.why != reason.Stopped {
		attrs = append(attrs, slog.Any("err", e.err))
	}
	r.log.LogAttrs(ctx, level, said(from, e.why), attrs...)
}

// said is the message of a transition.
func said(from state, why reason.Reason) string {
	if why == reason.Stopped {
		return "stopped"
	}
	if why == "" {
		return "state changed"
	}
	switch from.name() {
	case StateListing:
		return "list failed"
	case StateWatchListing:
		return "watch-list failed"
	case StateWatching:
		return "watch ended"
	case StateBackingOff, StateStopped:
	}
	return "state changed"
}

// denied tells a refusal so that whoever reads it can mend it: verb, resource,
// user, rule. The same one is told again after an hour only. It reports whether
// err is such a refusal, so that nobody else needs to tell it.
func (r *Reflector[T]) denied(ctx context.Context, err error, delay time.Duration) bool {
	var e *listwatch.Error
	if !errors.As(err, &e) {
		return false
	}
	user := ""
	if e.APIStatus != nil {
		user = quotedUser(e.APIStatus.Message)
	}
	what := strings.Join([]string{string(e.Reason), e.Verb, user}, "|")
	if what == r.denial.what && time.Since(r.denial.at) < denialRepeat {
		return true
	}
	r.denial = denial{what: what, at: time.Now()}
	attrs := []slog.Attr{
		slog.String("reason", string(e.Reason)), slog.String("verb", e.Verb),
		slog.Duration("delay", delay.Round(time.Millisecond)), slog.Any("err", err),
	}
	if user != "" {
		attrs = append(attrs, slog.String("user", user))
	}
	message := "access denied: the server does not accept the credentials to " + e.Verb + " " + r.cfg.Resource
	if e.Reason == reason.Forbidden {
		message = "access denied: this user needs the verbs list and watch on " + r.cfg.Resource
		if r.cfg.Resource == "pods" {
			attrs = append(attrs, slog.String("rule", nodeRule))
		}
	}
	r.log.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
	return true
}

// quotedUser finds the name in an API server's `User "system:node:a" cannot list resource …`.
func quotedUser(message string) string {
	_, rest, found := strings.Cut(message, `User "`)
	if !found {
		return ""
	}
	user, _, found := strings.Cut(rest, `"`)
	if !found {
		return ""
	}
	return user
}
