package idle

import (
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

// childRole is what this binary is in a client's process.
const childRole = "idle-client"

// warm is how many watches there are before the ones that are counted.
const warm = 10

var profiles = flag.String("profiles", "", "`folder` for the clients' goroutine and heap profiles")

// server is one that nobody writes to but measure.
type server struct {
	*listwatchtest.Server
	at  target
	end func()
}

func serve(l link) *server {
	s := listwatchtest.New(listwatchtest.Config{BookmarkInterval: time.Hour})
	web := httptest.NewUnstartedServer(s.Handler())
	web.EnableHTTP2 = l == http2
	web.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	return &server{s, target{web.URL, ca, l}, func() {
		s.Close()
		web.CloseClientConnections()
		web.Close()
	}}
}

// measure returns what n watches of a client cost more than none, in a process that has some already.
func measure(t testing.TB, client string, l link, n int) (before, after reading) {
	t.Helper()
	s := serve(l)
	defer s.end()
	spec, err := json.Marshal(task{client, s.at, []int{warm, n}, *profiles})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, childRole, string(spec))
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", runtime.GOMAXPROCS(0)))
	cmd.Stderr = os.Stderr
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
	defer func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the client: %v", err)
		}
	}()
	words := json.NewDecoder(stdout)
	hear := func(into any) {
		t.Helper()
		if err := words.Decode(into); err != nil {
			t.Fatalf("the client ended: %v", err)
		}
	}
	from := 0
	for _, r := range []struct {
		n    int
		into *reading
	}{{warm, &before}, {n, &after}} {
		pods := s.create(t, from, r.n)
		var said string
		hear(&said)
		for _, pod := range pods {
			if err := s.Delete(pod); err != nil {
				t.Fatal(err)
			}
		}
		hear(&said)
		// Minutes pass, with a bookmark in each.
		for range 10 {
			s.SendBookmarks()
			time.Sleep(150 * time.Millisecond)
		}
		if _, err := fmt.Fprintln(stdin); err != nil {
			t.Fatal(err)
		}
		hear(r.into)
		from += r.n
	}
	return before, after
}

// create makes a pod on each of n nodes.
func (s *server) create(t testing.TB, from, n int) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for i := from; i < from+n; i++ {
		pod := specimen.Pod(i)
		pod.Spec.NodeName = nodeName(i)
		pod.ResourceVersion = ""
		if err := s.Create(pod); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	return pods
}

func BenchmarkIdle(b *testing.B) {
	const n = 1000
	for _, l := range []link{http1, http1Gzip, http2} {
		for _, c := range clients {
			b.Run(fmt.Sprintf("link=%s/impl=%s", l, c.name), func(b *testing.B) {
				for b.Loop() {
					before, after := measure(b, c.name, l, n)
					per := func(what func(reading) uint64, unit string) {
						b.ReportMetric(float64(int64(what(after)-what(before)))/n, unit)
					}
					per(reading.total, "total-B")
					per(func(r reading) uint64 { return r.Heap }, "heap-B")
					per(func(r reading) uint64 { return r.InUse }, "inuse-B")
					per(func(r reading) uint64 { return r.Stack }, "stack-B")
					per(func(r reading) uint64 { return r.Resident }, "resident-B")
					per(func(r reading) uint64 { return uint64(r.Goroutines) }, "goroutines")
				}
			})
		}
	}
}
