package codec

import (
	"encoding/binary"
	"slices"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// Packing copies an object's bytes without what decoding passes over, so that they decode
// to the same. It walks only down to where something is passed over: a node that is
// sparse has fields that are dropped, or is a struct of the caller's own, which may
// name a few of many. All else is copied as it stands, and is not checked.

// PackProtobuf returns the message raw without what is passed over.
func (p *Program) PackProtobuf(raw []byte) (string, error) {
	if p.ProtoErr != nil || !p.proto.sparse {
		return string(raw), nil
	}
	return p.pack(raw, func(d *state, out []byte) ([]byte, error) { return d.packMessage(out, p.proto.message, 0, len(raw)) })
}

// PackJSON returns the text raw without what is passed over.
func (p *Program) PackJSON(raw []byte) (string, error) {
	if p.JSONErr != nil || !p.json.sparse {
		return string(raw), nil
	}
	return p.pack(raw, func(d *state, out []byte) ([]byte, error) {
		i := space(raw, 0)
		if byteAt(raw, i) != '{' {
			return nil, d.syntax(i, "an object")
		}
		out, i, err := d.packJSON(out, p.json, i)
		if i = space(raw, i); err == nil && i < len(raw) {
			err = d.syntax(i, "the end")
		}
		return out, err
	})
}

func (p *Program) pack(raw []byte, pack func(d *state, out []byte) ([]byte, error)) (string, error) {
	if len(raw) > layout.MaxSource {
		return "", errTooLarge(raw)
	}
	d := p.state()
	defer p.pool.Put(d)
	d.begin(raw, false)
	defer d.end(false)
	out, err := pack(d, d.scratch[:0])
	if err != nil {
		return "", err
	}
	s := string(out)
	if d.scratch = out; cap(out) > 64<<10 {
		d.scratch = nil
	}
	return s, nil
}

// packMessage appends the message in raw[i:end].
func (d *state) packMessage(out []byte, m *message, i, end int) ([]byte, error) {
	if d.depth++; d.depth > maxDepth {
		return nil, errTooDeep
	}
	b := d.raw[:end]
	for i < end {
		start := i
		tag, value := varint(b, i)
		if value < 0 {
			return nil, varintError(value)
		}
		number, wire := int32(tag>>3), uint8(tag&7)
		if number <= 0 || wire == wireEnd {
			return nil, errTag
		}
		if i = skip(b, value, wire); i < 0 {
			return nil, varintError(i)
		}
		if int(number) >= len(m.fields) || m.fields[number].kind == none {
			continue
		}
		n := m.fields[number].node
		if !n.sparse || wire != wireBytes {
			out = append(out, b[start:i]...)
			continue
		}
		for n.kind == aPointer || n.kind == aSlice {
			n = n.elem
		}
		from, _ := span(b, value)
		if n.kind != aStruct {
			if !d.dropsEntry(n, from, i) {
				out = append(out, b[start:i]...)
			}
			continue
		}
		out = append(out, b[start:value]...)
		at := len(out)
		var err error
		if out, err = d.packMessage(out, n.message, from, i); err != nil {
			return nil, err
		}
		// The length is known now, and moves in before.
		var length [binary.MaxVarintLen64]byte
		out = slices.Insert(out, at, length[:binary.PutUvarint(length[:], uint64(len(out)-at))]...)
	}
	d.depth--
	return out, nil
}

// dropsEntry tells whether the entry in raw[i:end] of a map is one that is dropped. One that is
// damaged is not.
func (d *state) dropsEntry(n *node, i, end int) bool {
	key, err := d.entry(i, end, func(i int, wire uint8) (int, error) {
		if i = skip(d.raw[:end], i, wire); i < 0 {
			return 0, varintError(i)
		}
		return i, nil
	})
	return err == nil && drops(n.dropKeys, key.Of(d.raw, nil))
}

// packJSON appends the value at i of n, which is sparse.
func (d *state) packJSON(out []byte, n *node, i int) (_ []byte, next int, err error) {
	for n.kind == aPointer {
		n = n.elem
	}
	open := byteAt(d.raw, i)
	switch {
	case n.kind == aSlice && open == '[':
	case n.kind != aSlice && open == '{':
	default:
		if next, err = d.pass(i); err != nil {
			return nil, 0, err
		}
		return append(out, d.raw[i:next]...), next, nil
	}
	if d.depth++; d.depth > maxDepth {
		return nil, 0, errTooDeep
	}
	b, shut := d.raw, open+2 // '}' and ']' stand two behind
	out = append(out, open)
	first := len(out)
	if i = space(b, i+1); byteAt(b, i) == shut {
		d.depth--
		return append(out, shut), i + 1, nil
	}
	for {
		at := len(out)
		if at > first {
			out = append(out, ',')
		}
		var cut bool
		if open == '[' {
			out, i, err = d.packJSON(out, n.elem, i)
		} else {
			out, i, cut, err = d.packMember(out, n, i)
		}
		if err != nil {
			return nil, 0, err
		}
		if cut {
			out = out[:at]
		}
		i = space(b, i)
		if c := byteAt(b, i); c == shut {
			break
		} else if c != ',' {
			return nil, 0, d.syntax(i, "a comma or the end")
		}
		i = space(b, i+1)
	}
	d.depth--
	return append(out, shut), i + 1, nil
}

// packMember appends the member of an object at i, unless it is cut.
func (d *state) packMember(out []byte, n *node, i int) (_ []byte, next int, cut bool, err error) {
	name, value, err := d.name(i)
	if err != nil {
		return nil, 0, false, err
	}
	var below *node
	if n.kind == aStruct {
		f := n.object.find(name)
		cut = f == nil || f.kind == aText && byteAt(d.raw, space(d.raw, value)) == '"'
		if f != nil {
			below = f.node
		}
	} else {
		cut = drops(n.dropKeys, name)
	}
	value = space(d.raw, value)
	if !cut && below != nil && below.sparse {
		out, next, err = d.packJSON(append(out, d.raw[i:value]...), below, value)
		return out, next, false, err
	}
	if next, err = d.pass(value); err == nil && !cut {
		out = append(out, d.raw[i:next]...)
	}
	return out, next, cut, err
}
