package loopback

import (
	"context"
	"errors"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// ListerWatcher returns what nodewatch lists and watches with.
func ListerWatcher(at Target) (*listwatch.ListerWatcher[*corev1.Pod], error) {
	c := listwatch.Config{
		REST:        &rest.Config{Host: at.URL, TLSClientConfig: rest.TLSClientConfig{CAData: at.CA}},
		Resource:    corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace:   specimen.Namespace,
		Encoding:    listwatch.EncodingJSON,
		Compression: listwatch.CompressionOff,
	}
	if at.MediaType == specimen.Protobuf {
		c.Encoding = listwatch.EncodingProtobuf
	}
	if at.Link == Gzip {
		c.Compression = listwatch.CompressionOn
	}
	if at.Link == TLSHTTP2 {
		c.Protocol = listwatch.HTTP2
	}
	if at.Fields == Dropped {
		c.Decode = decode.Config{Drop: []string{"metadata.managedFields"}}
	}
	return listwatch.New[*corev1.Pod](c)
}

// Nodewatch starts a Reflector with a store of such objects, and nobody who listens.
func Nodewatch(objects reflector.Objects) Start {
	return func(ctx context.Context, at Target) (*Session, error) {
		lw, err := ListerWatcher(at)
		if err != nil {
			return nil, err
		}
		s := &Session{Applied: NewCounter()}
		var synced atomic.Bool
		c := reflector.Config[*corev1.Pod]{
			ListerWatcher: lw,
			Objects:       objects,
			InitialSync:   reflector.InitialList,
			OnStop:        lw.Close,
			// Accept is asked once for each object that is decoded, before it is
			// stored, from one goroutine: what is counted at event n is in the store but for the last.
			Accept: func(*corev1.Pod) bool {
				if synced.Load() {
					s.Applied.Add(1)
				}
				return true
			},
		}
		if at.WatchList {
			c.InitialSync = reflector.InitialWatchList
		}
		r, err := reflector.New(c)
		if err != nil {
			return nil, err
		}
		s.Get = func(name string) (*corev1.Pod, bool) { return r.Store().Get(specimen.Namespace, name) }
		s.Handed = func() int64 {
			st := r.Stats()
			return int64(st.ListItems-st.ListSkips) + s.Applied.Load()
		}
		s.Stop = Run(ctx, r.Run)
		if err := r.WaitForSync(ctx); err != nil {
			return nil, errors.Join(err, s.Stop())
		}
		synced.Store(true)
		return s, nil
	}
}
