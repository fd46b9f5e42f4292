package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines logs with f and returns what came, without the times.
func lines(t *testing.T, format string, verbosity int, f func(*slog.Logger)) string {
	t.Helper()
	var buf bytes.Buffer
	f(New(&buf, format, verbosity))
	return regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `).ReplaceAllString(buf.String(), "")
}

func TestText(t *testing.T) {
	fail := errors.New("connection refused")
	for name, c := range map[string]struct {
		log  func(*slog.Logger)
		want string
	}{
		"plain":            {func(l *slog.Logger) { l.Info("synced", "objects", 7) }, "INFO  synced objects=7\n"},
		"the error first":  {func(l *slog.Logger) { l.Warn("list failed", "attempt", 1, "err", fail) }, "WARN  list failed: connection refused attempt=1\n"},
		"an error in With": {func(l *slog.Logger) { l.With("err", fail).Error("x") }, "ERROR x err=\"connection refused\"\n"},
		"quoted":           {func(l *slog.Logger) { l.Info("m", "a", "b c", "d", `e"f`, "g", "h=i") }, `INFO  m a="b c" d="e\"f" g="h=i"` + "\n"},
		"no value":         {func(l *slog.Logger) { l.Info("m", "rv", "", "n", 0) }, "INFO  m n=0\n"},
		"for programs":     {func(l *slog.Logger) { l.With("resource", "pods").Info("m", "state", "Watching", "next", "Listing") }, "INFO  m\n"},
		"with":             {func(l *slog.Logger) { l.With("a", 1).With("b", 2).Info("m", "c", 3) }, "INFO  m a=1 b=2 c=3\n"},
		"groups":           {func(l *slog.Logger) { l.WithGroup("g").With("a", 1).Info("m", slog.Group("h", "b", 2)) }, "INFO  m g.a=1 g.h.b=2\n"},
		"durations": {func(l *slog.Logger) {
			l.Info("m", "a", 193020*time.Microsecond, "b", 4360800*time.Microsecond, "c", 92*time.Second+55*time.Millisecond, "d", 1500*time.Nanosecond)
		}, "INFO  m a=193ms b=4.36s c=1m32.1s d=1.5µs\n"},
		"times": {func(l *slog.Logger) { l.Info("m", "at", time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)) }, "INFO  m at=2026-01-02T03:04:05Z\n"},
	} {
		if got := lines(t, "text", 0, c.log); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestForgedLines: a text of a server stays in its line and away from the terminal.
func TestForgedLines(t *testing.T) {
	evil := "x\n12:00:00 ERROR all is lost\r\x1b[2J\u2028"
	got := lines(t, "text", 0, func(l *slog.Logger) { l.Info(evil, evil, evil, "err", errors.New(evil)) })
	if strings.Count(got, "\n") != 1 || strings.ContainsAny(strings.TrimSuffix(got, "\n"), "\n\r\x1b\u2028") {
		t.Errorf("got %q", got)
	}
}

func TestVerbosity(t *testing.T) {
	all := func(l *slog.Logger) {
		l.Warn("warn")
		l.Info("info")
		l.Debug("debug", "state", "s")
		l.Log(t.Context(), slog.LevelDebug-4, "detail")
	}
	for verbosity, want := range map[int]string{
		-1:      "WARN  warn\n",
		0:       "WARN  warn\nINFO  info\n",
		1:       "WARN  warn\nINFO  info\nDEBUG debug state=s\n",
		2:       "WARN  warn\nINFO  info\nDEBUG debug state=s\nDEBUG-4 detail\n",
		1 << 40: "WARN  warn\nINFO  info\nDEBUG debug state=s\nDEBUG-4 detail\n",
	} {
		if got := lines(t, "text", verbosity, all); got != want {
			t.Errorf("-v %d: got %q, want %q", verbosity, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	var record map[string]any
	text := lines(t, "json", 0, func(l *slog.Logger) { l.Warn("list failed", "err", errors.New("a\nb"), "state", "Listing") })
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	if record["msg"] != "list failed" || record["err"] != "a\nb" || record["state"] != "Listing" || record["level"] != "WARN" {
		t.Errorf("got %v", record)
	}
}

// TestOneWrite: lines of several goroutines do not mix.
func TestOneWrite(t *testing.T) {
	var buf bytes.Buffer
	log := New(&buf, "text", 0)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			l := log.With("goroutine", i)
			for range 100 {
				l.Info("m")
			}
		})
	}
	group.Wait()
	whole := regexp.MustCompile(`^\d\d:\d\d:\d\d INFO  m goroutine=\d$`)
	got := strings.Split(strings.TrimSuffix(buf.String(), "\n"), "\n")
	for _, line := range got {
		if !whole.MatchString(line) {
			t.Fatalf("a broken line: %q", line)
		}
	}
	if len(got) != 800 {
		t.Errorf("%d lines instead of 800", len(got))
	}
}

// TestErrorByFormat guards against an error that prints with its type.
func TestErrorByFormat(t *testing.T) {
	got := lines(t, "text", 0, func(l *slog.Logger) { l.Info("m", "error", fmt.Errorf("outer: %w", errors.New("inner"))) })
	if got != "INFO  m: outer: inner\n" {
		t.Errorf("got %q", got)
	}
}
