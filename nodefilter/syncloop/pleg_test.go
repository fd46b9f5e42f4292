package syncloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPLEGConfigValidate(t *testing.T) {
	t.Parallel()
	rt := &fakeRuntime{}
	for _, c := range []struct {
		cfg  PLEGConfig
		want string
	}{
		{PLEGConfig{}, "Runtime is nil"},
		{PLEGConfig{Runtime: rt, Period: -1}, "Period is -1ns"},
		{PLEGConfig{Runtime: rt, Period: time.Hour}, "Threshold is 3m0s, it must be more than the Period of 1h0m0s"},
		{PLEGConfig{Runtime: rt, Backlog: -1}, "Backlog is -1"},
	} {
		if _, err := NewPLEG(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewPLEG: %v, want %q", err, c.want)
		}
	}
}

// startPLEG runs a PLEG inside a synctest bubble until the test ends.
func startPLEG(t *testing.T, c PLEGConfig) *PLEG {
	t.Helper()
	p, err := NewPLEG(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p
}

func drain(p *PLEG) (out []string) {
	synctest.Wait()
	for {
		select {
		case e := <-p.Events():
			out = append(out, fmt.Sprintf("%s %s/%s", strings.TrimPrefix(string(e.Type), "Container"), e.Pod, e.ContainerID))
		default:
			return out
		}
	}
}

// TestPLEGEvents: what each change of a container's state is told as; the
// kubelet's table, with ContainerChanged told as well.
func TestPLEGEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, new, want string }{
		{"", "running", "Started"},
		{"", "exited", "Died"},
		{"", "unknown", "Changed"},
		{"running", "running", ""},
		{"running", "exited", "Died"},
		{"running", "unknown", "Changed"},
		{"running", "", "Died Removed"},
		{"exited", "exited", ""},
		{"exited", "running", "Started"},
		{"exited", "unknown", "Changed"},
		{"exited", "", "Removed"},
		{"unknown", "unknown", ""},
		{"unknown", "running", "Started"},
		{"unknown", "exited", "Died"},
		{"unknown", "", "Died Removed"},
	} {
		t.Run(c.old+" to "+c.new, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				pods := func(state string) []RuntimePod {
					if state == "" {
						return nil
					}
					return containers("p/c=" + state)
				}
				rt := &fakeRuntime{pods: pods(c.old)}
				p := startPLEG(t, PLEGConfig{Runtime: rt})
				drain(p)
				rt.set(func(f *fakeRuntime) { f.pods = pods(c.new) })
				time.Sleep(time.Second)
				var want []string
				for _, w := range strings.Fields(c.want) {
					want = append(want, w+" p/c")
				}
				if got := drain(p); !slices.Equal(got, want) {
					t.Errorf("told %q, want %q", got, want)
				}
				time.Sleep(5 * time.Second)
				if got := drain(p); len(got) != 0 {
					t.Errorf("told again: %q", got)
				}
				if st := p.Status(); len(p.known) > 1 || st.Containers != len(pods(c.new)) {
					t.Errorf("%d known, %+v", len(p.known), st)
				}
			})
		})
	}
}

// TestPLEGTwice: a container that the runtime says twice is told once, and two
// pods may have containers of one id.
func TestPLEGTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fakeRuntime{pods: containers("p/c=running", "q/c=running", "p/c=exited")}
		p := startPLEG(t, PLEGConfig{Runtime: rt})
		if got := drain(p); !slices.Equal(got, []string{"Started p/c", "Started q/c"}) {
			t.Errorf("told %q", got)
		}
	})
}

// TestPLEGNoRoom: "One that does not fit into the channel is counted and made
// again by the next relist."
func TestPLEGNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fakeRuntime{pods: containers("a/1=running", "b/2=running", "c/3=running", "d/4=running")}
		p := startPLEG(t, PLEGConfig{Runtime: rt, Backlog: 3})
		synctest.Wait()
		if st := p.Status(); st.Events != 3 || st.NoRoom != 1 || st.Waiting != len(p.events) || st.Waiting == 0 {
			t.Errorf("%+v", st)
		}
		// What changes while there is no room is told as it is in the end.
		rt.set(func(f *fakeRuntime) { f.pods = containers("a/1=running", "b/2=exited", "c/3=running") })
		time.Sleep(10 * time.Second)
		if got := drain(p); !slices.Equal(got, []string{"Started a/1", "Started b/2", "Started c/3"}) {
			t.Errorf("told %q", got)
		}
		time.Sleep(time.Second)
		if got := drain(p); !slices.Equal(got, []string{"Died b/2"}) {
			t.Errorf("told %q", got)
		}
		// Of the two events of a removal there is room for one at a time.
		rt.set(func(f *fakeRuntime) { f.pods = nil })
		var got []string
		for range 4 {
			time.Sleep(time.Second)
			got = append(got, drain(p)...)
		}
		if want := []string{"Died a/1", "Removed a/1", "Removed b/2", "Died c/3", "Removed c/3"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		if len(p.known) != 0 {
			t.Errorf("%d containers are remembered", len(p.known))
		}
	})
}

// TestPLEGPeriod: the next relist comes a period after the end of the one before.
func TestPLEGPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		rt := &fakeRuntime{takes: 3 * time.Second}
		p := startPLEG(t, PLEGConfig{Runtime: rt})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		var at []time.Duration
		rt.set(func(f *fakeRuntime) {
			for _, c := range f.calls {
				at = append(at, c.Sub(start))
			}
		})
		if !slices.Equal(at, []time.Duration{0, 4 * time.Second, 8 * time.Second}) {
			t.Errorf("relists at %v", at)
		}
		if st := p.Status(); st.Took != 3*time.Second || st.Total != 6*time.Second || st.LastRelist.Sub(start) != 4*time.Second {
			t.Errorf("%+v", st)
		}
		time.Sleep(2 * time.Second) // let the last call come back
		if err := p.Run(t.Context()); !errors.Is(err, ErrAlreadyRun) {
			t.Errorf("the second Run: %v", err)
		}
	})
}

// TestPLEGFailures: a relist that fails or panics removes nothing, is counted,
// each reason is logged once, and the PLEG is healthy until the threshold is over.
func TestPLEGFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fakeRuntime{err: errBroken, pods: containers("p/c=running")}
		var log strings.Builder
		p := startPLEG(t, PLEGConfig{Runtime: rt, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err := p.Healthy(); err == nil || !strings.Contains(err.Error(), "not listed yet") {
			t.Errorf("Healthy: %v", err)
		}
		time.Sleep(1500 * time.Millisecond)
		rt.set(func(f *fakeRuntime) { f.err = nil })
		time.Sleep(time.Second)
		if got := drain(p); !slices.Equal(got, []string{"Started p/c"}) {
			t.Errorf("told %q", got)
		}
		if st := p.Status(); st.Failed != 2 || st.Relists != 1 || st.Error != "" || p.Healthy() != nil {
			t.Errorf("%+v %v", st, p.Healthy())
		}
		rt.set(func(f *fakeRuntime) { f.pods, f.panic = nil, true })
		time.Sleep(3*time.Minute - 2*time.Second)
		if got, err := drain(p), p.Healthy(); len(got) != 0 || err != nil {
			t.Errorf("told %q, Healthy: %v", got, err)
		}
		time.Sleep(3 * time.Second)
		if err := p.Healthy(); err == nil || err.Error() != "the container runtime was last listed 3m2s ago, the threshold is 3m0s: its list panicked: runtime: nil map" {
			t.Errorf("Healthy: %v", err)
		}
		rt.set(func(f *fakeRuntime) { f.panic = false })
		time.Sleep(time.Second)
		if got, err := drain(p), p.Healthy(); !slices.Equal(got, []string{"Died p/c", "Removed p/c"}) || err != nil {
			t.Errorf("told %q, Healthy: %v", got, err)
		}
		synctest.Wait()
		if n, stacks := strings.Count(log.String(), "level=ERROR"), strings.Count(log.String(), "stack="); n != 2 || stacks != 1 {
			t.Errorf("%d lines of failures, %d with a stack, want one for each of two reasons, and one stack:\n%s", n, stacks, log.String())
		}
	})
}
