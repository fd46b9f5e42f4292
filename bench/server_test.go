package bench

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/nodewatch-go/nodewatch/bench/loopback"
	"github.com/nodewatch-go/nodewatch/bench/replay"
)

// endpoints are where a server is.
type endpoints struct {
	URLs    map[loopback.Link]string
	CA      []byte // PEM of the authority of the TLS links
	Control string
	Bytes   int // of the list, or of the initial events of a watch-list
}

// listen serves on loopback until stop is called.
func listen(s *replay.Server) (e endpoints, stop func()) {
	gathering := func(h http.Handler) *httptest.Server {
		web := httptest.NewUnstartedServer(h)
		web.Listener = replay.Gather(web.Config, web.Listener)
		return web
	}
	plain, packed := gathering(s.Handler(replay.Plain)), gathering(s.Handler(replay.Gzip))
	one, two := gathering(s.Handler(replay.Plain)), gathering(s.Handler(replay.Plain))
	plain.Start()
	packed.Start()
	one.StartTLS()
	two.EnableHTTP2 = true
	two.StartTLS()
	orders := http.NewServeMux()
	orders.Handle("/", s.Control())
	orders.HandleFunc("GET /cpu", func(w http.ResponseWriter, _ *http.Request) {
		used, err := usedCPU()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(used)
	})
	control := httptest.NewServer(orders)
	return endpoints{
			URLs: map[loopback.Link]string{loopback.HTTP1: plain.URL, loopback.Gzip: packed.URL, loopback.TLS: one.URL, loopback.TLSHTTP2: two.URL},
			// httptest has one certificate for all.
			CA:      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one.Certificate().Raw}),
			Control: control.URL,
			Bytes:   s.CollectionBytes(),
		}, func() {
			for _, s := range []*httptest.Server{plain, packed, control, one, two} {
				s.CloseClientConnections()
				s.Close()
			}
		}
}

// serveChild is the process of a server. It says where it is on standard output and ends with
// its standard input, and so with the process that started it.
func serveChild(spec string) error {
	var c replay.Config
	if err := json.Unmarshal([]byte(spec), &c); err != nil {
		return err
	}
	s, err := replay.New(c)
	if err != nil {
		return err
	}
	e, stop := listen(s)
	defer stop()
	if err := json.NewEncoder(os.Stdout).Encode(e); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// remote is a server in a process of its own.
type remote struct {
	replay.Remote
	endpoints
	cfg replay.Config
	// stop ends the process. It also keeps the pipe open that the process lives by.
	stop func()
}

// cpu is the processor time of the server's process.
func (r *remote) cpu(b *testing.B) (used time.Duration) {
	b.Helper()
	resp, err := http.Get(r.Control + "/cpu")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&used); err != nil {
		b.Fatalf("the server's processor time, with status %s: %v", resp.Status, err)
	}
	return used
}

// startServer starts a server process, which is stopped when t ends.
func startServer(t testing.TB, c replay.Config) *remote {
	t.Helper()
	r := launch(t, c)
	t.Cleanup(r.stop)
	return r
}

// launch starts a server process.
func launch(t testing.TB, c replay.Config) *remote {
	t.Helper()
	cmd := childCommand(t, serverRole, c)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &remote{cfg: c}
	if err := json.NewDecoder(stdout).Decode(&r.endpoints); err != nil {
		t.Fatalf("the server did not start: %v", err)
	}
	r.Remote.URL = r.Control
	r.stop = func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v", err)
		}
	}
	return r
}

// servers are those that benchmarks share, by their config. They live as long as
// this process: each takes seconds to encode what it serves.
var servers = make(map[replay.Config]*remote)

// sharedServer returns the server of a config and starts it when it is first asked for.
func sharedServer(b *testing.B, c replay.Config) *remote {
	b.Helper()
	if servers[c] == nil {
		servers[c] = launch(b, c)
	}
	return servers[c]
}
