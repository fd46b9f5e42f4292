package simulator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// body is a response body whose bytes come at their times.
type body struct {
	s     *server
	a     *attempt
	ctx   context.Context
	chunk int
	feed  *stream // makes more of it; nil when all is queued

	queue  []part
	end    error // what a read after the queue returns; nil while there may be more
	endAt  time.Duration
	dead   bool // nothing will come any more
	closed bool
}

// part is some bytes of a body.
type part struct {
	avail time.Duration
	data  []byte
	// own is how many more bytes have to be read until read is called, which is
	// before the client can know what the part says: it acts at once.
	own  int
	read func()
}

var errClosed = errors.New("http: read on closed response body")

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	for {
		if b.closed {
			return 0, errClosed
		}
		if b.ctx.Err() != nil {
			return 0, context.Cause(b.ctx)
		}
		now := b.s.now()
		next := never
		if b.feed != nil && !b.dead && b.end == nil {
			next = b.feed.advance(now)
		}
		if len(b.queue) > 0 {
			if head := &b.queue[0]; head.avail <= now {
				return b.take(p), nil
			}
			next = min(next, b.queue[0].avail)
		} else if b.end != nil && !b.dead {
			if b.endAt <= now {
				return 0, b.end
			}
			next = min(next, b.endAt)
		}
		b.wait(now, next)
	}
}

// take hands out bytes of the first part.
func (b *body) take(p []byte) int {
	head := &b.queue[0]
	n := min(len(p), len(head.data))
	if b.chunk > 0 {
		n = min(n, b.chunk)
	}
	copy(p, head.data[:n])
	head.data = head.data[n:]
	b.a.lastRead = b.s.now()
	read := head.read
	done := read != nil && head.own > 0 && head.own <= n
	head.own -= n
	if len(head.data) == 0 {
		b.queue = b.queue[1:]
	}
	if done {
		read()
	}
	return n
}

// wait sleeps without the lock until next, or until the request's context ends.
func (b *body) wait(now, next time.Duration) {
	b.s.mu.Unlock()
	defer b.s.mu.Lock()
	if next == never {
		<-b.ctx.Done()
		return
	}
	_ = pause(b.ctx, next-now)
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.s.bodies--
		b.a.closed = b.s.now()
		b.s.shadow.closed(b.a)
	}
	return nil
}

// stream makes the body of a watch.
type stream struct {
	*body
	enc    decode.Encoding
	gz     *gzipped
	opened time.Duration
	ends   time.Duration // the server's timeout
	h      *history
	pos    int   // the next version to tell
	from   int64 // versions up to here are not told

	initial   []*version    // of a watch-list, not told yet
	mark      time.Duration // when the end of the initial events is told; never: not to be told
	lagging   time.Duration // no change is told before: the server is behind
	endAtMark bool          // the stream ends instead

	bookmark time.Duration // when the next one is due
	goodbye  bool          // the one before the timeout was sent
	mute     bool
	hold     time.Duration // nothing passes before
	cut      bool          // the next event is cut
	told     []told        // events that were sent
}

// told is an event as it was sent.
type told struct {
	typ string
	v   *version
}

// watch answers a watch or a watch-list.
func (s *server) watch(ctx context.Context, a *attempt, f *Fault, now time.Duration) *http.Response {
	h := s.world.at(now)
	n := h.upTo(now)
	asked := number(a.rv)
	if a.verb == watch && a.rv != "" && asked < h.floor(now) && a.id%2 == 0 {
		return s.refuse(a, Fault{Form: Expired410}, now)
	}
	header := http.Header{"Content-Type": {mediaType(a.enc, true)}}
	b := &body{s: s, a: a, ctx: ctx, chunk: s.sched.Server.Chunk}
	st := &stream{body: b, enc: a.enc, opened: now, h: h, from: asked, mark: never, bookmark: now + s.sched.Server.Bookmarks}
	b.feed = st
	a.opened, a.h = true, h
	a.timeout = time.Duration(number(a.query.Get("timeoutSeconds"))) * time.Second
	st.ends = now + a.timeout
	if a.gzip && a.id%3 != 0 {
		st.gz = &gzipped{how: s.sched.Server.Members}
		header.Set("Content-Encoding", "gzip")
	}
	st.mute = s.window(now, Mute) != nil
	if brief := s.window(now, Brief); brief != nil && a.verb == watch {
		st.ends = min(st.ends, now+time.Duration(brief.Part+1)*odd(20*time.Millisecond))
	}
	s.bodies++
	switch {
	case a.verb == watchList:
		if asked > h.rvOf(n) {
			s.log.add(now, "  %d: stream, the resourceVersion is too large", a.id)
			st.errorEvent(now+3*time.Second, tooLarge)
			break
		}
		st.mark = now
		switch f.Kind {
		case Early: // as a server may that has not caught up with its etcd
			st.lagging, st.mark = now+f.For/2, now+f.For
			n = max(n-f.N, 0)
		case Stale:
			n = max(n-f.N, 0)
			if n < len(h.log) {
				a.lag = max(now-h.log[n].at, 0)
			}
		}
		st.from, st.pos = h.rvOf(n), n
		state := h.state(n)
		for _, name := range names(state) {
			st.initial = append(st.initial, state[name])
		}
		s.log.add(now, "  %d: stream of %d initial events at %d", a.id, len(state), st.from)
		switch f.Kind {
		case NoMark:
			st.endAtMark = true
		case LostMark:
			st.mark = never
			st.flush(now)
		case LateMark:
			// All but the last initial event are there at once.
			st.mark = now + f.For
			if len(st.initial) > 0 {
				last := len(st.initial) - 1
				held := st.initial[last]
				st.initial = st.initial[:last]
				st.flush(now)
				st.initial = []*version{held}
			}
		case Early:
			st.flush(now)
		}
	case asked < h.floor(now):
		s.log.add(now, "  %d: stream, the resourceVersion is too old", a.id)
		st.errorEvent(now, Fault{Form: Expired410})
	default:
		s.shadow.resumed(h)
		st.pos = h.after(asked)
		s.log.add(now, "  %d: stream from %d, the server is at %d", a.id, asked, h.rvOf(n))
	}
	return &http.Response{StatusCode: 200, Header: header, Body: b}
}

// advance lets happen what is due at now, and returns when something will be next.
func (st *stream) advance(now time.Duration) time.Duration {
	for st.end == nil && !st.dead {
		next, act := st.next()
		if next > now {
			return next
		}
		act(next)
	}
	return never
}

// next returns what happens next on the stream, and when.
func (st *stream) next() (time.Duration, func(at time.Duration)) {
	at, act := st.ends, st.finish
	consider := func(t time.Duration, f func(time.Duration)) {
		if t = max(t, st.opened); t < at {
			at, act = t, f
		}
	}
	if st.mark != never {
		consider(st.mark, st.marked)
	}
	if st.pos < len(st.h.log) {
		consider(max(st.h.log[st.pos].at, st.lagging), st.change)
	}
	consider(st.bookmark, st.regular)
	if !st.goodbye && st.ends-st.opened > goodbyes {
		consider(st.ends-2*time.Second, func(at time.Duration) {
			st.goodbye = true
			st.plainBookmark(at)
		})
	}
	sched := st.s.sched
	for i := range sched.Faults {
		f := &sched.Faults[i]
		if f.At > at {
			break
		}
		if f.At > st.opened && (f.Kind == Restart || f.Kind == Restore || f.Kind == Blackhole) {
			consider(f.At, func(at time.Duration) { st.severed(at, f) })
		}
	}
	for _, f := range st.s.once {
		if f.At > at {
			break
		}
		due := max(f.At, st.opened+time.Duration(f.Part)*odd(10*time.Millisecond))
		if !f.used && f.Kind.stream() && !st.s.over(&f.Fault, due) {
			consider(due, func(at time.Duration) {
				f.used = true
				st.befallen(at, &f.Fault)
			})
		}
	}
	return at, act
}

// send queues bytes that are read as a whole; note is told when they were.
func (st *stream) send(at time.Duration, raw []byte, note func()) {
	if st.end != nil {
		return
	}
	if st.cut {
		st.cut = false
		st.put(at, raw[:len(raw)/2], nil)
		st.finishWith(at, io.ErrUnexpectedEOF, "the connection ends in the middle of an event")
		return
	}
	st.put(at, raw, note)
}

func (st *stream) put(at time.Duration, raw []byte, note func()) {
	own := len(raw) - 1 // the line feed after a JSON event tells nothing
	if st.gz != nil {
		raw, own = st.gz.part(raw)
	}
	st.queue = append(st.queue, part{avail: max(at, st.hold), data: raw, own: own, read: note})
}

// finish ends the body as the server does at its timeout.
func (st *stream) finish(at time.Duration) {
	if st.gz != nil {
		if tail := st.gz.end(); len(tail) > 0 {
			st.queue = append(st.queue, part{avail: max(at, st.hold), data: tail})
		}
	}
	st.a.clean = true
	st.finishWith(at, io.EOF, "END")
}

func (st *stream) finishWith(at time.Duration, err error, how string) {
	st.end, st.endAt = err, max(at, st.hold)
	st.s.log.add(at, "  %d: %s", st.a.id, how)
}

// severed: the server or the network goes away under the stream.
func (st *stream) severed(at time.Duration, f *Fault) {
	if f.Kind == Blackhole || f.HTTP {
		st.s.log.add(at, "  %d: half open", st.a.id)
		st.dead, st.a.hung = true, true
		return
	}
	st.finishWith(at, errReset, "RST")
}

// change tells the next version.
func (st *stream) change(at time.Duration) {
	v := st.h.log[st.pos]
	st.pos++
	if v.rv <= st.from || !v.relevant() {
		return
	}
	typ := "MODIFIED"
	switch {
	case !v.there():
		typ = "DELETED"
	case !v.wasThere():
		typ = "ADDED"
	}
	st.tell(at, typ, v)
}

func (st *stream) tell(at time.Duration, typ string, v *version) {
	st.told = append(st.told, told{typ, v})
	// An initial event that is late is not told when something newer was.
	st.initial = slices.DeleteFunc(st.initial, func(i *version) bool { return i.name == v.name })
	st.s.log.add(at, "  %d: %s %v%s", st.a.id, typ, v, [...]string{"", ", which does not decode", ", which is too large"}[v.content().flaw])
	st.send(at, podEvent(st.enc, typ, v), func() { st.s.shadow.event(st.a, v, at) })
}

// flush tells the initial events.
func (st *stream) flush(at time.Duration) {
	for _, v := range st.initial {
		st.s.log.add(at, "  %d: ADDED %v, initial", st.a.id, v)
		st.send(at, podEvent(st.enc, "ADDED", v), func() { st.s.shadow.initial(st.a, v) })
	}
	st.initial = nil
}

// marked ends the initial events.
func (st *stream) marked(at time.Duration) {
	st.mark = never
	st.flush(at)
	if st.endAtMark {
		st.finish(at)
		return
	}
	n := st.pos // all that was told
	rv := max(st.h.rvOf(n), st.from)
	st.s.log.add(at, "  %d: BOOKMARK %d, end of the initial events", st.a.id, rv)
	st.send(at, bookmark(st.enc, rv, true, false), func() { st.s.shadow.marked(st.a, st.h, n, rv, at) })
}

func (st *stream) regular(at time.Duration) {
	st.bookmark += st.s.sched.Server.Bookmarks
	st.plainBookmark(at)
}

func (st *stream) plainBookmark(at time.Duration) {
	if st.mute || len(st.initial) > 0 && st.mark == never {
		return
	}
	rv := st.h.rvOf(min(st.pos, st.h.upTo(at))) // of what was told
	if rv < st.from && !st.s.sched.Server.LowBookmarks {
		return
	}
	st.tellBookmark(at, rv, false)
}

func (st *stream) tellBookmark(at time.Duration, rv int64, odd bool) {
	st.s.log.add(at, "  %d: BOOKMARK %d", st.a.id, rv)
	st.send(at, bookmark(st.enc, rv, false, odd), func() { st.s.shadow.bookmark(st.a, rv, at) })
}

// errorEvent ends the stream with an ERROR.
func (st *stream) errorEvent(at time.Duration, f Fault) {
	e := f.Form.says()
	status := e.status(f)
	var hint time.Duration
	if f.Retry == Detail {
		hint = f.After
	}
	st.s.log.add(at, "  %d: ERROR %s%s", st.a.id, formNames[f.Form], optional(", retry after ", hintText(hint)))
	st.send(at, event(st.enc, "ERROR", statusBytes(st.enc, &status)), func() {
		st.a.refused(e.class, 0, st.s.now(), hint)
		st.a.ended = int(e.code)
	})
	if st.end == nil {
		st.finish(at)
		st.a.clean = false
	}
}

func hintText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// befallen lets one fault of one stream happen.
func (st *stream) befallen(at time.Duration, f *Fault) {
	s := st.s
	s.log.add(at, "  %d: meets %s", st.a.id, faultNames[f.Kind])
	switch f.Kind {
	case End:
		st.finish(at)
	case FIN:
		st.finishWith(at, io.ErrUnexpectedEOF, "FIN")
	case RST:
		st.finishWith(at, errReset, "RST")
	case Hang:
		st.dead, st.a.hung = true, true
	case CutEvent:
		st.cut = true
	case ErrorEvent:
		st.errorEvent(at, *f)
	case Again:
		for _, e := range st.told[max(0, len(st.told)-f.N):] {
			s.log.add(at, "  %d: %s %v, again", st.a.id, e.typ, e.v)
			st.send(at, podEvent(st.enc, e.typ, e.v), func() { s.shadow.event(st.a, e.v, at) })
			if st.end != nil {
				return
			}
		}
	case Replay:
		// Events up to where the watch began; a watch-list that is not at its
		// mark has no such place.
		if st.a.verb == watchList {
			return
		}
		to := st.h.after(st.from)
		for _, v := range st.h.log[max(0, to-f.N):to] {
			if v.relevant() && st.end == nil {
				typ := "MODIFIED"
				if !v.there() {
					typ = "DELETED"
				}
				s.log.add(at, "  %d: %s %v, replayed", st.a.id, typ, v)
				st.send(at, podEvent(st.enc, typ, v), func() { s.shadow.replayed(st.a, at) })
			}
		}
	case Foreign:
		st.send(at, foreign(st.enc, st.h.rvOf(st.h.upTo(at))+1000, f.HTTP), func() { s.shadow.skipped(st.a) })
	case UnknownType:
		if n := st.h.upTo(at); n > 0 && st.h.log[n-1].name != "" {
			st.send(at, podEvent(st.enc, "PATCHED", st.h.log[n-1]), func() { s.shadow.skipped(st.a) })
		}
	case LowBookmark:
		if rv := st.h.rvOf(max(st.h.upTo(at)-f.N, 0)); st.a.verb == watch {
			st.tellBookmark(at, rv, false)
		}
	case OddBookmark:
		if st.mark == never && len(st.initial) == 0 {
			st.tellBookmark(at, st.h.rvOf(st.h.upTo(at)), true)
		}
	case Garbage:
		st.put(at, []byte("\x00\x00\x00\x08}garbage"), func() { st.a.failed(classNonsense) })
		st.queue[len(st.queue)-1].own = 1 // the first byte may tell
		st.finish(at)
		st.a.clean = false
	case Delay:
		st.hold = at + f.For
		if n := len(st.queue); n > 0 {
			st.queue[n-1].avail = max(st.queue[n-1].avail, at)
		}
	}
}
