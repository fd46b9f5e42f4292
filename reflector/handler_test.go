package reflector

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestHandleCallsByType(t *testing.T) {
	s := NewStore[*thing]()
	list(s, "5", "a/u1@1")
	var got []string
	note := func(who string) func(Event[*thing]) {
		return func(ev Event[*thing]) {
			got = append(got, who+" "+describe(ev))
			switch len(got) {
			case 2:
				upsertThing(s, "a/u1@6")
			case 3:
				removeThing(s, "a/u1@7")
			case 4:
				s.end()
			}
		}
	}
	h := Handler[*thing]{OnAdd: note("add"), OnUpdate: note("update"), OnDelete: note("delete"), OnSynced: note("synced")}
	if err := s.handle(t.Context(), &h, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("after the reflector's end: %v, want nil", err)
	}
	wantEvents(t, got, "add ADDED a/u1@1", "synced SYNCED@5", "update MODIFIED a/u1@6<1", "delete DELETED a/u1@7")
}

func TestHandleReturnsTheCause(t *testing.T) {
	s := NewStore[*thing]()
	list(s, "5", "a/u1@1")
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	// Functions that are nil are not called: OnAdd.
	h := Handler[*thing]{OnSynced: func(Event[*thing]) { cancel(why) }}
	if err := s.handle(ctx, &h, slog.New(slog.DiscardHandler)); !errors.Is(err, why) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's error and its cause", err)
	}
}

// "A panicking handler is caught, counted, and does not stop the loop": on the
// second item of a list.
func TestHandlerPanicIsCaughtAndCounted(t *testing.T) {
	s := NewStore[*thing]()
	var log bytes.Buffer
	seen := 0
	h := Handler[*thing]{
		OnAdd: func(ev Event[*thing]) {
			if seen++; seen == 2 {
				panic("second item")
			}
		},
		OnSynced: func(Event[*thing]) { s.end() },
	}
	list(s, "5", "a/u1@1", "b/u2@2", "c/u3@3")
	if err := s.handle(t.Context(), &h, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Errorf("error %v", err)
	}
	if seen != 3 {
		t.Errorf("OnAdd was called %d times, want 3: once for each item, the bad one not again", seen)
	}
	if got := s.deliveryStats().panics; got != 1 {
		t.Errorf("%d panics counted, want 1", got)
	}
	if h.of(0) != nil {
		t.Error("an event of no type has a handler")
	}
	for _, part := range []string{"second item", "event=ADDED", "key=ns/", "handler_test.go"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log does not say %q: %s", part, log.String())
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d log lines, want 1", n)
	}
}
