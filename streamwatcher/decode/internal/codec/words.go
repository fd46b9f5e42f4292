package codec

import (
	"hash/maphash"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// words are strings that come again and again. Each has two places where it can stand; those that
// fall on the same two take turns. It is safe for several goroutines.
type words struct{ places[string] } // seen has a part of the hash, and the object's number

// maxWord is how long a word can be. The ID of an image, a name and a digest of 71 characters, is one.
const maxWord = layout.MaxBeside

var seed = maphash.MakeSeed()

func newWords(n int) *words {
	w := new(words)
	w.init(firstPlaces, n)
	return w
}

func (w *words) init(first, limit int) {
	w.places.init(first, limit, func(e *string) uint64 { return maphash.String(seed, *e) })
}

// find returns b as a word, if it was seen before. So what comes only once, as
// names and UIDs do, is not kept.
func (w *words) find(b []byte) *string { return w.findOf(0, b) }

// findOf is find for an object with this number, 1 to 255: what comes twice in one object, and in
// no other, is not kept either. Of objects with the same number it may take one for the other.
func (w *words) findOf(object uint8, b []byte) *string {
	if len(b) > maxWord || len(b) == 0 {
		return nil
	}
	h := maphash.Bytes(seed, b)
	t := w.current.Load()
	i := t.at(h)
	first := &t.slots[i]
	if e := first.find(h); e != nil && *e == string(b) {
		return e
	}
	second := &t.slots[t.after(i)]
	if e := second.find(h); e != nil && *e == string(b) {
		return e
	}
	sight := uint32(h>>40)<<8 | uint32(object)
	before := first.seen.Swap(sight)
	if before>>8 != sight>>8 { // what came before goes to the other place
		before = second.seen.Swap(before)
	}
	if before>>8 != sight>>8 {
		w.miss(t, h)
		return nil
	}
	if before == sight && object != 0 {
		return nil
	}
	e := layout.Beside(b)
	w.put(t, t.vacant(h), h, e)
	return e
}

// again is find for the string alone.
func (w *words) again(b []byte) (s string, ok bool) {
	if e := w.find(b); e != nil {
		return *e, true
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
	if e := t.slots[i].find(h); e != nil && *e == string(b) {
		return *e
	}
	if e := t.slots[t.after(i)].find(h); e != nil && *e == string(b) {
		return *e
	}
	e := layout.Beside(b)
	w.put(t, t.vacant(h), h, e)
	return *e
}

// known returns the word that s is, if pointers may point to it.
func (d *state) known(s layout.Span) *string {
	if !d.sharing() || d.intern == nil {
		return nil
	}
	return d.intern.findOf(d.serial, s.Of(d.raw, d.side))
}

// setString makes the string at dst that of s, and tells whether it is a word.
func (d *state) setString(dst *string, s layout.Span) (isWord bool) {
	if d.intern != nil {
		if known := d.intern.findOf(d.serial, s.Of(d.raw, d.side)); known != nil {
			d.text.Known(dst, *known)
			return true
		}
	}
	d.text.String(dst, s, d.raw, d.side)
	return false
}

// setField is setString for the string of the field with this id.
func (d *state) setField(id int, dst *string, s layout.Span) {
	if d.intern == nil || !d.textLuck.try(id) {
		d.text.String(dst, s, d.raw, d.side)
		return
	}
	d.textLuck.note(id, d.setString(dst, s))
}

// word is s as a part of a map's entry.
func (d *state) word(s layout.Span) layout.Word {
	if d.intern != nil {
		if known := d.intern.findOf(d.serial, s.Of(d.raw, d.side)); known != nil {
			return layout.Word{Known: *known, IsKnown: true}
		}
	}
	return layout.Word{Span: s}
}
