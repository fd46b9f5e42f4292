package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

const twoContexts = `apiVersion: v1
kind: Config
clusters:
- {name: one, cluster: {server: "https://one:6443"}}
- {name: two, cluster: {server: "http://two:8001"}}
users:
- {name: u, user: {token: from-kubeconfig}}
- {name: x, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: never-run, interactiveMode: Never}}}
contexts:
- {name: one, context: {cluster: one, user: u, namespace: of-the-context}}
- {name: two, context: {cluster: two, user: u}}
- {name: exec, context: {cluster: one, user: x}}
current-context: one
`

// restConfig returns what the flags lead to, with a kubeconfig of two contexts in $KUBECONFIG.
func restConfig(t *testing.T, args ...string) (*rest.Config, error) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte(twoContexts), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	var c connection
	g := c.group()
	if err := g.set.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	return c.restConfig()
}

func TestConnection(t *testing.T) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("in-a-file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args                   []string
		host, token, tokenFile string
		exec                   bool
	}{
		"nothing":             {nil, "https://one:6443", "from-kubeconfig", "", false},
		"context":             {[]string{"--context", "two"}, "http://two:8001", "", "", false}, // clientcmd's rule
		"user of another":     {[]string{"--user", "x"}, "https://one:6443", "", "", true},
		"server":              {[]string{"--server", "https://three:1"}, "https://three:1", "from-kubeconfig", "", false},
		"token":               {[]string{"--token", "given"}, "https://one:6443", "given", "", false},
		"token without TLS":   {[]string{"--server", "http://127.0.0.1:1", "--token", "given"}, "http://127.0.0.1:1", "given", "", false},
		"token file":          {[]string{"--token-file", tokenFile}, "https://one:6443", "", tokenFile, false},
		"token file and exec": {[]string{"--context", "exec", "--token-file", tokenFile}, "https://one:6443", "", tokenFile, false},
	} {
		got, err := restConfig(t, c.args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Host != c.host || got.BearerToken != c.token || got.BearerTokenFile != c.tokenFile || (got.ExecProvider != nil) != c.exec {
			t.Errorf("%s: host %s, token %q, token file %q, exec %v; want %+v", name, got.Host, got.BearerToken, got.BearerTokenFile, got.ExecProvider != nil, c)
		}
		if got.Timeout != 0 {
			t.Errorf("%s: a timeout of %s would end watches", name, got.Timeout)
		}
		if !strings.HasPrefix(got.UserAgent, "nodewatch/") {
			t.Errorf("%s: the user agent is %q", name, got.UserAgent)
		}
	}
}

func TestConnectionErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"context \"none\" does not exist":                 {"--context", "none"},
		"--token-file: open /no/such/file":                {"--token-file", "/no/such/file"},
		"--token and --token-file are both given":         {"--token", "x", "--token-file", "y"},
		"--server has user info in it":                    {"--server", "https://joe:planted@host"},
		"--proxy-url is not a URL":                        {"--proxy-url", "http://joe:planted@["},
		"stat /no/such/kubeconfig":                        {"--kubeconfig", "/no/such/kubeconfig"},
		"unable to read client-cert /no/such/certificate": {"--client-certificate", "/no/such/certificate", "--client-key", "/no/such/key"},
	} {
		_, err := restConfig(t, args...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %q in it", args, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "planted") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: a secret, or more than a line: %q", args, err)
		}
	}
}

// TestNoServer: where nothing names a server none is asked, and the reason is
// said. clientcmd alone would ask localhost:8080.
func TestNoServer(t *testing.T) {
	write := func(content string) string {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv(masterVariable, "")
	for name, c := range map[string]struct {
		kubeconfig string // the content, or with "-" none
		args       []string
		want       string // "" for success
	}{
		"no kubeconfig":         {"-", nil, "there is no --server, no kubeconfig with a cluster"},
		"an empty one":          {"", nil, "there is no --server, no kubeconfig with a cluster"},
		"no current context":    {strings.Replace(twoContexts, "current-context: one", "", 1), nil, "the kubeconfig has no current context, pass --context NAME"},
		"a context is given":    {strings.Replace(twoContexts, "current-context: one", "", 1), []string{"--context", "two"}, ""},
		"a cluster is given":    {strings.Replace(twoContexts, "current-context: one", "", 1), []string{"--cluster", "two"}, ""},
		"a server is given":     {"-", []string{"--server", "http://localhost:8080"}, ""},
		"localhost is meant":    {strings.Replace(twoContexts, "https://one:6443", "http://localhost:8080", 1), nil, ""},
		"user info in the file": {strings.Replace(twoContexts, "https://one:6443", "https://joe:planted@one", 1), nil, "the server's URL in the kubeconfig has user info in it"},
	} {
		t.Setenv("KUBECONFIG", "/no/such/kubeconfig")
		if c.kubeconfig != "-" {
			t.Setenv("KUBECONFIG", write(c.kubeconfig))
		}
		var conn connection
		if err := conn.group().set.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		_, err := conn.restConfig()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error is %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: a secret: %v", name, err)
		}
	}
}

// TestConnectionErrorsAreForUsers: no message names a field of a library's Config.
func TestConnectionErrorsAreForUsers(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"read empty token from file":         {"--token-file", empty},
		"unable to parse bytes as PEM block": {"--certificate-authority", garbage, "--server", "https://127.0.0.1:1"},
	} {
		for _, scope := range []string{"--node=a", "--all-nodes"} {
			status, _, stderr := call(t.Context(), append([]string{"pods", scope, "--once", "--server", "http://127.0.0.1:1"}, args...)...)
			if status != exitFailed || !strings.Contains(stderr, want) || strings.Contains(stderr, "Config") {
				t.Errorf("%s %q: status %d, want %q in:\n%s", scope, args, status, want, stderr)
			}
		}
	}
}

// writerTo returns what writes a file into dir and returns its path.
func writerTo(t *testing.T, dir string) func(name, content string) string {
	return func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

func TestServeToken(t *testing.T) {
	write := writerTo(t, t.TempDir())
	for _, c := range []struct{ addr, file, want string }{
		{"127.0.0.1:0", "", ""},
		{"[::1]:0", "", ""},
		{"localhost:0", "", ""},
		{"0.0.0.0:0", "", "made up"},
		{"[::]:0", "", "made up"},
		{"192.0.2.1:0", "", "made up"},
		{"some.host:0", "", "made up"},
		{"127.0.0.1:0", write("token", " abc \n"), "abc"},
		{"0.0.0.0:0", write("token", "abc"), "abc"},
		{"0.0.0.0:0", write("empty", "\n"), "error"},
		{"0.0.0.0:0", write("two", "a b"), "error"},
		{"0.0.0.0:0", "/no/such/file", "error"},
	} {
		o := &serveOptions{addr: c.addr, tokenFile: c.file}
		got, err := o.token()
		ok := got == c.want
		switch c.want {
		case "made up":
			ok = len(got) >= 26 // 128 bits and more, in base 32
		case "error":
			ok = err != nil && got == ""
		}
		if !ok || err != nil && c.want != "error" {
			t.Errorf("%+v: token %q, error %v", c, got, err)
		}
	}
}

func TestQuoted(t *testing.T) {
	for path, want := range map[string]string{
		"/a/b-c_d.e":  "/a/b-c_d.e",
		"/a b":        "'/a b'",
		"/it's":       `'/it'\''s'`,
		"/$(rm -r x)": "'/$(rm -r x)'",
	} {
		if got := quoted(path); got != want {
			t.Errorf("quoted(%q) is %s, want %s", path, got, want)
		}
	}
}
