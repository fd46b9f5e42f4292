package codec

import (
	"hash/maphash"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// words are strings that come again and again. Two that fall on one place take turns. It
// is safe for several goroutines.
type words struct {
	slots []atomic.Pointer[word]
	seen  []atomic.Uint32 // by the same place: a part of the hash of what was seen once
}

type word struct {
	text string
	// quantity is what text says, if it is one that can be shared.
	quantity resource.Quantity
}

// maxWord is how long a word can be.
const maxWord = 96

var seed = maphash.MakeSeed()

func newWords(n int) *words {
	return &words{slots: make([]atomic.Pointer[word], n), seen: make([]atomic.Uint32, n)}
}

// again returns b as a string, if it was seen before. So what comes only once, as
// names and UIDs do, is not kept.
func (w *words) again(b []byte) (s string, ok bool) {
	if len(b) > maxWord || len(b) == 0 {
		return "", false
	}
	h := maphash.Bytes(seed, b)
	i := h % uint64(len(w.slots))
	if e := w.slots[i].Load(); e != nil && e.text == string(b) {
		return e.text, true
	}
	if sight := uint32(h >> 32); w.seen[i].Swap(sight) != sight {
		return "", false
	}
	e := &word{text: string(b)}
	w.slots[i].Store(e)
	return e.text, true
}

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

// setString makes the string at dst that of s.
func (d *state) setString(dst *string, s layout.Span) {
	if d.prog.intern != nil {
		if known, ok := d.prog.intern.again(s.Of(d.raw, d.side)); ok {
			d.text.Known(dst, known)
			return
		}
	}
	d.text.String(dst, s, d.raw, d.side)
}

// word is s as a part of a map's entry.
func (d *state) word(s layout.Span) layout.Word {
	if d.prog.intern != nil {
		if known, ok := d.prog.intern.again(s.Of(d.raw, d.side)); ok {
			return layout.Word{Known: known, IsKnown: true}
		}
	}
	return layout.Word{Span: s}
}
