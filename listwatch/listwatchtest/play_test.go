package listwatchtest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// play starts a script on the fixture's server.
func (f *fixture) play(text string) *Play {
	f.t.Helper()
	s, err := ParseScript("s", []byte(text))
	if err != nil {
		f.t.Fatal(err)
	}
	return f.srv.Play(s)
}

func (f *fixture) playFile(name string) *Play {
	f.t.Helper()
	s, err := LoadScript(filepath.Join("testdata", "script", name))
	if err != nil {
		f.t.Fatal(err)
	}
	return f.srv.Play(s)
}

// finished checks that a script came to its end without a fault.
func (f *fixture) finished(p *Play) {
	f.t.Helper()
	if err := p.Wait(f.t.Context()); err != nil {
		f.t.Errorf("%v\n%s", err, p.Transcript())
	}
}

// raw makes one request on a connection of its own and returns the bytes that
// come back, up to where the connection ends or falls silent.
func (f *fixture) raw(target string, headers ...string) (string, error) {
	f.t.Helper()
	conn, err := f.srv.Dial(f.t.Context(), "tcp", "x")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	request := "GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	must(f.t, conn.SetReadDeadline(time.Now().Add(time.Hour))) // virtual
	b, err := io.ReadAll(conn)
	_, body, _ := strings.Cut(string(b), "\r\n\r\n")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	return body, err
}

var errSilent = errors.New("nothing more comes")

const watchPath = podsPath + "?watch=true&timeoutSeconds=5"

// TestShapesOnTheWire: what the lines about the shape of an answer do to its bytes.
func TestShapesOnTheWire(t *testing.T) {
	const tenBytes = `< text "0123456789"` + "\n"
	for _, tt := range []struct {
		name, answer, want string
		err                error
	}{
		{"an event a chunk", tenBytes + tenBytes, "a\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", errSilent},
		{"chunks of a size", "< chunk 4\n" + tenBytes, "4\r\n0123\r\n4\r\n4567\r\n2\r\n89\r\n0\r\n\r\n", errSilent},
		{"blocks", "< chunk 8 blocks\n" + tenBytes + "< hold", "8\r\n01234567\r\n2\r\n89\r\n", errSilent},
		{"blocks that end", "< chunk 8 blocks\n" + tenBytes + tenBytes, "8\r\n01234567\r\n8\r\n89012345\r\n4\r\n6789\r\n0\r\n\r\n", errSilent},
		{"all", "< chunk all\n" + tenBytes + tenBytes, "14\r\n01234567890123456789\r\n0\r\n\r\n", errSilent},
		{"odd sizes", "< chunk each upper zeros=2 ext=a=b\n" + tenBytes, "00A;a=b\r\n0123456789\r\n0\r\n\r\n", errSilent},
		{"trailers", "< trailer X: 1\n< trailer Y: 2\n" + tenBytes, "a\r\n0123456789\r\n0\r\nX: 1\r\nY: 2\r\n\r\n", errSilent},
		{"a length", "< length 50\n" + tenBytes + "< FIN", "0123456789", nil},
		{"no length", "< length none\n" + tenBytes, "0123456789", nil},
		{"closed", "< header Connection: close\n" + tenBytes, "a\r\n0123456789\r\n0\r\n\r\n", nil},
		{"part", "< part 3\n" + tenBytes + tenBytes, "3\r\n012\r\na\r\n0123456789\r\n0\r\n\r\n", errSilent},
		{"all but a part", "< part -3\n" + tenBytes, "7\r\n0123456\r\n0\r\n\r\n", errSilent},
		{"cut", "< sleep 1s\n< cut 5 FIN\n" + tenBytes, "a\r\n01", nil},
		{"cut at once", "< flush\n< cut 0 FIN\n" + tenBytes, "", nil},
		{"cut and held", "< flush\n< cut 5 hold\n" + tenBytes, "a\r\n01", errSilent},
		{"cut and reset", "< flush\n< cut 5 RST\n" + tenBytes, "a\r\n01", syscall.ECONNRESET},
		{"FIN", tenBytes + "< FIN", "a\r\n0123456789\r\n", nil},
		{"RST", tenBytes + "< RST", "a\r\n0123456789\r\n", syscall.ECONNRESET},
		{"bare bytes", "< flush\n" + `< wire "zz\r\n"` + "\n< FIN", "zz\r\n", nil},
		{"hex", "< hex 41 42\n< raw c d", "2\r\nAB\r\n4\r\nc d\n\r\n0\r\n\r\n", errSilent},
		{"segments", "< segment 3 1s\n" + tenBytes, "a\r\n0123456789\r\n0\r\n\r\n", errSilent},
		{"silence", "< hang", "", errSilent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Config{})
				f.play("> WATCH\n" + tt.answer)
				got, err := f.raw(watchPath)
				if got != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("%q, %v; want %q, %v", got, err, tt.want, tt.err)
				}
			})
		})
	}
}

// TestGzipShapes: where members of gzip begin and end, and what is there after each event.
func TestGzipShapes(t *testing.T) {
	for _, tt := range []struct {
		how     string
		members int
		// early says that the first event can be read while the second has not been sent.
		early bool
	}{{"stream", 1, true}, {"members", 2, true}, {"unflushed", 2, true}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, Config{})
			f.play("> WATCH\n< gzip " + tt.how + "\n< raw one\n< sleep 1s\n< raw two")
			resp := f.open(t.Context(), http.MethodGet, watchPath, "")
			defer resp.Body.Close()
			if resp.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("headers: %v", resp.Header)
			}
			body, err := io.ReadAll(resp.Body)
			must(t, err)
			if n := bytes.Count(body, []byte{0x1f, 0x8b, 8}); n != tt.members {
				t.Errorf("%s: %d members, want %d", tt.how, n, tt.members)
			}
			z, err := gzip.NewReader(bytes.NewReader(body))
			must(t, err)
			if text, err := io.ReadAll(z); err != nil || string(text) != "one\ntwo\n" {
				t.Errorf("%s: %q, %v", tt.how, text, err)
			}
		})
	}
}

// TestAnswers plays testdata/script/shapes.txt: the answers to a LIST.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		p := f.playFile("shapes.txt")
		list := f.get(podsPath).podList(t)
		if names(list) != "a b" || list.ResourceVersion != "100" || list.Continue != "t" || *list.RemainingItemCount != 3 ||
			Notation(&list.Items[1]) != "kube-system/b@91/u=Failed" || list.Items[0].Spec.NodeName != "node-a" {
			t.Errorf("chunked: %+v", list)
		}
		a := f.get(podsPath + "?continue=t")
		decoded, _, err := f.srv.codecs.protobuf.Decode(a.body, nil, &corev1.PodList{})
		if err != nil || a.header.Get("Content-Type") != mediaProtobuf || decoded.(*corev1.PodList).ResourceVersion != "100" {
			t.Errorf("protobuf: %v, %v", a.header, err)
		}
		if list := f.get(podsPath).podList(t); list.ResourceVersion != "7" {
			t.Errorf("a file: %+v", list)
		}
		a = f.get(podsPath)
		if st := a.status(t); a.code != 410 || st.Reason != "Expired" || st.Continue != "fresh" || !strings.Contains(string(a.body), "\n  ") {
			t.Errorf("a Status: %d %s", a.code, a.body)
		}
		a = f.get(podsPath)
		if a.code != 503 || a.header.Get("Retry-After") != "7" || a.header["Cache-Control"] != nil || !strings.HasPrefix(string(a.body), "<!DOCTYPE") {
			t.Errorf("a page: %d %v %s", a.code, a.header, a.body)
		}
		if a = f.get(podsPath); a.code != 500 || a.length != 0 {
			t.Errorf("nothing: %+v", a)
		}
		if a = f.get(podsPath); !strings.Contains(string(a.body), `"kind":"Table"`) {
			t.Errorf("a Table: %s", a.body)
		}
		if a = f.get(podsPath); a.header.Get("Content-Encoding") != "gzip" || int(a.length) != len(a.body) {
			t.Errorf("gzip: %v", a.header)
		}
		f.finished(p)
		// Well-formed answers leave the connection usable: there was one only.
		if n := len(f.srv.gate.conns); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestEventsOfAScript: the events of a watch, by both encodings' decoders.
func TestEventsOfAScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		p := f.play(`
> WATCH rv=7 timeout=5 bookmarks=true accept=json gzip=false fields=spec.nodeName=n labels=a namespace=default
< as json
< ADDED a@8 Node:b@9
< BOOKMARK 10
< MARK 11
< beat 1s 2 12
< churn 1s 2 a 13
< flood 2 MODIFIED a@15
< ADDED {"kind":"Pod","metadata":{"name":"c","resourceVersion":"16"}}
< ERROR 410 Expired too old
< TIMEOUT
`)
		began := time.Now()
		w := &watchStream{t: t}
		w.resp = f.open(t.Context(), http.MethodGet, query("/api/v1/namespaces/default/pods", "watch", "1", "resourceVersion", "7",
			"timeoutSeconds", "5", "allowWatchBookmarks", "true", "fieldSelector", "spec.nodeName=n", "labelSelector", "a"), "")
		defer w.resp.Body.Close()
		w.dec = json.NewDecoder(w.resp.Body)
		w.expect("ADDED a rv=8", "ADDED b rv=9", "BOOKMARK rv=10", "BOOKMARK rv=11 end", "BOOKMARK rv=12", "BOOKMARK rv=12",
			"MODIFIED a rv=13", "MODIFIED a rv=14", "MODIFIED a rv=15", "MODIFIED a rv=15", "ADDED c rv=16", "ERROR 410 too old", "end")
		if d := time.Since(began); d != 9*time.Second {
			t.Errorf("it took %v, not 2 beats, 2 changes and the timeout", d)
		}
		f.finished(p)
	})
}

// TestFaults: a request that is not the one awaited is said with file, line and what differs.
func TestFaults(t *testing.T) {
	for _, tt := range []struct{ script, ask, want string }{
		{"> LIST rv=5\n< list 6", podsPath, `s:1: awaited LIST rv=5, got LIST rv=: rv is "", not "5"`},
		{"> LIST\n< list 6", podsPath + "?resourceVersion=5", `s:1: awaited LIST, got LIST rv=5: rv is "5", not ""`},
		{"> LIST\n< list 6", podsPath + "?limit=5", `limit is "5", not ""`},
		{"> LIST match=Exact\n< list 6", podsPath, `match is "", not "Exact"`},
		{"> WATCH\n< hold", podsPath, "another verb"},
		{"> WATCHLIST\n< hold", watchPath, "awaited WATCHLIST, got WATCH rv=: another verb"},
		{"> DIAL\n< refused\n> LIST\n< list 1", podsPath, ""}, // see below
		{"> LIST after=..1s\n< list 6", podsPath, "s:1: LIST rv= came 2s after the last answer, not 0s to 1s"},
		{"> LIST after=3s..\n< list 6", podsPath, "came 2s after the last answer, not 3s to"},
		{"", podsPath, "s: after the last request came LIST rv="},
		{"> WATCH\n< TIMEOUT", podsPath + "?watch=1", `s:2: TIMEOUT: the request has the timeoutSeconds ""`},
		{"> WATCH\n< flush\n< 410 Expired x", watchPath, "s:3: 410 Expired x: the head with its status code is out already"},
		{"> WATCH\n< as protobuf\n< ADDED {\"kind\":\"Widget\",\"apiVersion\":\"x/v1\"}", watchPath, "it has no protobuf"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, Config{})
			p := f.play(tt.script)
			time.Sleep(2 * time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x"+tt.ask, nil)
			must(t, err)
			if resp, err := f.client.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body) // what comes is not what is tested
				resp.Body.Close()
			}
			err = p.Err()
			if tt.want == "" {
				if err != nil || !strings.Contains(p.Transcript(), "< refused") {
					t.Errorf("%q: %v\n%s", tt.script, err, p.Transcript())
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q: %v, want %q", tt.script, err, tt.want)
			}
			if tt.script != "" {
				if err := p.Wait(t.Context()); err == nil {
					t.Error("Wait is without the fault")
				}
			}
		})
	}
}

// TestWaitSaysWhatDidNotCome: a client that does not ask is told apart from an answer that is not over.
func TestWaitSaysWhatDidNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		p := f.play("> LIST\n< list 1\n> WATCH rv=1\n< sleep 1h\n< END")
		wait := func(want string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		wait("s:1: LIST did not come")
		f.get(podsPath)
		wait("s:3: WATCH rv=1 did not come")
		resp := f.open(t.Context(), http.MethodGet, watchPath+"&resourceVersion=1", "")
		wait("s: the last answer is not over")
		resp.Body.Close()
		synctest.Wait()
		select {
		case <-p.Done():
		default:
			t.Error("the client left, and the last answer is not over")
		}
	})
}

// TestDials: a connection that a script refuses, in each way, and that idle ones are closed before.
func TestDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		p := f.play("> LIST\n< list 1\n> DIAL\n< delay 2s\n< refused\n> DIAL after=0s..0s\n< RST\n> DIAL\n< hang\n> LIST\n< list 2\n> DIAL\n< refused\n> LIST\n< serve")
		f.get(podsPath)
		for i, want := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, context.DeadlineExceeded} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x"+podsPath, nil)
			must(t, err)
			if resp, err := f.client.Do(req); !errors.Is(err, want) {
				t.Errorf("dial %d: %v, %v", i, resp, err)
			}
			cancel()
		}
		f.get(podsPath)
		if _, err := f.raw(podsPath); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the fourth dial: %v", err)
		}
		if list := f.get(podsPath).podList(t); len(list.Items) != 0 {
			t.Errorf("served: %v", names(list))
		}
		f.finished(p)
	})
}

// TestFallThrough: what the script does not say, the server does.
func TestFallThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.createPods(2)
		p := f.playFile("fall-through.txt")
		if got := names(f.get(podsPath).podList(t)); got != "p-0 p-1" {
			t.Errorf("the list has %q", got)
		}
		if a := f.get(watchPath); a.code != 429 || a.header.Get("Retry-After") != "2" {
			t.Errorf("the first watch: %+v", a)
		}
		f.watch().expect("ADDED p-0 rv=2", "ADDED p-1 rv=3")
		if a := f.get("/api/v1/nodes"); a.code != 200 {
			t.Errorf("another resource: %+v", a)
		}
		f.finished(p)
		if want := "(served)"; strings.Count(p.Transcript(), want) != 2 {
			t.Errorf("transcript:\n%s", p.Transcript())
		}
	})
}

// TestServedSteps: a step may let the server answer, after a while.
func TestServedSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		f.createPods(1)
		p := f.play("resource pods\n> LIST\n< delay 3s\n< serve\n> WATCH rv=2\n< serve")
		began := time.Now()
		if got := names(f.get(podsPath).podList(t)); got != "p-0" || time.Since(began) != 3*time.Second {
			t.Errorf("%q after %v", got, time.Since(began))
		}
		w := f.watch("resourceVersion", "2")
		f.finished(p) // the watch is open
		must(t, f.srv.Create(testPod("new", "n")))
		w.expect("ADDED new rv=3")
	})
}

// TestOtherKinds: a script about another resource has that one's kind.
func TestOtherKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{Resources: []Resource{widgets()}})
		p := f.play("resource widgets\n> LIST\n< list 9 a@1\n> WATCH rv=9\n< ADDED b@10")
		if a := f.get("/apis/example.com/v1/widgets"); !strings.Contains(string(a.body), `{"kind":"WidgetList","apiVersion":"example.com/v1",`) {
			t.Errorf("%s", a.body)
		}
		if a := f.get("/apis/example.com/v1/widgets?watch=1&resourceVersion=9"); !strings.Contains(string(a.body), `{"kind":"Widget","apiVersion":"example.com/v1",`) {
			t.Errorf("%s", a.body)
		}
		f.finished(p)
	})
}

// TestScriptsOverTCP: the same over sockets, where resets are real ones.
func TestScriptsOverTCP(t *testing.T) {
	srv := Start(Config{})
	defer srv.Close()
	s, err := ParseScript("s", []byte("> LIST\n< list 1 a@1\n> WATCH\n< ADDED b@2\n< RST\n> DIAL\n< refused\n> WATCH\n< hold"))
	must(t, err)
	p := srv.Play(s)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ask := func(target string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL()+target, nil)
		must(t, err)
		return client.Do(req)
	}
	resp, err := ask(podsPath)
	must(t, err)
	finish(t, resp)
	resp, err = ask(watchPath)
	must(t, err)
	r := bufio.NewReader(resp.Body)
	line, err := r.ReadString('\n')
	if err != nil || !strings.Contains(line, `"ADDED"`) {
		t.Errorf("the first event: %q, %v", line, err)
	}
	if _, err := r.ReadString('\n'); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the reset: %v", err)
	}
	resp.Body.Close()
	if resp, err := ask(watchPath); err == nil {
		resp.Body.Close()
		t.Error("a connection that is to be refused carries a request")
	}
	resp, err = ask(watchPath)
	must(t, err)
	defer resp.Body.Close()
	if err := p.Wait(t.Context()); err != nil {
		t.Errorf("%v\n%s", err, p.Transcript())
	}
}

// TestPlayNeedsTheConnection: behind another server's handler there may be none to take over.
func TestPlayNeedsTheConnection(t *testing.T) {
	srv := New(Config{})
	defer srv.Close()
	s, err := ParseScript("s", []byte("> LIST\n< list 1"))
	must(t, err)
	p := srv.Play(s)
	srv.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, podsPath, nil))
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "s:1: the connection cannot be taken over") {
		t.Errorf("%v", err)
	}
}

// TestCloseWhilePlaying: Close ends what a script holds open, in every state.
func TestCloseWhilePlaying(t *testing.T) {
	for _, answer := range []string{"< hold", "< hang", "< sleep 1h", "< beat 1s 9999 7", "< cut 9 hold\n< hold", "< segment 1 1h\n< raw x", "< delay 1h\n< serve"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, Config{})
			f.play("> WATCH\n" + answer)
			done := make(chan error)
			go func() {
				_, err := f.raw(watchPath)
				done <- err
			}()
			time.Sleep(time.Second)
			began := time.Now()
			f.srv.Close()
			if err := <-done; errors.Is(err, errSilent) || time.Since(began) != 0 {
				t.Errorf("%s: %v after %v", answer, err, time.Since(began))
			}
		})
	}
}

// TestPlayAnother replaces a script by the next one.
func TestPlayAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Config{})
		for i := range 3 {
			p := f.play(fmt.Sprintf("> LIST\n< list %d", i))
			if list := f.get(podsPath).podList(t); list.ResourceVersion != fmt.Sprint(i) {
				t.Errorf("script %d: %s", i, list.ResourceVersion)
			}
			f.finished(p)
		}
	})
}

// TestConnectionsAreGivenBack: one connection carries many answers of scripts
// and of the server, and does not grow by any of them.
func TestConnectionsAreGivenBack(t *testing.T) {
	f := newFixture(t, Config{})
	p := f.play("else serve\n> LIST rv=5 times=200\n< list 5")
	conn, err := f.srv.Dial(t.Context(), "", "")
	must(t, err)
	defer conn.Close()
	r := bufio.NewReader(conn)
	for i := range 400 {
		if _, err := fmt.Fprintf(conn, "GET %s?resourceVersion=%d HTTP/1.1\r\nHost: x\r\n\r\n", podsPath, i%2*5); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		must(t, err)
		finish(t, resp)
	}
	f.finished(p)
	f.srv.gate.mu.Lock()
	defer f.srv.gate.mu.Unlock()
	for c := range f.srv.gate.conns {
		if _, nested := c.Conn.(*returnedConn); nested {
			t.Error("the connection is wrapped again each time")
		}
	}
}

var _ net.Conn = (*returnedConn)(nil)
