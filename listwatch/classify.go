package listwatch

import (
	"math"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// maxMessage bounds, in bytes, what of a server's words goes into an error's text.
const maxMessage = 1024

// tooLargeText is in the message of every API server that refuses a
// resourceVersion from its future; those before 1.19 send no cause beside it.
const tooLargeText = "Too large resource version"

// classify names the reason of a failed answer. code is the HTTP status, or
// the Status' own code inside a stream; s is nil when there was no Status.
//
// The Status' reason is trusted before the code, since a Timeout (504) may be
// a too large resourceVersion, which waiting does not cure, and old servers
// send Gone under other codes.
func classify(code int, s *metav1.Status) reason.Reason {
	if s == nil {
		s = &metav1.Status{}
	}
	switch {
	case isTooLarge(code, s):
		return reason.RVTooLarge
	case code == http.StatusGone, s.Reason == metav1.StatusReasonExpired, s.Reason == metav1.StatusReasonGone:
		return reason.Expired
	case code == http.StatusTooManyRequests, code == 0 && s.Reason == metav1.StatusReasonTooManyRequests:
		return reason.TooManyRequests
	case code == http.StatusUnauthorized, code == 0 && s.Reason == metav1.StatusReasonUnauthorized:
		return reason.Unauthorized
	case code == http.StatusForbidden, code == 0 && s.Reason == metav1.StatusReasonForbidden:
		return reason.Forbidden
	case code == 0:
		return classifyReason(s.Reason)
	case code >= 300 && code < 500:
		return reason.Rejected
	case code >= 200 && code < 300:
		// A success that is not a 200 carries no list and no watch.
		return reason.Decode
	}
	return reason.ServerError
}

func isTooLarge(code int, s *metav1.Status) bool {
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			if cause.Type == metav1.CauseTypeResourceVersionTooLarge {
				return true
			}
		}
	}
	// The words alone count only where a server says them: a 403 may quote anything.
	timeout := code == http.StatusGatewayTimeout || s.Reason == metav1.StatusReasonTimeout
	return (timeout || code == 0 && s.Reason == "") && strings.Contains(s.Message, tooLargeText)
}

// classifyReason is for a Status without a code.
func classifyReason(r metav1.StatusReason) reason.Reason {
	switch r {
	case metav1.StatusReasonBadRequest, metav1.StatusReasonInvalid, metav1.StatusReasonNotFound,
		metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotAcceptable, metav1.StatusReasonUnsupportedMediaType,
		metav1.StatusReasonConflict, metav1.StatusReasonAlreadyExists, metav1.StatusReasonRequestEntityTooLarge:
		return reason.Rejected
	}
	return reason.ServerError
}

// parseRetryAfter reads a Retry-After header (RFC 9110, 10.2.3): seconds, or a
// date, which is taken relative to the answer's own Date header where there is
// one, so that a wrong clock on either side does not matter. What is negative
// or neither is 0; seconds that no Duration holds are the longest whole second.
func parseRetryAfter(header, date string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	if digits := strings.TrimLeft(header, "0123456789"); digits == "" {
		const most = math.MaxInt64 / int64(time.Second)
		var seconds int64
		for _, c := range []byte(header) {
			seconds = seconds*10 + int64(c-'0')
			if seconds > most {
				seconds = most
				break
			}
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(date); err == nil {
		now = sent
	}
	return max(at.Sub(now), 0) // Sub saturates
}

// statusRetryAfter returns details.retryAfterSeconds.
func statusRetryAfter(s *metav1.Status) time.Duration {
	if s == nil || s.Details == nil {
		return 0
	}
	return max(time.Duration(s.Details.RetryAfterSeconds)*time.Second, 0)
}

// oneLine makes text fit for one line of a log: white space runs become one
// space, what does not print is dropped, and it is cut to limit bytes.
func oneLine(text string, limit int) string {
	var b strings.Builder
	space := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case r == utf8.RuneError, !unicode.IsPrint(r):
			continue
		}
		if b.Len()+utf8.RuneLen(r)+1 > limit {
			b.WriteString("...")
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// refusedUser returns the user that a 403 is about, in the words of every API
// server: User "system:node:a" cannot list resource "pods". "" where s is no such
// refusal, or names nobody.
func refusedUser(why reason.Reason, s *metav1.Status) string {
	if s == nil || why != reason.Forbidden {
		return ""
	}
	_, rest, _ := strings.Cut(s.Message, `User "`)
	user, _, found := strings.Cut(rest, `"`)
	if !found {
		return ""
	}
	return oneLine(user, maxSnippet)
}

// nodeHint returns the rule that a node's own credentials meet, when user is a
// node that was refused and the request did not keep it: the node authorizer lets a
// node list and watch pods only under the field selector of its own name
// (KEP-4601). Nobody else is told, since RBAC knows no field selectors.
func nodeHint(resource, user, fieldSelector string) string {
	node, ok := strings.CutPrefix(user, "system:node:")
	if !ok || node == "" || resource != "pods" {
		return ""
	}
	want := "spec.nodeName=" + node
	for _, have := range strings.Split(fieldSelector, ",") {
		if have == want {
			return ""
		}
	}
	return oneLine("a node may list and watch pods only with the field selector "+want, maxMessage)
}
