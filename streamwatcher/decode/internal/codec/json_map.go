package codec

import (
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// jsonMap reads the members of an object, the first at i, into the map at p.
func (d *state) jsonMap(n *node, p layout.Ptr, i int) (next int, err error) {
	if d.depth++; d.depth > maxDepth {
		return 0, errTooDeep
	}
	b := d.raw
	kept := len(d.side)
	var v layout.Ptr
	switch n.kind {
	case aStringMap:
		d.text.BeginStrings(layout.As[map[string]string](p))
	case aBytesMap:
		d.text.BeginBytes(layout.As[map[string][]byte](p))
	default:
		d.makeMap(n, p)
		// An entry moves into the map when it is read, so its strings cannot wait.
		text := d.text
		d.text = &d.loose
		defer func() { d.text = text }()
		v = d.entryOf(n.elem)
	}
	for first := true; ; first = false {
		i = space(b, i)
		if first && byteAt(b, i) == '}' {
			break
		}
		if byteAt(b, i) != '"' {
			return 0, d.syntax(i, "a name")
		}
		key, at, err := d.str(i + 1)
		if err != nil {
			return 0, err
		}
		if at = space(b, at); byteAt(b, at) != ':' {
			return 0, d.syntax(at, "a colon")
		}
		i = space(b, at+1)
		switch {
		case n.dropKeys != nil && drops(n.dropKeys, key.Of(b, d.side)):
			i, err = d.pass(i)
		case n.kind == aMap:
			i, err = d.jsonEntry(n, p, key, v, i)
			d.side = d.side[:kept]
		default:
			i, err = d.jsonWord(n, key, i)
		}
		if err != nil {
			return 0, err
		}
		i = space(b, i)
		if c := byteAt(b, i); c == '}' {
			break
		} else if c != ',' {
			return 0, d.syntax(i, "a comma or the end of the object")
		}
		i++
	}
	if n.kind != aMap {
		d.text.EndEager(b, d.side)
	}
	d.depth--
	return i + 1, nil
}

// jsonEntry reads the value at i into v and puts it into the map at p.
func (d *state) jsonEntry(n *node, p layout.Ptr, key layout.Span, v layout.Ptr, i int) (next int, err error) {
	name := d.prog.keys.get(key.Of(d.raw, d.side))
	n.elem.typ.Value(v).Elem().SetZero()
	if next, err = d.jsonValue(n.elem.kind, n.elem, v, i); err != nil {
		return 0, err
	}
	d.put(n, p, name, v)
	return next, nil
}

// jsonWord reads the value at i of the entry key of a map of strings or bytes.
func (d *state) jsonWord(n *node, key layout.Span, i int) (next int, err error) {
	b := d.raw
	value := layout.Word{IsKnown: true} // null: no string, no bytes
	switch byteAt(b, i) {
	case 'n':
		next, err = d.literal(i, "null")
	case '"':
		value.IsKnown = false
		value.Span, next, err = d.str(i + 1)
		switch {
		case err != nil:
		case n.kind == aBytesMap:
			value.Span, err = d.base64(value.Span, i)
		default:
			value = d.word(value.Span)
		}
	default:
		return 0, d.mismatch(i, n.elem)
	}
	if err == nil {
		d.text.Entry(d.word(key), value)
	}
	return next, err
}
