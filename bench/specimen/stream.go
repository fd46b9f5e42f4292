package specimen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// FirstUpdate is the resourceVersion of the first event of a Stream, above those
// of Pods and below what has eight digits.
const FirstUpdate = 2_000_000

// A Stream is an endless series of MODIFIED events of known pods: one of each pod,
// then the next of each. Neighbours in it are of different ReplicaSets, as
// they are where nodes write when they have to. Each event has a resourceVersion, times
// and IDs of containers that no other event has; they are written into encoded
// events, which costs little more than copying them.
type Stream struct {
	frames []frame // the pods in the order of their numbers, and so for each version
	pods   int
	stride int
	sent   int
}

// frame is one event as bytes, with the places of what each event has of its own.
type frame struct {
	raw                        []byte
	version, times, ids, stamp []int
	binary                     bool
}

// NewStream returns a stream of the specimens 0 to pods-1. The events of a stamped one have
// the time at which they were made in SentAnnotation.
func NewStream(mediaType string, pods int, stamped bool) (*Stream, error) {
	if pods < 1 {
		return nil, fmt.Errorf("specimen: a stream of %d pods has no events; one pod is the least", pods)
	}
	s := &Stream{frames: make([]frame, pods*versions), pods: pods, stride: stride(pods)}
	err := parallel(len(s.frames), func(first, last int) error {
		for k := first; k < last; k++ {
			raw, err := event(mediaType, watch.Modified, update(k%pods, 1+k/pods, stamped))
			if err != nil {
				return err
			}
			if s.frames[k], err = newFrame(mediaType, raw); err != nil {
				return err
			}
		}
		return nil
	})
	return s, err
}

// stride is about 0.6 n and has no common divisor with n, so that its multiples
// modulo n are all numbers below n.
func stride(n int) int {
	for s := n * 618 / 1000; s > 1; s-- {
		a, b := n, s
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return s
		}
	}
	return 1
}

// Number returns the number of the pod that event k is of; the first is event 0.
func (s *Stream) Number(k int) int { return k % s.pods * s.stride % s.pods }

// parallel calls f for the ranges that 0 to n-1 is divided into, on all processors.
func parallel(n int, f func(first, last int) error) error {
	var wg sync.WaitGroup
	parts := max(1, min(runtime.GOMAXPROCS(0), n))
	errs := make([]error, parts)
	for p := range parts {
		wg.Go(func() { errs[p] = f(n*p/parts, n*(p+1)/parts) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func newFrame(mediaType string, raw []byte) (frame, error) {
	f := frame{raw: raw, binary: mediaType == Protobuf}
	clock := appendTime(nil, mockTime, f.binary)
	f.version, f.times = places(raw, []byte(mockVersion)), places(raw, clock)
	f.ids, f.stamp = places(raw, []byte(mockID)), places(raw, []byte(mockSent))
	if len(f.version) != 1 || len(f.times) == 0 || len(f.stamp) > 1 {
		return frame{}, fmt.Errorf("specimen: an event has its resourceVersion at %v and the time at %v: one and at least one place are needed", f.version, f.times)
	}
	return f, nil
}

// places returns where word is in raw.
func places(raw, word []byte) (at []int) {
	for from := 0; ; {
		i := bytes.Index(raw[from:], word)
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + len(word)
	}
}

// appendTime appends t as it is encoded, which has the same length for all
// times from 1978 to 3058: 20 characters, or a varint of five bytes.
func appendTime(dst []byte, t time.Time, binaryForm bool) []byte {
	if binaryForm {
		return binary.AppendUvarint(dst, uint64(t.Unix()))
	}
	return t.AppendFormat(dst, time.RFC3339)
}

// Append appends the next event, framed as an API server frames it. It panics after
// seven million.
func (s *Stream) Append(dst []byte) []byte {
	version := FirstUpdate + s.sent
	if version >= 10_000_000 {
		panic("specimen: the resourceVersions of seven digits are used up; make a new Stream")
	}
	f := &s.frames[s.sent/s.pods%versions*s.pods+s.Number(s.sent)]
	start := len(dst)
	dst = append(dst, f.raw...)
	raw := dst[start:]
	var word [32]byte
	put := func(at []int, value []byte) {
		for _, i := range at {
			copy(raw[i:], value)
		}
	}
	put(f.version, strconv.AppendInt(word[:0], int64(version), 10))
	put(f.times, appendTime(word[:0], base.Add(time.Duration(24*365+s.sent)*time.Second), f.binary))
	for k, i := range f.ids {
		// 16 hexadecimal digits, as mockID has; an odd factor keeps them different.
		id := (uint64(version)<<8 | uint64(k)) * 0x9E3779B97F4A7C15
		for d := range len(mockID) {
			raw[i+d] = "0123456789abcdef"[id>>(60-4*d)&15]
		}
	}
	if len(f.stamp) > 0 {
		put(f.stamp, strconv.AppendInt(word[:0], time.Now().UnixNano(), 10))
	}
	s.sent++
	return dst
}

// Again returns a stream that begins with the first event, and costs nothing to make.
func (s *Stream) Again() *Stream {
	again := *s
	again.sent = 0
	return &again
}

// MeanBytes is the mean length of an event.
func (s *Stream) MeanBytes() int {
	sum := 0
	for i := range s.frames {
		sum += len(s.frames[i].raw)
	}
	return sum / len(s.frames)
}

// Reader returns the stream as a body that does not end. It is for one
// goroutine, and moves the stream on.
func (s *Stream) Reader() *Reader { return &Reader{stream: s} }

// Reader reads a Stream.
type Reader struct {
	stream *Stream
	buf    []byte
	next   int
}

// Read never fails and never returns 0 bytes but for an empty p.
func (r *Reader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if r.next == len(r.buf) {
			r.buf, r.next = r.stream.Append(r.buf[:0]), 0
		}
		k := copy(p[n:], r.buf[r.next:])
		n, r.next = n+k, r.next+k
	}
	return n, nil
}

// Close does nothing.
func (r *Reader) Close() error { return nil }
