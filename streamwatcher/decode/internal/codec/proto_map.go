package codec

import (
	"reflect"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// entry reads a map entry's fields: where the key stands, and the value if it
// has a length.
func (d *state) entry(i, end int, value func(i int, wire uint8) (next int, err error)) (key layout.Span, err error) {
	key = layout.SpanOf(i, 0)
	b := d.raw[:end]
	for i < end {
		tag, next := varint(b, i)
		if next < 0 {
			return key, varintError(next)
		}
		wire := uint8(tag & 7)
		number := int32(tag >> 3)
		switch {
		case number == 1:
			if wire != wireBytes {
				return key, errWire
			}
			s, e := span(b, next)
			if s < 0 {
				return key, varintError(s)
			}
			key, i = layout.SpanOf(s, e-s), e
		case number == 2:
			if i, err = value(next, wire); err != nil {
				return key, err
			}
		default:
			if i = skip(b, next, wire); i < 0 {
				return key, varintError(i)
			}
		}
	}
	return key, nil
}

// stringMap reads the entries in a row, the first with its tag at start, into the map of
// strings at p.
func (d *state) stringMap(n *node, p layout.Ptr, b []byte, start int, tag uint64) (next int, err error) {
	d.text.BeginStrings(layout.As[map[string]string](p))
	for next = start; next < len(b); {
		t, i := varint(b, next)
		if t != tag || i < 0 {
			break
		}
		s, e := span(b, i)
		if s < 0 {
			return 0, varintError(s)
		}
		key, value, err := d.stringEntry(s, e)
		if err != nil {
			return 0, err
		}
		if n.dropKeys == nil || !drops(n.dropKeys, key.Of(d.raw, nil)) {
			d.text.Entry(d.word(key), d.word(value))
		}
		next = e
	}
	d.text.EndEager(d.raw, nil)
	return next, nil
}

// stringEntry reads an entry of a map of strings.
func (d *state) stringEntry(i, end int) (key, value layout.Span, err error) {
	b := d.raw[:end]
	// As servers write it: key, value, each once.
	if i+1 < end && b[i] == 1<<3|wireBytes {
		if s, e := span(b, i+1); s > 0 && e < end && b[e] == 2<<3|wireBytes {
			if vs, ve := span(b, e+1); vs > 0 && ve == end {
				return layout.SpanOf(s, e-s), layout.SpanOf(vs, ve-vs), nil
			}
		}
	}
	value = layout.SpanOf(i, 0)
	key, err = d.entry(i, end, func(i int, wire uint8) (int, error) {
		if wire != wireBytes {
			return 0, errWire
		}
		s, e := span(b, i)
		if s < 0 {
			return 0, varintError(s)
		}
		value = layout.SpanOf(s, e-s)
		return e, nil
	})
	return key, value, err
}

func drops(keys []string, key []byte) bool {
	for _, k := range keys {
		if string(key) == k {
			return true
		}
	}
	return false
}

// mapEntry reads an entry of a map that is not one of strings.
func (d *state) mapEntry(n *node, p layout.Ptr, i, end int) error {
	if n.kind == aBytesMap {
		key, value, err := d.stringEntry(i, end)
		if err != nil {
			return err
		}
		d.text.BeginBytes(layout.As[map[string][]byte](p))
		if !drops(n.dropKeys, key.Of(d.raw, nil)) {
			d.text.Entry(layout.Word{Span: key}, layout.Word{Span: value})
		}
		d.text.EndEager(d.raw, nil)
		return nil
	}
	// The entry moves into the map when it is read, so its strings cannot wait.
	text := d.text
	d.text = &d.loose
	defer func() { d.text = text }()
	b := d.raw[:end]
	elem := n.elem
	v := d.entryOf(elem)
	if elem.kind == emptySelf {
		elem.typ.Value(v).Elem().Set(reflect.MakeSlice(elem.typ.Go, 0, 0))
	}
	key, err := d.entry(i, end, func(i int, wire uint8) (int, error) {
		if wire != wireOf(elem) {
			return 0, errWire
		}
		elem.typ.Value(v).Elem().SetZero() // the last one counts
		if elem.kind == emptySelf {
			elem.typ.Value(v).Elem().Set(reflect.MakeSlice(elem.typ.Go, 0, 0))
		}
		return d.element(elem, v, b, i, wire)
	})
	if err != nil {
		return err
	}
	k := key.Of(d.raw, nil)
	if drops(n.dropKeys, k) {
		return nil
	}
	d.makeMap(n, p)
	d.put(n, p, d.prog.keys.get(k), v)
	return nil
}
