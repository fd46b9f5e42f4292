package listwatchtest

import (
	"sync"
	"time"
)

// timers are functions that run later, unless the server is closed before.
type timers struct {
	mu      sync.Mutex
	stopped bool
	running map[*time.Timer]struct{}
	wg      sync.WaitGroup
}

// after runs f in its own goroutine after d.
func (t *timers) after(d time.Duration, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if t.running == nil {
		t.running = make(map[*time.Timer]struct{})
	}
	t.wg.Add(1)
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		defer t.wg.Done()
		t.mu.Lock()
		delete(t.running, timer)
		stopped := t.stopped
		t.mu.Unlock()
		if !stopped {
			f()
		}
	})
	t.running[timer] = struct{}{}
}

// stop cancels what has not run and waits for what runs.
func (t *timers) stop() {
	t.mu.Lock()
	t.stopped = true
	for timer := range t.running {
		if timer.Stop() {
			t.wg.Done()
		}
	}
	t.running = nil
	t.mu.Unlock()
	t.wg.Wait()
}
