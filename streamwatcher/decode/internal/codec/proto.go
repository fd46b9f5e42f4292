package codec

import (
	"errors"
	"io"
	"math"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

var (
	errVarint  = errors.New("protobuf number of more than ten bytes")
	errTag     = errors.New("protobuf field with an impossible number or type")
	errWire    = errors.New("protobuf field of another type than the Go type has")
	errTooDeep = errors.New("nested too deep")
)

// varint reads the base-128 number at i. As in generated code, a number of ten
// bytes may have bits that are lost. next is negative when there is none.
func varint(b []byte, i int) (v uint64, next int) {
	for shift := uint(0); shift < 64; shift += 7 {
		if i >= len(b) {
			return 0, -2
		}
		c := b[i]
		i++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, i
		}
	}
	return 0, -1
}

// varintError is the error of a negative next.
func varintError(next int) error {
	if next == -2 {
		return io.ErrUnexpectedEOF
	}
	return errVarint
}

// span reads the length at i, and returns where what is that long begins and ends. start is
// negative when it is not all there.
func span(b []byte, i int) (start, end int) {
	if i < len(b) && b[i] < 0x80 {
		start, end = i+1, i+1+int(b[i])
		if end > len(b) {
			return -2, 0
		}
		return start, end
	}
	n, start := varint(b, i)
	if start < 0 {
		return start, 0
	}
	if n > uint64(len(b)-start) {
		return -2, 0
	}
	return start, start + int(n)
}

// skip passes over the value at i of a field that is not known. Groups are not
// used by the API, but passed over by generated code too.
func skip(b []byte, i int, wire uint8) (next int) {
	for open := 0; ; {
		switch wire {
		case wireVarint:
			_, i = varint(b, i)
		case wireFixed64:
			i += 8
		case wireBytes:
			if _, i2 := span(b, i); i2 == 0 {
				return -2
			} else {
				i = i2
			}
		case wireGroup:
			open++
		case wireEnd:
			open--
		case wireFixed32:
			i += 4
		default:
			return -1
		}
		if i < 0 {
			return i
		}
		if i > len(b) {
			return -2
		}
		if open == 0 {
			return i
		}
		if open < 0 {
			return -1
		}
		tag, next := varint(b, i)
		if next < 0 {
			return next
		}
		wire, i = uint8(tag&7), next
	}
}

// message reads the message in raw[i:end] into the struct at base.
func (d *state) message(m *message, base layout.Ptr, i, end int) error {
	if d.depth++; d.depth > maxDepth {
		return errTooDeep
	}
	b := d.raw[:end]
	last := int32(0)
	for i < len(b) {
		start := i
		tag := uint64(b[i])
		i++
		if tag >= 0x80 {
			if tag, i = varint(b, start); i < 0 {
				return varintError(i)
			}
		}
		number, wire := int32(tag>>3), uint8(tag&7)
		if number <= 0 || wire == wireEnd {
			return errTag
		}
		if int(number) >= len(m.fields) || m.fields[number].kind == none {
			if i = skip(b, i, wire); i < 0 {
				return varintError(i)
			}
			continue
		}
		f := &m.fields[number]
		p := base.Add(f.offset)
		if number <= last && (f.kind == aStruct || f.kind == aPointer) {
			d.merged = true
		}
		first := number > last // as servers write it, each field once and in their order
		last = max(last, number)
		if wire != f.wire {
			if wire == wireBytes && f.kind == aSlice {
				s, e := span(b, i)
				if s < 0 {
					return within(f.name, varintError(s))
				}
				if err := d.packed(f.node, p, s, e); err != nil {
					return within(f.name, err)
				}
				i = e
				continue
			}
			return within(f.name, errWire)
		}
		if d.depth <= d.tracked && f.track == trackedWhole {
			var err error
			if i, err = d.protoPart(f, p, b, start, i, tag); err != nil {
				return within(f.name, err)
			}
			continue
		}
		if f.share && d.sharing() {
			var err error
			if i, err = d.sharedProto(f, p, b, start, i, tag); err != nil {
				return within(f.name, err)
			}
			continue
		}
		if f.kind == aSlice {
			var err error
			if i, err = d.repeated(f.node, p, b, start, i, tag); err != nil {
				return within(f.name, err)
			}
			continue
		}
		if wire != wireBytes {
			var err error
			if i, err = d.number(f.node, p, b, i); err != nil {
				return within(f.name, err)
			}
			continue
		}
		s, e := span(b, i)
		if s < 0 {
			return within(f.name, varintError(s))
		}
		switch f.kind {
		case aString:
			if s < e || !first || d.merged { // else it is empty as it is
				d.setField(f.id, layout.As[string](p), layout.SpanOf(s, e-s))
			}
		case aStruct:
			if err := d.message(f.node.message, p, s, e); err != nil {
				return within(f.name, err)
			}
		case aStringMap:
			var err error
			if e, err = d.stringMap(f.node, p, b, start, tag); err != nil {
				return within(f.name, err)
			}
		case aBytesMap, aMap:
			if err := d.mapEntry(f.node, p, s, e); err != nil {
				return within(f.name, err)
			}
		default:
			if err := d.value(f.node, p, s, e); err != nil {
				return within(f.name, err)
			}
		}
		i = e
	}
	d.depth--
	d.fill(m.quantities, base)
	return nil
}

// value reads raw[i:end] into the variable at p, of a kind that has a length on the wire.
func (d *state) value(n *node, p layout.Ptr, i, end int) error {
	switch n.kind {
	case aString:
		d.setString(layout.As[string](p), layout.SpanOf(i, end-i))
		return nil
	case aBytes:
		d.text.Bytes(layout.As[[]byte](p), layout.SpanOf(i, end-i), d.raw, nil)
		return nil
	case aStruct:
		return d.message(n.message, p, i, end)
	case aPointer:
		if n.elem.kind == aTime && d.ownTimes() {
			return d.timePointer(n.elem, p, func(to layout.Ptr) error {
				return d.protoTime(layout.As[metav1.Time](to), d.raw[i:end])
			})
		}
		// A message that comes twice is merged, a string is replaced.
		to := p.Pointee()
		if to.IsNil() || n.elem.kind == aString {
			if n.elem.kind == aString {
				if w := d.known(layout.SpanOf(i, end-i)); w != nil {
					p.SetPointee(layout.Of(w))
					return nil
				}
				to = d.variable(n.elem)
			} else if err := d.take(n.elem.typ.Size); err != nil {
				return err
			} else {
				to = d.variable(n.elem)
			}
			p.SetPointee(to)
		}
		return d.value(n.elem, to, i, end)
	case aTime:
		if err := d.noteTime(p); err != nil {
			return err
		}
		return d.protoTime(layout.As[metav1.Time](p), d.raw[i:end])
	case aMicroTime:
		return layout.As[metav1.MicroTime](p).Unmarshal(d.raw[i:end])
	case aQuantity:
		return d.protoQuantity(p, d.raw[i:end])
	case emptySelf:
		if layout.SliceIsNil(p) {
			n.typ.Value(p).Elem().Set(reflect.MakeSlice(n.typ.Go, 0, 0))
		}
		return d.itself(n, p, i, end)
	case byItself:
		return d.itself(n, p, i, end)
	}
	return errWire
}

func (d *state) itself(n *node, p layout.Ptr, i, end int) error {
	// Its own copy: the method may keep the bytes.
	own := append([]byte(nil), d.raw[i:end]...)
	return n.typ.Value(p).Interface().(interface{ Unmarshal([]byte) error }).Unmarshal(own)
}

// number reads a number or bool at i, which is not a length, into the variable at p.
func (d *state) number(n *node, p layout.Ptr, b []byte, i int) (next int, err error) {
	if n.kind == aPointer {
		if d.sharing() && hasSmall(n.elem) {
			v, next := varint(b, i)
			switch {
			case next < 0:
				return 0, varintError(next)
			case n.elem.kind == aBool:
				p.SetPointee(d.smalls.bool(v != 0))
			default:
				p.SetPointee(d.smalls.integer(n.elem.size, int64(v)))
			}
			return next, nil
		}
		to := d.variable(n.elem)
		p.SetPointee(to)
		n, p = n.elem, to
	}
	if n.kind == aFloat {
		return d.float(n, p, b, i)
	}
	v, next := varint(b, i)
	if next < 0 {
		return 0, varintError(next)
	}
	switch n.kind {
	case aBool:
		*layout.As[bool](p) = v != 0
	case anInt: // bits that do not fit are lost, as in generated code
		p.SetInt(n.size, int64(v))
	default:
		p.SetUint(n.size, v)
	}
	return next, nil
}

func (d *state) float(n *node, p layout.Ptr, b []byte, i int) (next int, err error) {
	next = i + int(n.size)
	if next > len(b) {
		return 0, io.ErrUnexpectedEOF
	}
	var bits uint64
	for j := next - 1; j >= i; j-- {
		bits = bits<<8 | uint64(b[j])
	}
	if n.size == 4 {
		*layout.As[float32](p) = math.Float32frombits(uint32(bits))
	} else {
		*layout.As[float64](p) = math.Float64frombits(bits)
	}
	return next, nil
}

// row is the fields with one tag that were counted last: a row is looked for as that of the version before, then as a
// part of others, and then read.
type row struct{ start, of, n, end int }

// run counts how many fields with this tag stand in a row, the first at start, and tells where
// they end. b is the beginning of the object. What is damaged ends the row; who reads it will see that.
func (d *state) run(b []byte, start int, tag uint64, wire uint8) (n, end int) {
	if r := &d.row; r.start == start && r.of == len(b) {
		return r.n, r.end
	}
	for end = start; end < len(b); n++ {
		t, j := uint64(b[end]), end+1
		if t >= 0x80 {
			t, j = varint(b, end)
		}
		if t != tag || j < 0 {
			break
		}
		if j = skip(b, j, wire); j < 0 {
			break
		}
		end = j
	}
	d.row = row{start, len(b), n, end}
	return n, end
}

// repeated reads the fields with this tag that stand in a row into the slice at p. The first stands
// at start, its value at i.
func (d *state) repeated(n *node, p layout.Ptr, b []byte, start, i int, tag uint64) (next int, err error) {
	wire, tagSize := uint8(tag&7), i-start
	count, _ := d.run(b, start, tag, wire)
	if count == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	elem := n.elem
	if !layout.SliceIsNil(p) {
		if !d.text.Eager {
			return 0, errAgain
		}
		return d.more(d.slices(n), elem, p, b, i, wire)
	}
	if err := d.take(uintptr(count) * elem.typ.Size); err != nil {
		return 0, err
	}
	at := d.makeSlice(n, p, count)
	for next = start; ; {
		if next, err = d.element(elem, at, b, next+tagSize, wire); err != nil {
			return 0, err
		}
		if count--; count == 0 {
			return next, nil
		}
		at = at.Add(elem.typ.Size)
	}
}

// more appends one element to a slice whose field stands in several rows.
func (d *state) more(s *layout.Slices, elem *node, p layout.Ptr, b []byte, i int, wire uint8) (next int, err error) {
	if err := d.take(elem.typ.Size); err != nil {
		return 0, err
	}
	return d.element(elem, s.Append(p), b, i, wire)
}

func (d *state) element(elem *node, at layout.Ptr, b []byte, i int, wire uint8) (next int, err error) {
	if wire != wireBytes {
		return d.number(elem, at, b, i)
	}
	from, to := span(b, i)
	if from < 0 {
		return 0, varintError(from)
	}
	if elem.kind == aStruct {
		return to, d.message(elem.message, at, from, to)
	}
	return to, d.value(elem, at, from, to)
}

// packed reads the numbers in raw[i:end] into the slice at p, behind those it has.
func (d *state) packed(n *node, p layout.Ptr, i, end int) error {
	elem := n.elem
	if elem.kind == aPointer || wireOf(elem) == wireBytes {
		return errWire
	}
	b := d.raw[:end]
	s := d.slices(n)
	count := 0
	if elem.kind == aFloat {
		count = (end - i) / int(elem.size)
	} else {
		for _, c := range b[i:] {
			if c < 0x80 {
				count++
			}
		}
	}
	made := count > 0 && layout.SliceIsNil(p)
	if made {
		d.makeSlice(n, p, count)
	}
	for k := 0; i < end; k++ {
		var at layout.Ptr
		if made && k < count {
			at = s.Index(p, k)
		} else {
			at = s.Append(p)
		}
		var err error
		if i, err = d.number(elem, at, b, i); err != nil {
			return err
		}
	}
	return nil
}

// protoTime reads a Timestamp.
func (d *state) protoTime(t *metav1.Time, b []byte) error {
	if len(b) == 0 {
		t.Time = time.Time{}
		return nil
	}
	if len(b) > 1 && b[0] == 1<<3|wireVarint {
		sec, next := varint(b, 1)
		// Servers write the fraction too, as 0.
		if next == len(b) || next == len(b)-2 && b[next] == 2<<3|wireVarint && b[next+1] < 0x80 {
			t.Time = time.Unix(int64(sec), 0).Local()
			return nil
		}
	}
	return t.Unmarshal(b)
}
