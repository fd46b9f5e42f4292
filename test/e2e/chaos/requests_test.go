package chaos

import (
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// A request is one LIST or WATCH that reached the server's socket. A dial that
// was refused is none.
type request struct {
	at   time.Time
	kind kind
}

type kind uint8

const (
	list      kind = iota // LIST, a page of one too
	watchList             // a watch with sendInitialEvents: it streams the collection
	watch
	kinds
)

// tally counts the requests of a fleet.
type tally struct {
	mu       sync.Mutex
	requests []request
}

// count makes a client of config count its requests here.
func (t *tally) count(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{t, next} })
}

type counting struct {
	tally *tally
	next  http.RoundTripper
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	kind := list
	switch {
	case query.Get("sendInitialEvents") == "true":
		kind = watchList
	case query.Get("watch") != "":
		kind = watch
	}
	var once sync.Once
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		once.Do(func() { c.tally.note(kind) })
	}}
	return c.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

func (t *tally) note(k kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests = append(t.requests, request{time.Now(), k})
}

// counts is how many requests there were of each kind.
type counts [kinds]int

// syncs is how often a collection was asked for.
func (c counts) syncs() int { return c[list] + c[watchList] }

func (c *counts) add(n counts) {
	for k := range n {
		c[k] += n[k]
	}
}

// between counts the requests from one time until another, and the most of them
// that fell into one second.
func (t *tally) between(from, to time.Time) (n counts, peak int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var window []time.Time // of the last second
	for _, r := range t.requests {
		if r.at.Before(from) || !r.at.Before(to) {
			continue
		}
		n[r.kind]++
		window = append(window, r.at)
		for r.at.Sub(window[0]) >= time.Second {
			window = window[1:]
		}
		peak = max(peak, len(window))
	}
	return n, peak
}
