package listwatch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// pipes is a network of net.Pipes, which virtual time can look into. Each
// connection is served by a goroutine.
type pipes struct {
	serve func(net.Conn)

	mu   sync.Mutex
	open int
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	go func() {
		p.serve(server)
		server.Close()
	}()
	return &pipeConn{Conn: client, closed: sync.OnceFunc(func() {
		p.mu.Lock()
		p.open--
		p.mu.Unlock()
	})}, nil
}

func (p *pipes) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

type pipeConn struct {
	net.Conn
	closed func()
}

func (c *pipeConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// readRequest reads the head of a request.
func readRequest(c net.Conn) error {
	_, err := http.ReadRequest(bufio.NewReader(c))
	return err
}

// gone waits until the client closed its side.
func gone(c net.Conn) { io.Copy(io.Discard, c) }

const chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// stall is a place where an attempt can hang.
type stall struct {
	name    string
	scheme  string
	dial    func(context.Context, string, string) (net.Conn, error) // nil: pipes with serve
	serve   func(net.Conn)
	wrap    func(done <-chan struct{}) http.RoundTripper // a RoundTripper that ignores the context
	list    time.Duration                                // when a List gives up
	watch   time.Duration                                // when a Watch does; 0: never, it is open
	waiting string
	timeout time.Duration // Config.RequestTimeout
}

var stalls = []stall{
	{
		name: "credentials", list: 50 * time.Second, watch: 50 * time.Second, waiting: "an answer",
		wrap: func(done <-chan struct{}) http.RoundTripper {
			return roundTrip(func(*http.Request) (*http.Response, error) {
				<-done
				return nil, errors.New("too late")
			})
		},
	},
	{
		name: "dial", list: 10 * time.Second, watch: 10 * time.Second, waiting: "a connection",
		dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	},
	{name: "TLS handshake", scheme: "https://", serve: gone, list: 10 * time.Second, watch: 10 * time.Second, waiting: "the TLS handshake"},
	{
		name: "header", list: 30 * time.Second, watch: 30 * time.Second, waiting: "the response header",
		serve: func(c net.Conn) {
			if readRequest(c) == nil {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Ty")
				gone(c)
			}
		},
	},
	{
		name: "body", list: 60 * time.Second, waiting: "more of the list",
		serve: func(c net.Conn) {
			if readRequest(c) == nil {
				io.WriteString(c, chunkedHead+chunk(`{"kind":"PodList","items":[{"metadata":{"name":"a"`))
				gone(c)
			}
		},
	},
	{
		name: "error body", list: MaxErrorBodyWait, watch: MaxErrorBodyWait, waiting: "",
		serve: func(c net.Conn) {
			if readRequest(c) == nil {
				io.WriteString(c, "HTTP/1.1 503 Unavailable\r\nContent-Length: 100\r\n\r\nhalf of it")
				gone(c)
			}
		},
	},
	{
		name: "login page", list: MaxErrorBodyWait, watch: MaxErrorBodyWait, waiting: "",
		serve: func(c net.Conn) {
			if readRequest(c) == nil {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>half of it")
				gone(c)
			}
		},
	},
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// each runs f in a bubble for each stall; call makes the request and says how it ended.
func (s stall) run(t *testing.T, f func(t *testing.T, call func(ctx context.Context, verb string) error)) {
	synctest.Test(t, func(t *testing.T) {
		network := &pipes{serve: s.serve}
		done := make(chan struct{})
		cfg := &rest.Config{Host: "http://api.test", Dial: network.dial}
		if s.scheme != "" {
			cfg.Host = s.scheme + "api.test"
		}
		if s.dial != nil {
			cfg.Dial = s.dial
		}
		if s.wrap != nil {
			cfg.Transport = s.wrap(done)
		}
		lw, err := New[*corev1.Pod](Config{REST: cfg, Resource: pods, RequestTimeout: s.timeout})
		if err != nil {
			t.Fatal(err)
		}
		f(t, func(ctx context.Context, verb string) error {
			if verb == verbList {
				_, err := lw.List(ctx, metav1.ListOptions{}, &recorder[*corev1.Pod]{})
				return err
			}
			stream, err := lw.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			defer stream.Stop()
			_, err = stream.Next()
			return err
		})
		close(done)
		synctest.Wait()
		if n := network.left(); n > 0 {
			t.Errorf("%d connections left open", n)
		}
		// The bubble fails the test if a goroutine of ours is left.
	})
}

func TestEachTimeoutNamesItself(t *testing.T) {
	for _, s := range stalls {
		for verb, limit := range map[string]time.Duration{verbList: s.list, verbWatch: s.watch} {
			if limit == 0 {
				continue
			}
			t.Run(s.name+"/"+verb, func(t *testing.T) {
				s.run(t, func(t *testing.T, call func(context.Context, string) error) {
					start := time.Now()
					err := call(t.Context(), verb)
					if took := time.Since(start); took != limit {
						t.Errorf("took %s, want %s", took, limit)
					}
					if s.waiting == "" { // what the server said in time counts
						want, code := reason.ServerError, 503
						if s.name == "login page" {
							want, code = reason.Decode, 200
						}
						if e := mustFail(t, err, want); e.Code != code || !strings.Contains(err.Error(), "half of it") {
							t.Errorf("error is %v", err)
						}
						return
					}
					mustFail(t, err, reason.Deadline)
					want := fmt.Sprintf("%s pods: timed out after %s waiting for %s", verb, limit, s.waiting)
					if !strings.HasSuffix(err.Error(), want[len(verb):]) || !strings.HasPrefix(err.Error(), verb) {
						t.Errorf("error is %q, want %q", err, want)
					}
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error("the error is not context.DeadlineExceeded")
					}
				})
			})
		}
	}
}

// A RequestTimeout that is shorter than the others bounds each wait of a LIST.
func TestRequestTimeoutBoundsEachWait(t *testing.T) {
	const limit = 2 * time.Second
	for _, s := range stalls {
		t.Run(s.name, func(t *testing.T) {
			s.timeout = limit
			s.run(t, func(t *testing.T, call func(context.Context, string) error) {
				start := time.Now()
				err := call(t.Context(), verbList)
				want := limit
				if s.waiting == "an answer" { // which is three of them
					want = 3 * limit
				}
				if took := time.Since(start); took != want || err == nil {
					t.Errorf("took %s, want %s: %v", took, want, err)
				}
			})
		})
	}
}

// "List stops within 100 ms of its context, from any point (dial, header wait,
// mid-body), leaks no goroutine and no socket." The same for Watch; M2.
func TestStopFromAnyPoint(t *testing.T) {
	for _, s := range stalls {
		for _, verb := range []string{verbList, verbWatch} {
			t.Run(s.name+"/"+verb, func(t *testing.T) {
				s.run(t, func(t *testing.T, call func(context.Context, string) error) {
					ctx, cancel := context.WithCancelCause(t.Context())
					why := errors.New("why")
					const at = 3 * time.Second
					time.AfterFunc(at, func() { cancel(why) })
					start := time.Now()
					err := call(ctx, verb)
					if took := time.Since(start); took != at {
						t.Errorf("returned after %s, cancelled after %s", took, at)
					}
					if r, _ := reason.Of(err); r != reason.Stopped {
						t.Errorf("reason is %s: %v", r, err)
					}
					if verb == verbList && (!errors.Is(err, context.Canceled) || !errors.Is(err, why)) {
						t.Errorf("error %v is not context.Canceled, or not its cause", err)
					}
				})
			})
		}
	}
}

func TestStoppedBeforeTheRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lw := newFor[*corev1.Pod](t, "http://127.0.0.1:1", nil)
	_, err := lw.List(ctx, metav1.ListOptions{}, &recorder[*corev1.Pod]{})
	mustFail(t, err, reason.Stopped)
	if !errors.Is(err, context.Canceled) || err.Error() != "list pods: context canceled" {
		t.Errorf("error is %v", err)
	}
}

// A LIST that makes progress is never cut, however long it takes; and a slow
// sink is not a slow server.
func TestListThatMakesProgressIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const items = 100
		network := &pipes{serve: func(c net.Conn) {
			if readRequest(c) != nil {
				return
			}
			io.WriteString(c, chunkedHead+chunk(`{"kind":"PodList","items":[`))
			for i := range items {
				time.Sleep(59 * time.Second)
				io.WriteString(c, chunk(fmt.Sprintf(`{"metadata":{"name":"p%d"}},`, i)))
			}
			io.WriteString(c, chunk(`{"metadata":{"name":"last"}}]}`)+"0\r\n\r\n")
			gone(c)
		}}
		lw, err := New[*corev1.Pod](Config{REST: &rest.Config{Host: "http://api.test", Dial: network.dial}, Resource: pods})
		if err != nil {
			t.Fatal(err)
		}
		defer lw.Close()
		sink := &recorder[*corev1.Pod]{onItem: func(o *decode.Object[*corev1.Pod]) error {
			if o.Meta.Name == "p7" {
				time.Sleep(time.Hour)
			}
			return nil
		}}
		start := time.Now()
		if _, err := lw.List(t.Context(), metav1.ListOptions{}, sink); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < items*59*time.Second || len(sink.items) != items+1 {
			t.Errorf("%d items in %s", len(sink.items), took)
		}
	})
}

// "rest.Config.Timeout, when set, is the default of RequestTimeout", and the
// shorter of RequestTimeout and HeaderTimeout bounds a LIST's header.
func TestRequestTimeoutBoundsTheHeaderOfAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &pipes{serve: func(c net.Conn) { gone(c) }}
		lw, err := New[*corev1.Pod](Config{
			REST:     &rest.Config{Host: "http://api.test", Dial: network.dial, Timeout: 7 * time.Second},
			Resource: pods,
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = lw.List(t.Context(), metav1.ListOptions{}, &recorder[*corev1.Pod]{})
		mustFail(t, err, reason.Deadline)
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("LIST gave up after %s", took)
		}
		start = time.Now()
		_, err = lw.Watch(t.Context(), metav1.ListOptions{})
		mustFail(t, err, reason.Deadline)
		if took := time.Since(start); took != DefaultHeaderTimeout {
			t.Errorf("WATCH gave up after %s", took)
		}
	})
}
