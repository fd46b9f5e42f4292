package listwatchtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
)

// Server is an API server. Its methods are safe for use by several goroutines.
type Server struct {
	config  Config
	writer  writer
	codecs  codecs
	handler http.Handler
	log     requestLog
	gate    gate
	// flowschema and priority are the headers of that name; a client may log them.
	flowschema, priority string

	playing atomic.Pointer[Play] // the script, if any

	done   chan struct{}  // closed by Close
	active sync.WaitGroup // requests of the server's own listeners

	mu      sync.Mutex
	closed  bool
	url     string        // of the first TCP listener
	pipes   *pipeListener // made by the first Dial
	given   *pipeListener // of connections that scripts gave back, made by the first
	serving []*http.Server
}

// New returns a server that does not listen yet: see Serve, Dial, RESTConfig
// and Handler. It panics when c is not valid, as a test cannot go on then.
func New(c Config) *Server {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		panic("listwatchtest: " + err.Error())
	}
	s := &Server{
		config: c, codecs: newCodecs(c.Scheme), done: make(chan struct{}),
		flowschema: string(uuid.NewUUID()), priority: string(uuid.NewUUID()),
	}
	s.gate.init()
	s.writer = writer{store: newStore(c.Window, c.WatchQueue), finishAfter: c.FinishAfter}
	for _, r := range builtin() {
		// With a scheme of the caller's that lacks core/v1, what is built in
		// is not served.
		if c.Scheme.Recognizes(r.GroupVersion().WithKind(r.Kind)) {
			s.Register(r)
		}
	}
	for _, r := range c.Resources {
		s.Register(r)
	}
	s.handler = s.newHandler()
	return s
}

// Start returns a server that listens on a free loopback port. It panics when
// it cannot, as a test cannot go on then. The caller closes it.
func Start(c Config) *Server {
	s := New(c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic("listwatchtest: no loopback port to listen on: " + err.Error())
	}
	s.serveInBackground(l)
	return s
}

// Register adds a resource, with no objects, or replaces one and drops its objects.
func (s *Server) Register(r Resource) {
	s.writer.register(newResource(r, s.config.Scheme))
}

// Handler returns the server as an http.Handler, for an http.Server of the
// caller's. Close ends its open watches, and the rest is the caller's.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers on l, which it closes, until Close. It returns nil after Close,
// and the listener's error otherwise.
func (s *Server) Serve(l net.Listener) error {
	srv, err := s.adopt(l)
	if err != nil {
		return err
	}
	if err := srv.Serve(&gatedListener{Listener: l, server: s}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) serveInBackground(l net.Listener) {
	srv, err := s.adopt(l)
	if err != nil {
		return
	}
	// The error is that of Close, or of a listener of ours that does not fail.
	if s.begin() {
		go func() {
			defer s.active.Done()
			_ = srv.Serve(&gatedListener{Listener: l, server: s})
		}()
	}
}

// begin counts something that Close waits for; false after Close.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.active.Add(1)
	}
	return !s.closed
}

// adopt makes the http.Server for a listener and remembers both.
func (s *Server) adopt(l net.Listener) (*http.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(http.ErrServerClosed, l.Close())
	}
	if s.url == "" && l.Addr().Network() == "tcp" {
		s.url = "http://" + l.Addr().String()
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if s.begin() {
				defer s.active.Done()
				s.handler.ServeHTTP(w, r)
			}
		}),
		ReadHeaderTimeout: time.Minute,
		MaxHeaderBytes:    1 << 20,
		// Clients that break connections are what this server is for.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	if l == net.Listener(s.given) {
		// To net/http these are new, but they are idle ones, which no timeout ends.
		srv.ReadHeaderTimeout = 0
	}
	s.serving = append(s.serving, srv)
	return srv, nil
}

// lifetime is the context of what the server does for nobody in particular.
type lifetime struct {
	context.Context
	done <-chan struct{}
}

// Done implements context.Context.
func (l lifetime) Done() <-chan struct{} { return l.done }

// Err implements context.Context.
func (l lifetime) Err() error {
	select {
	case <-l.done:
		return context.Canceled
	default:
		return nil
	}
}

func (s *Server) lifetime() context.Context { return lifetime{context.Background(), s.done} }

// URL returns the address of the first TCP listener, or one that only Dial can
// reach when there is none.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.url == "" {
		return "http://listwatchtest"
	}
	return s.url
}

// RESTConfig returns a configuration for clients of this server: over TCP when
// it listens, else over in-memory pipes. It holds no credentials.
func (s *Server) RESTConfig() *rest.Config {
	// With a Dial of its own, client-go gives the config a transport of its own
	// too: it does not share http.DefaultTransport, and heeds DisableCompression.
	c := &rest.Config{Host: s.URL(), QPS: -1, Dial: (&net.Dialer{}).DialContext}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.url == "" {
		c.Dial = s.Dial
	}
	return c
}

// Dial connects to the server through an in-memory pipe, whatever the address.
// It suits http.Transport.DialContext and rest.Config.Dial.
//
// A pipe has no buffer: each side writes only as fast as the other reads.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.mu.Lock()
	first := s.pipes == nil && !s.closed
	if first {
		s.pipes = newPipeListener()
	}
	pipes, closed := s.pipes, s.closed
	s.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("listwatchtest: dial: %w", net.ErrClosed)
	}
	if first {
		s.serveInBackground(pipes)
	}
	if p := s.playing.Load(); p != nil {
		if err := p.dial(ctx); err != nil {
			return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: pipes.Addr(), Err: err}
		}
	}
	return pipes.dial(ctx)
}

// giveBack lets net/http go on with a connection that a script took over.
func (s *Server) giveBack(conn net.Conn, rest *bufio.Reader) {
	s.mu.Lock()
	first := s.given == nil && !s.closed
	if first {
		s.given = newPipeListener()
	}
	given := s.given
	s.mu.Unlock()
	if back, ok := conn.(*returnedConn); ok && back.rest.Buffered() == 0 {
		conn = back.Conn // not to be wrapped once more each time
	}
	if first {
		s.serveInBackground(given)
	}
	if given != nil {
		select {
		case given.conns <- &returnedConn{conn, rest}:
			return
		case <-given.done:
		case <-s.done:
		}
	}
	_ = conn.Close() // of no interest: the server is closing
}

// Close ends all requests and connections, and returns when nothing of the
// server runs any more. Closing twice is allowed.
func (s *Server) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	serving := s.serving
	s.mu.Unlock()
	if first {
		close(s.done)
	}
	s.gate.open()
	for _, srv := range serving {
		// What can fail is closing a socket that the client closed before.
		_ = srv.Close()
	}
	s.gate.closeAll() // net/http does not know those that a script took over
	s.active.Wait()
	s.writer.timers.stop()
}

// CloseConnections closes all connections at once, in the middle of whatever
// they carry. New ones are accepted.
func (s *Server) CloseConnections() { s.gate.closeAll() }

// Pause stops all traffic in both directions, with the connections open, as
// when a relay hangs. Resume lets it go on.
func (s *Server) Pause() { s.gate.shut() }

// Resume ends Pause.
func (s *Server) Resume() { s.gate.open() }

// EndWatches ends all open watches cleanly, as at their timeout.
func (s *Server) EndWatches() { s.writer.endWatches() }

// SendBookmarks sends a bookmark now to every watch that allows them.
func (s *Server) SendBookmarks() {
	for _, c := range s.writer.all() {
		s.writer.bookmark(c, nil)
	}
}

// Requests returns what was asked so far, oldest first; the newest 10,000 are kept.
func (s *Server) Requests() []Request { return s.log.all() }

// ResourceVersion returns the version of the newest change.
func (s *Server) ResourceVersion() uint64 { return s.writer.currentRV() }

// AdvanceResourceVersion moves the version on by n without a change, as writes
// to other resources do.
func (s *Server) AdvanceResourceVersion(n uint64) { s.writer.advance(n) }

// Compact forgets all changes up to version rv: watching from, or listing
// exactly at, an older version fails as Expired. Open watches are not touched.
func (s *Server) Compact(rv uint64) { s.writer.compact(rv) }

// SetWindow changes Config.Window from now on; 0 keeps no history at all.
func (s *Server) SetWindow(n int) { s.writer.setWindow(max(n, 0)) }
