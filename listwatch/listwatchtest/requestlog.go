package listwatchtest

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// maxRequests bounds the log of requests.
const maxRequests = 10_000

// Request is one entry of the log of requests. It holds no credentials.
type Request struct {
	Time   time.Time
	Method string
	Path   string
	Query  url.Values
	// Verb is as in Access; for a path that is no resource it is the method in
	// lower case and Resource is empty.
	Verb                string
	Resource, Namespace string
	Name                string
	// ResourceVersion is the query parameter of that name.
	ResourceVersion string
	Accept          string
	UserAgent       string
}

// WatchList reports whether it is a watch that asks for initial events.
func (r Request) WatchList() bool {
	return r.Verb == "watch" && r.Query.Get("sendInitialEvents") == "true"
}

// String is for the messages and assertions of tests: "list pods rv=0",
// "watch pods rv=17", "watchlist pods rv=", "get pods default/web-0".
func (r Request) String() string {
	if r.Resource == "" {
		return r.Verb + " " + r.Path
	}
	verb := r.Verb
	if r.WatchList() {
		verb = "watchlist"
	}
	s := verb + " " + r.Resource
	switch verb {
	case "list", "watch", "watchlist":
		s += " rv=" + r.ResourceVersion
	default:
		if target := strings.Trim(r.Namespace+"/"+r.Name, "/"); target != "" {
			s += " " + target
		}
	}
	return s
}

type requestLog struct {
	mu       sync.Mutex
	requests []Request
}

func (l *requestLog) add(r *http.Request, info requestInfo) {
	query := r.URL.Query()
	entry := Request{
		Time: time.Now(), Method: r.Method, Path: r.URL.Path, Query: query,
		Verb: info.verb, Resource: info.gvr.Resource, Namespace: info.namespace, Name: info.name,
		ResourceVersion: query.Get("resourceVersion"), Accept: r.Header.Get("Accept"), UserAgent: r.UserAgent(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, entry)
	if len(l.requests) > maxRequests {
		l.requests = append([]Request(nil), l.requests[len(l.requests)-maxRequests/2:]...)
	}
}

func (l *requestLog) all() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Request(nil), l.requests...)
}
