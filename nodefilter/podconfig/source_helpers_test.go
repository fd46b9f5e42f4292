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

	"github.com/nodewatch-go/nodewatch/internal/testkit"
)

// during runs a source, in a bubble, for as long as test takes. It has to end
// without an error, and within limit.
func during(t *testing.T, source Producer, tell func(Change), limit time.Duration, test func()) {
	t.Helper()
	stop := testkit.Start(t, limit, func(ctx context.Context) error { return source.Run(ctx, tell) })
	synctest.Wait()
	test()
	stop()
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
