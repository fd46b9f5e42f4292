package reflector

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// A wrong subscription is told in full, by Subscribe as a panic when it is called and by Handle as its error.
func TestSubscriptionValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    Subscription[*thing]
		want []string // parts of the error; none is a good one
	}{
		{"zero", Subscription[*thing]{}, nil},
		{"all of it", Subscription[*thing]{Name: "n", Policy: Resync, Limit: 1, Replay: time.Second}, nil},
		{"policy", Subscription[*thing]{Policy: 3}, []string{"Subscription.Policy is 3: use Coalesce, Block or Resync"}},
		{"limit", Subscription[*thing]{Limit: -1}, []string{"Subscription.Limit is -1: use a positive number"}},
		{"replay", Subscription[*thing]{Replay: -time.Minute}, []string{"Subscription.Replay is -1m0s: use a period"}},
		{"often", Subscription[*thing]{Replay: time.Millisecond}, []string{"Subscription.Replay is 1ms: use a period of at least 1s"}},
		{"all wrong", Subscription[*thing]{Policy: 9, Limit: -2, Replay: 1}, []string{"Policy is 9", "Limit is -2", "Replay is 1ns"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewStore[*thing]()
			s.end()
			log := slog.New(slog.DiscardHandler)
			errs := []string{
				fmt.Sprint(tc.s.Validate()),
				fmt.Sprint(s.handle(t.Context(), &Handler[*thing]{Subscription: tc.s}, log)),
				fmt.Sprint(panicOf(func() { s.events(t.Context(), tc.s, log) })),
			}
			for i, err := range errs {
				if len(tc.want) == 0 && err != "<nil>" {
					t.Errorf("way %d: %s, want none", i, err)
				}
				for _, part := range tc.want {
					if !strings.Contains(err, part) {
						t.Errorf("way %d: %s, want %q in it", i, err, part)
					}
				}
			}
		})
	}
}

func TestPolicyWords(t *testing.T) {
	var words []string
	for p := range Policy(3) {
		words = append(words, p.String())
	}
	if !slices.Equal(words, Policies()) {
		t.Errorf("the words are %q, Policies says %q", words, Policies())
	}
	if got := Policy(7).String(); got != "Policy(7)" {
		t.Errorf("%s, want Policy(7)", got)
	}
	text, err := json.Marshal(map[string]Policy{"p": Resync})
	if err != nil || string(text) != `{"p":"resync"}` {
		t.Errorf("JSON %s, %v", text, err)
	}
}

// Stats names each subscriber; what it has not read is its own.
func TestMailboxesByName(t *testing.T) {
	s := NewStore[*thing]()
	list(s, "5", "a/u1@1")
	quick := s.subscribe(Subscription[*thing]{Name: "quick", Limit: 7})
	late := s.subscribe(Subscription[*thing]{Name: "late", Policy: Resync, Limit: 1})
	drain(quick)
	upsertThing(s, "a/u1@6")
	upsertThing(s, "b/u2@7")
	var got []string
	for _, m := range s.deliveryStats().mailboxes {
		got = append(got, fmt.Sprintf("%s %v %d: %d pending, %d coalesced, %d resyncs", m.Name, m.Policy, m.Limit, m.Depth, m.Coalesced, m.Resyncs))
	}
	want := []string{"quick coalesce 7: 2 pending, 0 coalesced, 0 resyncs", "late resync 1: 3 pending, 0 coalesced, 1 resyncs"}
	if !slices.Equal(got, want) {
		t.Errorf("mailboxes %q, want %q", got, want)
	}
	s.unsubscribe(late)
	if st := s.deliveryStats(); st.resyncs != 1 || len(st.mailboxes) != 1 {
		t.Errorf("after it left: %d resyncs, %d mailboxes; the count has to stay", st.resyncs, len(st.mailboxes))
	}
}
