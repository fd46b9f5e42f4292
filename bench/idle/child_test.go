package idle

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
)

// task is what a client's process is told.
type task struct {
	Client  string
	At      target
	Batches []int // how many watches to open before each reading
	// Profiles is the folder for pprof's goroutine and heap profiles at the last reading; "" is none.
	Profiles string
}

// reading is what a process has at one time.
type reading struct {
	Heap       uint64 // bytes of live objects
	InUse      uint64 // bytes of the heap's spans that have any
	Stack      uint64 // bytes of stacks
	Resident   uint64 // bytes of memory, as the kernel counts it
	Goroutines int
}

// total is heap and stack.
func (r reading) total() uint64 { return r.Heap + r.Stack }

// runChild is the process of a client. For each batch it opens the watches, says when it has seen a pod
// on each node, and again when all of these have gone; when it is told to, it writes a reading. It ends with
// its standard input.
func runChild(spec string) error {
	var t task
	if err := json.Unmarshal([]byte(spec), &t); err != nil {
		return err
	}
	if t.Profiles != "" {
		runtime.MemProfileRate = 512
	}
	var open opener
	for _, c := range clients {
		if c.name == t.Client {
			var err error
			if open, err = c.make(t.At); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	told := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			told <- struct{}{}
		}
		os.Exit(0) // the parent has what it wants, or has gone
	}()
	var came, gone count
	out := json.NewEncoder(os.Stdout)
	at := 0
	for _, n := range t.Batches {
		for range n {
			if err := open(ctx, nodeName(at), came.add, gone.add); err != nil {
				return err
			}
			at++
		}
		<-came.until(at)
		if err := out.Encode("came"); err != nil {
			return err
		}
		<-gone.until(at)
		if err := out.Encode("gone"); err != nil {
			return err
		}
		<-told
		r := settle()
		if err := writeProfiles(t); err != nil {
			return err
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	select {}
}

// settle reads when the collector finds nothing more to free: pools need two cycles, and a stack becomes half
// as large in each. An idle process has one every two minutes.
func settle() reading {
	for range 8 {
		runtime.GC()
	}
	return read()
}

func read() reading {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return reading{m.HeapAlloc, m.HeapInuse, m.StackInuse, resident(), runtime.NumGoroutine()}
}

// resident is 0 where the kernel does not say.
func resident() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages uint64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

// count counts, and tells of one number when it is there.
type count struct {
	mu      sync.Mutex
	n, goal int
	reached chan struct{}
}

func (c *count) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.tell()
}

func (c *count) until(goal int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	reached := make(chan struct{})
	c.goal, c.reached = goal, reached
	c.tell()
	return reached
}

func (c *count) tell() {
	if c.reached != nil && c.n >= c.goal {
		close(c.reached)
		c.reached = nil
	}
}

// writeProfiles replaces the profiles that there are.
func writeProfiles(t task) error {
	if t.Profiles == "" {
		return nil
	}
	for _, name := range []string{"goroutine", "heap"} {
		f, err := os.Create(filepath.Join(t.Profiles, t.Client+"."+name))
		if err != nil {
			return err
		}
		if err := pprof.Lookup(name).WriteTo(f, 0); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
