package reflector

import (
	"testing"
	"time"
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
	looks := func(due bool, watches int, lived time.Duration) (n int) {
		for range watches {
			if s.silence(due, false, lived) {
				n++
				s.synced("100") // a list that found nothing
			}
		}
		return n
	}
	if n := looks(true, 2, bookmarkDue); n != 1 {
		t.Errorf("two watches that lived their time: %d lists, want 1", n)
	}
	if n := looks(true, 3, bookmarkDue); n != 0 {
		t.Errorf("the next three: %d lists, want none yet", n)
	}
	if n := looks(true, 1, bookmarkDue); n != 1 {
		t.Errorf("the fourth: %d lists, want 1", n)
	}
	if n := looks(true, 10000, bookmarkDue); n > 10000/64+6 || n < 10000/64-6 {
		t.Errorf("ten thousand more: %d lists, want about one in 64 watches", n)
	}
	s.progress()
	if !s.silence(true, true, bookmarkDue) {
		t.Error("one suspicious watch: no list, want one")
	}
	s.synced("100")
	if s.silence(true, true, bookmarkDue) {
		t.Error("another one, although the list found nothing: a list, want none yet")
	}
	s.progress()
	// A caller's short idle limit: it is the time that counts, not the ends.
	if n := looks(false, 74, 2*time.Second); n != 0 {
		t.Errorf("74 silences of 2 s: %d lists, want none yet", n)
	}
	if n := looks(false, 2, 2*time.Second); n != 1 {
		t.Errorf("two more: %d lists, want 1", n)
	}
}

// "The second request may go at once; only one may. A client that got its answer
// late has lost its place."
func TestSessionArrival(t *testing.T) {
	var s session
	now := time.Now()
	if p := s.arrival(now); p != spread {
		t.Errorf("without a wait: pace %d, want spread", p)
	}
	s.waited = now
	if p := s.arrival(now.Add(shortWatch - 1)); p != atOnce {
		t.Errorf("just after a wait: pace %d, want atOnce", p)
	}
	if p := s.arrival(now.Add(shortWatch - 1)); p != spread {
		t.Errorf("the second after one wait: pace %d, want spread", p)
	}
	s.waited = now
	if p := s.arrival(now.Add(shortWatch)); p != queued {
		t.Errorf("%v after a wait: pace %d, want queued", shortWatch, p)
	}
	s.waited = now
	s.progress()
	if p := s.arrival(now); p != spread {
		t.Errorf("after a watch that brought something: pace %d, want spread", p)
	}
}
