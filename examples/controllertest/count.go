// Package controllertest shows how a controller is tested against an API server that misbehaves: one
// script a case (see docs/testing.md), played by listwatchtest in memory and in virtual time.
package controllertest

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// Count keeps how many pods run in each namespace: the controller under test.
// It calls report with each count that changed, until ctx ends.
func Count(ctx context.Context, pods reflector.Collection[*corev1.Pod], report func(namespace string, running int)) error {
	running := make(map[string]int)
	add := func(p *corev1.Pod, n int) {
		if p != nil && p.Status.Phase == corev1.PodRunning {
			running[p.Namespace] += n
			report(p.Namespace, running[p.Namespace])
		}
	}
	return pods.Handle(ctx, reflector.Handler[*corev1.Pod]{
		OnAdd: func(ev reflector.Event[*corev1.Pod]) { add(ev.Object, 1) },
		OnUpdate: func(ev reflector.Event[*corev1.Pod]) {
			if ev.Old.Status.Phase != ev.Object.Status.Phase {
				add(ev.Old, -1)
				add(ev.Object, 1)
			}
		},
		OnDelete: func(ev reflector.Event[*corev1.Pod]) { add(ev.Object, -1) },
	})
}
