package cli

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestEchoedSecrets: "Credentials are never logged", whatever is logged, and
// whatever a server does that says again what it was sent.
func TestEchoedSecrets(t *testing.T) {
	write := writerTo(t, t.TempDir())
	const kubeconfig = `apiVersion: v1
kind: Config
users: [{name: u, user: {%s}}]
contexts: [{name: c, context: {user: u}}]
current-context: c
`
	plugin := write("plugin", `#!/bin/sh
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"planted-exec"}}'
`)
	if err := os.Chmod(plugin, 0o700); err != nil {
		t.Fatal(err)
	}
	credentials := map[string][]string{
		"token":      {"--token", "planted-token"},
		"token file": {"--token-file", write("token", "planted-file")},
		"password":   {"--kubeconfig", write("basic", fmt.Sprintf(kubeconfig, "username: joe, password: planted-password"))},
		"plugin": {"--kubeconfig", write("exec", fmt.Sprintf(kubeconfig,
			"exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: "+plugin+"}"))},
	}
	// Every %s is the credential: as a header has it, or alone.
	answers := map[string]struct {
		code            int
		mediaType, body string
	}{
		"a Status":        {403, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no: %[1]s %[2]s"}`},
		"a page":          {500, "text/html", "<html><body>%[1]s %[2]s</body></html>"},
		"plain text":      {401, "text/plain", "%[1]s %[2]s"},
		"an ERROR event":  {200, "application/json", `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"no: %[1]s %[2]s"}}`},
		"a broken event":  {200, "application/json", `{"type":"ADDED","object":{"kind":"%[2]s","apiVersion":"%[2]s", %[2]s`},
		"another type":    {200, "application/json", `{"type":"%[1]s","object":{}}`},
		"no JSON":         {200, "application/json", "%[1]s %[2]s"},
		"a wrong version": {200, "application/json", `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%[2]s"}}}`},
	}
	for what, answer := range answers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			header := r.Header.Get("Authorization")
			_, secret, _ := strings.Cut(header, " ")
			w.Header().Set("Content-Type", answer.mediaType)
			w.Header().Set("Warning", fmt.Sprintf("299 - %q", header))
			w.Header().Set("Audit-Id", secret)
			w.WriteHeader(answer.code)
			fmt.Fprintf(w, answer.body, header, secret)
		}))
		for name, args := range credentials {
			for _, format := range []string{"text", "json"} {
				status, stdout, stderr := call(t.Context(), append([]string{"pods", "--node", "a", "--once", "-v=9", "--log-format", format, "--server", server.URL,
					"--backoff-min=10ms", "--backoff-max=10ms"}, args...)...)
				if status != exitFailed || strings.TrimSpace(stderr) == "" {
					t.Errorf("%s, %s, %s: status %d\n%s", what, name, format, status, stderr)
				}
				for _, secret := range []string{"planted", base64.StdEncoding.EncodeToString([]byte("joe:planted-password"))} {
					if strings.Contains(stdout+stderr, secret) {
						t.Errorf("%s, %s, %s: %q is in\n%s%s", what, name, format, secret, stdout, stderr)
					}
				}
			}
		}
		server.Close()
	}
}
