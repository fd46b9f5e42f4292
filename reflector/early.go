package reflector

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// early is what a watch-list told of a time before what is known. Its initial
// events may be of an older state, which the changes that follow bring up to the
// mark: the API promises only that the mark is not older than what was asked for.
// An object that ended meanwhile, as the store knows, is told again then, and so
// is its end. To pass that on would be to deliver it twice, and to take away what
// has its name now.
//
// So an object of that time which is not stored is not believed before the mark.
// What nothing contradicted until then is taken: the list before was cut, say, or
// the server lost a history. What is held costs what it costs when it is stored.
type early[T any] struct {
	rv    string // the newest version of which the store knows; empty before the first
	items map[decode.Key]earlyItem[T]
}

type earlyItem[T any] struct {
	meta decode.Meta // its own strings
	content[T]
}

// tells reports whether a version that is not stored may be from before what is known.
func (e *early[T]) tells(rv string) bool {
	return e.rv != "" && follows(e.rv, rv)
}

// hold keeps what was told last of a name.
func (e *early[T]) hold(m *decode.Meta, c content[T]) {
	if e.items == nil {
		e.items = make(map[decode.Key]earlyItem[T])
	}
	k := ownKey(m.Key())
	e.items[k] = earlyItem[T]{
		meta: decode.Meta{
			Namespace: k.Namespace, Name: k.Name,
			UID: types.UID(strings.Clone(string(m.UID))), ResourceVersion: strings.Clone(m.ResourceVersion),
		},
		content: c,
	}
}

// has reports whether an object of that name is held.
func (e *early[T]) has(k decode.Key) bool {
	_, ok := e.items[k]
	return ok
}

// forget drops what is held of a name: something newer came.
func (e *early[T]) forget(k decode.Key) { delete(e.items, k) }

// end drops an object that is held and has ended. A server that leaves the UID
// out is taken to mean the one that is held.
func (e *early[T]) end(m *decode.Meta) {
	if item, ok := e.items[m.Key()]; ok && (m.UID == "" || m.UID == item.meta.UID) {
		e.forget(m.Key())
	}
}
