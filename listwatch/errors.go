package listwatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// Error is any failure of a LIST or WATCH request, and what an ERROR event says.
//
// It is an apierrors.APIStatus, so apierrors.IsForbidden and its kin work on
// it, and it unwraps to its cause: errors.Is(err, context.Canceled) holds when
// the caller's context was cancelled.
type Error struct {
	Reason   reason.Reason
	Verb     string // list, watch
	Resource schema.GroupVersionResource
	Method   string
	// URL has no user info, no fragment, and of the query only the parameters
	// of ListOptions; a continue token is cut out.
	URL string
	// Code is the HTTP status, or for an ERROR event the Status' code; 0 when there was no answer.
	Code int
	// APIStatus is what the server said, nil when it sent no Status.
	APIStatus *metav1.Status
	// User is who was refused, as the server named it in a 403; "" where it did not.
	User string
	// RetryAfter is the longer one of the header Retry-After (seconds or date)
	// and details.retryAfterSeconds, in a response or in an ERROR event. It is
	// as the server said it, neither capped nor jittered; 0 when the server named none.
	RetryAfter time.Duration
	// Unsent: the connection ended in the TLS handshake, so the request was not
	// sent, and perhaps no API server was there: a load balancer accepts
	// connections and ends them while those behind it are down.
	Unsent bool
	// Continue: the request carried a continue token.
	Continue bool
	// Err is the cause; nil when the server's answer says it all.
	Err error

	// hint is a sentence for the reader that no server says.
	hint string
}

// Error returns one line: verb and resource, what happened, what the server said.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Verb)
	if e.Resource.Resource != "" {
		b.WriteString(" " + e.Resource.GroupResource().String())
	}
	b.WriteString(": ")
	said := ""
	if e.APIStatus != nil {
		said = oneLine(e.APIStatus.Message, maxMessage)
	}
	// A 200 is of interest only where it was the wrong thing to say.
	if e.Code != 0 && (e.Code != http.StatusOK || e.Reason == reason.Decode) {
		fmt.Fprintf(&b, "%d", e.Code)
		if text := http.StatusText(e.Code); text != "" {
			b.WriteString(" " + text)
		}
	}
	for _, part := range []string{said, errText(e.Err), e.hint} {
		if part == "" {
			continue
		}
		if !strings.HasSuffix(b.String(), ": ") {
			b.WriteString(": ")
		}
		b.WriteString(part)
	}
	if strings.HasSuffix(b.String(), ": ") {
		b.WriteString(string(e.Reason))
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// FaultReason implements reason.Carrier.
func (e *Error) FaultReason() reason.Reason { return e.Reason }

// RefusesInitialEvents reports whether the answer to a watch with
// sendInitialEvents says that the server has none (KEP-3157), or that this user
// may not watch: what no repetition of the same request changes. Servers without
// it have answered with each of these codes, some of them through a proxy.
func (e *Error) RefusesInitialEvents() bool {
	switch e.Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	case 0:
		return e.Reason == reason.Forbidden // an ERROR event whose Status has no code
	}
	return false
}

// Status implements apierrors.APIStatus: the server's Status with what it left
// out (code, reason) filled in from the HTTP status.
func (e *Error) Status() metav1.Status {
	s := metav1.Status{Status: metav1.StatusFailure, Message: e.Error()}
	if e.APIStatus != nil {
		s = *e.APIStatus.DeepCopy()
	}
	if e.Code == 0 {
		return s
	}
	if s.Code == 0 {
		s.Code = int32(e.Code)
	}
	if s.Reason == "" {
		generic := apierrors.NewGenericServerResponse(e.Code, e.Verb, e.Resource.GroupResource(), "", s.Message, 0, false)
		s.Reason = generic.ErrStatus.Reason
	}
	return s
}

// FromStatus classifies the Status of an ERROR event as Watch classifies the
// same Status in an answer. The result names no resource and no URL; whoever
// knows them may fill them in.
func FromStatus(s *metav1.Status) *Error {
	if s == nil {
		s = &metav1.Status{}
	}
	why := classify(int(s.Code), s)
	return &Error{
		Reason:     why,
		Verb:       "watch",
		Method:     http.MethodGet,
		Code:       int(s.Code),
		APIStatus:  s,
		RetryAfter: statusRetryAfter(s),
		User:       refusedUser(why, s),
	}
}

// A TimeoutError is the cause of an Error with the reason Deadline: which limit
// of Config passed. It implements net.Error's Timeout.
type TimeoutError struct {
	// Waiting is what was waited for, such as "the response header".
	Waiting string
	Limit   time.Duration
}

// Error says what did not happen within which time.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("timed out after %s waiting for %s", e.Limit, e.Waiting)
}

// Timeout reports true.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary reports true: another attempt may succeed.
func (e *TimeoutError) Temporary() bool { return true }

// Is makes errors.Is(err, context.DeadlineExceeded) hold, as for any timeout.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// A BodyError is the cause of an Error with the reason Decode or Transport
// that was found while a body was read.
type BodyError struct {
	// Offset is how many bytes of the decompressed body lie before the fault.
	Offset int64
	Err    error
}

// Error says where and what.
func (e *BodyError) Error() string {
	if syntax := new(frame.SyntaxError); errors.As(e.Err, &syntax) {
		return "body: " + e.Err.Error() // which says where
	}
	return fmt.Sprintf("body at byte %d: %v", e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *BodyError) Unwrap() error { return e.Err }

// errText is err's text on one line.
func errText(err error) string {
	if err == nil {
		return ""
	}
	return oneLine(err.Error(), maxMessage)
}

var (
	_ reason.Carrier      = (*Error)(nil)
	_ apierrors.APIStatus = (*Error)(nil)
	_ error               = (*TimeoutError)(nil)
)
