package replay

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// Config is what a Server serves.
type Config struct {
	// MediaType is the one encoding, specimen.JSON or specimen.Protobuf. A client
	// that does not accept it gets a 406.
	MediaType string
	// Pods is how many pods the collection has. The events of a watch are of all of
	// them in turn, or of the first 10,000.
	Pods int
	// Stamped puts the time at which it is sent into each event; see specimen.SentAnnotation.
	Stamped bool
	// WatchList: a watch with sendInitialEvents is served. Else it is refused, as by an
	// API server without the feature, and clients list.
	WatchList bool
}

// Compression says whether a handler compresses answers for clients that accept gzip.
type Compression uint8

// The compressions.
const (
	Plain Compression = iota
	Gzip              // level 1, as kube-apiserver; events of a watch are compressed before they are due
)

// Server serves one collection to one client at a time.
type Server struct {
	cfg     Config
	list    *specimen.Collection
	initial *specimen.Collection // nil without WatchList
	expired []byte

	mu      sync.Mutex // guards what follows
	stream  *specimen.Stream
	lists   int           // so far, watch-lists too
	opened  int           // watches so far
	current *watch        // the last one; nil if it is known to have ended
	changed chan struct{} // closed and replaced when opened is
	log     []string
}

// firstVersion is the resourceVersion of the first list. Each one after it is one
// higher, as on a server where other resources change; all are below that of every event.
const firstVersion = specimen.FirstUpdate - 100_000

// streamPods bounds the pods that events are of: each is held in several versions.
const streamPods = 10_000

// New returns a server that has encoded all it will serve. That takes seconds for 100,000 pods.
func New(c Config) (*Server, error) {
	if c.MediaType != specimen.JSON && c.MediaType != specimen.Protobuf {
		return nil, fmt.Errorf("replay: Config.MediaType is %q: use specimen.JSON or specimen.Protobuf", c.MediaType)
	}
	s := &Server{cfg: c, changed: make(chan struct{})}
	version := strconv.Itoa(firstVersion)
	var errs [4]error
	s.stream, errs[0] = specimen.NewStream(c.MediaType, min(c.Pods, streamPods), c.Stamped)
	s.expired, errs[1] = specimen.Expired(c.MediaType)
	s.list, errs[2] = specimen.NewList(c.MediaType, c.Pods, version)
	if c.WatchList {
		s.initial, errs[3] = specimen.NewInitialEvents(c.MediaType, c.Pods, version)
	}
	return s, errors.Join(errs[:]...)
}

// Handler returns what clients send their requests to. All handlers of a server
// serve the same collection and events.
func (s *Server) Handler(compression Compression) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.log = append(s.log, r.Method+" "+r.URL.String())
		s.mu.Unlock()
		query := r.URL.Query()
		packed := compression == Gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
		switch {
		case !strings.Contains(r.Header.Get("Accept"), s.cfg.MediaType):
			http.Error(w, "the client does not accept "+s.cfg.MediaType, http.StatusNotAcceptable)
		case query.Get("sendInitialEvents") != "" && !s.cfg.WatchList:
			refuseWatchList(w)
		case query.Get("watch") == "":
			s.serveList(w, packed)
		default:
			s.serveWatch(w, r, packed)
		}
	})
}

func (s *Server) serveList(w http.ResponseWriter, packed bool) {
	list := s.list.At(s.nextVersion())
	w.Header().Set("Content-Type", s.cfg.MediaType)
	if !packed {
		_, _ = list.WriteTo(w) // a client that has gone is no error of the server's
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a good one
	_, _ = list.WriteTo(z)
	_ = z.Close()
}

// nextVersion returns the resourceVersion of the next list.
func (s *Server) nextVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	return strconv.Itoa(firstVersion + s.lists - 1)
}

// event appends the next event.
func (s *Server) event(dst []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Append(dst)
}

// refuseWatchList answers as an API server without the feature.
func refuseWatchList(w http.ResponseWriter) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(http.StatusUnprocessableEntity)
	_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Invalid","code":422,` +
		`"message":"sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}`))
}

// CollectionBytes is the length of the list, or of the initial events with Config.WatchList,
// before compression.
func (s *Server) CollectionBytes() int {
	if s.initial != nil {
		return s.initial.Len()
	}
	return s.list.Len()
}

// MeanEventBytes is the mean length of an event.
func (s *Server) MeanEventBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.MeanBytes()
}

// Requests returns the method and URL of each request so far, for messages.
func (s *Server) Requests(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...), nil
}

// Opened returns how many watches were opened so far; see Watches.
func (s *Server) Opened(context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened, nil
}

// Watches waits until n watches were opened since the server was made. A watch counts when its
// header, and the initial events where it asked for them, are sent.
func (s *Server) Watches(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		opened, changed := s.opened, s.changed
		s.mu.Unlock()
		if opened >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("replay: %d of %d watches were opened: %w", opened, n, context.Cause(ctx))
		}
	}
}

// Prepare makes the open watch do what costs time before events can be sent:
// compress the next n. Without compression there is nothing to do.
func (s *Server) Prepare(ctx context.Context, n int) error {
	_, err := s.do(ctx, command{what: prepare, n: n})
	return err
}

// Send makes the open watch send n events, each in a chunk of its own, as fast as
// the client takes them. It returns when the last one is written, with the bytes of
// the events before compression.
func (s *Server) Send(ctx context.Context, n int) (int64, error) {
	return s.do(ctx, command{what: send, n: n})
}

// Pace sends n events, rate each second: what is due is written and flushed at once. It
// returns when the last one is written, which is late where the client is slow.
func (s *Server) Pace(ctx context.Context, n, rate int) error {
	if rate < 1 {
		return fmt.Errorf("replay: a pace of %d events a second; one is the least", rate)
	}
	_, err := s.do(ctx, command{what: send, n: n, rate: rate})
	return err
}

// Expire ends the open watch with an ERROR event 410, so that the client lists again.
func (s *Server) Expire(ctx context.Context) error {
	_, err := s.do(ctx, command{what: expire})
	return err
}

// do gives a command to the last watch that was opened: one whose client has left may not know it yet.
func (s *Server) do(ctx context.Context, c command) (int64, error) {
	c.done = make(chan done, 1)
	for {
		s.mu.Lock()
		a, changed := s.current, s.changed
		s.mu.Unlock()
		if a == nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return 0, fmt.Errorf("replay: no watch is open: %w", context.Cause(ctx))
			}
		}
		select {
		case a.commands <- c:
			select {
			case d := <-c.done:
				return d.bytes, d.err
			case <-ctx.Done():
				return 0, fmt.Errorf("replay: the client does not take the events: %w", context.Cause(ctx))
			}
		case <-a.ended:
			s.mu.Lock()
			if s.current == a {
				s.current = nil
			}
			s.mu.Unlock()
		case <-ctx.Done():
			return 0, fmt.Errorf("replay: the watch is busy: %w", context.Cause(ctx))
		}
	}
}

// errGone is why a command was not carried out.
var errGone = errors.New("replay: the client left the watch")
