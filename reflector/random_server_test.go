package reflector_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// model is an API server in memory: a collection, its history, a window of it
// that can be watched, and, while faulty, answers of all the bad kinds.
type model struct {
	dec    decode.Decoder[*corev1.Pod]
	prefix string // of names and UIDs

	mu      sync.Mutex
	rnd     *rand.Rand
	faulty  bool
	rv      int
	lowest  int // watches from below are told that they are too old
	objects map[string]string
	history []change
	moved   chan struct{} // closed at the next change
	uid     int
	step    int // between two resourceVersions
	watches int // open now
	served  int // requests
}

type change struct {
	rv   int
	typ  string
	word string // as object makes it: name@rv/uid
}

func newModel(t *testing.T, seed uint64) *model {
	dec, err := decode.New[*corev1.Pod]()
	if err != nil {
		t.Fatal(err)
	}
	return &model{dec: dec, rnd: rand.New(rand.NewPCG(seed, 1)), rv: 1000, step: 10, objects: map[string]string{}, moved: make(chan struct{})}
}

// act makes one random change.
func (m *model) act() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rv += m.step
	name := fmt.Sprintf("%sp%d", m.prefix, m.rnd.IntN(12))
	now, there := m.objects[name]
	c := change{rv: m.rv}
	switch kind := m.rnd.IntN(4); {
	case !there:
		m.uid++
		c.typ, c.word = "ADDED", fmt.Sprintf("%s@%d/%su%d", name, m.rv, m.prefix, m.uid)
	case kind == 0:
		c.typ, c.word = "DELETED", fmt.Sprintf("%s@%d/%s", name, m.rv, uidOf(now))
	default:
		c.typ, c.word = "MODIFIED", fmt.Sprintf("%s@%d/%s", name, m.rv, uidOf(now))
	}
	if c.typ == "DELETED" {
		delete(m.objects, name)
	} else {
		m.objects[name] = c.word
	}
	m.history = append(m.history, c)
	m.wakeLocked()
}

func uidOf(word string) string { return word[strings.Index(word, "/")+1:] }

func (m *model) wakeLocked() {
	close(m.moved)
	m.moved = make(chan struct{})
}

// compact forgets the history.
func (m *model) compact() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lowest = m.rv
}

// restore brings the collection back to what it was n changes ago, as an etcd
// restored from a snapshot does. What is written from now on has
// resourceVersions that were not given before.
func (m *model) restore(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cut := max(len(m.history)-n, 0)
	m.history = m.history[:cut]
	m.objects = map[string]string{}
	m.rv = 1000
	for _, c := range m.history {
		name, _, _ := strings.Cut(c.word, "@")
		m.rv = c.rv
		if c.typ == "DELETED" {
			delete(m.objects, name)
		} else {
			m.objects[name] = c.word
		}
	}
	m.rv++ // from here on they end in 1
	m.wakeLocked()
}

func (m *model) contents() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Values(m.objects)), " ")
}

// chance is true once in n, while faulty.
func (m *model) chance(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.faulty && m.rnd.IntN(n) == 0
}

func (m *model) pick(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rnd.IntN(n)
}

// refuse is a random failure of a request before it has any effect.
func (m *model) refuse(verb string) error {
	m.mu.Lock()
	m.served++
	m.mu.Unlock()
	if !m.chance(5) {
		return nil
	}
	e := &listwatch.Error{Verb: verb, Resource: pods, Method: http.MethodGet}
	switch m.pick(6) {
	case 0:
		e.Reason, e.Err = reason.Transport, syscall.ECONNREFUSED
	case 1:
		return failed(verb, 500, "InternalError x")
	case 2:
		return failed(verb, 429, "TooManyRequests retry=1s x")
	case 3:
		return failed(verb, 410, "Expired too old")
	case 4:
		return failed(verb, 504, "TooLarge retry=1s x")
	default:
		e.Reason, e.Err = reason.Deadline, errors.New("no answer")
	}
	return e
}

func failed(verb string, code int, text string) error {
	e := listwatch.FromStatus(status(code, text))
	e.Verb, e.Resource = verb, pods
	return e
}

func (m *model) List(ctx context.Context, opts metav1.ListOptions, sink listwatch.Sink[*corev1.Pod]) (metav1.ListMeta, error) {
	if err := m.refuse("list"); err != nil {
		return metav1.ListMeta{}, err
	}
	m.mu.Lock()
	words, rv := slices.Sorted(maps.Values(m.objects)), m.rv
	asked := number(opts.ResourceVersion)
	m.mu.Unlock()
	if asked > rv {
		return metav1.ListMeta{}, failed("list", 504, "TooLarge retry=1s x")
	}
	if asked > 0 && m.chance(4) {
		// A replica that lags and does not know it.
		m.mu.Lock()
		words, rv = m.beforeLocked(m.rnd.IntN(20))
		m.mu.Unlock()
	}
	meta := metav1.ListMeta{ResourceVersion: fmt.Sprint(rv)}
	if err := sink.Meta(meta); err != nil {
		return meta, err
	}
	for _, w := range words {
		if m.chance(30) {
			return meta, &listwatch.Error{Verb: "list", Resource: pods, Reason: reason.Transport, Err: io.ErrUnexpectedEOF}
		}
		raw := object(w)
		om, err := decode.Peek(decode.JSON, raw)
		if err != nil {
			return meta, err
		}
		o := decode.NewObject(om, decode.JSON, raw, m.dec)
		if err := sink.Item(&o); err != nil {
			return meta, err
		}
	}
	return meta, nil
}

// beforeLocked is the collection as it was n changes ago.
func (m *model) beforeLocked(n int) (words []string, rv int) {
	objects := map[string]string{}
	rv = 1000
	for _, c := range m.history[:max(len(m.history)-n, 0)] {
		name, _, _ := strings.Cut(c.word, "@")
		rv = c.rv
		if c.typ == "DELETED" {
			delete(objects, name)
		} else {
			objects[name] = c.word
		}
	}
	return slices.Sorted(maps.Values(objects)), rv
}

func number(rv string) int {
	n := 0
	_, _ = fmt.Sscan(rv, &n)
	return n
}

func (m *model) Watch(ctx context.Context, opts metav1.ListOptions) (*streamwatcher.StreamWatcher[*corev1.Pod], error) {
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if initial && m.chance(4) {
		return nil, failed("watch", 422, "Invalid sendInitialEvents is forbidden")
	}
	if err := m.refuse("watch"); err != nil {
		return nil, err
	}
	pos := number(opts.ResourceVersion)
	m.mu.Lock()
	if initial && pos > m.rv {
		m.mu.Unlock()
		return nil, failed("watch", 504, "TooLarge retry=1s x")
	}
	m.watches++
	m.mu.Unlock()
	read, write := io.Pipe()
	stop := context.AfterFunc(ctx, func() { write.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		err := m.serve(ctx, write, pos, initial, time.Duration(*opts.TimeoutSeconds)*time.Second)
		write.CloseWithError(err) // nil is a clean end
		m.mu.Lock()
		m.watches--
		m.mu.Unlock()
	}()
	return streamwatcher.New(streamwatcher.Config[*corev1.Pod]{Body: read, ContentType: "application/json", Decoder: m.dec})
}

// serve writes the events of one watch from pos.
func (m *model) serve(ctx context.Context, w io.Writer, pos int, initial bool, timeout time.Duration) error {
	send := func(typ string, object []byte) error {
		form := "{\"type\":%q,\"object\":%s}\n"
		switch m.pick(12) {
		case 0: // with the next one in a line
			form = strings.TrimSuffix(form, "\n")
		case 1: // on two lines, of which the first looks whole, and comes alone
			if before, behind, ok := bytes.Cut(object, []byte(`,"status"`)); ok {
				object = fmt.Appendf(nil, "%s,\"more\":{\"of\":{}}\n,\"status\"%s", before, behind)
			}
		}
		for line := range strings.Lines(fmt.Sprintf(form, typ, object)) {
			if _, err := io.WriteString(w, line); err != nil {
				return err
			}
		}
		return nil
	}
	sendError := func(code int, text string) error {
		return send("ERROR", fmt.Appendf(nil, `{"kind":"Status","status":"Failure","code":%d,"reason":%q}`, code, text))
	}
	end := time.After(timeout)
	if initial {
		m.mu.Lock()
		words, rv := slices.Sorted(maps.Values(m.objects)), m.rv
		m.mu.Unlock()
		for _, word := range words {
			if err := send("ADDED", object(word)); err != nil {
				return err
			}
		}
		if m.chance(3) {
			return nil // the mark never comes
		}
		if err := send("BOOKMARK", bookmark(fmt.Sprint(rv), true)); err != nil {
			return err
		}
		pos = rv
	}
	bookmarks := time.NewTicker(time.Minute)
	defer bookmarks.Stop()
	for {
		m.mu.Lock()
		var todo []change
		for _, c := range m.history {
			if c.rv > pos {
				todo = append(todo, c)
			}
		}
		old, rv, moved := pos < m.lowest, m.rv, m.moved
		m.mu.Unlock()
		switch {
		case old && len(todo) > 0:
			return sendError(410, "Expired")
		case m.chance(12):
			switch m.pick(5) {
			case 0:
				return nil
			case 1:
				return &listwatch.Error{Reason: reason.Transport, Err: syscall.ECONNRESET}
			case 2:
				_, _ = io.WriteString(w, `{"type":"MODIFIED","obj`)
				return nil
			case 3:
				return sendError(500, "InternalError")
			case 4:
				<-ctx.Done() // the line is dead
				return ctx.Err()
			}
		}
		for _, c := range todo {
			times := 1
			if m.chance(20) {
				times = 2
			}
			for range times {
				if err := send(c.typ, object(c.word)); err != nil {
					return err
				}
			}
			pos = c.rv
		}
		select {
		case <-moved:
		case <-bookmarks.C:
			if rv < pos {
				continue // what lies before the start is not told
			}
			pos = rv
			if err := send("BOOKMARK", bookmark(fmt.Sprint(rv), false)); err != nil {
				return err
			}
		case <-end:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
