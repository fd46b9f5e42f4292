package podconfig

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// during runs a source, in a bubble, for as long as test takes. It has to end
// without an error, and within limit.
func during(t *testing.T, source Producer, tell func(Change), limit time.Duration, test func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx, tell) }()
	synctest.Wait()
	test()
	before := time.Now()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if d := time.Since(before); d > limit {
		t.Errorf("Run took %v to end", d)
	}
}

// logLines keeps what was logged.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logLines) count(text string) int { return strings.Count(l.String(), text) }

func (l *logLines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
