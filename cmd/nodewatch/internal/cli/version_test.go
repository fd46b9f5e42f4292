package cli

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// TestVersion: both forms say the same of the binary.
func TestVersion(t *testing.T) {
	status, text, stderr := call(t.Context(), "version")
	if status != exitOK || stderr != "" || !strings.HasPrefix(text, "nodewatch ") || strings.Count(text, "\n") != 1 {
		t.Fatalf("status %d\n%s%s", status, text, stderr)
	}
	status, stdout, stderr := call(t.Context(), "version", "-o", "json")
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d\n%s", status, stderr)
	}
	var v versionInfo
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{v.Version, v.Revision, v.Go, v.Platform, v.ClientGo} {
		if !strings.Contains(text, word) {
			t.Errorf("%q has no %q", text, word)
		}
	}
	if v.Go != runtime.Version() || v.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("built with %s on %s", v.Go, v.Platform)
	}
	if agent := userAgent(); strings.ContainsAny(agent, "\r\n") || !strings.HasSuffix(agent, "("+v.Platform+")") {
		t.Errorf("the user agent is %q", agent)
	}
}
