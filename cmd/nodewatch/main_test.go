package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"nodewatch":         main,
		"kubectl-nodewatch": main,
	})
}

// TestScripts runs testdata/script. Beside testscript's own commands there are:
//
//	exits STATUS COMMAND...   run it, check its exit status; stdout and stderr can be looked at
//	until FILE REGEXP         wait until a background command has written that
//	server [token=T] [forbid=VERB] [forbidnode=NODE]
//	                          start an API server: $SERVER is its URL, $SERVER_ADDR its address
//	permit                    forbid no node any more
//	pod create|update NAMESPACE/NAME NODE [PHASE]
//	pod delete NAMESPACE/NAME
//	play FILE                 let the server play a script, see docs/testing.md
//	played                    wait until it is played, and check that all went as it says
//	endwatches, cut, compact, pause, resume
//	                          what happens to the server and its connections
//	fetch STATUS FILE PATH    ask for PATH where the log in FILE says that metrics are served
//	requests REGEXP COUNT     how many requests of that form there were
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("NODE_NAME", "")
			env.Setenv("KUBECONFIG", env.Getenv("WORK")+"/none")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "until": until, "play": playScript, "played": scriptPlayed, "server": startServer, "pod": changePod, "requests": countRequests, "fetch": fetch, "permit": permit,
			"endwatches": func(ts *testscript.TestScript, _ bool, _ []string) { serverOf(ts).EndWatches() },
			"cut":        func(ts *testscript.TestScript, _ bool, _ []string) { serverOf(ts).CloseConnections() },
			"pause":      func(ts *testscript.TestScript, _ bool, _ []string) { serverOf(ts).Pause() },
			"resume":     func(ts *testscript.TestScript, _ bool, _ []string) { serverOf(ts).Resume() },
			"compact": func(ts *testscript.TestScript, _ bool, _ []string) {
				serverOf(ts).Compact(serverOf(ts).ResourceVersion())
			},
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit, ok := err.(*exec.ExitError); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// patience is how long until waits for what must come; it comes at once.
const patience = 20 * time.Second

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until FILE REGEXP")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	file := ts.MkAbs(args[0])
	var data []byte
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		// The file may not be there yet.
		if data, err = os.ReadFile(file); err == nil && re.Match(data) {
			return
		}
	}
	ts.Fatalf("%s has no match for %q after %s: %v\n%s", args[0], args[1], patience, err, data)
}

// servers are those of the scripts that run, by working directory.
var servers sync.Map

func serverOf(ts *testscript.TestScript) *listwatchtest.Server {
	s, ok := servers.Load(ts.Getenv("WORK"))
	if !ok {
		ts.Fatalf("there is no server: start one with server")
	}
	return s.(*listwatchtest.Server)
}

func startServer(ts *testscript.TestScript, _ bool, args []string) {
	c := listwatchtest.Config{}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "token":
			c.Tokens = map[string]string{value: "tester"}
		case "forbid":
			c.Authorize = func(a listwatchtest.Access) bool { return !slices.Contains(strings.Split(value, ","), a.Verb) }
		case "forbidnode":
			var permitted atomic.Bool
			permits.Store(ts.Getenv("WORK"), &permitted)
			c.Authorize = func(a listwatchtest.Access) bool {
				return permitted.Load() || !strings.Contains(a.FieldSelector, "spec.nodeName="+value)
			}
		default:
			ts.Fatalf("server: unknown option %s", arg)
		}
	}
	s := listwatchtest.Start(c)
	work := ts.Getenv("WORK")
	servers.Store(work, s)
	ts.Defer(func() {
		servers.Delete(work)
		s.Close()
	})
	ts.Setenv("SERVER", s.URL())
	ts.Setenv("SERVER_ADDR", strings.TrimPrefix(s.URL(), "http://"))
}

// permits are what lifts forbidnode, by working directory.
var permits sync.Map

func permit(ts *testscript.TestScript, neg bool, args []string) {
	permitted, ok := permits.LoadAndDelete(ts.Getenv("WORK"))
	if neg || len(args) != 0 || !ok {
		ts.Fatalf("usage: permit, after server forbidnode=NODE")
	}
	permitted.(*atomic.Bool).Store(true)
}

func playScript(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: play FILE")
	}
	script, err := listwatchtest.ParseScript(args[0], []byte(ts.ReadFile(args[0])))
	ts.Check(err)
	plays.Store(ts.Getenv("WORK"), serverOf(ts).Play(script))
}

// plays are the scripts that servers play, by working directory.
var plays sync.Map

func scriptPlayed(ts *testscript.TestScript, neg bool, args []string) {
	play, ok := plays.LoadAndDelete(ts.Getenv("WORK"))
	if neg || len(args) != 0 || !ok {
		ts.Fatalf("usage: played, after play FILE")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := play.(*listwatchtest.Play).Wait(ctx); err != nil {
		ts.Fatalf("%v\n%s", err, play.(*listwatchtest.Play).Transcript())
	}
}

func changePod(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: pod create|update|delete NAMESPACE/NAME [NODE [PHASE]]")
	}
	namespace, name, _ := strings.Cut(args[1], "/")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": strings.TrimRight(name, "0123456789-")}}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "nginx"}}
	if len(args) > 2 {
		pod.Spec.NodeName = args[2]
	}
	pod.Status.Phase = corev1.PodRunning
	if len(args) > 3 {
		pod.Status.Phase = corev1.PodPhase(args[3])
	}
	s := serverOf(ts)
	switch args[0] {
	case "create":
		ts.Check(s.Create(pod))
	case "update":
		ts.Check(s.Update(pod))
	case "delete":
		ts.Check(s.Delete(pod))
	default:
		ts.Fatalf("pod: unknown verb %s", args[0])
	}
}

func countRequests(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: requests REGEXP COUNT")
	}
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	var all bytes.Buffer
	n := 0
	for _, r := range serverOf(ts).Requests() {
		fmt.Fprintln(&all, r)
		if re.MatchString(r.String()) {
			n++
		}
	}
	if strconv.Itoa(n) != args[1] {
		ts.Fatalf("%d requests match %q, want %s:\n%s", n, args[0], args[1], all.String())
	}
}

func fetch(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: fetch STATUS FILE PATH")
	}
	m := regexp.MustCompile(`url="?(http://127\.0\.0\.1:\d+)/`).FindStringSubmatch(ts.ReadFile(args[1]))
	if m == nil {
		ts.Fatalf("%s does not say where metrics are served", args[1])
	}
	resp, err := http.Get(m[1] + args[2])
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	_, err = ts.Stdout().Write(body)
	ts.Check(err)
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("%s is %s, want %s:\n%s", args[2], resp.Status, args[0], body)
	}
}

// TestBlockedOutput: a reader that does not read holds up nothing but the
// output; the first signal ends the program all the same, with status 0.
func TestBlockedOutput(t *testing.T) {
	server := listwatchtest.Start(listwatchtest.Config{})
	defer server.Close()
	const pods = 2000 // some hundred kilobytes: more than a pipe holds
	for i := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", i)}, Spec: corev1.PodSpec{NodeName: "node-a"}}
		if err := server.Create(pod); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "nodewatch", "pods", "--server", server.URL(), "--node", "node-a", "-o", "yaml")
	if _, err := cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := bufio.NewScanner(stderr)
	for log.Scan() && !strings.Contains(log.Text(), "synced") {
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for log.Scan() { // until it ends
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
