package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nodewatch-go/nodewatch/bench/loopback"
	"github.com/nodewatch-go/nodewatch/bench/replay"
)

// long adds the collections that take minutes.
var long = flag.Bool("long", false, "measure lists of 100,000 pods too")

// listJob is what the process of a lister does.
type listJob struct {
	Impl    string
	Target  loopback.Target
	Pods    int
	Control string
	// Relists: the collection is listed twice more, unchanged. Not for watch-lists, whose watch is open
	// before the client has dealt with the initial events.
	Relists bool
}

// listCost is what it cost. Bytes and objects of the heap are above those of the
// process before it began.
type listCost struct {
	Time time.Duration // from the request until all is in the store
	// CPU is the processor time of the process in it, Allocs and Peak are of it too.
	CPU          time.Duration
	Allocs, Peak uint64
	// Rest and Objects are on the heap when nothing happens any more.
	Rest, Objects uint64
	// GC is a full collection then.
	GC time.Duration

	// The first relist: processor time of the process, allocations, objects handed on.
	RelistCPU    time.Duration
	RelistAllocs uint64
	RelistHanded int64
	// RelistPeak is of the second one.
	RelistPeak uint64
}

// listChild is the process of a lister.
func listChild(arg string) error {
	var job listJob
	if err := json.Unmarshal([]byte(arg), &job); err != nil {
		return err
	}
	cost, err := job.run()
	if err != nil {
		return fmt.Errorf("%s: %w", job.Impl, err)
	}
	return json.NewEncoder(os.Stdout).Encode(cost)
}

func clientNamed(name string) (client, error) {
	for _, c := range append(slices.Clone(listClients), discard) {
		if c.name == name {
			return c, nil
		}
	}
	return client{}, errors.New("there is no client of this name")
}

func (job listJob) run() (cost listCost, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c, err := clientNamed(job.Impl)
	if err != nil {
		return cost, err
	}
	srv := replay.Remote{URL: job.Control}
	watches, err := srv.Opened(ctx) // also: what the control needs is there
	if err != nil {
		return cost, err
	}
	watches++
	settle()
	base, baseObjects := sample(heapObjects), sample(liveObjects)
	above := func(v, base uint64) uint64 { return v - min(v, base) }

	peak := watchPeak()
	before, _ := allocated()
	used, err := usedCPU()
	if err != nil {
		return cost, err
	}
	begun := time.Now()
	s, err := c.start(ctx, job.Target)
	if err != nil {
		return cost, err
	}
	cost.Time = time.Since(begun)
	now, err := usedCPU()
	if err != nil {
		return cost, err
	}
	cost.CPU = now - used
	after, _ := allocated()
	cost.Allocs, cost.Peak = after-before, above(peak(), base)
	if err := srv.Watches(ctx, watches); err != nil {
		return cost, err
	}
	if s.InBytes {
		return cost, s.Stop()
	}

	settle()
	cost.Rest, cost.Objects = above(sample(heapObjects), base), above(sample(liveObjects), baseObjects)
	cost.GC = math.MaxInt64
	for range 5 {
		begun := time.Now()
		runtime.GC()
		cost.GC = min(cost.GC, time.Since(begun))
	}
	if job.Relists {
		if err := job.relist(ctx, srv, s, watches, base, &cost); err != nil {
			return cost, err
		}
	}
	runtime.KeepAlive(s)
	return cost, s.Stop()
}

// relist makes the client list twice more: once for processor time, without a
// sampler that would cost some, and once for the peak.
func (job listJob) relist(ctx context.Context, srv replay.Remote, s *loopback.Session, watches int, base uint64, cost *listCost) error {
	handed := s.Handed()
	before, _ := allocated()
	used, err := usedCPU()
	if err != nil {
		return err
	}
	again := func() error {
		watches++
		return errors.Join(srv.Expire(ctx), srv.Watches(ctx, watches))
	}
	if err := again(); err != nil {
		return err
	}
	now, err := usedCPU()
	if err != nil {
		return err
	}
	after, _ := allocated()
	cost.RelistCPU, cost.RelistAllocs, cost.RelistHanded = now-used, after-before, s.Handed()-handed

	settle()
	peak := watchPeak()
	if err := again(); err != nil {
		return err
	}
	most := peak()
	cost.RelistPeak = most - min(most, base)
	return nil
}

// listed runs a job in a process of its own.
func listed(t testing.TB, srv *remote, impl string, link loopback.Link, fields loopback.Fields, relists bool) listCost {
	t.Helper()
	cmd := childCommand(t, listerRole, listJob{
		Impl: impl, Target: srv.target(link, fields), Pods: srv.cfg.Pods, Control: srv.Control, Relists: relists,
	})
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the lister: %v", err)
	}
	var cost listCost
	if err := json.Unmarshal(out, &cost); err != nil {
		t.Fatalf("the lister printed %q: %v", out, err)
	}
	return cost
}

// TestListCost: the costs are of the right order, and a relist of unchanged pods hands on nothing
// in nodewatch and all in client-go.
func TestListCost(t *testing.T) {
	const pods = 200
	for _, watchList := range []bool{false, true} {
		srv := startServer(t, replay.Config{MediaType: encodings[1].mediaType, Pods: pods, WatchList: watchList})
		for _, c := range listClients {
			if watchList && c.name != implNodewatch && c.name != implClientGo {
				continue
			}
			t.Run(fmt.Sprint(c.name, " watchlist=", watchList), func(t *testing.T) {
				cost := listed(t, srv, c.name, loopback.HTTP1, loopback.Dropped, !watchList)
				perPod := cost.Rest / pods
				if perPod < 1_000 || perPod > 40_000 || cost.Peak < cost.Rest/2 || cost.Allocs < pods || cost.Objects < pods {
					t.Errorf("implausible: %+v", cost)
				}
				if cost.Time <= 0 || cost.GC <= 0 {
					t.Errorf("not measured: %+v", cost)
				}
				if watchList {
					return
				}
				if cost.RelistCPU <= 0 || cost.RelistPeak == 0 {
					t.Errorf("not measured: %+v", cost)
				}
				want := int64(0)
				if c.name == implClientGo {
					want = pods
				}
				if cost.RelistHanded != want {
					t.Errorf("a relist handed on %d objects, want %d", cost.RelistHanded, want)
				}
			})
		}
	}
}

// BenchmarkList: one operation is a list of all pods. The other figures are of the same process
// after it: heap at rest, a full collection, a relist of the unchanged pods.
func BenchmarkList(b *testing.B) {
	for _, enc := range encodings {
		for _, pods := range []int{1_000, benchPods} {
			cfg := replay.Config{MediaType: enc.mediaType, Pods: pods}
			for _, c := range append(slices.Clone(listClients), discard) {
				benchmarkList(b, cfg, c, enc, loopback.HTTP1, loopback.Dropped)
			}
			if pods < benchPods {
				continue
			}
			for _, c := range clients {
				benchmarkList(b, cfg, c, enc, loopback.HTTP1, loopback.Kept)
				benchmarkList(b, cfg, c, enc, loopback.Gzip, loopback.Dropped)
			}
		}
	}
	if !*long {
		return
	}
	for _, enc := range encodings {
		for _, watchList := range []bool{false, true} {
			for _, c := range clients {
				benchmarkList(b, replay.Config{MediaType: enc.mediaType, Pods: 100_000, WatchList: watchList}, c, enc, loopback.HTTP1, loopback.Dropped)
			}
		}
	}
}

// listSamples is how many lists of benchPods pods one run takes the median of. Of one process to the next client-go's take up to
// twice as long, by where the cycles of the collector fall.
const listSamples = 5

func benchmarkList(b *testing.B, cfg replay.Config, c client, enc encoding, link loopback.Link, fields loopback.Fields) {
	name := fmt.Sprintf("pods=%d/link=%s/encoding=%s/fields=%s/impl=%s", cfg.Pods, link, enc.name, fields, c.name)
	if cfg.WatchList {
		name = "initial=watchlist/" + name
	}
	b.Run(name, func(b *testing.B) {
		srv := sharedServer(b, cfg)
		relists := fields == loopback.Dropped && link == loopback.HTTP1 && !cfg.WatchList
		samples := b.N
		if relists && cfg.Pods == benchPods {
			samples *= listSamples
		}
		var costs []listCost
		for i := range samples {
			costs = append(costs, listed(b, srv, c.name, link, fields, relists && i < b.N))
		}
		pods := float64(cfg.Pods)
		median := func(costs []listCost, unit string, of func(listCost) float64) {
			var all []float64
			for _, cost := range costs {
				all = append(all, of(cost))
			}
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2], unit)
		}
		report := func(unit string, of func(listCost) float64) { median(costs, unit, of) }
		report("ns/op", func(c listCost) float64 { return float64(c.Time) })
		report("cpu-ns/op", func(c listCost) float64 { return float64(c.CPU) })
		if c.name == discard.name {
			return
		}
		if link != loopback.Gzip {
			b.ReportMetric(float64(srv.Bytes), "wire-B")
		}
		report("peak-B", func(c listCost) float64 { return float64(c.Peak) })
		report("allocs/pod", func(c listCost) float64 { return float64(c.Allocs) / pods })
		report("rest-B/pod", func(c listCost) float64 { return float64(c.Rest) / pods })
		report("rest-objects/pod", func(c listCost) float64 { return float64(c.Objects) / pods })
		report("gc-ns", func(c listCost) float64 { return float64(c.GC) })
		if costs[0].RelistCPU == 0 {
			return
		}
		report = func(unit string, of func(listCost) float64) { median(costs[:b.N], unit, of) }
		report("relist-cpu-ns", func(c listCost) float64 { return float64(c.RelistCPU) })
		report("relist-allocs/pod", func(c listCost) float64 { return float64(c.RelistAllocs) / pods })
		report("relist-handed", func(c listCost) float64 { return float64(c.RelistHanded) })
		report("relist-peak-B", func(c listCost) float64 { return float64(c.RelistPeak) })
		report("relist-peak/rest", func(c listCost) float64 { return float64(c.RelistPeak) / float64(c.Rest) })
	})
}
