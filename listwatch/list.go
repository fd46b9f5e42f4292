package listwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/internal/gzipstream"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// Sink receives a list as it is read. All calls come from the goroutine of List.
type Sink[T any] interface {
	// Meta is called once before the first item when the answer's metadata
	// comes first, as API servers send it; else after the last item. An
	// error ends the list and is returned as it is.
	Meta(metav1.ListMeta) error
	// Item is called for each item; the object is valid until it returns. An
	// error ends the list and is returned as it is.
	//
	// An item's Meta.Kind is its own; where it has none, as the items of
	// built-in types, the list's without "List". It need not be the kind that was asked for.
	Item(*decode.Object[T]) error
}

// List makes one LIST request and hands its parts to sink as they are read from the socket.
//
// Lists are decoded item by item from the socket; peak memory of a relist is
// the store plus one item per decoder. A frame or item over the limit (default
// 32 MiB) costs that item, not the stream. A length prefix is checked before anything is allocated.
//
// List stops within 100 ms of its context, from any point (dial, header wait,
// mid-body), leaks no goroutine and no socket. One thing it cannot end: a RoundTripper or an exec
// plugin of the caller's that ignores its context keeps its goroutine until it returns.
//
// The returned metadata is the whole of the list's, with its resourceVersion,
// continue token and remainingItemCount. An error that sink did not return is
// an *Error; items handed on before it are good, but the list is not complete.
// An answer that is not a list (a Table, a Status, a login page) is an error
// with the reason Decode, before any item where its kind stands in front.
// An item over Config.MaxItemBytes is handed on as undecodable, with the metadata that
// stood at its beginning.
//
// Promises, with their tests:
//   - Lists are decoded item by item from the socket; peak memory of a relist is the store plus one item
//     per decoder. Test: TestListIsNotHeld.
func (lw *ListerWatcher[T]) List(ctx context.Context, opts metav1.ListOptions, sink Sink[T]) (metav1.ListMeta, error) {
	ans, req, err := lw.open(ctx, verbList, opts)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer ans.close()
	enc, err := lw.encoding(ans)
	if err != nil {
		return metav1.ListMeta{}, lw.notWhatWasAsked(ctx, req, ans, err)
	}
	wire := &bodyReader{body: ans.Body, a: ans.attempt, limit: lw.config.RequestTimeout, count: lw.transfer.AddWire}
	l := lw.newListReader(ans.attempt, sink, lw.decompressed(ans, wire))
	l.asked = req.opts.ShardSelector
	if enc == decode.Protobuf {
		err = l.protobuf()
	} else {
		err = l.json()
	}
	if err == nil {
		return l.meta, nil
	}
	var stop *sinkError
	if errors.As(err, &stop) {
		return metav1.ListMeta{}, stop.err
	}
	return metav1.ListMeta{}, lw.listFault(ctx, req, ans, wire, &BodyError{Offset: l.r.Offset(), Err: err})
}

// listFault is the Error of a list whose reading ended with err.
func (lw *ListerWatcher[T]) listFault(ctx context.Context, req *request, ans *answer, wire *bodyReader, err error) *Error {
	var fault *Error
	switch {
	case wire.err != nil && wire.err != io.EOF:
		// The transport's own failure, or whoever ended the request.
		fault = lw.interrupted(ctx, req, ans.attempt, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		fault = lw.fault(req, ans.attempt, reason.Transport, err)
	default:
		fault = lw.fault(req, ans.attempt, reason.Decode, err)
	}
	fault.Code = ans.StatusCode
	return fault
}

// decompressed returns what wire is when its Content-Encoding is taken off;
// lw.encoding has checked that there is a way to.
func (lw *ListerWatcher[T]) decompressed(ans *answer, wire io.Reader) io.Reader {
	var r io.Reader = wire
	if isGzip(ans) {
		r = gzipstream.NewReader(wire)
	}
	return lw.transfer.Decoded(r)
}

// sinkError carries what a sink returned through the readers.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

// bodyReader is the body of a list on the wire: it ends the attempt when no
// byte comes within the limit, counts, and remembers how the body failed.
type bodyReader struct {
	body  io.Reader
	a     *attempt
	limit time.Duration
	count func(n int)
	err   error
}

func (b *bodyReader) Read(p []byte) (int, error) {
	b.a.wait("more of the list", b.limit)
	n, err := b.body.Read(p)
	b.a.rest()
	b.count(n)
	if err != nil {
		b.err = err
	}
	return n, err
}

// listReader takes one list apart. Its fields are what is known so far.
type listReader[T any] struct {
	lw      *ListerWatcher[T]
	attempt *attempt
	sink    Sink[T]
	decoder decode.Decoder[T]
	r       *frame.Reader
	peek    decode.Peeker

	// Of the item at hand, and made once for all of them: "What kept UID and RV is
	// untouched (no event, no decode, no allocation)" begins with what is made here.
	object           decode.Object[T]
	head             decode.Meta // of one that is too large
	headJSON, headPB func([]byte)

	asked      string // the shardSelector of the request
	meta       metav1.ListMeta
	metaHanded bool // the sink has it
	kind       string
	apiVersion string
	hasItems   bool
}

func (lw *ListerWatcher[T]) newListReader(a *attempt, sink Sink[T], body io.Reader) *listReader[T] {
	l := &listReader[T]{lw: lw, attempt: a, sink: sink, decoder: redactingDecoder[T]{lw.decoder, a}, r: frame.NewReader(body)}
	l.headJSON = func(b []byte) { l.peekHead(decode.JSON, b) }
	l.headPB = func(b []byte) { l.peekHead(decode.Protobuf, b) }
	return l
}

// peekHead gets what metadata the beginning of an item over the limit has.
func (l *listReader[T]) peekHead(enc decode.Encoding, b []byte) {
	m, _ := l.peek.Identify(enc, b)
	l.head = m.Clone() // the beginning is given up
}

// handMeta hands the list's metadata on, once.
func (l *listReader[T]) handMeta() error {
	if l.metaHanded {
		return nil
	}
	l.metaHanded = true
	if err := l.lw.shards.check(&l.meta, l.asked); err != nil {
		return err
	}
	if err := l.sink.Meta(l.meta); err != nil {
		return &sinkError{err}
	}
	return nil
}

// hand hands o on. A pointer to it would be a new object on the heap for each, so it is
// copied to where the last one was: the sink's is valid until Item returns.
func (l *listReader[T]) hand(o decode.Object[T]) error {
	l.object = o
	m := &l.object.Meta
	if m.Kind == "" {
		m.Kind = l.itemKind()
	}
	if m.APIVersion == "" {
		m.APIVersion = l.apiVersion
	}
	if l.lw.shards.skips(m, len(o.Raw) > 0) {
		l.lw.transfer.AddSkipped()
		return nil
	}
	if err := l.sink.Item(&l.object); err != nil {
		return &sinkError{err}
	}
	return nil
}

// item hands on what was read of an item, or what is known of one that is too
// large: it costs itself only. Any other err ends the list.
func (l *listReader[T]) item(enc decode.Encoding, raw []byte, err error) error {
	if _, large := errors.AsType[*frame.TooLargeError](err); large {
		return l.hand(decode.Undecodable[T](l.head, fmt.Errorf("item of %w", err)))
	}
	if err != nil {
		return err
	}
	meta, err := l.peek.Identify(enc, raw)
	if err != nil {
		return l.hand(decode.Undecodable[T](meta, err))
	}
	return l.hand(decode.NewObject(meta, enc, raw, l.decoder))
}

// itemKind is the kind of the items that name none.
func (l *listReader[T]) itemKind() string {
	if l.kind != "" {
		return strings.TrimSuffix(l.kind, "List")
	}
	return l.lw.config.Kind
}

// checkKind refuses what is not a list, and a list of another kind: its items would
// not be stored, and what it did not bring would be taken for gone. Lists of built-in types are named after the
// type; those of custom resources may have any name. It is called as soon as the kind
// is known, and at the end.
func (l *listReader[T]) checkKind() error {
	if l.kind == "" {
		if l.hasItems {
			return nil
		}
		return errors.New("the server answered an object without kind and items, not a list")
	}
	want := "a list"
	if strings.HasSuffix(l.kind, "List") {
		kind := decode.KindOf[T]()
		if kind == "" || l.kind == kind+"List" || l.kind == "List" {
			return nil
		}
		want = withArticle(kind + "List")
	}
	return fmt.Errorf("the server answered %s, not %s", withArticle(oneLine(l.attempt.redact(l.kind), 128)), want)
}

func withArticle(noun string) string {
	if strings.ContainsAny(noun[:1], "AEIOU") {
		return "an " + noun
	}
	return "a " + noun
}

// finish ends a list that was read to its end.
func (l *listReader[T]) finish() error {
	if err := l.checkKind(); err != nil {
		return err
	}
	return l.handMeta()
}
