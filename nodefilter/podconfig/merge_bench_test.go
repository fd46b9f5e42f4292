package podconfig

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// restarted is the next version of a pod: one container was restarted, as a
// kubelet writes it into the status. A private version shares nothing in memory
// with the one before; a shared one shares what did not change, as a decoder makes
// it that knows the version before.
func restarted(p *corev1.Pod, shared bool) *corev1.Pod {
	q := *p
	if !shared {
		q = *p.DeepCopy()
	}
	q.Status.ContainerStatuses = slices.Clone(p.Status.ContainerStatuses)
	q.Status.ContainerStatuses[0].RestartCount++
	return &q
}

// tellOne applies a change and receives what came of it.
func tellOne(s *store, ch Change) (n int) {
	s.apply(s.sources[0], ch)
	for o, ok := s.take(); ok; o, ok = s.take() {
		n += len(o.update().Pods)
		s.commit(o)
	}
	return n
}

// benchStore is a store whose consumer knows n pods.
func benchStore(n int) (*store, []*corev1.Pod) {
	pods := specimen.Pods(n)
	s := newStore([]Source{APIServerSource}, Improved, slog.New(slog.DiscardHandler))
	tellOne(s, first(pods...))
	return s, pods
}

// BenchmarkEvent is one status update of one pod of a node with many, from the
// change to the update that the consumer has; making the version is in it, as
// what every event costs. The figure must not depend on the number of pods.
func BenchmarkEvent(b *testing.B) {
	for _, memory := range []string{"private", "shared"} {
		for _, n := range []int{110, 500, 2000} {
			b.Run(fmt.Sprintf("versions=%s/pods=%d", memory, n), func(b *testing.B) {
				s, pods := benchStore(n)
				one := make([]*corev1.Pod, 1)
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					k := i * 7 % n // a stride: two events of one pod are far apart
					pods[k] = restarted(pods[k], memory == "shared")
					one[0] = pods[k]
					if tellOne(s, Change{Pods: one}) != 1 {
						b.Fatal("not one pod told")
					}
				}
			})
		}
	}
}

// BenchmarkRun is the same through Run and its channel.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{110, 500, 2000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			pods := specimen.Pods(n)
			api := newTestSource(APIServerSource)
			pc, err := New(Config{Sources: []Producer{api}})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- pc.Run(ctx) }()
			api.changes <- first(slices.Clone(pods)...)
			<-pc.Updates()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				k := i * 7 % n
				pods[k] = restarted(pods[k], true)
				api.changes <- changed(pods[k])
				<-pc.Updates()
			}
			b.StopTimer()
			cancel()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// TestEventAllocates: a change of one pod costs one allocation, the slice of the
// update, however many pods the source has.
func TestEventAllocates(t *testing.T) {
	for _, n := range []int{110, 2000} {
		s, pods := benchStore(n)
		versions := [2]*corev1.Pod{restarted(pods[0], true), restarted(restarted(pods[0], true), true)}
		one, i := make([]*corev1.Pod, 1), 0
		got := testing.AllocsPerRun(100, func() {
			one[0] = versions[i%2]
			i++
			if tellOne(s, Change{Pods: one}) != 1 {
				t.Fatal("not one pod told")
			}
		})
		if got > 1 {
			t.Errorf("%d pods: %v allocations an event, want one", n, got)
		}
	}
}
