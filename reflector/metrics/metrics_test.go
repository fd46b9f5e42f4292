package metrics

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// fakeSource is a reflector that says what a test wants.
type fakeSource struct {
	status reflector.Status
	stats  reflector.Stats
}

func (f *fakeSource) Status() reflector.Status { return f.status }
func (f *fakeSource) Stats() reflector.Stats   { return f.stats }

type fakeRegistry struct{ sources []reflector.Source }

func (f *fakeRegistry) Sources() []reflector.Source { return f.sources }

// fullSource has a different number in every field, so that a mix-up shows.
func fullSource() *fakeSource {
	now := time.Now()
	hist := func(n uint64, sum time.Duration) reflector.Histogram {
		return reflector.Histogram{Count: n, Sum: sum, Buckets: []reflector.Bucket{
			{UpperBound: 100 * time.Millisecond, Count: n - 2}, {UpperBound: time.Second, Count: n - 1},
		}}
	}
	return &fakeSource{
		status: reflector.Status{
			Name: "agent", Resource: "pods", State: reflector.StateBackingOff, Synced: true,
			ResourceVersion: "4711", FreshAsOf: now.Add(-90 * time.Second), Objects: 17,
			Quarantined: make([]reflector.Quarantined, 2),
		},
		stats: reflector.Stats{
			Lists:      map[string]uint64{"success": 3, "error": 4},
			WatchLists: map[string]uint64{"success": 5},
			ListItems:  60, ListSkips: 7, Watches: 8,
			Events:       map[string]uint64{"ADDED": 9, "MODIFIED": 10, "UNKNOWN": 11},
			Restarts:     map[reason.Reason]uint64{reason.EOF: 12, reason.Expired: 13},
			DecodeErrors: 14, Ignored: map[string]uint64{"foreign": 15}, Regressions: 16, Panics: 18,
			WireBytes: 1900, DecodedBytes: 2000,
			LastByte: now.Add(-21 * time.Second), LastBookmark: now.Add(-22 * time.Second),
			BackoffDelay: 23 * time.Second, BackoffTotal: 2400 * time.Millisecond,
			ListDuration: hist(25, 26*time.Second), WatchDuration: hist(27, 28*time.Second), HandlerDuration: hist(29, 30*time.Second),
			Subscribers: 31, MailboxDepth: 32, MailboxAge: 34 * time.Second, Coalesced: 33, Resyncs: 35,
			Mailboxes:    []reflector.Mailbox{{Depth: 36}, {Policy: reflector.Resync, Depth: 37}, {Policy: reflector.Resync, Depth: 1}},
			BlockedSince: now.Add(-39 * time.Second), BlockedTotal: 40 * time.Second, Retained: 41,
		},
	}
}

// goldenPath has the exposition of fullSource, written by -update and read by
// people: each field has a number of its own.
const goldenPath = "testdata/full.prom"

// TestExposition holds the text that a scrape of fullSource returns.
func TestExposition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // virtual time: ages are exact
		c := newCollector(&fakeRegistry{sources: []reflector.Source{fullSource()}})
		if *update {
			reg := prometheus.NewPedanticRegistry()
			reg.MustRegister(c)
			if err := prometheus.WriteToTextfile(goldenPath, reg); err != nil {
				t.Fatal(err)
			}
		}
		if err := testutil.CollectAndCompare(c, strings.NewReader(read(t, goldenPath))); err != nil {
			t.Error(err)
		}
	})
}

// TestEveryStat: a count that a reflector keeps is shown. Each field of Stats is
// set to zero in turn, and the exposition must change.
func TestEveryStat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exposition := func(s *fakeSource) string {
			t.Helper()
			reg := prometheus.NewPedanticRegistry()
			reg.MustRegister(newCollector(&fakeRegistry{sources: []reflector.Source{s}}))
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(families)
		}
		full := exposition(fullSource())
		fields := reflect.TypeFor[reflector.Stats]()
		for i := range fields.NumField() {
			src := fullSource()
			v := reflect.ValueOf(&src.stats).Elem().Field(i)
			if v.IsZero() {
				t.Errorf("fullSource has nothing in Stats.%s: give it a number of its own", fields.Field(i).Name)
				continue
			}
			v.SetZero()
			if exposition(src) == full {
				t.Errorf("no metric shows Stats.%s", fields.Field(i).Name)
			}
		}
	})
}

func TestLint(t *testing.T) {
	t.Parallel()
	problems, err := testutil.CollectAndLint(newCollector(&fakeRegistry{sources: []reflector.Source{fullSource()}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestDescribe: a pedantic registry compares what is described with what is
// collected, names, labels and help.
func TestDescribe(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	second := fullSource()
	second.status.Name = "other"
	if err := reg.Register(newCollector(&fakeRegistry{sources: []reflector.Source{fullSource(), second, &fakeSource{}}})); err != nil {
		t.Fatal(err)
	}
	got, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(families) {
		t.Errorf("%d families collected, %d described", len(got), len(families))
	}
}

// TestClosedSetsFromTheStart quotes: every word of a closed set is exported
// from the start with 0, so that rate and increase see the first count of a reason.
func TestClosedSetsFromTheStart(t *testing.T) {
	t.Parallel()
	c := newCollector(&fakeRegistry{sources: []reflector.Source{&fakeSource{status: reflector.Status{State: reflector.StateListing}}}})
	for name, want := range map[string]int{
		"nodewatch_restarts_total":       len(reason.All()),
		"nodewatch_events_total":         6,
		"nodewatch_lists_total":          2,
		"nodewatch_watchlists_total":     2,
		"nodewatch_ignored_events_total": 4,
		"nodewatch_reflectors":           4,
	} {
		if got := testutil.CollectAndCount(c, name); got != want {
			t.Errorf("a reflector that did nothing yet has %d series of %s, want %d", got, name, want)
		}
	}
	// What is not known yet has no series: a zero age would say "just now".
	for _, name := range []string{
		"nodewatch_freshness_age_seconds", "nodewatch_last_byte_age_seconds",
		"nodewatch_last_bookmark_age_seconds", "nodewatch_last_resource_version",
	} {
		if got := testutil.CollectAndCount(c, name); got != 0 {
			t.Errorf("a reflector that did nothing yet has %d series of %s, want none", got, name)
		}
	}
}

// TestSameLabels quotes: running reflectors that share resource and name are
// shown as one: counters, histograms and counts of things are summed, for ages,
// delays and depths the worst (largest) is shown, for resourceVersion and synced the smallest.
func TestSameLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := fullSource(), fullSource()
		b.status.Synced = false
		b.status.ResourceVersion = "99"
		b.status.FreshAsOf = time.Time{} // not synced: says nothing about age
		b.status.State = reflector.StateListing
		b.stats.MailboxDepth = 3
		b.stats.LastByte = b.stats.LastByte.Add(-time.Minute)
		c := newCollector(&fakeRegistry{sources: []reflector.Source{a, b}})
		const want = `
# HELP nodewatch_freshness_age_seconds Seconds since the moment up to which the store is known to be current. Absent before the first sync.
# TYPE nodewatch_freshness_age_seconds gauge
nodewatch_freshness_age_seconds{reflector="agent",resource="pods"} 90
# HELP nodewatch_last_byte_age_seconds Seconds since the last byte of a response body came. Absent before the first.
# TYPE nodewatch_last_byte_age_seconds gauge
nodewatch_last_byte_age_seconds{reflector="agent",resource="pods"} 81
# HELP nodewatch_last_resource_version The resourceVersion up to which the store is known. Absent while there is none, or none that is a number.
# TYPE nodewatch_last_resource_version gauge
nodewatch_last_resource_version{reflector="agent",resource="pods"} 99
# HELP nodewatch_list_duration_seconds Time from the request of a list or watch-list until the store equals it, deletes included.
# TYPE nodewatch_list_duration_seconds histogram
nodewatch_list_duration_seconds_bucket{reflector="agent",resource="pods",le="0.1"} 46
nodewatch_list_duration_seconds_bucket{reflector="agent",resource="pods",le="1"} 48
nodewatch_list_duration_seconds_bucket{reflector="agent",resource="pods",le="+Inf"} 50
nodewatch_list_duration_seconds_sum{reflector="agent",resource="pods"} 52
nodewatch_list_duration_seconds_count{reflector="agent",resource="pods"} 50
# HELP nodewatch_mailbox_depth Events that the slowest subscriber has not taken yet.
# TYPE nodewatch_mailbox_depth gauge
nodewatch_mailbox_depth{reflector="agent",resource="pods"} 32
# HELP nodewatch_reflectors Running reflectors, by state.
# TYPE nodewatch_reflectors gauge
nodewatch_reflectors{reflector="agent",resource="pods",state="BackingOff"} 1
nodewatch_reflectors{reflector="agent",resource="pods",state="Listing"} 1
nodewatch_reflectors{reflector="agent",resource="pods",state="WatchListing"} 0
nodewatch_reflectors{reflector="agent",resource="pods",state="Watching"} 0
# HELP nodewatch_store_objects Objects in the store.
# TYPE nodewatch_store_objects gauge
nodewatch_store_objects{reflector="agent",resource="pods"} 34
# HELP nodewatch_synced Whether the first complete snapshot is in the store (1) or not (0).
# TYPE nodewatch_synced gauge
nodewatch_synced{reflector="agent",resource="pods"} 0
`
		err := testutil.CollectAndCompare(c, strings.NewReader(want),
			"nodewatch_freshness_age_seconds", "nodewatch_last_byte_age_seconds", "nodewatch_last_resource_version",
			"nodewatch_list_duration_seconds", "nodewatch_mailbox_depth", "nodewatch_reflectors",
			"nodewatch_store_objects", "nodewatch_synced")
		if err != nil {
			t.Error(err)
		}
	})
}

func TestRegister(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	var one, two reflector.Registry
	for _, r := range []*reflector.Registry{&one, &one, &two, &one, &two} {
		if err := Register(reg, r); err != nil {
			t.Fatalf("Register: %v", err)
		}
	}
	// The collector that serves reg is what a further registration collides with.
	var already prometheus.AlreadyRegisteredError
	if err := reg.Register(newCollector(&one)); !errors.As(err, &already) {
		t.Fatalf("nothing is registered: %v", err)
	}
	if got := len(already.ExistingCollector.(*collector).registries); got != 2 {
		t.Errorf("the collector reads %d registries after five registrations of two, want 2", got)
	}
	// A registerer may add labels of its own; that must not hide what is there.
	wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"cluster": "east"}, prometheus.NewRegistry())
	for range 2 {
		if err := Register(wrapped, &one); err != nil {
			t.Errorf("Register on a wrapped registerer: %v", err)
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	if err := Register(nil, &reflector.Registry{}); err == nil {
		t.Error("a nil registerer was accepted")
	}
	if err := Register(prometheus.NewRegistry(), nil); err == nil {
		t.Error("a nil reflector registry was accepted")
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "nodewatch_synced", Help: "Not ours."}))
	if err := Register(reg, &reflector.Registry{}); err == nil || !strings.Contains(err.Error(), "nodewatch_synced") {
		t.Errorf("error %v does not name the metric that is in the way", err)
	}
}

// TestOddNames: what a program calls its reflectors must not make a scrape fail.
func TestOddNames(t *testing.T) {
	t.Parallel()
	a, b, c := fullSource(), fullSource(), fullSource()
	a.status.Name = "caf\xe9" // not UTF-8
	b.status.Name = "a\"b\\c\nd"
	c.status.Name = ""
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(newCollector(&fakeRegistry{sources: []reflector.Source{a, b, c}}))
	if n, err := testutil.GatherAndCount(reg, "nodewatch_synced"); err != nil || n != 3 {
		t.Errorf("%d series, error %v, want 3 and none", n, err)
	}
}

// TestClock: an age is never negative, and a resourceVersion that is no number has no series.
func TestClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	if got := age(now, now.Add(time.Hour)); got != 0 {
		t.Errorf("age of the future is %v, want 0", got)
	}
	for rv, want := range map[string]float64{"0": 0, "18446744073709551615": 18446744073709551615} {
		if got := number(rv); got != want {
			t.Errorf("number(%q) = %v, want %v", rv, got, want)
		}
	}
	for _, rv := range []string{"", "abc", "-1", "1e9", "NaN", "18446744073709551616"} {
		if got := number(rv); got == got {
			t.Errorf("number(%q) = %v, want not a number", rv, got)
		}
	}
}
