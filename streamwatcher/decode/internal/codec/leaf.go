package codec

import (
	"reflect"
	"sync/atomic"

	"hash/maphash"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// put sets an entry of the map at p, whose node is n, to the value at v.
func (d *state) put(n *node, p layout.Ptr, key []byte, v layout.Ptr) {
	if n.elem.kind == aQuantity {
		m := layout.As[map[string]resource.Quantity](p)
		if *m == nil {
			*m = make(map[string]resource.Quantity)
		}
		(*m)[d.prog.keys.get(key)] = *layout.As[resource.Quantity](v)
		return
	}
	m := n.typ.Value(p).Elem()
	if m.IsNil() {
		m.Set(reflect.MakeMap(n.typ.Go))
	}
	k := reflect.New(n.typ.Go.Key()).Elem()
	k.SetString(d.prog.keys.get(key))
	m.SetMapIndex(k, n.elem.typ.Value(v).Elem())
}

// words are strings that come again and again. Two that fall on one place take turns. It
// is safe for several goroutines.
type words struct {
	slots []atomic.Pointer[word]
}

type word struct {
	text string
	// quantity is what text says, if it is one that can be shared.
	quantity resource.Quantity
}

// maxWord is how long a word can be.
const maxWord = 96

var seed = maphash.MakeSeed()

func newWords(n int) *words { return &words{slots: make([]atomic.Pointer[word], n)} }

func (w *words) slot(b []byte) *atomic.Pointer[word] {
	return &w.slots[maphash.Bytes(seed, b)%uint64(len(w.slots))]
}

// get returns b as a string, which may be one that was returned before.
func (w *words) get(b []byte) string {
	if len(b) > maxWord || len(b) == 0 {
		return string(b)
	}
	slot := w.slot(b)
	if e := slot.Load(); e != nil && e.text == string(b) {
		return e.text
	}
	e := &word{text: string(b)}
	slot.Store(e)
	return e.text
}

// getQuantity parses b.
func (w *words) getQuantity(b []byte) (resource.Quantity, error) {
	if len(b) > maxWord || len(b) == 0 {
		return resource.ParseQuantity(string(b))
	}
	slot := w.slot(b)
	if e := slot.Load(); e != nil && e.text == string(b) {
		return e.quantity, nil
	}
	text := string(b)
	q, err := resource.ParseQuantity(text)
	if err == nil && shareable(&q) {
		slot.Store(&word{text: text, quantity: q})
	}
	return q, err
}

// shareable tells whether copies of q share nothing: large and very exact
// numbers are kept behind a pointer.
func shareable(q *resource.Quantity) bool {
	return reflect.ValueOf(q).Elem().FieldByName("d").FieldByName("Dec").IsNil()
}

// protoQuantity reads the message of a Quantity, which has its text.
func (d *state) protoQuantity(p layout.Ptr, b []byte) error {
	q := layout.As[resource.Quantity](p)
	if len(b) > 2 && b[0] == 1<<3|wireBytes && int(b[1]) == len(b)-2 && b[1] < 0x80 {
		var err error
		*q, err = d.prog.quantities.getQuantity(b[2:])
		return err
	}
	return q.Unmarshal(b)
}

// word is the string of span, an entry's key or value.
func (d *state) word(s layout.Span) layout.Word { return layout.Word{Span: s} }
