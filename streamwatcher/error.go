package streamwatcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nodewatch-go/nodewatch/internal/gzipstream"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// Error is how a stream ended other than cleanly, or why it could not begin.
type Error struct {
	// Reason is one of
	//   Stopped    Stop was called, or the request's context was cancelled
	//   Idle       no byte came within the idle limit
	//   Deadline   a deadline of the request's context or of the connection
	//   Decode     the bytes are not events: see *frame.SyntaxError
	//   Transport  reading failed, or the body ended in the middle of an event
	//              (io.ErrUnexpectedEOF)
	// A read error that has a reason of its own (reason.Carrier) keeps it.
	Reason reason.Reason
	Offset int64 // bytes of the decoded stream before the fault
	Err    error
}

// Error implements error. It holds nothing of the events' content, except that
// of a body which is no watch the beginning is quoted.
func (e *Error) Error() string {
	if errors.As(e.Err, new(*frame.SyntaxError)) {
		return fmt.Sprintf("watch stream: %v", e.Err) // which names the byte
	}
	return fmt.Sprintf("watch stream: %v, after %d bytes", e.Err, e.Offset)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// FaultReason implements reason.Carrier.
func (e *Error) FaultReason() reason.Reason { return e.Reason }

// reasonOf names an error of reading or framing.
func reasonOf(err error) reason.Reason {
	var syntax *frame.SyntaxError
	var gzip *gzipstream.Error
	if r, ok := reason.Of(err); ok {
		return r
	}
	switch {
	case errors.As(err, &syntax), errors.As(err, &gzip):
		return reason.Decode
	case errors.Is(err, context.Canceled):
		return reason.Stopped
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return reason.Deadline
	}
	return reason.Transport
}

var (
	errStopped = errors.New("stopped")
	// errCut is the cause when the body ended in the middle: of an event, of a
	// gzip member, or (net/http says the same) of an HTTP chunk.
	errCut = fmt.Errorf("the body was cut off: %w", io.ErrUnexpectedEOF)
)

var _ reason.Carrier = (*Error)(nil)
