package reflector

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A grave holds what is from before the end, and no more than a fixed number of them is kept.
func TestGraves(t *testing.T) {
	var g graves
	if g.hold("a", "1") {
		t.Error("an empty graveyard holds something")
	}
	g.bury("a", "10")
	g.bury("", "10")
	for rv, want := range map[string]bool{"9": true, "10": true, "11": false} {
		if got := g.hold("a", rv); got != want {
			t.Errorf("holds a at %s: %v, want %v", rv, got, want)
		}
	}
	if g.hold("", "9") {
		t.Error("what has no UID is held")
	}
	g.bury("a", "20") // came back and went again
	g.bury("a", "10") // told again
	if !g.hold("a", "15") {
		t.Error("the second burial is not the one that counts")
	}
	for i := range 3 * gravesKept {
		g.bury(types.UID(fmt.Sprint(i)), "30")
	}
	if len(g.rv) != gravesKept || len(g.order) != gravesKept {
		t.Errorf("%d graves in a ring of %d, want %d", len(g.rv), len(g.order), gravesKept)
	}
	if g.hold("a", "15") || !g.hold(types.UID(fmt.Sprint(3*gravesKept-1)), "30") {
		t.Error("the oldest one stays, or the newest one went")
	}
}
