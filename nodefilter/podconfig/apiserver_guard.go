package podconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// overdueAfter is how long removals wait for the end of the list that they may be of. The
// store publishes both at once, so that it is over only where there is no such list.
const overdueAfter = time.Second

// regressionGuard decides whether the removals of a list are believed. Removals that no
// event told (FinalStateUnknown) are suspended until the list that found them
// is complete: only then its resourceVersion, and whether it has any pod, is known.
type regressionGuard struct {
	on    bool
	again func() // called by a timer when suspended removals are overdue
	timer *time.Timer

	// high is the highest resourceVersion of the history that is believed.
	high      string
	suspended []Gone
	// withheld are the removals that are not believed.
	withheld map[types.UID]Gone
	from     string // the resourceVersion of the list that had them
	lists    int    // how many lists said so
	news     bool   // for report
}

// suspend takes a removal until the end of a list, and reports whether it did.
func (g *regressionGuard) suspend(pod Gone) bool {
	if !g.on {
		return false
	}
	g.suspended = append(g.suspended, pod)
	if g.timer == nil {
		g.timer = time.AfterFunc(overdueAfter, g.again)
	} else if len(g.suspended) == 1 {
		g.timer.Reset(overdueAfter)
	}
	return true
}

func (g *regressionGuard) stop() {
	if g.timer != nil {
		g.timer.Stop()
	}
}

// replaced returns what is gone because a pod has its name.
func (g *regressionGuard) replaced(by *corev1.Pod) (gone []Gone) {
	if len(g.suspended) == 0 && len(g.withheld) == 0 {
		return nil
	}
	same := func(old Gone) bool {
		return old.Namespace == by.Namespace && old.Name == by.Name && old.UID != by.UID
	}
	g.suspended = slices.DeleteFunc(g.suspended, func(old Gone) bool {
		if same(old) {
			gone = append(gone, old)
		}
		return same(old)
	})
	for uid, old := range g.withheld {
		if same(old) {
			gone = append(gone, old)
			delete(g.withheld, uid)
			g.news = true
		}
	}
	return gone
}

// back notes that a pod is there, and reports whether it was never told to be gone.
func (g *regressionGuard) back(uid types.UID) bool {
	if len(g.suspended) == 0 && len(g.withheld) == 0 {
		return false
	}
	before := len(g.suspended)
	g.suspended = slices.DeleteFunc(g.suspended, func(old Gone) bool { return old.UID == uid })
	_, held := g.withheld[uid]
	if held {
		delete(g.withheld, uid)
		g.news = true
	}
	return held || len(g.suspended) < before
}

// heard notes how far the history has come; what was withheld is gone
// when it has come as far as before.
func (g *regressionGuard) heard(rv string) (gone []Gone) {
	if olderThan(rv, g.high) {
		return nil
	}
	g.high = rv
	return g.release()
}

// synced is the end of a list, at a time when so many pods are known, those that are
// suspended and withheld among them. It returns what is gone.
func (g *regressionGuard) synced(rv string, known int) (gone []Gone) {
	g.stop()
	rest := known - len(g.suspended) - len(g.withheld)
	if g.on && rest == 0 && len(g.suspended)+len(g.withheld) > 0 && olderThan(rv, g.high) {
		if g.withheld == nil {
			g.withheld = make(map[types.UID]Gone, len(g.suspended))
		}
		for _, s := range g.suspended {
			g.withheld[s.UID] = s
		}
		g.suspended, g.from, g.news = nil, rv, true
		g.lists++
		return nil
	}
	// The list is believed, and with it its history.
	gone, g.suspended, g.high = append(g.suspended, g.release()...), nil, rv
	return gone
}

// expire gives back what waited for a list in vain. Where the reflector is at a
// resourceVersion from before, the list is there and its end is about to come.
func (g *regressionGuard) expire(rv string) (gone []Gone) {
	if len(g.suspended) == 0 {
		return nil
	}
	if olderThan(rv, g.high) {
		g.timer.Reset(overdueAfter)
		return nil
	}
	gone, g.suspended = g.suspended, nil
	return gone
}

// release gives up what was withheld.
func (g *regressionGuard) release() (gone []Gone) {
	if len(g.withheld) == 0 {
		return nil
	}
	gone = slices.SortedFunc(maps.Values(g.withheld), func(a, b Gone) int { return strings.Compare(string(a.UID), string(b.UID)) })
	clear(g.withheld)
	g.news = true
	return gone
}

// report returns whether there is anything new to say, and what; "" is that all is well.
func (g *regressionGuard) report() (news bool, text string) {
	news, g.news = g.news, false
	if !news || len(g.withheld) == 0 {
		return news, ""
	}
	return true, fmt.Sprintf("the server went back in time, to resourceVersion %s from %s, and has no pod of the node: "+
		"%d pods are kept; if they are really gone, restart this program", g.from, g.high, len(g.withheld))
}

// olderThan reports whether a resourceVersion is known to be before another one.
func olderThan(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
