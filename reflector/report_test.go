package reflector

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
)

func TestFailuresAloud(t *testing.T) {
	var f failures
	start := time.Now()
	for i, c := range []struct {
		attempt int
		at      time.Duration
		tries   int // 0: not told
	}{
		{1, 0, 1}, {2, 0, 1}, {16, 0, 1}, {17, 0, 0}, {18, toldEvery - 1, 0}, {19, toldEvery, 3}, {20, toldEvery + 1, 0},
		{1, toldEvery + 2, 1}, {2, toldEvery + 2, 1}, // another outage
		{17, time.Hour, 1}, {18, 2 * time.Hour, 1},
	} {
		if tries, tell := f.aloud(c.attempt, start.Add(c.at)); tries != c.tries || tell != (c.tries > 0) {
			t.Errorf("%d: attempt %d: %d tries, told %v; want %d", i, c.attempt, tries, tell, c.tries)
		}
	}
}

// away is a server where nobody listens.
type away struct{ named[any] }

func (away) List(context.Context, metav1.ListOptions, listwatch.Sink[any]) (metav1.ListMeta, error) {
	return metav1.ListMeta{}, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
}

// Of an outage of an hour the first sixteen tries are told, and then about one a minute.
func TestLongOutageIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r, err := New(Config[any]{ListerWatcher: away{}, InitialSync: InitialList, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := r.Run(ctx); err != nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		lines = lines[:len(lines)-1] // "stopped"
		if len(lines) < toldAloud+50 || len(lines) > toldAloud+60 {
			t.Errorf("%d lines in an hour:\n%s", len(lines), log.String())
		}
		for i, line := range lines {
			if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "connection refused") ||
				strings.Contains(line, " tries=1") != (i >= toldAloud) { // of 4 s each: 15 to 18
				t.Errorf("line %d: %s", i, line)
			}
		}
	})
}
