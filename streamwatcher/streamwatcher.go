package streamwatcher

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/internal/gzipstream"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// DefaultMaxFrameBytes bounds one event where Config says nothing.
const DefaultMaxFrameBytes = 32 << 20

// Event is one watch event whose object is not decoded yet.
//
// Promises, with their tests:
//   - BOOKMARK is decoded as metadata, ERROR as Status, whatever their kind says. Test:
//     TestErrorAndBookmark, TestProtobufErrorAndBookmark, B8-odd-bookmarks.txt.
type Event[T any] struct {
	// Type is as the server wrote it: ADDED, MODIFIED, DELETED, BOOKMARK,
	// ERROR, or a word that this version does not know.
	Type watch.EventType
	// Object holds the metadata and decodes on request. For BOOKMARK only Meta
	// is of use and Decode fails; for ERROR it is empty. An object that was too
	// large to hold has what Meta its head says, and Decode says *frame.TooLargeError.
	Object decode.Object[T]
	// Status is set for ERROR and only then.
	Status *metav1.Status
}

// Config says what to read and how.
type Config[T any] struct {
	// Body is the response body. The StreamWatcher closes it. Close must be
	// safe while Read blocks, and end that Read, unless Abort does; net/http's are so.
	// If it is an Arrived, OnWait and More ask it.
	Body io.ReadCloser
	// ContentType decides the framing: the response's, not the request's.
	// application/json or application/vnd.kubernetes.protobuf; parameters such
	// as stream=watch are ignored.
	ContentType string
	// ContentEncoding is "", "identity", "gzip" or its other name "x-gzip" (RFC 9110, 8.4.1.3).
	ContentEncoding string
	// Decoder makes the objects.
	Decoder decode.Decoder[T]
	// MaxFrameBytes bounds one event; a larger one costs only itself. Default 32 MiB.
	//
	// Promises, with their tests:
	//   - A length prefix is checked before anything is allocated. Test: TestLengthsThatAreNone,
	//     E8-garbage-length.txt.
	MaxFrameBytes int
	// Abort ends the request under Body so that a blocked Read returns. It is
	// called at most once, from any goroutine. Default: close Body.
	Abort func(cause error)
	// Transfer, when set, counts bytes as they are read.
	Transfer *Transfer
	// Skip, when set, says of which objects the events are passed over: they are counted in
	// Transfer and not decoded, and Next goes on with the next event. It is not asked about
	// BOOKMARK and ERROR, nor about what was not read as far as to its UID.
	Skip func(*decode.Meta) bool
	// Redact overwrites what must not be shown, for a server or a proxy may send a
	// request's credentials back. It is given what an error or a Status shows of the body: the
	// object of an ERROR event as it stands on the wire (so lengths are to stay as they are), its
	// message, and the beginning of a body that is no watch. nil overwrites nothing.
	Redact func(string) string
}

func (c Config[T]) withDefaults() Config[T] {
	if c.MaxFrameBytes == 0 {
		c.MaxFrameBytes = DefaultMaxFrameBytes
	}
	if c.Transfer == nil {
		c.Transfer = new(Transfer)
	}
	if c.Redact == nil {
		c.Redact = func(text string) string { return text }
	}
	return c
}

func (c Config[T]) validate() error {
	switch {
	case c.Body == nil:
		return errors.New("Config.Body is nil, it must be the body of a WATCH response")
	case c.Decoder == nil:
		return errors.New("Config.Decoder is nil, decode.New makes one")
	case c.MaxFrameBytes < 0 || c.MaxFrameBytes > frame.MaxValueBytes:
		return fmt.Errorf("Config.MaxFrameBytes is %d, it must be between 1 and %d (0 is %d)",
			c.MaxFrameBytes, frame.MaxValueBytes, DefaultMaxFrameBytes)
	}
	return nil
}

// StreamWatcher is one watch response body turned into events.
//
// One goroutine calls Next. Stop and LastByte may be called from any other. Stop
// must be called when the events are no longer wanted, as a file is closed; it
// does no harm after the end.
//
// Promises, with their tests:
//   - A watch is proven alive or is replaced. Test: TestIdle, D1.txt, D4-half-an-event.txt.
type StreamWatcher[T any] struct {
	stream
	dec   decode.Decoder[T]
	skip  func(*decode.Meta) bool
	frame frameEvent
	event Event[T]
}

// New returns a StreamWatcher. It reads nothing until Next is called. A response
// that is no watch (its content type or encoding is not one of those in Config,
// or one that Decoder cannot read) is an *Error with reason.Decode. On error
// Body is not closed.
func New[T any](c Config[T]) (*StreamWatcher[T], error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("streamwatcher: %w", err)
	}
	enc, err := encodingOf(c.ContentType, c.Decoder.Encodings())
	if err != nil {
		return nil, &Error{Reason: reason.Decode, Err: err}
	}
	w := &StreamWatcher[T]{dec: c.Decoder, skip: c.Skip}
	w.stream.closer, w.stream.abort = c.Body, c.Abort
	w.body = body{src: c.Body, transfer: c.Transfer, bite: w.idle, lastByte: time.Now()}
	w.body.arrived, _ = c.Body.(Arrived)

	var decoded io.Reader = &w.body
	switch coding := strings.TrimSpace(c.ContentEncoding); {
	case coding == "", strings.EqualFold(coding, "identity"):
	case gzipstream.IsName(coding):
		decoded = gzipstream.NewReader(decoded)
	default:
		return nil, &Error{Reason: reason.Decode, Err: fmt.Errorf("the response has Content-Encoding %q, only gzip and identity can be read", c.ContentEncoding)}
	}
	w.framer = newFramer(frame.NewReader(c.Transfer.Decoded(decoded)), c.MaxFrameBytes, c.Redact)
	w.read = w.framer.json
	if enc == decode.Protobuf {
		w.read, w.protobuf = w.framer.protobuf, true
	}
	return w, nil
}

// encodingOf is the encoding that a content type names, if it can be read.
func encodingOf(contentType string, readable []decode.Encoding) (decode.Encoding, error) {
	if contentType == "" {
		return 0, errors.New("the response has no Content-Type, so it is not known how to read it")
	}
	enc, err := decode.EncodingOf(contentType)
	switch {
	case err != nil:
		return 0, fmt.Errorf("the response is no watch: %w", err)
	case slices.Contains(readable, enc):
		return enc, nil
	}
	return 0, fmt.Errorf("the response has Content-Type %q, which the decoder does not read: it reads %v", contentType, readable)
}

// Next returns the next event. The event and its bytes are overwritten by the
// next call. io.EOF is a clean end between two events; any other error is an
// *Error. After an error every call returns the same error.
func (w *StreamWatcher[T]) Next() (*Event[T], error) {
	for passed := 1; ; passed++ {
		again := w.settle()
		w.forget(again)
		if !again {
			if err := w.next(&w.frame); err != nil {
				return nil, err
			}
		}
		w.present()
		if w.skip == nil || !w.passes(&w.event) {
			return &w.event, nil
		}
		w.body.transfer.AddSkipped()
		if passed%manyPassed == 0 && w.body.onWait != nil {
			w.body.onWait()
		}
	}
}

// manyPassed is how many events may be passed over while the one before them is put off.
const manyPassed = 64

// More tells, between calls of Next, whether the event after the last one has come, as far as that is known: then Next
// most likely does not wait. In JSON it is false: where that event ends has to be looked for.
func (w *StreamWatcher[T]) More() bool {
	return w.protobuf && w.err == nil && (w.framer.whole() || w.body.hasMore())
}

// passes reports whether the event is one to be passed over.
func (w *StreamWatcher[T]) passes(ev *Event[T]) bool {
	switch ev.Type {
	case watch.Error, watch.Bookmark:
		return false
	}
	m := &ev.Object.Meta
	return (w.frame.fault == nil || m.UID != "") && w.skip(m)
}

// forget: nothing must hold the last event's bytes while the next one is waited for. Like present it is not
// inlined, so that what they need of the stack is not held by a watch that waits.
//
//go:noinline
func (w *StreamWatcher[T]) forget(again bool) {
	w.event = Event[T]{}
	if !again {
		w.frame = frameEvent{}
	}
}

// present makes the event of its frame.
//
//go:noinline
func (w *StreamWatcher[T]) present() {
	f := &w.frame
	w.event = Event[T]{Type: f.typ, Status: f.status}
	switch {
	case f.typ == watch.Error:
		w.event.Object = decode.Undecodable[T](decode.Meta{}, errErrorObject)
	case f.fault != nil:
		w.event.Object = decode.Undecodable[T](f.meta, f.fault)
	case f.typ == watch.Bookmark:
		w.event.Object = decode.Undecodable[T](f.meta, errBookmarkObject)
	case f.line != 0:
		w.event.Object = decode.NewLine(f.meta, f.raw, w.dec)
	default:
		w.event.Object = decode.NewObject(f.meta, f.enc, f.raw, w.dec)
	}
}

// settle gets behind the last event, if its end was presumed. It is proven where the object
// was decoded, and looked for here where it was not. again says that frame has that event once more.
func (w *StreamWatcher[T]) settle() (again bool) {
	if w.frame.line == 0 || w.err != nil || w.cause.Load() != nil {
		return false // an error is what next returns
	}
	end, err := w.event.Object.End()
	if again, err = w.framer.settle(&w.frame, end, err); err != nil {
		_ = w.fail(err) // which next returns, too
	}
	return again
}

var (
	errErrorObject    = errors.New("an ERROR event has a Status and no object")
	errBookmarkObject = errors.New("a BOOKMARK has metadata and no object")
)

// stream is what of a StreamWatcher does not depend on T: reading, and the end.
type stream struct {
	body   body
	framer *framer
	read   func(*frameEvent) error // one of framer's

	protobuf bool

	closer    io.Closer
	closeOnce sync.Once
	abort     func(cause error)

	cause atomic.Pointer[endCause] // why it was ended from outside, the first time
	err   error                    // what Next returns from now on; Next's alone
}

// endCause is Stop or the watchdog.
type endCause struct {
	reason reason.Reason
	err    error
}

func (s *stream) next(ev *frameEvent) error {
	if s.err != nil {
		return s.err
	}
	var err error
	if s.cause.Load() == nil {
		if err = s.read(ev); err == nil {
			return nil
		}
	}
	return s.fail(err)
}

// fail ends the stream, which err was met in.
func (s *stream) fail(err error) error {
	s.err = s.endedBy(err)
	s.close()
	return s.err
}

// endedBy is what the end of the stream by err is called. When it was ended from
// outside, that is why reading failed, whatever the failed read says.
func (s *stream) endedBy(err error) error {
	offset := s.framer.r.Offset()
	if c := s.cause.Load(); c != nil {
		return &Error{Reason: c.reason, Offset: offset, Err: c.err}
	}
	switch err {
	case io.EOF:
		return io.EOF
	case io.ErrUnexpectedEOF:
		err = errCut
	}
	return &Error{Reason: reasonOf(err), Offset: offset, Err: err}
}

// SetIdleTimeout sets the longest time that a read may block (0: no limit).
// It is armed only while Next waits for bytes, so a slow caller never trips it.
// It may be called between calls of Next.
func (s *stream) SetIdleTimeout(d time.Duration) { s.body.setLimit(d) }

// OnWait has f called by Next, on its goroutine, before it waits for bytes: that is before each read for which Config.Body does not say that 64 KiB
// have come; and while it passes over many events in a row. Whoever puts off what is to be done with events does it in f. OnWait is called
// between calls of Next.
func (s *stream) OnWait(f func()) { s.body.onWait = f }

// LastByte returns when the last bytes came (the time of New before the first).
// Safe from any goroutine.
func (s *stream) LastByte() time.Time { return s.body.last() }

// Stop ends the stream: a blocked Next returns an *Error with reason.Stopped. Idempotent, safe from any goroutine.
func (s *stream) Stop() {
	s.end(reason.Stopped, errStopped)
	s.close()
}

// idle is what the watchdog does.
func (s *stream) idle(limit time.Duration) {
	s.end(reason.Idle, fmt.Errorf("no byte for %v", limit))
}

// end makes a blocked read return. The first cause is the one that counts.
func (s *stream) end(r reason.Reason, err error) {
	if !s.cause.CompareAndSwap(nil, &endCause{r, err}) {
		return
	}
	if s.abort != nil {
		s.abort(&Error{Reason: r, Err: err})
		return
	}
	s.close()
}

// close lets go of the body.
func (s *stream) close() {
	s.closeOnce.Do(func() {
		s.body.quiet()
		_ = s.closer.Close() // what there was to say, a read has said
	})
}
