//go:build !race

// The race detector makes sync.Pool forget at random, and so allocations.

package reflector

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/streamwatcher"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// stream is a reflector that has a store of pods, and a watch that brings updates of them without end.
func stream(t testing.TB, mediaType string, pods int, as Objects) (next func()) {
	t.Helper()
	dec, err := decode.NewWith[*corev1.Pod](decode.Config{Drop: []string{"metadata.managedFields"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config[*corev1.Pod]{ListerWatcher: named[*corev1.Pod]{}, Objects: as})
	if err != nil {
		t.Fatal(err)
	}
	updates, err := specimen.NewStream(mediaType, pods, false)
	if err != nil {
		t.Fatal(err)
	}
	body := updates.Reader()
	sw, err := streamwatcher.New(streamwatcher.Config[*corev1.Pod]{Body: io.NopCloser(body), ContentType: mediaType, Decoder: dec})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sw.Stop)
	a := &attempt[*corev1.Pod]{sw: sw, opened: time.Now(), ctx: t.Context()}
	return func() {
		ev, err := a.next(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.deal(a, ev); err != nil {
			t.Fatal(err)
		}
	}
}

// "<= 15 allocations per MODIFIED event of a known pod", read, decoded and stored.
func TestModifiedAllocations(t *testing.T) {
	const pods = 300
	for _, mediaType := range []string{specimen.Protobuf, specimen.JSON} {
		next := stream(t, mediaType, pods, ObjectsShared)
		for range 3 * pods { // each pod is known, and so is what pods have in common
			next()
		}
		if n := testing.AllocsPerRun(5*pods, next); n > 15 {
			t.Errorf("%s: %v allocations for each MODIFIED, want at most 15", mediaType, n)
		} else {
			t.Logf("%s: %v allocations for each MODIFIED", mediaType, n)
		}
	}
}

// BenchmarkModified is what an update of a known pod costs in all: framed, decoded and stored.
func BenchmarkModified(b *testing.B) {
	for _, mediaType := range []string{specimen.Protobuf, specimen.JSON} {
		for _, as := range []Objects{ObjectsShared, ObjectsPrivate, ObjectsCompact} {
			b.Run(fmt.Sprintf("%s/%v", mediaType[strings.LastIndexAny(mediaType, "./")+1:], as), func(b *testing.B) {
				next := stream(b, mediaType, 1000, as)
				for range 2000 {
					next()
				}
				b.ReportAllocs()
				for b.Loop() {
					next()
				}
			})
		}
	}
}
