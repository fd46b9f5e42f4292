package frame

import (
	"testing"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// BenchmarkScan finds the ends of watch events with pods.
func BenchmarkScan(b *testing.B) {
	events, err := specimen.Events(specimen.JSON, specimen.Pods(200))
	if err != nil {
		b.Fatal(err)
	}
	total := 0
	for _, e := range events {
		total += len(e)
	}
	b.SetBytes(int64(total / len(events)))
	b.ReportAllocs()
	var s JSONScanner
	for i := 0; b.Loop(); i++ {
		s.Reset()
		if n, done, fault := s.Scan(events[i%len(events)]); !done {
			b.Fatal(n, fault)
		}
	}
}
