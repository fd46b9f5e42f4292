package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// cliWays are the flags that say how to ask.
func cliWays() [][]string {
	var out [][]string
	for _, initial := range []string{"list", "watchlist"} {
		for _, encoding := range []string{"json", "protobuf"} {
			out = append(out, []string{"--initial", initial, "--encoding", encoding})
		}
	}
	return append(out, nil, []string{"--initial", "list", "--page-size", "17"})
}

// TestOncePrintsWhatKubectlPrints: of 5,000 pods on 50 nodes, the pods of one,
// line for line.
func TestOncePrintsWhatKubectlPrints(t *testing.T) {
	kubectl := tool(t, "kubectl", "kubernetes-client")
	onTargets(t, func(t *testing.T, tg target) {
		ctx := t.Context()
		populate(ctx, t, tg, 5000, 50)
		phase("%s: 5,000 pods made", t.Name())
		config := kubeconfig(t, tg, apiserver.Admin)
		list, err := clientset(t, tg, apiserver.Admin).CoreV1().Pods("").
			List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=node-007"})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, pod := range list.Items {
			want = append(want, "pod/"+pod.Name)
		}
		if len(want) != 100 {
			t.Fatalf("client-go lists %d pods of the node, want 100", len(want))
		}
		of := func(stdout string) []string { return strings.Split(strings.TrimSuffix(stdout, "\n"), "\n") }

		stdout, stderr, status := runToEnd(t, kubectl, "--kubeconfig", config,
			"get", "pods", "-A", "--field-selector", "spec.nodeName=node-007", "-o", "name")
		if status != 0 {
			t.Fatalf("kubectl: status %d: %s", status, stderr)
		}
		if diff := cmp.Diff(want, of(stdout)); diff != "" {
			t.Fatalf("client-go's list (-) and kubectl's (+) differ:\n%s", diff)
		}
		for _, how := range cliWays() {
			stdout, stderr, status := runToEnd(t, nodewatch(t), append([]string{"pods", "--kubeconfig", config,
				"--node", "node-007", "--once", "-o", "name"}, how...)...)
			if diff := cmp.Diff(want, of(stdout)); diff != "" || status != 0 {
				t.Errorf("nodewatch %v: status %d, %s\nkubectl's output (-) and nodewatch's (+) differ:\n%s", how, status, stderr, diff)
			}
		}
	})
}

// TestEventsFollowChurn: what a reader of standard output learns is what the
// server has, whatever happened to the server meanwhile.
func TestEventsFollowChurn(t *testing.T) {
	var nodes []string
	for i := range 10 {
		nodes = append(nodes, "--node", fmt.Sprint("node-", i))
	}
	onTargets(t, func(t *testing.T, tg target) {
		ctx := t.Context()
		config := kubeconfig(t, tg, apiserver.Admin)
		type reader struct {
			name    string
			program *program
			fold    *fold
			done    <-chan struct{}
			options metav1.ListOptions
		}
		var readers []reader
		for i, how := range cliWays() {
			args, options := nodes, metav1.ListOptions{}
			switch i {
			case 0:
				args = []string{"--all-nodes"}
			case 1:
				args, options.FieldSelector = []string{"--node", "node-3"}, "spec.nodeName=node-3"
			}
			args = append([]string{"pods", "--kubeconfig", config, "-o", "json", "--output-watch-events",
				"--backoff-max", "1s"}, append(slices.Clone(how), args...)...)
			p := start(t, nodewatch(t), args...)
			f, done := foldLines(t, p, i <= 1)
			readers = append(readers, reader{strings.Join(args[3:], " "), p, f, done, options})
		}
		churn(ctx, t, tg, 1000, crashes())
		phase("%s: comparing", t.Name())
		admin := clientset(t, tg, apiserver.Admin)
		ctx, cancel := context.WithTimeout(ctx, convergence)
		defer cancel()
		for _, r := range readers {
			r.fold.await(ctx, t, r.name, stateOf(ctx, t, admin, r.options))
			if r.fold.count() < 50 {
				t.Errorf("%s: only %d events", r.name, r.fold.count())
			}
			r.program.interrupt(t)
			<-r.done
			<-r.program.Done()
			if err := r.program.Err(); err != nil {
				t.Errorf("%s: interrupted, it ended with %v, want status 0", r.name, err)
			}
		}
	})
}

// TestTableShowsChanges: a person sees pods come, change and go, in
// nodewatch's own table and in kubectl's.
func TestTableShowsChanges(t *testing.T) {
	kubectl := tool(t, "kubectl", "kubernetes-client")
	onTargets(t, func(t *testing.T, tg target) {
		config := kubeconfig(t, tg, apiserver.Admin)
		for name, c := range map[string]struct {
			program string
			args    []string
			// rows are expected in this order; others may stand between.
			rows []string
		}{
			"kubectl": {kubectl, []string{"--kubeconfig", config, "get", "pods", "-A", "-w"}, []string{
				`^NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE$`,
				`^NS +first +0/1 +Pending +0 +\S+$`,
				`^NS +second +0/1 +Pending +0 +\S+$`,
				`^NS +first +0/1 +Running +0 +\S+$`,
				`^NS +first +0/1 +Terminating +0 +\S+$`,
			}},
			"kubectl wide": {kubectl, []string{"--kubeconfig", config, "get", "pods", "-A", "-w", "-o", "wide"}, []string{
				`^NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES$`,
				`^NS +first +0/1 +Pending +0 +\S+ +<none> +node-a +<none> +<none>$`,
				`^NS +first +0/1 +Running +0 +\S+ +10.0.0.7 +node-a +<none> +<none>$`,
			}},
			"kubectl events": {kubectl, []string{"--kubeconfig", config, "get", "pods", "-A", "-w", "--output-watch-events"}, []string{
				`^ADDED +NS +first +0/1 +Pending`,
				`^ADDED +NS +second +0/1 +Pending`,
				`^MODIFIED +NS +first +0/1 +Running`,
				`^DELETED +NS +first `,
			}},
			"nodewatch": {nodewatch(t), []string{"pods", "--kubeconfig", config, "--node", "node-a"}, []string{
				`^EVENT +NAMESPACE +NAME +READY +STATUS +RESTARTS +AGE$`,
				`^ADDED +NS +first +0/1 +Pending +0 +\S+$`,
				`^ADDED +NS +second +0/1 +Pending +0 +\S+$`,
				`^MODIFIED +NS +first +0/1 +Running +0 +\S+$`,
				`^MODIFIED +NS +first +0/1 +Terminating +0 +\S+$`,
				`^DELETED +NS +first +0/1 +\S+ +0 +\S+$`,
			}},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*rowTimeout)
				defer cancel()
				w := newWorld(t, tg).inNamespace(ctx, t, namespaceFor(t))
				w.create(ctx, t, "", newPod(w.namespace, "first", "node-a", nil))
				lines := linesOf(start(t, c.program, c.args...))
				for i, row := range c.rows {
					pattern := regexp.MustCompile(strings.ReplaceAll(row, "NS", w.namespace))
					awaitLine(ctx, t, lines, "row "+pattern.String(), pattern.MatchString)
					if strings.Contains(row, "first") && strings.Contains(row, "Pending") && i <= 1 {
						w.create(ctx, t, "", newPod(w.namespace, "second", "node-a", nil))
						w.setPhase(ctx, t, w.namespace, "first", corev1.PodRunning)
						w.remove(ctx, t, w.namespace, "first", 30)
						w.remove(ctx, t, w.namespace, "first", 0)
					}
				}
				w.remove(ctx, t, w.namespace, "second", 0)
			})
		}
	})
}

// TestKubectlWorks: kubectl's other questions about pods and nodes get answers.
func TestKubectlWorks(t *testing.T) {
	kubectl := tool(t, "kubectl", "kubernetes-client")
	onTargets(t, func(t *testing.T, tg target) {
		smallCluster(t.Context(), t, tg)
		config := kubeconfig(t, tg, apiserver.Admin)
		for name, c := range map[string]struct {
			args []string
			want string // a pattern of the whole output
		}{
			"get one":        {[]string{"get", "pod", "alpha", "-o", "name"}, `^pod/alpha\n$`},
			"short name":     {[]string{"get", "po", "-l", "app=web", "-o", "name"}, `^pod/alpha\npod/gamma\n$`},
			"jsonpath":       {[]string{"get", "pods", "-n", "other", "-o", "jsonpath={.items[*].spec.nodeName}"}, `^node-a$`},
			"chunks":         {[]string{"get", "pods", "--chunk-size=2", "-o", "name"}, `^pod/alpha\npod/beta\npod/gamma\n$`},
			"sort":           {[]string{"get", "pods", "--sort-by=.metadata.name", "-o", "name"}, `^pod/alpha\npod/beta\npod/gamma\n$`},
			"api-resources":  {[]string{"api-resources", "--api-group=", "-o", "name", "--cached=false"}, `(?m)^pods$`},
			"label":          {[]string{"label", "pod", "gamma", "extra=yes"}, `^pod/gamma labeled\n$`},
			"annotate":       {[]string{"annotate", "pod", "gamma", "extra=yes"}, `^pod/gamma annotated\n$`},
			"wait":           {[]string{"wait", "pod/alpha", "--for=jsonpath={.status.phase}=Running", "--timeout=10s"}, `^pod/alpha condition met\n$`},
			"delete":         {[]string{"delete", "pod", "-n", "big", "big-0", "--grace-period=0", "--force"}, `pod "big-0" force deleted`},
			"get namespaces": {[]string{"get", "ns", "other", "-o", "name"}, `^namespace/other\n$`},
		} {
			t.Run(name, func(t *testing.T) {
				stdout, stderr, status := runToEnd(t, kubectl, append([]string{"--kubeconfig", config}, c.args...)...)
				if status != 0 || !regexp.MustCompile(c.want).MatchString(stdout) {
					t.Errorf("kubectl %v: status %d\nstdout %q, want %s\nstderr %s", c.args, status, stdout, c.want, stderr)
				}
			})
		}
		stdout, stderr, status := runToEnd(t, kubectl, "--kubeconfig", kubeconfig(t, tg, apiserver.Weak), "get", "pods")
		const want = `Error from server (Forbidden): pods is forbidden: User "weak" cannot list resource "pods" in API group "" in the namespace "default"`
		if status != 1 || stdout != "" || strings.TrimSpace(stderr) != want {
			t.Errorf("kubectl as a user without rights: status %d, stdout %q, stderr %q, want %q", status, stdout, stderr, want)
		}
	})
}

// TestUnreachableServer: one line for each try, and a reason at the end.
func TestUnreachableServer(t *testing.T) {
	began := time.Now()
	stdout, stderr, status := runToEnd(t, nodewatch(t), "pods", "--node", "x",
		"--server", "http://127.0.0.1:1", "--sync-timeout", "2s", "--backoff-min", "200ms", "--backoff-max", "400ms")
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("gave up after %v, before its --sync-timeout", took)
	}
	if status != 1 || stdout != "" {
		t.Errorf("status %d, stdout %q; want 1 and nothing", status, stdout)
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	tries := 0
	for _, line := range lines {
		if !strings.Contains(line, "attempt=") {
			continue
		}
		tries++
		for _, word := range []string{"127.0.0.1:1", "connection refused", fmt.Sprint("attempt=", tries, " "), "delay="} {
			if !strings.Contains(line, word) {
				t.Errorf("try %d does not say %q: %s", tries, word, line)
			}
		}
	}
	if tries < 3 {
		t.Errorf("%d tries in 2 s, want one line for each backoff step:\n%s", tries, stderr)
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "error: ") || !strings.Contains(last, "connection refused") {
		t.Errorf("the last line does not give the reason: %s", last)
	}
	if strings.Contains(stderr, "goroutine ") || strings.Contains(stderr, "panic") {
		t.Errorf("a stack trace:\n%s", stderr)
	}
}

// TestForbiddenNamesWho: a refusal names verb, resource and user, once, and never the token.
func TestForbiddenNamesWho(t *testing.T) {
	onTargets(t, func(t *testing.T, tg target) {
		config := kubeconfig(t, tg, apiserver.Weak)
		for _, how := range cliWays() {
			t.Run(strings.Join(how, " "), func(t *testing.T) {
				t.Parallel()
				stdout, stderr, status := runToEnd(t, nodewatch(t), append([]string{"pods", "--kubeconfig", config,
					"--node", "node-a", "--sync-timeout", "1s", "-v=9"}, how...)...)
				if status != 1 || stdout != "" {
					t.Errorf("%v: status %d, stdout %q; want 1 and nothing", how, status, stdout)
				}
				said := regexp.MustCompile(`User \\?"weak\\?" cannot (list|watch) resource \\?"pods\\?"`)
				last := strings.TrimSpace(stderr)
				last = last[strings.LastIndex(last, "\n")+1:]
				if !said.MatchString(last) {
					t.Errorf("%v: the last line does not name verb, resource and user:\n%s", how, stderr)
				}
				if strings.Contains(stderr, tg.RESTConfig(apiserver.Weak).BearerToken) {
					t.Errorf("%v: the token is in the log", how)
				}
			})
		}
	})
}
