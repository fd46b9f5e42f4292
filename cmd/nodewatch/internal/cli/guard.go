package cli

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
)

// podListerWatcher is what a reflector takes from a ListerWatcher, the kind and
// the byte counts among it.
type podListerWatcher interface {
	reflector.ListerWatcher[*corev1.Pod]
	Resource() schema.GroupVersionResource
	Kind() string
	Transfer() *streamwatcher.Transfer
}

// guard is a ListerWatcher that keeps a reflector from doing what the user did
// not want: from watching after a list that is asked for once, or from resuming
// a watch that ended. It is used by the reflector's goroutine alone.
type guard struct {
	podListerWatcher
	reflector *podReflector // set before it runs
	// listOnly: there is no watch but for a watch-list.
	listOnly bool
	// ended, when set, is told how the watch after the first sync ended.
	ended func(error)
	// opened: the last request was a watch and was answered.
	opened bool
}

// List implements reflector.ListerWatcher.
func (g *guard) List(ctx context.Context, opts metav1.ListOptions, sink listwatch.Sink[*corev1.Pod]) (metav1.ListMeta, error) {
	if err := g.refuse(ctx); err != nil {
		return metav1.ListMeta{}, err
	}
	g.opened = false
	return g.podListerWatcher.List(ctx, opts, sink)
}

// Watch implements reflector.ListerWatcher.
func (g *guard) Watch(ctx context.Context, opts metav1.ListOptions) (*streamwatcher.StreamWatcher[*corev1.Pod], error) {
	watchList := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if g.listOnly && !watchList {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := g.refuse(ctx); err != nil {
		return nil, err
	}
	stream, err := g.podListerWatcher.Watch(ctx, opts)
	g.opened = err == nil
	if err != nil && g.ended != nil && g.reflector.Status().Synced {
		g.ended(err)
	}
	return stream, err
}

// refuse is called before each request. When a watch was open after the first
// sync and is asked for again, it has ended: that is told, and nothing is sent.
func (g *guard) refuse(ctx context.Context) error {
	if g.ended == nil || !g.opened {
		return nil
	}
	s := g.reflector.Status()
	if !s.Synced {
		return nil
	}
	err := errors.New("the watch ended")
	if r := s.LastRestart; r != nil {
		err = fmt.Errorf("the watch of %s ended: %s", s.Name, r.Reason)
		if r.Err != nil {
			err = fmt.Errorf("%w: %w", err, r.Err)
		}
	}
	g.ended(err)
	<-ctx.Done() // whoever was told stops the reflector
	return ctx.Err()
}
