package syncloop

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/nodefilter/podconfig"
)

// housekeepingWarning is how long housekeeping may take before the log says so.
const housekeepingWarning = time.Second

// The waits while the runtime is not healthy.
const (
	pauseMin = 100 * time.Millisecond
	pauseMax = 5 * time.Second
)

// handleUpdate: DELETE is an update, since the pod is to end gracefully; it is
// gone with its REMOVE.
func (l *Loop) handleUpdate(ctx context.Context, u podconfig.PodUpdate) {
	l.cfg.Logger.DebugContext(ctx, "update", "op", u.Op.String(), "source", string(u.Source), "pods", len(u.Pods), "initial", u.Initial)
	l.pods.Apply(u)
	if len(u.Pods) > 0 {
		h := l.cfg.Handler
		switch u.Op {
		case podconfig.Add:
			slices.SortStableFunc(u.Pods, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
			l.callPods(ctx, Additions, h.HandlePodAdditions, u.Pods)
		case podconfig.Update, podconfig.Delete:
			l.callPods(ctx, Updates, h.HandlePodUpdates, u.Pods)
		case podconfig.Remove:
			l.callPods(ctx, Removes, h.HandlePodRemoves, u.Pods)
		case podconfig.Reconcile:
			l.callPods(ctx, Reconciles, h.HandlePodReconcile, u.Pods)
		}
	}
	if u.Initial {
		l.watch.handled(u.Source)
	}
}

// handleEvent syncs the pod of a container that started or died. Removals and
// changes to a state that is not known are no reason, as in the kubelet.
func (l *Loop) handleEvent(ctx context.Context, e LifecycleEvent) {
	if e.Type == ContainerStarted || e.Type == ContainerDied {
		l.sync(ctx, e.Pod)
	}
}

func (l *Loop) handleSync(ctx context.Context, now time.Time) {
	if due := l.queue.take(now); len(due) > 0 {
		l.sync(ctx, due...)
	}
}

// sync has the pods looked at that are still there.
func (l *Loop) sync(ctx context.Context, uids ...types.UID) {
	pods := make([]*corev1.Pod, 0, len(uids))
	for _, uid := range uids {
		if p, ok := l.pods.Pod(uid); ok {
			pods = append(pods, p)
		} else {
			l.watch.unknown()
		}
	}
	if len(pods) > 0 {
		l.callPods(ctx, Syncs, l.cfg.Handler.HandlePodSyncs, pods)
	}
}

// handleProbe returns the channel to go on with: nil when it was closed.
func (l *Loop) handleProbe(ctx context.Context, probe Probe, r ProbeResult, open bool, results <-chan ProbeResult) <-chan ProbeResult {
	if !open {
		return nil
	}
	r.Probe = probe
	pod, ok := l.pods.Pod(r.Pod)
	if !ok {
		l.watch.unknown()
		return results
	}
	if h, ok := l.cfg.Handler.(ProbeHandler); ok {
		l.call(ctx, Probes, 1, func() { h.HandleProbeResult(ctx, pod, r) })
	}
	if probe != Liveness || !r.Success {
		l.callPods(ctx, Syncs, l.cfg.Handler.HandlePodSyncs, []*corev1.Pod{pod})
	}
	return results
}

func (l *Loop) handleHousekeeping(ctx context.Context) {
	if !l.watch.ready() {
		l.watch.skipped()
		return
	}
	var err error
	took := l.call(ctx, Cleanups, 0, func() { err = l.cfg.Handler.HandlePodCleanups(ctx) })
	if err != nil {
		l.watch.failed()
		l.cfg.Logger.ErrorContext(ctx, "housekeeping failed", "err", err)
	}
	if took > housekeepingWarning {
		l.cfg.Logger.WarnContext(ctx, "housekeeping took long, updates had to wait", "took", took, "expected", housekeepingWarning)
	}
}

func (l *Loop) callPods(ctx context.Context, name Handling, f func(context.Context, []*corev1.Pod), pods []*corev1.Pod) {
	l.call(ctx, name, len(pods), func() { f(ctx, pods) })
}

// call makes one call of the handler, catches its panic, and returns how long it took.
func (l *Loop) call(ctx context.Context, name Handling, pods int, f func()) (took time.Duration) {
	begin := l.watch.begin(name, pods)
	panicked := true
	defer func() {
		took = l.watch.end(name, begin, panicked)
		if panicked {
			p := recover()
			l.cfg.Logger.ErrorContext(ctx, "handler panicked", "handler", string(name), "pods", pods, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	f()
	panicked = false
	return 0
}

// awaitHealthy waits until the runtime is healthy; false when ctx has ended.
func (l *Loop) awaitHealthy(ctx context.Context) bool {
	if l.cfg.Lifecycle == nil {
		return true
	}
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		err := l.cfg.Lifecycle.Healthy()
		if l.watch.pause(err) {
			if err != nil {
				l.cfg.Logger.WarnContext(ctx, "nothing is handled until the runtime is healthy", "err", err)
			} else {
				l.cfg.Logger.InfoContext(ctx, "the runtime is healthy again")
			}
		}
		if err == nil {
			return true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}
