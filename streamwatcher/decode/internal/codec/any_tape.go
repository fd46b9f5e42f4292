package codec

import (
	"fmt"
	"strconv"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// token is one JSON value on the tape, with the key it has in its object. The values within an
// object or array follow it.
type token struct {
	kind tokenKind
	// keyKnown says that the key is the next of tape.keys.
	keyKnown bool
	members  uint32 // of an object or array
	key      layout.Span
	text     layout.Span // of a string
}

type tokenKind uint8

const (
	tokNull tokenKind = iota
	tokTrue
	tokFalse
	tokString
	tokInt   // from 0 to 255, in members: for these Go has interfaces ready
	tokLong  // the next of tape.numbers
	tokFloat // the next of tape.floats
	tokKnown // the next of tape.known
	tokObject
	tokArray
)

// tape is one goroutine's work on one object that is read without a Go type. All is
// read before anything is made, so that each thing can be made in its size.
type tape struct {
	state  // of which the scanning is used
	reader *Any

	tokens  []token
	keys    []string
	known   []any
	numbers []int64
	floats  []float64
	// texts are the strings that are to be boxed, textSize the bytes of these and of the
	// keys that are not known.
	texts, textSize int

	packed []byte    // what Pack made last
	common *anyParts // nil if the object shares nothing with others
	update update
}

// A tape that grew longer is not kept for the next object.
const (
	keepTokens = 16 << 10
	keepSide   = 64 << 10
)

// clear makes the tape ready for another object.
func (d *tape) clear() {
	clear(d.keys)
	clear(d.known)
	d.tokens, d.keys, d.known = d.tokens[:0], d.keys[:0], d.known[:0]
	d.numbers, d.floats = d.numbers[:0], d.floats[:0]
	d.texts, d.textSize = 0, 0
	d.common, d.raw, d.side, d.depth = nil, nil, d.side[:0], 0
	d.update = update{is: d.update.is[:0]}
	if cap(d.tokens) > keepTokens || cap(d.side) > keepSide || cap(d.packed) > keepSide {
		*d = tape{reader: d.reader}
	}
}

// document reads the object that is all of raw.
func (d *tape) document(drop *dropTree) (map[string]any, error) {
	i := space(d.raw, 0)
	if byteAt(d.raw, i) != '{' {
		return nil, d.syntax(i, "an object")
	}
	i, err := d.value(i, token{}, drop)
	if err != nil {
		return nil, err
	}
	if i = space(d.raw, i); i < len(d.raw) {
		return nil, d.syntax(i, "the end")
	}
	m, _ := d.build(mark{}).(map[string]any)
	return m, nil
}

// value reads the value at i. t has its key.
func (d *tape) value(i int, t token, drop *dropTree) (next int, err error) {
	switch c := byteAt(d.raw, i); {
	case c == '"':
		if t.text, next, err = d.str(i + 1); err != nil {
			return 0, err
		}
		d.string(t)
		return next, nil
	case c == '{' || c == '[':
		return d.nested(i, t, drop)
	case c == 't':
		t.kind = tokTrue
		next, err = d.literal(i, "true")
	case c == 'f':
		t.kind = tokFalse
		next, err = d.literal(i, "false")
	case c == 'n':
		next, err = d.literal(i, "null")
	case c == '-' || c-'0' < 10:
		next, err = d.number(i, &t)
	default:
		return 0, d.syntax(i, "a value")
	}
	d.tokens = append(d.tokens, t)
	return next, err
}

// string puts a string on the tape, which is one that is known if it comes often.
func (d *tape) string(t token) {
	t.kind = tokString
	if d.reader.intern != nil {
		if w := d.reader.intern.find(t.text.Of(d.raw, d.side)); w != nil {
			t.kind = tokKnown
			d.known = append(d.known, layout.BoxString(w))
			d.tokens = append(d.tokens, t)
			return
		}
	}
	d.texts++
	d.textSize += t.text.Len()
	d.tokens = append(d.tokens, t)
}

// number reads a number as sigs.k8s.io/json does: an int64 if it has no point and no
// exponent and fits, and a float64 otherwise.
func (d *tape) number(i int, t *token) (next int, err error) {
	negative, v, next, ok := integer(d.raw, i)
	switch {
	case ok && !negative && v < 256:
		t.kind, t.members = tokInt, uint32(v)
		return next, nil
	case ok && !negative && v < 1<<63:
		t.kind = tokLong
		d.numbers = append(d.numbers, int64(v))
		return next, nil
	case ok && negative && v <= 1<<63:
		t.kind = tokLong
		d.numbers = append(d.numbers, -int64(v))
		return next, nil
	}
	if next, err = d.numberEnd(i); err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(string(d.raw[i:next]), 64)
	if err != nil {
		return 0, fmt.Errorf("JSON at byte %d: %w", i, err)
	}
	t.kind = tokFloat
	d.floats = append(d.floats, f)
	return next, nil
}

// nested reads the object or array at i.
func (d *tape) nested(i int, t token, drop *dropTree) (next int, err error) {
	if d.depth++; d.depth > maxDepth {
		return 0, errTooDeep
	}
	// What is remembered by its members is not shared as a whole: see update. And what is known is not
	// looked into, so it must not be where it could be too deep.
	sharing := d.common != nil && drop == nil && d.depth > d.update.upto && d.depth < maxDepth-maxAny
	if sharing {
		if e := d.common.begins(d.raw[i:]); e != nil {
			d.tokens = append(d.tokens, t)
			d.isKnown(len(d.tokens)-1, e.value)
			d.depth--
			return i + e.size, nil
		}
	}
	m := d.mark()
	if d.raw[i] == '{' {
		t.kind = tokObject
		d.tokens = append(d.tokens, t)
		next, err = d.members(i+1, drop)
	} else {
		t.kind = tokArray
		d.tokens = append(d.tokens, t)
		next, err = d.elements(i+1, drop)
	}
	if err == nil && sharing {
		d.share(m, i, next)
	}
	d.depth--
	return next, err
}

// members reads the members of an object, the first at i, and its closing bracket. The object's token is the last.
func (d *tape) members(i int, drop *dropTree) (next int, err error) {
	b := d.raw
	at := len(d.tokens) - 1
	if i = space(b, i); byteAt(b, i) == '}' {
		if d.common != nil && d.depth > 1 { // to the root its kind may be added
			d.isKnown(at, d.common.empty)
		}
		return i + 1, nil
	}
	for n := uint32(0); ; {
		if byteAt(b, i) != '"' {
			return 0, d.syntax(i, "a name")
		}
		var member token
		if member.key, i, err = d.str(i + 1); err != nil {
			return 0, err
		}
		if byteAt(b, i) != ':' {
			if i = space(b, i); byteAt(b, i) != ':' {
				return 0, d.syntax(i, "a colon")
			}
		}
		if i++; byteAt(b, i) <= ' ' {
			i = space(b, i)
		}
		below, dropped := (*dropTree)(nil), false
		if drop != nil {
			below, dropped = drop.member(member.key.Of(b, d.side))
		}
		if !dropped {
			n++
			d.key(&member)
		}
		switch {
		case d.depth <= d.update.upto:
			i, err = d.member(i, member, below, dropped)
		case dropped:
			i, err = d.pass(i)
		default:
			i, err = d.value(i, member, below)
		}
		if err != nil {
			return 0, err
		}
		c := byteAt(b, i)
		if c <= ' ' {
			i = space(b, i)
			c = byteAt(b, i)
		}
		switch c {
		case ',':
			if i++; byteAt(b, i) <= ' ' {
				i = space(b, i)
			}
		case '}':
			d.tokens[at].members = n
			return i + 1, nil
		default:
			return 0, d.syntax(i, "a comma or the end of the object")
		}
	}
}

// key notes the key of t, which is mostly one that came before.
func (d *tape) key(t *token) {
	if s, ok := d.reader.keys.again(t.key.Of(d.raw, d.side)); ok {
		t.keyKnown = true
		d.keys = append(d.keys, s)
		return
	}
	d.textSize += t.key.Len()
}

// elements reads the elements of an array, the first at i, and its closing bracket. What is dropped
// of it is dropped of each.
func (d *tape) elements(i int, drop *dropTree) (next int, err error) {
	at := len(d.tokens) - 1
	if i = space(d.raw, i); byteAt(d.raw, i) == ']' {
		return i + 1, nil
	}
	for n := uint32(1); ; n++ {
		if i, err = d.value(i, token{}, drop); err != nil {
			return 0, err
		}
		var last bool
		if i, last, err = d.behind(i); err != nil {
			return 0, err
		}
		if last {
			d.tokens[at].members = n
			return i, nil
		}
	}
}

// member returns what is to be dropped below the member of this key, and whether it is dropped
// itself. Without a type, "a.b" and "a[b]" are the same.
func (d *dropTree) member(key []byte) (below *dropTree, whole bool) {
	below = d.below[string(key)]
	return below, below != nil && below.whole
}
