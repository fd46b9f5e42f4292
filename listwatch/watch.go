package listwatch

import (
	"context"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/internal/ctxerr"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
)

// Watch opens a WATCH. It returns when the server has answered with a stream;
// no byte of that has been read.
//
// Watch stops within 100 ms of its context, from any point (dial, header wait),
// leaks no goroutine and no socket, with the exception named at [ListerWatcher.List]. The
// stream ends with ctx, and with StreamWatcher.Stop; both free the connection. A caller
// stops every StreamWatcher that it got. None of the timeouts of Config applies to the stream. An answer that is no stream of
// events is an *Error, with the reason Decode where it is a 200.
func (lw *ListerWatcher[T]) Watch(ctx context.Context, opts metav1.ListOptions) (*streamwatcher.StreamWatcher[T], error) {
	ans, req, err := lw.open(ctx, verbWatch, opts)
	if err != nil {
		return nil, err
	}
	if _, err := lw.encoding(ans); err != nil {
		defer ans.close()
		return nil, lw.notWhatWasAsked(ctx, req, ans, err)
	}
	stream, err := streamwatcher.New(streamwatcher.Config[T]{
		Body:            newWatchBody(ctx, ans),
		ContentType:     contentType(ans),
		ContentEncoding: ans.Header.Get("Content-Encoding"),
		Decoder:         redactingDecoder[T]{lw.decoder, ans.attempt},
		MaxFrameBytes:   lw.config.MaxItemBytes,
		Abort:           ans.end,
		Transfer:        &lw.transfer,
		Skip:            lw.shards.skip(),
		Redact:          ans.redact,
	})
	if err != nil {
		ans.close()
		fault := lw.fault(req, ans.attempt, reason.Decode, err)
		fault.Code = ans.StatusCode
		return nil, fault
	}
	return stream, nil
}

// watchBody is the body of a watch; closing it ends the request too, so that
// nothing of it outlives the stream.
type watchBody struct {
	ctx  context.Context // the caller's
	ans  *answer
	conn *readAhead // what it is read from, nil if that is not known
}

// newWatchBody returns the body of ans. Its connection is the one that the request was sent on last: a RoundTripper of the caller's
// that sends it twice makes Arrived tell of the second.
func newWatchBody(ctx context.Context, ans *answer) *watchBody {
	b := &watchBody{ctx: ctx, ans: ans}
	if ans.ProtoMajor == 1 { // the connection of HTTP/2 is read for all of its streams, by another goroutine
		ans.attempt.mu.Lock()
		defer ans.attempt.mu.Unlock()
		b.conn = ans.attempt.conn
	}
	return b
}

// Arrived implements streamwatcher.Arrived.
func (b *watchBody) Arrived() int {
	if b.conn == nil {
		return 0
	}
	return b.conn.Arrived()
}

// Read implements io.Reader. net/http says the context's cause alone, by which
// nobody could tell that it was the caller who stopped.
func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ans.Body.Read(p)
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = ctxerr.Of(b.ctx)
	}
	return n, b.ans.redactError(err)
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	b.ans.end(context.Canceled)
	return b.ans.Body.Close()
}
