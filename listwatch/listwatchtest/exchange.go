package listwatchtest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// framing is how a body says where it ends.
type framing uint8

const (
	unset    framing = iota // exact length for one object, chunks for a stream
	chunked                 // chunking says how
	byLength                // Content-Length, right or wrong
	unframed                // with the connection
)

// exchange is one request of a script under way: it owns the connection and
// writes the answer as bytes.
type exchange struct {
	play *Play
	got  *arrival
	step *scriptStep
	conn net.Conn
	rest *bufio.Reader // what the client sends on
	typ  typeOf

	ctx    context.Context // ends when the client goes away, or the server
	cancel context.CancelFunc
	reader chan struct{} // closed when nobody reads from rest any more

	code     int
	codeText string
	header   http.Header
	without  []string // headers that are left out
	framing  framing
	length   int64
	chunking chunking
	trailers string
	as       string
	zip      string // "", or as the gzip line says

	opened  bool // the head is out
	keep    bool // the connection can carry another request
	member  *gzip.Writer
	zipped  bytes.Buffer
	pending []byte // of a chunk that is not full

	segment int           // bytes a write; 0: as they come
	pace    time.Duration // between two writes
	cutting bool
	cutLeft int64
	cutHow  string
	partial bool
	part    int
}

// newExchange takes over the connection of a request.
func newExchange(p *Play, st *scriptStep, got *arrival, w http.ResponseWriter) (*exchange, error) {
	conn, buffers, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("the connection cannot be taken over, which a script needs HTTP/1.1 on the server's own listener for: %w", err)
	}
	x := &exchange{
		play: p, got: got, step: st, conn: conn, rest: buffers.Reader, typ: typeOf{"v1", "Pod"},
		code: http.StatusOK, keep: true, reader: make(chan struct{}),
		header: http.Header{"Cache-Control": {"no-cache, private"}},
	}
	if c := p.server.writer.collection(got.info.gvr); c != nil {
		x.typ = typeOf{c.GroupVersion().String(), c.Kind}
	}
	if got.param("accept") == "protobuf" {
		x.as = "protobuf"
	}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(x.reader)
		// Nothing is due from the client: what comes is its next request,
		// which stays in rest, or its end.
		if _, err := x.rest.Peek(1); err != nil {
			x.cancel()
		}
	}()
	return x, nil
}

// run plays the step's answer and gives the connection back or closes it.
func (x *exchange) run(last bool) {
	defer x.play.finish(last)
	defer x.cancel()
	stop := context.AfterFunc(x.ctx, func() { _ = x.conn.SetWriteDeadline(time.Unix(1, 0)) })
	server := make(chan struct{})
	go func() {
		defer close(server)
		select {
		case <-x.play.server.done:
			x.cancel()
		case <-x.ctx.Done():
		}
	}()
	if x.play.awaitsDial() {
		x.header.Set("Connection", "close")
	}
	err := x.answer(last)
	gone := x.ctx.Err() != nil
	stop()
	x.cancel()
	<-server
	if err != nil && !errors.Is(err, errOver) && !gone {
		x.play.fail(err)
	}
	if gone || err != nil && !errors.Is(err, errOver) {
		x.keep = false
	}
	if !x.keep {
		// What can fail is closing a socket that the client closed before.
		_ = x.conn.Close()
		<-x.reader
		return
	}
	// The reader is called back: net/http reads from here on.
	_ = x.conn.SetReadDeadline(time.Unix(1, 0))
	<-x.reader
	if errors.Join(x.conn.SetReadDeadline(time.Time{}), x.conn.SetWriteDeadline(time.Time{})) != nil {
		_ = x.conn.Close()
		return
	}
	x.play.server.giveBack(x.conn, x.rest)
}

func (x *exchange) answer(last bool) error {
	for _, a := range x.step.actions {
		x.play.note("< %s", a.text)
		if a.text == "hold" {
			// It lasts until the client goes, which may be the end of the test.
			if err := x.sendOff(); err != nil {
				return fmt.Errorf("%s: %w", a.pos, err)
			}
			x.play.finish(last)
		}
		if err := a.do(x); err != nil {
			if errors.Is(err, errOver) {
				return err
			}
			return fmt.Errorf("%s: %s: %w", a.pos, a.text, err)
		}
	}
	return x.end()
}

// pause waits, or ends the answer when the client goes away.
func (x *exchange) pause(d time.Duration) error {
	if wait(x.ctx, d) != nil {
		return errOver
	}
	return nil
}

// every does something n times, each after a period.
func (x *exchange) every(period time.Duration, n int, do func(i int) error) error {
	if err := x.sendOff(); err != nil {
		return err
	}
	for i := range n {
		if err := x.pause(period); err != nil {
			return err
		}
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// open sends the head, once. A list's head is sent with its body.
func (x *exchange) open() error {
	if x.opened {
		return nil
	}
	x.opened = true
	var b bytes.Buffer
	text := x.codeText
	if text == "" {
		text = http.StatusText(x.code)
	}
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", x.code, text)
	if x.header.Get("Content-Type") == "" {
		x.header.Set("Content-Type", x.contentType())
	}
	switch x.framing {
	case unset, chunked:
		x.framing = chunked
		x.header.Set("Transfer-Encoding", "chunked")
	case byLength:
		x.header.Set("Content-Length", strconv.FormatInt(x.length, 10))
	case unframed:
		x.header.Set("Connection", "close")
	}
	if strings.EqualFold(x.header.Get("Connection"), "close") {
		x.keep = false
	}
	for _, name := range x.without {
		x.header.Del(name)
	}
	if err := x.header.Write(&b); err != nil {
		return err
	}
	b.WriteString("\r\n")
	return x.wire(b.Bytes())
}

func (x *exchange) contentType() string {
	if x.as != "protobuf" {
		return mediaJSON
	}
	if x.got.verb != "LIST" && x.code == http.StatusOK {
		return mediaProtobuf + ";stream=watch"
	}
	return mediaProtobuf
}

// whole sends a body that is one thing, by its length unless the script frames it.
func (x *exchange) whole(code int, contentType string, body []byte) error {
	if x.opened && x.got.verb != "LIST" {
		return errors.New("the head with its status code is out already")
	}
	if x.code == http.StatusOK {
		x.code = code
	}
	if contentType != "" && x.header.Get("Content-Type") == "" {
		x.header.Set("Content-Type", contentType)
	}
	if x.framing == unset && !x.partial {
		squeezed, err := x.squeeze(body)
		if err != nil {
			return err
		}
		if x.member != nil { // all of the body is there
			if err := x.member.Close(); err != nil {
				return err
			}
			x.member = nil
			squeezed = append(squeezed, x.zipped.Bytes()...)
			x.zipped.Reset()
		}
		x.framing, x.length = byLength, int64(len(squeezed))
		// One write: what is cut off in the middle of it is cut there.
		if err := x.open(); err != nil {
			return err
		}
		return x.wire(squeezed)
	}
	return x.payload(body)
}

func (x *exchange) list(l *scriptList) error {
	body := l.json(x.typ)
	if x.as == "protobuf" {
		body = l.protobuf(x.typ)
	} else if x.as == "pretty" {
		body = pretty(body)
	}
	return x.whole(http.StatusOK, x.contentType(), body)
}

func (x *exchange) status(st *metav1.Status) error {
	body, err := x.encode(st)
	if err != nil {
		return err
	}
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 && x.header.Get("Retry-After") == "" {
		x.header.Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	if x.code == http.StatusOK {
		x.code = int(st.Code)
	}
	return x.whole(x.code, x.contentType(), body)
}

// encode writes an object of a Go type.
func (x *exchange) encode(obj runtime.Object) ([]byte, error) {
	out := output{media: mediaJSON, pretty: x.as == "pretty"}
	if x.as == "protobuf" {
		out.media = mediaProtobuf
	}
	var b bytes.Buffer
	err := x.play.server.codecs.encoder(out).Encode(obj, &b)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// encodeLiteral writes an object that the script gives as JSON.
func (x *exchange) encodeLiteral(raw []byte) ([]byte, error) {
	if x.as != "protobuf" {
		return raw, nil
	}
	obj, _, err := x.play.server.codecs.compact.Decode(raw, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("it has no protobuf: say as json: %w", err)
	}
	return x.encode(obj)
}

func (x *exchange) encodeObject(o *object) []byte {
	if x.as != "protobuf" {
		return o.json(x.typ, false)
	}
	t := x.typ
	if o.kind != "" {
		t = typeOf{"v1", o.kind}
	}
	return protobufEnvelope(t, o.protobuf())
}

func (x *exchange) bookmark(k bookmark) error {
	if x.as == "protobuf" {
		return x.event("BOOKMARK", protobufEnvelope(x.typ, k.protobuf()))
	}
	return x.event("BOOKMARK", k.json(x.typ))
}

// event sends one event of a watch.
func (x *exchange) event(typ string, object []byte) error {
	if x.as == "protobuf" {
		event := appendField(appendField(nil, 1, typ), 2, string(appendField(nil, 1, string(object))))
		return x.payload(append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...))
	}
	line := fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", typ, object)
	if x.as == "pretty" {
		line = pretty(line)
	}
	return x.payload(line)
}

// payload sends bytes of the body: squeezed, in chunks.
func (x *exchange) payload(b []byte) error {
	if x.partial {
		x.partial = false
		if x.part < 0 {
			x.part = max(0, len(b)+x.part)
		}
		b = b[:min(x.part, len(b))]
	}
	if err := x.open(); err != nil {
		return err
	}
	b, err := x.squeeze(b)
	if err != nil {
		return err
	}
	if x.framing != chunked {
		return x.wire(b)
	}
	x.pending = append(x.pending, b...)
	size := x.chunking.size
	for size > 0 && len(x.pending) >= size {
		if err := x.chunk(x.pending[:size]); err != nil {
			return err
		}
		x.pending = x.pending[size:]
	}
	if x.chunking.blocks {
		return nil
	}
	return x.flush()
}

// sendOff sends the head, if it is not out, and all that is held back.
func (x *exchange) sendOff() error {
	if err := x.open(); err != nil {
		return err
	}
	return x.flush()
}

// flush sends what a chunk that is not full holds back.
func (x *exchange) flush() error {
	if len(x.pending) == 0 {
		return nil
	}
	b := x.pending
	x.pending = nil
	return x.chunk(b)
}

func (x *exchange) chunk(b []byte) error {
	format := "%x"
	if x.chunking.upper {
		format = "%X"
	}
	head := strings.Repeat("0", x.chunking.zeros) + fmt.Sprintf(format, len(b)) + x.chunking.ext + "\r\n"
	return x.wire(slices.Concat([]byte(head), b, []byte("\r\n")))
}

// squeeze compresses bytes of the body, if they are to be compressed.
func (x *exchange) squeeze(b []byte) ([]byte, error) {
	if x.zip == "" {
		return b, nil
	}
	if x.member == nil {
		x.member = newGzipWriter(&x.zipped)
	}
	_, err := x.member.Write(b)
	if x.zip != "unflushed" {
		err = errors.Join(err, x.member.Flush())
	}
	if x.zip != "stream" {
		err = errors.Join(err, x.member.Close())
		x.member = nil
	}
	out := bytes.Clone(x.zipped.Bytes())
	x.zipped.Reset()
	return out, err
}

// bare sends bytes past all framing; what follows them is up to the script.
func (x *exchange) bare(b []byte) error {
	x.opened, x.keep = true, false
	return x.wire(b)
}

// wire writes to the connection.
func (x *exchange) wire(b []byte) error {
	cut := x.cutting && int64(len(b)) >= x.cutLeft
	if cut {
		b = b[:x.cutLeft]
	}
	x.cutLeft -= int64(len(b))
	for len(b) > 0 {
		n := len(b)
		if x.segment > 0 {
			n = min(n, x.segment)
		}
		x.play.touch()
		if _, err := x.conn.Write(b[:n]); err != nil {
			return errOver // the client went away
		}
		b = b[n:]
		if x.pace > 0 {
			if err := x.pause(x.pace); err != nil {
				return err
			}
		}
	}
	if !cut {
		return nil
	}
	x.keep = false
	switch x.cutHow {
	case "FIN":
		return x.fin()
	case "RST":
		return x.reset()
	}
	return x.hang()
}

// end ends the answer as HTTP says.
func (x *exchange) end() error {
	if err := x.sendOff(); err != nil {
		return err
	}
	if x.member != nil {
		err := x.member.Close()
		x.member = nil
		if tail := bytes.Clone(x.zipped.Bytes()); x.framing == chunked {
			err = errors.Join(err, x.chunk(tail))
		} else {
			err = errors.Join(err, x.wire(tail))
		}
		if err != nil {
			return err
		}
	}
	x.play.touch()
	if x.framing == chunked {
		if err := x.wire([]byte("0\r\n" + x.trailers + "\r\n")); err != nil {
			return err
		}
	}
	return errOver
}

// fin closes the connection, whatever is missing.
func (x *exchange) fin() error {
	x.play.touch()
	x.keep = false
	_ = x.conn.Close() // of no interest: the client may have closed it
	return errOver
}

func (x *exchange) reset() error {
	x.play.touch()
	x.keep = false
	_ = resetConn(x.conn)
	return errOver
}

// cutEvent ends the body cleanly, in the middle of an event.
func (x *exchange) cutEvent() error {
	o := object{name: "cut", namespace: "default", rv: "1"}
	x.partial, x.part = true, 37
	if err := x.event("ADDED", x.encodeObject(&o)); err != nil {
		return err
	}
	return x.end()
}

// timeout ends the watch at the timeout that the client asked for.
func (x *exchange) timeout() error {
	seconds, err := strconv.ParseInt(x.got.param("timeout"), 10, 32)
	if err != nil {
		return fmt.Errorf("the request has the timeoutSeconds %q", x.got.param("timeout"))
	}
	if err := x.sendOff(); err != nil {
		return err
	}
	if err := x.pause(time.Duration(seconds) * time.Second); err != nil {
		return err
	}
	return x.end()
}

// hold sends nothing more until the client goes away.
func (x *exchange) hold() error {
	<-x.ctx.Done()
	return errOver
}

// hang is hold, but the end of the answer is when the client goes away.
func (x *exchange) hang() error {
	<-x.ctx.Done()
	x.play.touch()
	return errOver
}

func pretty(raw []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return raw // no JSON: the script wants it so
	}
	return b.Bytes()
}
