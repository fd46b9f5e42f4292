package codec

import (
	"hash/maphash"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// words are strings that come again and again. Each has two places where it can stand; those that
// fall on the same two take turns. It is safe for several goroutines.
type words struct{ places[word] } // seen has a part of the hash, and the object's number

type word struct{ text string }

// maxWord is how long a word can be. The ID of an image, a name and a digest of 71 characters, is one.
const maxWord = 192

var seed = maphash.MakeSeed()

func newWords(n int) *words {
	w := new(words)
	w.init(firstPlaces, n)
	return w
}

func (w *words) init(first, limit int) {
	w.places.init(first, limit, func(e *word) uint64 { return maphash.String(seed, e.text) })
}

// find returns b as a word, if it was seen before. So what comes only once, as
// names and UIDs do, is not kept.
func (w *words) find(b []byte) *word { return w.findOf(0, b) }

// findOf is find for an object with this number, 1 to 255: what comes twice in one object, and in
// no other, is not kept either. Of objects with the same number it may take one for the other.
func (w *words) findOf(object uint8, b []byte) *word {
	if len(b) > maxWord || len(b) == 0 {
		return nil
	}
	h := maphash.Bytes(seed, b)
	t := w.current.Load()
	i := t.at(h)
	first := t.slots[i].Load()
	if first != nil && first.text == string(b) {
		return first
	}
	j := t.after(i)
	second := t.slots[j].Load()
	if second != nil && second.text == string(b) {
		return second
	}
	sight := uint32(h>>40)<<8 | uint32(object)
	before := t.seen[i].Swap(sight)
	if before>>8 != sight>>8 { // what came before goes to the other place
		before = t.seen[j].Swap(before)
	}
	if before>>8 != sight>>8 {
		w.miss(t, h)
		return nil
	}
	if before == sight && object != 0 {
		return nil
	}
	if first != nil && (second == nil || h>>63 == 1) {
		i = j
	}
	e := &word{string(b)}
	w.put(t, i, e)
	return e
}

// again is find for the string alone.
func (w *words) again(b []byte) (s string, ok bool) {
	if e := w.find(b); e != nil {
		return e.text, true
	}
	return "", false
}

// get returns b as a string, which may be one that was returned before.
func (w *words) get(b []byte) string {
	if len(b) > maxWord || len(b) == 0 {
		return string(b)
	}
	h, t := maphash.Bytes(seed, b), w.current.Load()
	i := t.at(h)
	e := t.slots[i].Load()
	if e != nil && e.text == string(b) {
		return e.text
	}
	j := t.after(i)
	if other := t.slots[j].Load(); other != nil && other.text == string(b) {
		return other.text
	} else if e != nil && (other == nil || h>>63 == 1) {
		i = j
	}
	e = &word{string(b)}
	w.put(t, i, e)
	return e.text
}

// known returns the word that s is, if pointers may point to it.
func (d *state) known(s layout.Span) *word {
	if !d.sharing() || d.intern == nil {
		return nil
	}
	return d.intern.findOf(d.serial, s.Of(d.raw, d.side))
}

// setString makes the string at dst that of s.
func (d *state) setString(dst *string, s layout.Span) {
	if d.intern != nil {
		if known := d.intern.findOf(d.serial, s.Of(d.raw, d.side)); known != nil {
			d.text.Known(dst, known.text)
			return
		}
	}
	d.text.String(dst, s, d.raw, d.side)
}

// word is s as a part of a map's entry.
func (d *state) word(s layout.Span) layout.Word {
	if d.intern != nil {
		if known := d.intern.findOf(d.serial, s.Of(d.raw, d.side)); known != nil {
			return layout.Word{Known: known.text, IsKnown: true}
		}
	}
	return layout.Word{Span: s}
}
