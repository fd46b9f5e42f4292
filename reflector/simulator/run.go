package simulator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
)

// Result is what a run came to.
type Result struct {
	Schedule *Schedule
	Failure  *Failure // nil: every promise was kept
	Requests int
	Checks   int // comparisons of the store with the server
	Blind    bool
	// Server is what the server saw and said, Client what the consumers got,
	// Log the reflector's own log, when it was asked for.
	Server, Client, Log *transcript
}

// Transcript tells the whole run, by time.
func (r *Result) Transcript() string { return merged(r.Server, r.Client, r.Log).String() }

// Tail tells the last lines up to the failure.
func (r *Result) Tail(lines int) string {
	all := merged(r.Server, r.Client, r.Log)
	until := len(all.lines)
	for i, l := range all.lines {
		if strings.HasPrefix(l.text, "BROKEN") {
			until = i + 1
			break
		}
	}
	all.lines = all.lines[:until]
	if until > lines {
		// Bookmarks that came in between tell little.
		all.lines = slices.DeleteFunc(all.lines, func(l line) bool {
			return strings.Contains(l.text, "BOOKMARK") && !strings.Contains(l.text, "end of") && l.at < all.lines[until-1].at-2*time.Minute
		})
	}
	all.lines = all.lines[max(0, len(all.lines)-lines):]
	return all.String()
}

// run is one run under way.
type run struct {
	s         *server
	r         *reflector.Reflector[*corev1.Pod]
	consumers []*consumer
	checks    int
	log       transcript // of the reflector
}

// Run plays a schedule. It must be called in a testing/synctest bubble that is
// its own. logged says to keep the reflector's log.
func Run(s *Schedule, logged bool) *Result {
	srv := newServer(s)
	u := &run{s: srv}
	r, err := u.client(logged)
	if err != nil {
		srv.fail(promiseEnd, "the client cannot be made: %v", err)
		return u.result()
	}
	u.r = r
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for i, c := range s.Consumers {
		consumer := newConsumer(srv, i, c)
		u.consumers = append(u.consumers, consumer)
		wg.Go(func() { consumer.run(ctx, r) })
	}
	stopped := make(chan struct{})
	wg.Go(func() {
		defer close(stopped)
		if err := r.Run(ctx); err != nil {
			srv.mu.Lock()
			defer srv.mu.Unlock()
			srv.fail(promiseEnd, "Run returned %v", err)
		}
	})
	u.watch()
	cancel()
	told := srv.now()
	<-stopped
	wg.Wait()
	srv.settle() // for what the client's goroutines have to put away
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if took := srv.now() - told; took > 100*time.Millisecond {
		srv.fail(promiseStop, "it took %v to stop", took)
	}
	if srv.bodies != 0 {
		srv.fail(promiseStop, "%d response bodies were not closed", srv.bodies)
	}
	return u.result()
}

// client makes the reflector that is tested, all of it real but the socket.
func (u *run) client(logged bool) (*reflector.Reflector[*corev1.Pod], error) {
	s := u.s.sched
	compression := listwatch.CompressionOff
	if s.Client.Gzip {
		compression = listwatch.CompressionOn
	}
	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{
		REST:          &rest.Config{Host: "http://model.test", Transport: u.s},
		Resource:      corev1.SchemeGroupVersion.WithResource("pods"),
		LabelSelector: labels.SelectorFromSet(labels.Set{selectorLabel: "x"}),
		Encoding:      s.Client.Encoding,
		Compression:   compression,
		MaxItemBytes:  maxItemBytes,
		HeaderTimeout: odd(listwatch.DefaultHeaderTimeout), // never at the moment of a watch's own deadline
	})
	if err != nil {
		return nil, err
	}
	c := reflector.Config[*corev1.Pod]{
		ListerWatcher: lw,
		InitialSync:   s.Client.Initial,
		PageSize:      s.Client.PageSize,
		WatchTimeout:  s.Client.WatchTimeout,
		IdleTimeout:   s.Client.IdleTimeout,
		Objects:       s.Client.Objects,
		Rand:          rand.New(rand.NewPCG(s.Seed, 2)),
	}
	if logged {
		c.Logger = slog.New(slog.NewTextHandler(&logLines{u: u}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "reflector" || a.Key == "resource" {
				return slog.Attr{}
			}
			return a
		}}))
	}
	return reflector.New(c)
}

// logLines takes the reflector's log.
type logLines struct{ u *run }

func (l *logLines) Write(p []byte) (int, error) {
	l.u.log.add(l.u.s.now(), "log: %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// watch looks on from the start to the time to stop.
func (u *run) watch() {
	s := u.s.sched
	d := newDice(s.Seed, 3)
	var looks []time.Duration
	for range 40 {
		looks = append(looks, d.between(0, min(s.Chaos+2*time.Minute, s.Stop)))
	}
	if s.End < s.Stop {
		looks = append(looks, s.End)
	}
	slices.Sort(looks)
	for _, at := range looks {
		time.Sleep(at - u.s.now())
		u.s.settle()
		if !u.look(at == s.End) {
			return
		}
	}
	time.Sleep(s.Stop - u.s.now())
}

// look compares the client with what it may know, when everything is quiet.
// It reports whether the run may go on.
func (u *run) look(end bool) bool {
	status := u.r.Status()
	store := map[string]held{}
	for key, pod := range u.r.Store().All() {
		store[key.Name] = holds(pod)
	}
	s := u.s
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shadow
	now := s.now()
	if s.requests > 4000 {
		s.fail(promisePolite, "%d requests", s.requests)
		return false
	}
	if status.FreshAsOf.After(time.Now()) {
		s.fail(promiseFresh, "FreshAsOf is %v ahead", time.Until(status.FreshAsOf))
	}
	if status.Synced != sh.synced {
		s.fail(promiseSnapshot, "Synced is %v, a list was complete: %v", status.Synced, sh.synced)
	}
	h, n, known := sh.position()
	if known && status.State == reflector.StateWatching && !sh.listing() {
		u.checks++
		if diff := s.compare(store, h, n, Consumer{}); diff != "" {
			s.fail(promiseSnapshot, "the store at %d %s", sh.rv, diff)
		}
		s.fresh(status.FreshAsOf, h, n)
	}
	if end {
		u.ended(status, store, now)
	}
	return true
}

// listing reports whether a list is under way, during which the store is partly
// of before and partly of after.
func (sh *shadow) listing() bool {
	return sh.cur != nil && sh.cur.verb != watch && !sh.cur.complete
}

// fresh compares FreshAsOf with what changed after the state that the client
// has: it may not claim a time later than the first change that it does not
// have. What was under way for long was true when it was sent, not when it was read.
func (s *server) fresh(claimed time.Time, h *history, n int) {
	claim := claimed.Sub(s.start) - s.shadow.slack
	if s.world.at(claim) != h {
		return
	}
	for _, v := range h.log[n:] {
		if v.at >= claim {
			return
		}
		if v.relevant() {
			s.fail(promiseFresh, "FreshAsOf is %v, but %v was written at %v", claim, v, v.at)
			return
		}
	}
}

// ended: the server has been well for long enough.
func (u *run) ended(status reflector.Status, store map[string]held, now time.Duration) {
	s := u.s
	h := s.world.at(now)
	hears := s.sched.hears()
	if s.shadow.tainted {
		// Who hangs up before a bookmark can come needs hours to find out.
		if at := h.rvOf(h.upTo(now)); at < s.shadow.rv && hears {
			s.fail(promiseAlive, "a silent watch from %d, which the server at %d does not know, was not looked into", s.shadow.rv, at)
		}
		s.log.add(now, "the client cannot know that its state is of another history")
		return
	}
	if diff := s.compare(store, h, h.upTo(now), Consumer{}); diff != "" {
		s.fail(promiseEnd, "the store %s", diff)
	}
	for _, c := range u.consumers {
		c.mu.Lock()
		if diff := s.compare(c.objects, h, h.upTo(now), c.Consumer); diff != "" {
			s.fail(promiseEnd, "consumer %d %s", c.id, diff)
		}
		if c.Policy == reflector.Block && c.Join == 0 {
			c.sawAll(u.consumers[0])
		}
		c.mu.Unlock()
	}
	// Where no bookmark comes, silence is looked into by a list now and then.
	if status.State != reflector.StateWatching && hears {
		s.fail(promiseEnd, "the state is %s: %s", status.State, status.Detail)
	}
	if age := time.Since(status.FreshAsOf); hears && age > 2*s.sched.Server.Bookmarks {
		s.fail(promiseFresh, "the store was known to be current %v ago", age)
	}
	if len(status.Quarantined) > 0 {
		s.fail(promiseIsolation, "quarantined: %v", status.Quarantined)
	}
}

// compare tells how objects differ from what the server had after n versions, as far as c wants them.
func (s *server) compare(objects map[string]held, h *history, n int, c Consumer) string {
	want := h.state(n)
	var diffs []string
	for _, name := range names(want) {
		v := want[name]
		have, ok := objects[name]
		switch {
		case v.flaw != sound:
			if ok && (have.uid != v.uid || have.rv > v.rv) {
				diffs = append(diffs, fmt.Sprintf("has %s@%d/%s for %v, which it cannot read", name, have.rv, have.uid, v))
			}
		case !c.matches(v.rv):
			if ok {
				diffs = append(diffs, fmt.Sprintf("has %s@%d/%s for %v, which does not match", name, have.rv, have.uid, v))
			}
		case !ok:
			diffs = append(diffs, fmt.Sprintf("lacks %v", v))
		case have.uid != v.uid || have.rv != v.rv:
			diffs = append(diffs, fmt.Sprintf("has %s@%d/%s for %v", name, have.rv, have.uid, v))
		case have.seq != v.seq && !s.shadow.blind:
			diffs = append(diffs, fmt.Sprintf("has the content of write %d for %v", have.seq, v))
		}
	}
	for name, have := range objects {
		if want[name] == nil {
			diffs = append(diffs, fmt.Sprintf("has %s@%d/%s, which is gone", name, have.rv, have.uid))
		}
	}
	slices.Sort(diffs)
	return strings.Join(diffs, ", ")
}

func (u *run) result() *Result {
	res := &Result{
		Schedule: u.s.sched, Requests: u.s.requests, Checks: u.checks, Blind: u.s.shadow.blind,
		Server: &u.s.log, Log: &u.log,
	}
	logs := make([]*transcript, 0, len(u.consumers))
	for _, c := range u.consumers {
		logs = append(logs, c.log.byObject())
	}
	res.Client = merged(logs...)
	res.Failure = res.Server.failure
	if f := res.Client.failure; f != nil && (res.Failure == nil || f.At < res.Failure.At) {
		res.Failure = f
	}
	return res
}

// byObject orders lines of the same moment by object, between two SYNCED: a
// snapshot has no order, and neither has what a list did not bring. Per object
// the order stays.
func (t *transcript) byObject() *transcript {
	out := &transcript{lines: slices.Clone(t.lines), failure: t.failure}
	for i := 0; i < len(out.lines); {
		j := i
		for j < len(out.lines) && out.lines[j].at == out.lines[i].at && !strings.Contains(out.lines[j].text, "SYNCED") {
			j++
		}
		slices.SortStableFunc(out.lines[i:j], func(a, b line) int { return cmp.Compare(objectOf(a.text), objectOf(b.text)) })
		i = max(j, i+1)
	}
	return out
}

// objectOf is the name in a consumer's line.
func objectOf(text string) string {
	fields := strings.Fields(text)
	if len(fields) < 4 {
		return ""
	}
	name, _, _ := strings.Cut(fields[3], "@")
	return name
}
