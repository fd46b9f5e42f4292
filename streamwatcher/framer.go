package streamwatcher

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// frameEvent is an event before it has a Go type.
type frameEvent struct {
	typ    watch.EventType
	meta   decode.Meta
	enc    decode.Encoding
	raw    []byte         // the object; a part of the reader's window
	line   int            // not 0: raw is presumed, of a line of that length that is not consumed yet
	fault  error          // why there is no object that could be decoded
	status *metav1.Status // of an ERROR, always
}

// framer finds events in the decoded stream. Its two ways, json and protobuf,
// keep the same rules: they fill the empty *ev and return nil, or return io.EOF where the stream
// ended between two events, or an error that ends the stream.
//
// An event that is a whole frame with a type never ends the stream, whatever its
// object is. A frame without a type does: then the bytes are not a watch.
type framer struct {
	r      *frame.Reader
	max    int   // a longer frame is skipped
	giveUp int64 // a longer one yet is no event but garbage without end
	redact func(string) string
	peeker decode.Peeker
	lines  bool // the last event of which the end was looked for, was followed by a line break

	// For a frame that turns out to be over max: where its object begins,
	// counted from the frame's first byte (-1: not seen), and what its head says.
	objectAt  int
	frameAt   int64
	headMeta  decode.Meta
	spillJSON func(head []byte)
	spillPB   func(head []byte)
	head      frameEvent
}

func newFramer(r *frame.Reader, max int, redact func(string) string) *framer {
	f := &framer{r: r, max: max, giveUp: frame.MaxValueBytes, redact: redact}
	// Bound once: a method value made for each event would be garbage for each.
	f.spillJSON, f.spillPB = f.peekHeadJSON, f.peekHeadProtobuf
	return f
}

// eventType is b as an event type, without a new string for those that are known.
func eventType(b []byte) watch.EventType {
	switch string(b) {
	case string(watch.Added):
		return watch.Added
	case string(watch.Modified):
		return watch.Modified
	case string(watch.Deleted):
		return watch.Deleted
	case string(watch.Bookmark):
		return watch.Bookmark
	case string(watch.Error):
		return watch.Error
	}
	return watch.EventType(b)
}

// notAnEvent is the error for bytes that do not begin as an event does. They are redacted
// before they are cut and quoted, while a secret can still be found in them.
func (f *framer) notAnEvent(what string) error {
	return &frame.SyntaxError{
		Offset: f.r.Offset(),
		Msg:    fmt.Sprintf("%s: the body goes on with %s", what, frame.Snippet([]byte(f.redact(string(f.r.Window()))))),
	}
}

// errNoObject is the fault of an event that has a type and nothing else.
var errNoObject = errors.New("watch event without an object")

// setStatus gives an ERROR event its Status. wire is the object as it stands on
// the wire. The server said that something went wrong; when it cannot be read
// what, that is still an ERROR, and a Status says so.
//
// The bytes are redacted, and so is the message, in which escapes are undone.
func (f *framer) setStatus(ev *frameEvent, enc decode.Encoding, wire []byte) {
	err := ev.fault
	if err == nil {
		ev.status, err = decode.Status(enc, []byte(f.redact(string(wire))))
	}
	if err != nil {
		ev.status = &metav1.Status{
			Status:  metav1.StatusFailure,
			Reason:  metav1.StatusReasonInternalError,
			Code:    500,
			Message: fmt.Sprintf("the server sent an ERROR event whose object is not a readable Status: %v", err),
		}
	}
	ev.status.Message = f.redact(ev.status.Message)
}
