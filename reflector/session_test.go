package reflector

import (
	"testing"
	"time"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// "RV never moves backwards because of an event."
func TestSessionAdvance(t *testing.T) {
	for _, c := range []struct {
		have, got string
		bookmark  bool
		want      string
	}{
		{"100", "110", false, "110"},
		{"100", "90", false, "100"},
		{"100", "100", false, "100"},
		{"99", "100", false, "100"}, // by number, not by letter
		{"100", "99", false, "100"},
		{"100", "", false, "100"},
		{"100", "", true, "100"},
		{"100", "abc", false, "abc"}, // no numbers: the server's order counts
		{"abc", "aaa", false, "aaa"},
		{"", "90", false, ""}, // an item of a watch that began with the collection
		{"", "90", true, "90"},
	} {
		s := session{rv: c.have}
		s.advance(c.got, c.bookmark)
		if s.rv != c.want {
			t.Errorf("at %q, %q came (bookmark %v): at %q now, want %q", c.have, c.got, c.bookmark, s.rv, c.want)
		}
	}
}

// "The second list of a cycle goes without RV."
func TestSessionCycle(t *testing.T) {
	var s session
	if rv := s.relistRV(); rv != "" {
		t.Errorf("the first list asks for %q", rv)
	}
	s.synced("100")
	if rv := s.relistRV(); rv != "" {
		t.Errorf("the second list of the cycle asks for %q", rv)
	}
	s.advance("110", false)
	s.progress()
	if rv := s.relistRV(); rv != "110" {
		t.Errorf("the first list of a cycle asks for %q, want what is known", rv)
	}
}

func TestSessionSilence(t *testing.T) {
	var s session
	looks := func(due bool, watches int) (n int) {
		for range watches {
			if s.silence(due) {
				n++
				s.synced("100") // a list that found nothing
			}
		}
		return n
	}
	if n := looks(true, 2); n != 1 {
		t.Errorf("two watches that lived their time: %d lists, want 1", n)
	}
	if n := looks(true, 3); n != 0 {
		t.Errorf("the next three: %d lists, want none yet", n)
	}
	if n := looks(true, 1); n != 1 {
		t.Errorf("the fourth: %d lists, want 1", n)
	}
	if n := looks(true, 10000); n > 10000/64+6 || n < 10000/64-6 {
		t.Errorf("ten thousand more: %d lists, want about one in 64 watches", n)
	}
	s.progress()
	if n := looks(false, 3); n != 0 {
		t.Errorf("three in which no bookmark was due: %d lists, want none yet", n)
	}
	if n := looks(false, 1); n != 1 {
		t.Errorf("the fourth: %d lists, want 1", n)
	}
}

// "falls back to list+watch on 400/403/405/406/415/422/501"
func TestRefusesWatchList(t *testing.T) {
	refused := map[int]bool{400: true, 403: true, 405: true, 406: true, 415: true, 422: true, 501: true}
	for code := 200; code < 600; code++ {
		if got := refusesWatchList(reason.Rejected, code); got != refused[code] {
			t.Errorf("%d: %v", code, got)
		}
	}
	if !refusesWatchList(reason.Forbidden, 0) || refusesWatchList(reason.Transport, 0) {
		t.Error("an ERROR without a code: only Forbidden refuses")
	}
}

// "A request that follows from the answer to its first one may go at once … It may once."
func TestSessionArrived(t *testing.T) {
	var s session
	now := time.Now()
	if s.arrived(now) {
		t.Error("arrived without a wait")
	}
	s.waited = now
	if !s.arrived(now.Add(shortWatch - 1)) {
		t.Error("not arrived just after a wait")
	}
	if s.arrived(now.Add(shortWatch - 1)) {
		t.Error("arrived twice after one wait")
	}
	s.waited = now
	if s.arrived(now.Add(shortWatch)) {
		t.Errorf("still arrived %v after the wait", shortWatch)
	}
}
