package reflector_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// An answer whose objects are all of another kind is no empty collection, however it was asked for: Status says what came
// and what was expected, WaitForSync too, it is asked for again with growing waits, and what was stored before stays. One
// whose objects are all of the right kind and do not decode is a collection: it is synced, and Status names them. Items of a protobuf list say no kind, so
// there is nothing to tell them apart by; what is no list of pods is refused in both encodings.
func TestNothingOfTheKind(t *testing.T) {
	const aliens = ": the server sent 2 objects, of kind \"Node\" and none of kind \"Pod\": do the Go type and Kind fit the resource?"
	for _, c := range []struct {
		name, asked, more string // what is asked for, and what is then
		encodings         string
		err               string // how the error goes on behind the resource; "" where it is synced
		quarantined       int
	}{
		{"list", "config backoff=10s..10s\n> LIST rv=\n< list 100 Node:x@91 Node:y@92", "> LIST rv= after=1ns..10s\n< list 110 a@90\n> WATCH rv=110\n< hold", "json", aliens, 0},
		{
			"paged list", "config page=1 backoff=10s..10s\n> LIST rv= limit=1\n< list 100 Node:x@91 continue=t\n> LIST rv= limit=1 continue=t\n< list 100 Node:y@92",
			"> LIST rv= limit=1 after=1ns..10s\n< list 110 a@90\n> WATCH rv=110\n< hold", "json", aliens, 0,
		},
		{
			"watch-list", "config initial=watchlist backoff=10s..10s\n> WATCHLIST rv=\n< ADDED Node:x@91 Node:y@92\n< MARK 100\n< hold",
			"> WATCHLIST rv= after=1ns..10s\n< ADDED a@90\n< MARK 110\n< hold", "json protobuf", aliens, 0,
		},
		{
			"watch-list or list", "config initial=auto backoff=10s..10s\n> WATCHLIST rv=\n< ADDED Node:x@91 Node:y@92\n< MARK 100\n< hold",
			"> WATCHLIST rv= after=1ns..10s\n< ADDED a@90\n< MARK 110\n< hold", "json protobuf", aliens, 0,
		},
		{"list of what does not decode", "> LIST rv=\n< list 100 a@91! b@92!", "> WATCH rv=100\n< sleep 1m\n< MODIFIED a@110\n< MODIFIED b@110\n< hold", "json protobuf", "", 2},
		{
			"paged list of what does not decode", "config page=1\n> LIST rv= limit=1\n< list 100 a@91! continue=t\n> LIST rv= limit=1 continue=t\n< list 100 b@92!",
			"> WATCH rv=100\n< sleep 1m\n< MODIFIED a@110\n< MODIFIED b@110\n< hold", "json protobuf", "", 2,
		},
		{
			"watch-list of what does not decode", "config initial=watchlist\n> WATCHLIST rv=\n< ADDED a@91! b@92!\n< MARK 100",
			"< sleep 1m\n< MODIFIED a@110\n< MODIFIED b@110\n< hold", "json protobuf", "", 2,
		},
	} {
		for _, encoding := range encodings {
			if !strings.Contains(c.encodings, encoding.name) {
				continue
			}
			t.Run(c.name+"/"+encoding.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					script, err := listwatchtest.ParseScript(t.Name(), []byte(c.asked+"\n"+c.more+"\n"))
					if err != nil {
						t.Fatal(err)
					}
					lw := newScripted(t, script, encoding.policy)
					r, err := reflector.New(scriptConfig(t, script, lw, &logged{}))
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error)
					go func() { done <- r.Run(ctx) }()
					synctest.Wait()
					wait, end := context.WithTimeout(ctx, time.Millisecond)
					err = r.WaitForSync(wait)
					end()
					s := r.Status()
					if len(s.Quarantined) != c.quarantined || s.Objects != 0 {
						t.Errorf("%d objects, quarantined are %v, want %d", s.Objects, s.Quarantined, c.quarantined)
					}
					if want := "list pods" + c.err; c.err == "" {
						if err != nil || !s.Synced || s.LastError != nil {
							t.Errorf("WaitForSync: %v, status %+v", err, s)
						}
					} else {
						var e *listwatch.Error
						if !errors.As(err, &e) || e.Reason != reason.Decode || !strings.Contains(err.Error(), want) {
							t.Errorf("WaitForSync: %v, want %s", err, want)
						}
						if s.Synced || s.State != reflector.StateBackingOff || s.NextAttempt.IsZero() || s.LastError == nil ||
							s.LastError.Error() != want || s.LastRestart.Reason != reason.Decode || !s.FreshAsOf.IsZero() {
							t.Errorf("status %+v, want the error %s", s, want)
						}
						if n := r.Stats().Ignored["foreign"]; n != 2 {
							t.Errorf("%d were foreign", n)
						}
					}
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					if s := r.Status(); !s.Synced || s.Objects == 0 || len(s.Quarantined) != 0 {
						t.Errorf("when good ones came: %+v", s)
					}
					cancel()
					if err := <-done; err != nil {
						t.Error(err)
					}
					lw.close(t)
				})
			})
		}
	}
}
