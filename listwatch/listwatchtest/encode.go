package listwatchtest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

const (
	// gzipThreshold is the size of a body from which on it is compressed.
	gzipThreshold = 128 << 10
	// gzipLevel is a real server's: the cheapest.
	gzipLevel = gzip.BestSpeed
)

// codecs are the encoders and decoders of a server.
type codecs struct {
	compact, pretty *json.Serializer
	protobuf        *protobuf.Serializer
	rawProtobuf     *protobuf.RawSerializer // for the envelope of a watch event
}

func newCodecs(scheme *runtime.Scheme) codecs {
	return codecs{
		compact:     json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{StreamingCollectionsEncoding: true}),
		pretty:      json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Pretty: true}),
		protobuf:    protobuf.NewSerializerWithOptions(scheme, scheme, protobuf.SerializerOptions{StreamingCollectionsEncoding: true}),
		rawProtobuf: protobuf.NewRawSerializer(scheme, scheme),
	}
}

func (c *codecs) encoder(out output) runtime.Encoder {
	switch {
	case out.media == mediaProtobuf:
		return c.protobuf
	case out.pretty:
		return c.pretty
	}
	return c.compact
}

// writeObject answers with one object, of which the kind is set.
func (s *Server) writeObject(w http.ResponseWriter, r *http.Request, out output, code int, obj runtime.Object) {
	body := &bodyWriter{w: w, code: code, media: out.media, gzip: acceptsGzip(r)}
	err := s.codecs.encoder(out).Encode(obj, body)
	if err != nil && !body.started {
		// A form without this encoding, such as an object in a Scheme that
		// has no protobuf.
		writeRawJSON(w, http.StatusInternalServerError, statusOf(err))
		return
	}
	// Further errors are those of a client that went away.
	_ = body.Close()
}

// bodyWriter is a response body that is compressed when the client takes gzip
// and there is enough of it to be worth it. Until that is known it is held back.
type bodyWriter struct {
	w     http.ResponseWriter
	code  int
	media string
	gzip  bool

	held    bytes.Buffer
	started bool
	zip     *gzip.Writer
}

func (b *bodyWriter) Write(p []byte) (int, error) {
	switch {
	case b.zip != nil:
		return b.zip.Write(p)
	case b.started:
		return b.w.Write(p)
	case !b.gzip:
		b.start()
		return b.w.Write(p)
	}
	b.held.Write(p)
	if b.held.Len() <= gzipThreshold {
		return len(p), nil
	}
	b.w.Header().Set("Content-Encoding", "gzip")
	b.w.Header().Add("Vary", "Accept-Encoding")
	b.start()
	b.zip = newGzipWriter(b.w)
	_, err := b.held.WriteTo(b.zip)
	return len(p), err
}

func (b *bodyWriter) start() {
	b.started = true
	b.w.Header().Set("Content-Type", b.media)
	b.w.WriteHeader(b.code)
}

func (b *bodyWriter) Close() error {
	if b.zip != nil {
		return b.zip.Close()
	}
	if b.started {
		return nil
	}
	b.start()
	_, err := b.held.WriteTo(b.w)
	return err
}

func newGzipWriter(w io.Writer) *gzip.Writer {
	zip, err := gzip.NewWriterLevel(w, gzipLevel)
	if err != nil {
		panic("listwatchtest: gzip refuses its own level: " + err.Error())
	}
	return zip
}
