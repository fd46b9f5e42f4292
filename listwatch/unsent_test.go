package listwatch

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// "Unsent: the connection ended in the TLS handshake, so the request was not sent."
func TestUnsent(t *testing.T) {
	// Accepts, and does something to the connection before there is any TLS.
	balancer := func(t *testing.T, end func(*net.TCPConn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				end(c.(*net.TCPConn))
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	finish := func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 4096)) } // the client's hello, else it is a reset
	reset := func(c *net.TCPConn) {
		finish(c) // else the dial may fail already
		_ = c.SetLinger(0)
	}
	hangUp := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })

	for name, c := range map[string]struct {
		host   func(*testing.T) string
		change func(*Config)
		want   bool
	}{
		"reset in the handshake": {func(t *testing.T) string { return "https://" + balancer(t, reset) }, nil, true},
		"FIN in the handshake":   {func(t *testing.T) string { return "https://" + balancer(t, finish) }, nil, true},
		"reset without TLS":      {func(t *testing.T) string { return "http://" + balancer(t, reset) }, nil, false},
		"FIN after the request": {func(t *testing.T) string {
			s := httptest.NewTLSServer(hangUp)
			t.Cleanup(s.Close)
			return s.URL
		}, func(c *Config) { c.REST.Insecure = true }, false},
		"unknown authority": {func(t *testing.T) string {
			s := httptest.NewTLSServer(hangUp)
			t.Cleanup(s.Close)
			return s.URL
		}, nil, false},
		"refused": {func(t *testing.T) string {
			s := httptest.NewTLSServer(hangUp)
			s.Close()
			return s.URL
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			lw := newFor[*corev1.Pod](t, c.host(t), c.change)
			_, err := lw.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
			var e *Error
			if !errors.As(err, &e) || e.Reason != reason.Transport {
				t.Fatalf("got %v, want an *Error of reason transport", err)
			}
			if e.Unsent != c.want {
				t.Errorf("Unsent is %v for %v", e.Unsent, err)
			}
		})
	}
}
