package debugpage

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// fake is a reflector that says what a test wants.
type fake struct {
	status reflector.Status
	stats  reflector.Stats
}

func (f *fake) Status() reflector.Status { return f.status }
func (f *fake) Stats() reflector.Stats   { return f.stats }

type fakes []*fake

func (f fakes) Sources() []reflector.Source {
	all := make([]reflector.Source, len(f))
	for i, s := range f {
		all[i] = s
	}
	return all
}

// hostile are texts of those who would like the page to be theirs.
var hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onmouseover='alert(1)`,
	`</style></title></textarea><script>alert(1)</script>`,
	`javascript:alert(1)`,
	`{{.Title}} ${7*7} <!-- `,
	"\u202egnp.exe\u202c and \u2066more\u2069",
	"bell \a, escape \x1b[31mred\x1b[0m, NUL \x00, not UTF-8 \xff\xfe",
	"a\r\nSet-Cookie: b=c",
}

// healthy is a reflector that has run for an hour.
func healthy(name string, now time.Time) *fake {
	return &fake{
		status: reflector.Status{
			Name: name, Resource: "pods", State: reflector.StateWatching, Since: now.Add(-4 * time.Minute),
			Synced: true, ResourceVersion: "48151623", FreshAsOf: now.Add(-12 * time.Second), Objects: 110,
			LastRestart: &reflector.Restart{Reason: reason.EOF, At: now.Add(-4 * time.Minute)},
		},
		stats: reflector.Stats{
			Lists: map[string]uint64{}, WatchLists: map[string]uint64{"success": 1}, ListItems: 104, Watches: 9,
			Events: map[string]uint64{"ADDED": 131, "MODIFIED": 4212, "DELETED": 21, "BOOKMARK": 61}, Ignored: map[string]uint64{},
			Restarts:  map[reason.Reason]uint64{reason.EOF: 8},
			WireBytes: 3_400_000, DecodedBytes: 29_000_000, LastByte: now.Add(-12 * time.Second), LastBookmark: now.Add(-40 * time.Second),
			ListDuration: reflector.Histogram{Count: 1, Sum: 140 * time.Millisecond}, WatchDuration: reflector.Histogram{Count: 8, Sum: 57 * time.Minute},
			Subscribers: 1, Mailboxes: []reflector.Mailbox{{Name: "controller", Limit: 1024, Since: now.Add(-time.Hour)}},
		},
	}
}

// waiting cannot reach its server.
func waiting(name string, now time.Time, err error) *fake {
	f := healthy(name, now)
	f.status.State, f.status.Since, f.status.Detail = reflector.StateBackingOff, now.Add(-1500*time.Millisecond), "then Watching"
	f.status.NextAttempt, f.stats.BackoffDelay, f.stats.BackoffTotal = now.Add(2500*time.Millisecond), 4*time.Second, 17*time.Minute
	f.status.FreshAsOf = now.Add(-19 * time.Minute)
	f.status.LastRestart = &reflector.Restart{Reason: reason.Transport, At: f.status.Since, Err: err}
	f.status.LastError = err
	f.stats.Restarts[reason.Transport] = 271
	return f
}

// starting has no snapshot yet.
func starting(name string, now time.Time) *fake {
	f := healthy(name, now)
	f.status.State, f.status.Synced, f.status.FreshAsOf, f.status.Objects = reflector.StateWatchListing, false, time.Time{}, 20_000
	f.status.ResourceVersion, f.status.LastRestart = "", nil
	f.status.Detail = "for the bookmark that ends the initial events (k8s.io/initial-events-end)"
	f.status.ListedItems, f.status.RemainingItems = 20_000, 130_000
	f.stats.LastBookmark = time.Time{}
	return f
}

// spoiled has n objects that do not decode.
func spoiled(name string, now time.Time, n int, err error) *fake {
	f := healthy(name, now)
	for i := range n {
		f.status.Quarantined = append(f.status.Quarantined, reflector.Quarantined{
			Key:             decode.Key{Namespace: "shop", Name: fmt.Sprintf("cart-%05d", i)},
			ResourceVersion: fmt.Sprint(48_000_000 + i), Since: now.Add(-time.Duration(i+1) * time.Minute), Err: err,
		})
	}
	f.stats.DecodeErrors = uint64(n)
	return f
}

// slow has a subscriber that holds it up, and one that is far behind.
func slow(name string, now time.Time) *fake {
	f := healthy(name, now)
	f.status.Detail = `for room in the mailbox of 1 blocking subscribers ("audit") since 2026-01-02T03:04:05Z`
	f.stats.BlockedSince, f.stats.BlockedTotal = now.Add(-9*time.Second), 80*time.Second
	f.stats.Mailboxes = []reflector.Mailbox{
		{Name: "audit", Policy: reflector.Block, Limit: 64, Since: now.Add(-time.Hour), Depth: 64, Age: 21 * time.Second, BlockedSince: now.Add(-9 * time.Second)},
		{Name: "", Policy: reflector.Coalesce, Limit: 1024, Since: now.Add(-time.Hour), Depth: 5210, Age: 3 * time.Minute, Coalesced: 120_000},
		{Name: "index", Policy: reflector.Resync, Limit: 512, Since: now.Add(-time.Hour), Resyncs: 3},
	}
	f.stats.Subscribers, f.stats.MailboxDepth, f.stats.MailboxAge, f.stats.Coalesced, f.stats.Resyncs = 3, 5210, 3*time.Minute, 120_000, 3
	return f
}

// union is of two nodes; one of them may not be listed.
func union(name string, now time.Time) *fake {
	err := errors.New(`pods is forbidden: User "system:node:worker-1" cannot list resource "pods" in API group "" at the cluster scope: can only list/watch pods with spec.nodeName field selector`)
	good, bad := healthy("worker-1", now), waiting("worker-2", now, err)
	bad.status.Synced, bad.status.FreshAsOf = false, time.Time{}
	bad.status.LastRestart.Reason = reason.Forbidden
	f := healthy(name, now)
	f.status.Synced, f.status.FreshAsOf, f.status.State, f.status.ResourceVersion = false, time.Time{}, reflector.StateBackingOff, ""
	f.status.LastRestart = bad.status.LastRestart
	f.status.Detail = "1 of 2 members are synced; furthest behind is worker-2"
	f.status.Members = []reflector.Member{
		{Key: "worker-1", Status: good.status}, {Key: "worker-2", Status: bad.status}, {Key: "worker-0", Leaving: true, Status: good.status},
	}
	return f
}

var errRefused = errors.New("watch pods: Get \"https://10.96.0.1:443/api/v1/pods?watch=true\": dial tcp 10.96.0.1:443: connect: connection refused")

// trouble is a process of 40 reflectors on a bad day.
func trouble(now time.Time) fakes {
	all := fakes{
		union("nodes", now), slow("audited", now), starting("starting", now),
		spoiled("carts", now, 1200, errors.New("json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy")),
	}
	for i, text := range hostile {
		f := waiting(text, now, errors.New(text))
		if i%2 == 1 {
			f = spoiled(text, now, 1, errors.New(text))
			f.status.Quarantined[0].Key = decode.Key{Namespace: text, Name: text}
			f.status.Quarantined[0].ResourceVersion = text
		}
		f.status.Resource, f.status.ResourceVersion, f.status.Detail = text, text, text
		f.stats.Mailboxes[0].Name = text
		all = append(all, f)
	}
	for len(all) < 40 {
		f := healthy(fmt.Sprintf("worker-%02d", len(all)), now)
		if len(all)%3 == 0 {
			f = waiting(f.status.Name, now, errRefused)
		}
		all = append(all, f)
	}
	return all
}
