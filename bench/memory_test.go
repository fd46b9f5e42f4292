package bench

import (
	"runtime"
	"runtime/metrics"
	"syscall"
	"testing"
	"time"
)

// The runtime's own names of what is sampled.
const (
	heapObjects = "/memory/classes/heap/objects:bytes" // live, and dead but not yet swept
	heapAllocs  = "/gc/heap/allocs:objects"            // so far; tiny ones that share a block count once each
	heapTiny    = "/gc/heap/tiny/allocs:objects"
	allocBytes  = "/gc/heap/allocs:bytes"
	liveObjects = "/gc/heap/objects:objects"
)

func sample(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// allocated is how many objects and bytes this process has allocated so far.
func allocated() (objects, bytes uint64) {
	return sample(heapAllocs) + sample(heapTiny), sample(allocBytes)
}

// settle collects until what is dead is gone: finalizers and weak pointers take a second round.
func settle() {
	for range 3 {
		runtime.GC()
	}
}

// watchPeak samples the heap each millisecond and returns the largest value when
// the returned function is called. The collector runs as it likes: what is measured
// is what a container must have, garbage that is not yet collected included.
func watchPeak() (peak func() uint64) {
	stop, result := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		most := sample(heapObjects)
		for {
			select {
			case <-tick.C:
				most = max(most, sample(heapObjects))
			case <-stop:
				result <- max(most, sample(heapObjects))
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-result
	}
}

// usedCPU is the user and system time of this process. Other work on the machine has less
// influence on it than on the time that passes.
func usedCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	used, err := usedCPU()
	if err != nil {
		b.Fatal(err)
	}
	return used
}

// TestPeak: what was there for some milliseconds is seen.
func TestPeak(t *testing.T) {
	settle()
	before := sample(heapObjects)
	peak := watchPeak()
	block := make([]byte, 64<<20)
	for i := range block {
		block[i] = 1 // takes longer than a sample
	}
	runtime.KeepAlive(block)
	if got := peak(); got < before+64<<20 || got > before+72<<20 {
		t.Errorf("the peak is %d above what was there, want the %d of the block", got-before, 64<<20)
	}
}
