package reflector

import (
	"context"
	"runtime"
	"sync"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// A line has the objects of a large list or watch-list, or of a burst of a watch, decoded on several cores and hands them on in the
// order in which they came.
//
// Run's goroutine reads, judges what comes by its metadata, and copies what has to be decoded
// into a batch. A full batch goes to the workers. The results are settled by Run's goroutine again, the
// oldest batch first, when lineDepth batches are on their way and when the list or burst ends. When
// that is depends on the objects alone, not on how fast the workers are, so the same list
// makes the same changes in the same order on every machine.
//
// What is in the line is not in the store yet, so two versions of one object are never in it at one
// time: see has. Its memory is bounded: lineDepth batches of some batchBytes.
type line[T any] struct {
	r      *Reflector[T]
	ctx    context.Context // when it ends, what is in the line is given up
	settle func(*job[T])   // takes one object that was decoded

	came    int  // objects to decode so far
	off     bool // each is decoded where it is read
	queue   chan *batch[T]
	workers sync.WaitGroup
	open    *batch[T]   // being filled, or nil
	flying  []*batch[T] // with the workers, the oldest first
	free    []*batch[T]
	keys    map[decode.Key]struct{} // of all objects in the line
	kind    decode.Kind             // of the object that came last
}

// lineShape is the size of a line.
type lineShape struct {
	// workers is how many goroutines decode; below two there is no line.
	workers int
	// first is how many objects of each list or burst are decoded where they are read. One that is no
	// longer is over by the time that workers would have begun.
	first int
	// A batch is full with so many objects, or batchBytes.
	objects int
}

// newLineShape returns the one in use: docs/design.md says what it gains. More than four workers would wait for
// the one goroutine that reads.
func newLineShape() lineShape {
	return lineShape{workers: min(runtime.GOMAXPROCS(0), 4), first: 32, objects: 16}
}

const (
	batchBytes = 64 << 10
	// lineDepth: so many batches are with the workers at most. With the one that is being filled
	// they are at most 7 * 2 * batchBytes, since a larger object does not go through the line, and as much room for the next ones.
	lineDepth = 6
	// fewJobs are done where they are when nothing else is in the line: to wake a worker takes longer.
	fewJobs = 4
)

// batch is what a worker does at a time.
type batch[T any] struct {
	jobs  []job[T]
	bytes int
	done  chan struct{} // holds a token when all jobs are done
}

// job is one object on its way.
type job[T any] struct {
	o   decode.Object[T] // its bytes are buf
	buf []byte           // used again
	old *entry[T]        // what is stored under its key, or nil
	c   content[T]
	err error
}

// has reports whether an object of that name is in the line. Nothing can be said of it then
// before it is settled.
func (l *line[T]) has(k decode.Key) bool {
	_, ok := l.keys[k]
	return ok
}

// await settles what is in the line if an object of that name is.
func (l *line[T]) await(k decode.Key) {
	if l.has(k) {
		l.drain()
	}
}

// busy reports whether there is something in the line.
func (l *line[T]) busy() bool { return len(l.keys) > 0 }

// add takes o into the line. If it returns false the line is empty, and o is to be decoded where it is.
func (l *line[T]) add(o *decode.Object[T], old *entry[T]) bool {
	l.came++
	if l.off || l.came <= l.r.shape.first || l.r.shape.workers < 2 || len(o.Raw) > batchBytes {
		l.drain()
		return false
	}
	if l.queue == nil {
		l.start()
	}
	if l.open == nil {
		l.open = l.empty()
	}
	b := l.open
	b.jobs = b.jobs[:len(b.jobs)+1]
	j := &b.jobs[len(b.jobs)-1]
	j.o, j.old = *o, old
	j.buf = j.o.Detach(j.buf, &l.kind)
	l.keys[j.o.Meta.Key()] = struct{}{}
	if b.bytes += len(j.buf); b.bytes >= batchBytes || len(b.jobs) == cap(b.jobs) {
		l.dispatch()
	}
	return true
}

func (l *line[T]) start() {
	l.queue = make(chan *batch[T], lineDepth)
	l.keys = make(map[decode.Key]struct{})
	for range l.r.shape.workers {
		l.workers.Go(l.work)
	}
}

func (l *line[T]) work() {
	for b := range l.queue {
		l.do(b)
	}
}

// do makes the objects of b.
func (l *line[T]) do(b *batch[T]) {
	for i := range b.jobs {
		if l.ctx.Err() != nil {
			break
		}
		j := &b.jobs[i]
		j.c, j.err = l.r.make(&j.o, j.old)
	}
	b.done <- struct{}{}
}

func (l *line[T]) empty() *batch[T] {
	if n := len(l.free); n > 0 {
		b := l.free[n-1]
		l.free = l.free[:n-1]
		return b
	}
	return &batch[T]{jobs: make([]job[T], 0, l.r.shape.objects), done: make(chan struct{}, 1)}
}

// dispatch hands the open batch over, once there is room for it.
func (l *line[T]) dispatch() {
	if len(l.flying) == lineDepth {
		l.land()
	}
	l.queue <- l.open // it has room for all that are flying
	l.flying = append(l.flying, l.open)
	l.open = nil
}

// land waits for the oldest batch and settles it.
func (l *line[T]) land() {
	b := l.flying[0]
	l.flying = append(l.flying[:0], l.flying[1:]...)
	<-b.done
	for i := range b.jobs {
		j := &b.jobs[i]
		delete(l.keys, j.o.Meta.Key())
		if l.ctx.Err() == nil {
			l.settle(j)
		}
		*j = job[T]{buf: j.buf[:0]} // what it held is not held by a batch that is free
	}
	held, all := 0, b.jobs[:cap(b.jobs)]
	for i := range all { // each buffer is as large as the largest object that it had
		if held += cap(all[i].buf); held > 2*batchBytes {
			held -= cap(all[i].buf)
			all[i].buf = nil
		}
	}
	b.jobs, b.bytes = b.jobs[:0], 0
	l.free = append(l.free, b)
}

// drain settles all that is in the line, or gives it up if the context has ended.
func (l *line[T]) drain() {
	if b := l.open; b != nil && len(l.flying) == 0 && len(b.jobs) < fewJobs {
		l.open, l.flying = nil, append(l.flying, b)
		l.do(b)
	} else if b != nil {
		l.dispatch()
	}
	for len(l.flying) > 0 {
		l.land()
	}
}

// close drains the line and ends its workers. What comes afterwards is decoded where it is read.
func (l *line[T]) close() {
	l.off = true
	l.drain()
	if l.queue != nil {
		close(l.queue)
		l.workers.Wait()
		l.queue = nil
	}
}
