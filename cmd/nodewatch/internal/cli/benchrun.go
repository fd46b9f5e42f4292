package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"time"

	clients "github.com/nodewatch-go/nodewatch/bench/loopback"
	"github.com/nodewatch-go/nodewatch/bench/replay"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// benchEncoding is a media type with the name that the user knows.
type benchEncoding struct{ name, mediaType string }

// benchRow is one figure of bench.
type benchRow struct {
	What              string  `json:"what"` // list or watch
	Encoding          string  `json:"encoding"`
	Items             int     `json:"items"`
	PerSecond         float64 `json:"perSecond"`
	ReadOnlyPerSecond float64 `json:"readOnlyPerSecond"`
	BytesPerSecond    float64 `json:"bytesPerSecond"`
	HeapPerPod        uint64  `json:"heapBytesPerPod,omitempty"`
}

// timing is what one client took.
type timing struct {
	list, watch time.Duration
	heap        uint64 // above what there was before it, when all is listed
}

// measure lists and watches pods in one encoding from a server of its own.
func measure(ctx context.Context, e benchEncoding, pods, events int) (rows []benchRow, err error) {
	srv, err := replay.New(replay.Config{MediaType: e.mediaType, Pods: pods})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	web := &http.Server{Handler: srv.Handler(replay.Plain), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(replay.Gather(web, l)) }()
	defer func() {
		err = errors.Join(err, web.Close())
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
	}()

	at := clients.Target{URL: "http://" + l.Addr().String(), Link: clients.HTTP1, MediaType: e.mediaType, Fields: clients.Dropped}
	var times [2]timing
	for i, start := range []clients.Start{clients.Discard, clients.Nodewatch(reflector.ObjectsShared)} {
		if times[i], err = timed(ctx, srv, start, at, 1+i, events); err != nil {
			return nil, err
		}
	}
	readOnly, own := times[0], times[1]
	row := func(what string, items, bytes int, own, readOnly time.Duration) benchRow {
		return benchRow{
			What: what, Encoding: e.name, Items: items, PerSecond: float64(items) / own.Seconds(),
			ReadOnlyPerSecond: float64(items) / readOnly.Seconds(), BytesPerSecond: float64(bytes) / own.Seconds(),
		}
	}
	list := row("list", pods, srv.CollectionBytes(), own.list, readOnly.list)
	list.HeapPerPod = own.heap / uint64(pods)
	return []benchRow{list, row("watch", events, events*srv.MeanEventBytes(), own.watch, readOnly.watch)}, nil
}

// timed runs one client through a list and a watch, which is the server's watches-th.
func timed(ctx context.Context, srv *replay.Server, start clients.Start, at clients.Target, watches, events int) (t timing, err error) {
	before := heapInUse()
	begun := time.Now()
	s, err := start(ctx, at)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	t.list = time.Since(begun)
	if err := srv.Watches(ctx, watches); err != nil {
		return t, err
	}
	after := heapInUse()
	t.heap = after - min(after, before)
	// Some events first, so that what is made once is made.
	for _, n := range []int{min(events, 1_000), events} {
		begun = time.Now()
		if err := s.Events(ctx, srv, n); err != nil {
			return t, fmt.Errorf("%d events: %w", n, err)
		}
	}
	t.watch = time.Since(begun)
	return t, nil
}

// heapInUse is what is alive on the heap.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
