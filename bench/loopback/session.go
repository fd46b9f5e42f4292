package loopback

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/bench/replay"
)

// Link is the way to the server.
type Link string

// The links.
const (
	HTTP1    Link = "http1"      // plain HTTP/1.1
	Gzip     Link = "http1-gzip" // the same, compressed
	TLS      Link = "tls-http1"
	TLSHTTP2 Link = "tls-http2"
)

// Fields says what is decoded of an object.
type Fields string

// The fields.
const (
	Dropped Fields = "dropped" // all but managedFields
	Kept    Fields = "kept"    // all, as they come
)

// Target is what a client reads, and how.
type Target struct {
	URL       string
	Link      Link
	CA        []byte // PEM of the authority of the TLS links
	MediaType string // specimen.JSON or specimen.Protobuf
	Fields    Fields
	WatchList bool // instead of list and watch
}

// Session is a client that has listed and watches.
type Session struct {
	// Applied counts the events of the watch that are in the store, or the bytes that were read of it.
	Applied *Counter
	// InBytes: Applied counts bytes, before compression.
	InBytes bool
	// Handed counts the objects that were handed on, to the store or to subscribers,
	// by lists as well as by watches. nil where there is no store, as is Get.
	Handed func() int64
	Get    func(name string) (*corev1.Pod, bool)
	// Stop ends the client and waits for it.
	Stop func() error
}

// Start starts a client and returns when the list is in its store; the client goes on until
// Session.Stop. The watch may not be open yet.
type Start func(ctx context.Context, at Target) (*Session, error)

// Events makes the server send n events on the open watch and waits until they are applied.
func (s *Session) Events(ctx context.Context, srv replay.Controller, n int) error {
	goal := s.Applied.Load()
	bytes, err := srv.Send(ctx, n)
	if err != nil {
		return err
	}
	if s.InBytes {
		return s.Applied.Until(ctx, goal+bytes)
	}
	return s.Applied.Until(ctx, goal+int64(n))
}

// Run runs f until the returned function is called, which returns what f did but for the
// error of its context.
func Run(ctx context.Context, f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	return func() error {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}
