package listwatchtest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// minWatchTimeout: a watch that names no timeout gets a random one between
	// this and twice this, a real server's default.
	minWatchTimeout = 30 * time.Minute
	// lastBookmark is how long before a watch's timeout its last bookmark comes.
	lastBookmark = 2 * time.Second
)

func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, c *collection, info requestInfo) error {
	out, err := negotiate(r, c)
	if err != nil {
		return err
	}
	opts, sel, err := s.options(r, c, info)
	if err != nil {
		return err
	}
	rv, err := parseRV(opts.ResourceVersion)
	if err != nil {
		return err
	}
	timeout := minWatchTimeout + rand.N(minWatchTimeout)
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds > 0 {
		timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	stream := s.newStream(w, r, c, out, watchListRequest(&opts))
	watcher, err := s.openWatch(r, c, &opts, sel, rv)
	// From here on the answer is 200: an error is an event.
	stream.begin()
	if err != nil {
		stream.fail(err)
		return nil
	}
	defer s.writer.unwatch(c, watcher)
	s.runWatch(r, c, watcher, stream, timeout)
	return nil
}

// watchListRequest reports whether initial events end with a bookmark.
func watchListRequest(opts *internalversion.ListOptions) bool {
	return opts.SendInitialEvents != nil && *opts.SendInitialEvents && opts.AllowWatchBookmarks
}

func (s *Server) openWatch(r *http.Request, c *collection, opts *internalversion.ListOptions, sel selection, rv uint64) (*watcher, error) {
	from := watchFrom{rv: rv, consistent: opts.ResourceVersion == "", endMark: watchListRequest(opts)}
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		if err := s.waitFresh(r.Context(), rv); err != nil {
			return nil, err
		}
		from.initial = true
	}
	return s.writer.watch(c, sel, from, opts.AllowWatchBookmarks)
}

// runWatch sends what the watcher has until its timeout, or until the client or
// the server goes away. An error of the stream is a client that went away.
func (s *Server) runWatch(r *http.Request, c *collection, w *watcher, stream *stream, timeout time.Duration) {
	end := time.NewTimer(timeout)
	defer end.Stop()
	deadline := time.Now().Add(timeout)
	bookmarks := s.bookmarkTimer(w, deadline)
	defer bookmarks.Stop()

	for _, e := range w.initial {
		if w.selection.matches(c.resource, e.key, e.object) {
			if stream.send(watch.Added, e.object) != nil {
				return
			}
		}
	}
	if w.endMark && stream.send(watch.Bookmark, bookmarkObject(c, w.start, true)) != nil {
		return
	}
	w.initial = nil // not to be kept for as long as the watch lives
	if stream.flush() != nil {
		return
	}
	for {
		select {
		case <-w.wake:
			batch, over := s.writer.take(w)
			for _, p := range batch {
				if t, obj, ok := w.event(c, p); ok && stream.send(t, obj) != nil {
					return
				}
			}
			if stream.flush() != nil || over {
				return
			}
		case <-bookmarks.C:
			s.writer.bookmark(c, w)
			bookmarks.Reset(s.nextBookmark(deadline))
		case <-end.C:
			return
		case <-s.done:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (s *Server) bookmarkTimer(w *watcher, deadline time.Time) *time.Timer {
	if !w.bookmarks {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}
	return time.NewTimer(s.nextBookmark(deadline))
}

// nextBookmark returns how long it is to the next bookmark of a watch: one
// interval, or to shortly before its timeout.
func (s *Server) nextBookmark(deadline time.Time) time.Duration {
	left := time.Until(deadline) - lastBookmark
	if left <= 0 {
		return time.Hour // there is no other before the end
	}
	if s.config.BookmarkInterval > 0 {
		return min(left, s.config.BookmarkInterval)
	}
	return left
}

// stream is the body of a watch's answer.
type stream struct {
	server  *Server
	request *http.Request
	c       *collection
	out     output
	w       http.ResponseWriter
	flusher *http.ResponseController
	zip     bool         // one gzip member a flush
	member  *gzip.Writer // the member that is open

	dirty     bool // written to since the last flush
	noHeaders bool // of Tables: only the first has the columns
	object    bytes.Buffer
}

func (s *Server) newStream(w http.ResponseWriter, r *http.Request, c *collection, out output, watchList bool) *stream {
	return &stream{
		server: s, request: r, c: c, out: out, w: w, flusher: http.NewResponseController(w),
		zip: watchList && acceptsGzip(r),
	}
}

// begin sends the head.
func (st *stream) begin() {
	media := st.out.media
	if media == mediaProtobuf {
		media += ";stream=watch"
	}
	st.w.Header().Set("Content-Type", media)
	if st.zip {
		st.w.Header().Set("Content-Encoding", "gzip")
		st.w.Header().Add("Vary", "Accept-Encoding")
	}
	st.w.WriteHeader(http.StatusOK)
	st.dirty = true
	// An error here is a client that went away, found by the next write.
	_ = st.flush()
}

// fail sends an error as an event.
func (st *stream) fail(err error) {
	if st.write(watch.Error, statusOf(err)) == nil {
		_ = st.flush()
	}
}

// send writes an event; flush sends it off.
func (st *stream) send(t watch.EventType, obj Object) error {
	converted, err := st.server.convert(st.request, st.c, st.out, obj)
	if err != nil {
		return err
	}
	if table, ok := converted.(*metav1.Table); ok {
		if st.noHeaders {
			table.ColumnDefinitions = nil
		}
		st.noHeaders = true
	}
	return st.write(t, converted)
}

func (st *stream) write(t watch.EventType, obj runtime.Object) error {
	st.dirty = true
	st.object.Reset()
	// Events are never pretty: a line is an event.
	if err := st.server.codecs.encoder(output{media: st.out.media}).Encode(obj, &st.object); err != nil {
		return err
	}
	event := &metav1.WatchEvent{Type: string(t), Object: runtime.RawExtension{Raw: st.object.Bytes()}}
	if st.out.media == mediaProtobuf {
		framed := protobuf.LengthDelimitedFramer.NewFrameWriter(st.body())
		var envelope bytes.Buffer
		if err := st.server.codecs.rawProtobuf.Encode(event, &envelope); err != nil {
			return err
		}
		_, err := framed.Write(envelope.Bytes())
		return err
	}
	line, err := json.Marshal(event)
	if err != nil {
		return err
	}
	_, err = st.body().Write(append(line, '\n'))
	return err
}

// body is where events are written: the response, or an open gzip member of it.
func (st *stream) body() io.Writer {
	if !st.zip {
		return st.w
	}
	if st.member == nil {
		st.member = newGzipWriter(st.w)
	}
	return st.member
}

// flush sends what was written, and ends the gzip member.
func (st *stream) flush() error {
	if !st.dirty {
		return nil
	}
	st.dirty = false
	if st.member != nil {
		// The flush before the end is a real server's, and matters: a reader
		// that goes on to the next member, as net/http's does, would hold the
		// events back until that comes.
		err := errors.Join(st.member.Flush(), st.member.Close())
		st.member = nil
		if err != nil {
			return err
		}
	}
	return st.flusher.Flush()
}
