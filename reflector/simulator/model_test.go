package simulator

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// A restored etcd has the old state and gives the same resourceVersions out again.
func TestRestoreGivesResourceVersionsOutAgain(t *testing.T) {
	s := &Schedule{
		Server: Server{Step: 1, Window: 100},
		Ops: []Op{
			{At: 1, Kind: Touch, Object: 1},
			{At: 3, Kind: Touch, Object: 2},
			{At: 5, Kind: Touch, Object: 1},
			{At: 9, Kind: Touch, Object: 2},
			{At: 11, Kind: Delete, Object: 1},
		},
		Faults: []Fault{{At: 7, For: 2, Kind: Restore, N: 1}},
	}
	w := newWorld(s)
	if len(w.histories) != 2 {
		t.Fatalf("%d histories, want 2", len(w.histories))
	}
	tell := func(at time.Duration) string {
		h := w.at(at)
		state := h.state(h.upTo(at))
		var list []string
		for _, name := range names(state) {
			list = append(list, state[name].String())
		}
		return strings.Join(list, " ")
	}
	for _, tc := range []struct {
		at   time.Duration
		want string
	}{
		{5, "p01@1003/u1#3 p02@1002/u2#2"},
		{7, "p01@1001/u1#1 p02@1002/u2#2"},
		{9, "p01@1001/u1#1 p02@1003/u2#4"},
		{11, "p02@1003/u2#4"},
	} {
		if got := tell(tc.at); got != tc.want {
			t.Errorf("at %d: %s, want %s", tc.at, got, tc.want)
		}
	}
	first, second := w.histories[0], w.histories[1]
	if got := w.shared(second, first); got != 1002 {
		t.Errorf("the histories share what is up to %d, want 1002", got)
	}
	if got := second.floor(10); got != 1003 {
		t.Errorf("after the restart a watch may start at %d, want 1003", got)
	}
	if got := second.floor(8); got != 1000 {
		t.Errorf("before the server is up the floor is %d, want 1000", got)
	}
}

// What enters the selector is ADDED, what leaves it DELETED with the content from before.
func TestSelector(t *testing.T) {
	s := &Schedule{Server: Server{Step: 1, Window: 100}, Ops: []Op{
		{At: 1, Kind: Cross, Object: 1}, {At: 3, Kind: Cross, Object: 1}, {At: 5, Kind: Cross, Object: 1}, {At: 7, Kind: Elsewhere},
	}}
	log := newWorld(s).histories[0].log
	for i, want := range []bool{false, true, true, false} {
		if got := log[i].relevant(); got != want {
			t.Errorf("write %d is relevant: %t, want %t", i, got, want)
		}
	}
	if got := log[2].content(); got != log[1] {
		t.Errorf("what left shows the content of %v, want %v", got, log[1])
	}
}

// The bytes are what API servers send: apimachinery reads them.
func TestEncodings(t *testing.T) {
	v := &version{seq: 3, rv: 1003, name: "p01", uid: "u1", in: true, wire: map[wireKey][]byte{}}
	bad := &version{seq: 4, rv: 1004, name: "p02", uid: "u2", in: true, flaw: mistyped, wire: map[wireKey][]byte{}}

	var fromJSON corev1.PodList
	if err := json.Unmarshal(listBytes(decode.JSON, 1005, "t", 7, []*version{v}), &fromJSON); err != nil {
		t.Fatal(err)
	}
	var unknown runtime.Unknown
	raw := listBytes(decode.Protobuf, 1005, "t", 7, []*version{v})
	if err := unknown.Unmarshal(bytes.TrimPrefix(raw, []byte(decode.Magic))); err != nil {
		t.Fatal(err)
	}
	var fromProtobuf corev1.PodList
	if err := fromProtobuf.Unmarshal(unknown.Raw); err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]corev1.PodList{"JSON": fromJSON, "protobuf": fromProtobuf} {
		if list.ResourceVersion != "1005" || list.Continue != "t" || *list.RemainingItemCount != 7 || len(list.Items) != 1 {
			t.Fatalf("%s: list is %+v", name, list.ListMeta)
		}
		if got, want := holds(&list.Items[0]), (held{"u1", 1003, 3}); got != want {
			t.Errorf("%s: item is %+v, want %+v", name, got, want)
		}
	}
	if json.Unmarshal(bad.object(decode.JSON), &corev1.Pod{}) == nil || (&corev1.Pod{}).Unmarshal(bad.object(decode.Protobuf)) == nil {
		t.Error("an object that should not decode does")
	}
}

// However a stream is cut into members, it is the same stream, and what is
// needed to read a part is told.
func TestGzipMembers(t *testing.T) {
	texts := []string{"one\n", strings.Repeat("two", 50000), "three\n"}
	for how := oneMember; how <= lateTrailer; how++ {
		z := &gzipped{how: how}
		var wire []byte
		for _, text := range texts {
			part, own := z.part([]byte(text))
			if own < len(text) || own >= len(part) {
				t.Errorf("members %d: %d of %d bytes are said to hold a text of %d", how, own, len(part), len(text))
			}
			wire = append(wire, part...)
		}
		r, err := gzip.NewReader(bytes.NewReader(append(wire, z.end()...)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != strings.Join(texts, "") {
			t.Errorf("members %d: %d bytes, %v", how, len(got), err)
		}
	}
}

// Shrink finds the two faults and the one op that it takes.
func TestShrinkFindsTheSmallest(t *testing.T) {
	s := NewSchedule(5)
	s.Ops, s.Faults = nil, nil
	for i := range 40 {
		s.Ops = append(s.Ops, Op{At: time.Duration(i), Object: i})
		s.Faults = append(s.Faults, Fault{At: time.Duration(i), N: i})
	}
	broken := func(c *Schedule) *Failure {
		has := func(n int) bool { return slices.ContainsFunc(c.Faults, func(f Fault) bool { return f.N == n }) }
		if has(7) && has(31) && slices.ContainsFunc(c.Ops, func(o Op) bool { return o.Object == 12 }) {
			return &Failure{Promise: "p"}
		}
		if has(3) {
			return &Failure{Promise: "another"}
		}
		return nil
	}
	small, runs := Shrink(s, "p", broken, 1000)
	if len(small.Ops) != 1 || len(small.Faults) != 2 || small.Ops[0].Object != 12 || small.Faults[0].N != 7 || small.Faults[1].N != 31 {
		t.Errorf("left are %v and %v", small.Ops, small.Faults)
	}
	if runs > 200 {
		t.Errorf("it took %d runs", runs)
	}
	if len(s.Ops) != 40 || len(s.Faults) != 40 {
		t.Error("the schedule that was given is changed")
	}
}

// "No two things are due at the same nanosecond", and they are in order.
func TestScheduleIsOrdered(t *testing.T) {
	for seed := range uint64(500) {
		s := NewSchedule(seed)
		seen := map[time.Duration]bool{}
		last := time.Duration(-1)
		for _, f := range s.Faults {
			if f.At < last || seen[f.At] {
				t.Fatalf("seed %d: %v is out of order, or not alone", seed, f)
			}
			last, seen[f.At] = f.At, true
		}
		for _, h := range newWorld(s).histories {
			for i := 1; i < len(h.log); i++ {
				if h.log[i].at <= h.log[i-1].at || h.log[i].rv <= h.log[i-1].rv {
					t.Fatalf("seed %d: %v is not after %v", seed, h.log[i], h.log[i-1])
				}
			}
		}
		if len(s.Consumers) == 0 || !s.Consumers[0].Prompt || s.Stop <= 0 {
			t.Fatalf("seed %d: %d consumers, stop at %v", seed, len(s.Consumers), s.Stop)
		}
	}
}
