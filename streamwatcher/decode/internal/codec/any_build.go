package codec

import (
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// mark is a place on a tape: how many there were of each.
type mark struct {
	tokens, keys, known, numbers, floats int
	texts, textSize                      int
}

func (d *tape) mark() mark {
	return mark{len(d.tokens), len(d.keys), len(d.known), len(d.numbers), len(d.floats), d.texts, d.textSize}
}

// builder makes values of the tokens of a tape, the next of each kind being that which at says.
type builder struct {
	*tape
	at    mark
	boxes layout.Boxes
}

// build makes the value whose token is at m, and which is the last on the tape.
func (d *tape) build(m mark) any {
	b := builder{tape: d, at: m, boxes: layout.MakeBoxes(d.raw, d.side, d.textSize-m.textSize, d.texts-m.texts, d.numbers[m.numbers:])}
	return b.value()
}

func (b *builder) value() any {
	t := &b.tokens[b.at.tokens]
	b.at.tokens++
	switch t.kind {
	case tokTrue:
		return true
	case tokFalse:
		return false
	case tokString:
		return b.boxes.String(t.text)
	case tokInt:
		return int64(t.members)
	case tokLong:
		return b.boxes.Number()
	case tokFloat:
		b.at.floats++
		return b.floats[b.at.floats-1]
	case tokKnown:
		b.at.known++
		return b.known[b.at.known-1]
	case tokObject:
		return b.object(int(t.members))
	case tokArray:
		if t.members == 0 {
			return noElements
		}
		v := make([]any, t.members)
		for i := range v {
			v[i] = b.value()
		}
		return v
	}
	return nil
}

// noElements is any array without elements: nothing can be written to it.
var noElements any = []any{}

func (b *builder) object(n int) map[string]any {
	m := make(map[string]any, n)
	for range n {
		t := &b.tokens[b.at.tokens]
		var key string
		if t.keyKnown {
			key = b.keys[b.at.keys]
			b.at.keys++
		} else {
			key = b.boxes.Text(t.key)
		}
		m[key] = b.value()
	}
	if len(m) != n {
		b.update.twice = true
	}
	return m
}
