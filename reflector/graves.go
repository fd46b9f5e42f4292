package reflector

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// graves are the objects that one stream has told the end of, so that an event
// which comes twice (a proxy or a server that repeats itself) does not bring
// one of them back: "nothing is delivered twice for the same (UID,
// resourceVersion)". What the store holds needs no such memory.
//
// The last gravesKept are remembered, which costs some 100 KB in a stream that
// deletes so many, and dies with it.
type graves struct {
	rv    map[types.UID]string
	order []types.UID // a ring once it is full
	next  int
}

const gravesKept = 1024

// bury notes that the object ended at rv. The newest end is the one that counts.
func (g *graves) bury(uid types.UID, rv string) {
	if uid == "" {
		return
	}
	uid = types.UID(strings.Clone(string(uid)))
	if g.rv == nil {
		g.rv = make(map[types.UID]string)
	}
	end, there := g.rv[uid]
	if there && olderRV(rv, end) {
		return // told again
	}
	if !there {
		if len(g.order) < gravesKept {
			g.order = append(g.order, uid)
		} else {
			delete(g.rv, g.order[g.next])
			g.order[g.next] = uid
			g.next = (g.next + 1) % gravesKept
		}
	}
	g.rv[uid] = strings.Clone(rv)
}

// hold reports whether a version of the object is from before its end. One that
// is newer is of an object that came back: into the selector, say.
func (g *graves) hold(uid types.UID, rv string) bool {
	end, there := g.rv[uid]
	return there && (rv == end || olderRV(rv, end))
}
