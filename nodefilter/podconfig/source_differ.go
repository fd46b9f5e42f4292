package podconfig

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// differ turns the states of a source, one after the other, into Changes: the first is
// full, the later ones are what is different, and none where nothing is.
type differ struct {
	begun bool
	now   map[types.UID]*corev1.Pod
}

// tell tells the difference to the state before. A pod that is the same pointer
// has not changed. No two pods have one UID.
func (d *differ) tell(pods []*corev1.Pod, l *ledger, tell func(Change)) {
	c := Change{Full: !d.begun, Initial: !d.begun}
	next := make(map[types.UID]*corev1.Pod, len(pods))
	for _, p := range pods {
		next[p.UID] = p
		if d.now[p.UID] != p {
			c.Pods = append(c.Pods, p)
		}
	}
	for uid, p := range d.now {
		if next[uid] == nil {
			c.Gone = append(c.Gone, Gone{UID: uid, Namespace: p.Namespace, Name: p.Name})
		}
	}
	if d.begun && len(c.Pods) == 0 && len(c.Gone) == 0 {
		return
	}
	d.begun, d.now = true, next
	l.told(c, len(next))
	tell(c)
}
