package codec

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// jsonDocument reads the object that is all of raw.
func (d *state) jsonDocument(o *object, base layout.Ptr) error {
	i := space(d.raw, 0)
	if byteAt(d.raw, i) != '{' {
		return d.syntax(i, "an object")
	}
	i, err := d.members(o, base, i+1)
	if err != nil {
		return err
	}
	if i = space(d.raw, i); i < len(d.raw) {
		return d.syntax(i, "the end")
	}
	return nil
}

// members reads the members of an object, the first at i, into the struct at base, and
// its closing bracket.
func (d *state) members(o *object, base layout.Ptr, i int) (next int, err error) {
	if d.depth++; d.depth > maxDepth {
		return 0, errTooDeep
	}
	b := d.raw
	if i = space(b, i); byteAt(b, i) == '}' {
		d.depth--
		d.fill(o.quantities, base)
		return i + 1, nil
	}
	guess := 0
	for {
		var f *jsonEntry
		var name []byte
		if guess < len(o.fields) {
			if q := o.fields[guess].quoted; len(b)-i >= len(q) && string(b[i:i+len(q)]) == q {
				f = &o.fields[guess]
				i += len(q)
			}
		}
		if f == nil {
			if name, i, err = d.name(i); err != nil {
				return 0, err
			}
			f = o.find(name)
		}
		if byteAt(b, i) <= ' ' {
			i = space(b, i)
		}
		switch {
		case f == nil && d.depth <= d.tracked:
			if i, err = d.passPart(name, i); err != nil {
				return 0, err
			}
		case f == nil:
			if i, err = d.pass(i); err != nil {
				return 0, err
			}
		default:
			guess = f.next
			p := base.Add(f.offset)
			if f.kind == aString && byteAt(b, i) == '"' {
				var s layout.Span
				if s, i, err = d.str(i + 1); err != nil {
					return 0, within(f.name, err)
				}
				d.setField(f.id, layout.As[string](p), s)
			} else if d.depth <= d.tracked && f.track == trackedWhole {
				if i, err = d.jsonPart(f.node, p, i); err != nil {
					return 0, within(f.name, err)
				}
			} else if i, err = d.jsonValue(f.kind, f.node, p, i); err != nil {
				return 0, within(f.name, err)
			}
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
			d.depth--
			d.fill(o.quantities, base)
			return i + 1, nil
		default:
			return 0, d.syntax(i, "a comma or the end of the object")
		}
	}
}

// name reads the name at i and the colon behind it.
func (d *state) name(i int) (name []byte, next int, err error) {
	b := d.raw
	if byteAt(b, i) != '"' {
		return nil, 0, d.syntax(i, "a name")
	}
	kept := len(d.side)
	s, next, err := d.str(i + 1)
	if err != nil {
		return nil, 0, err
	}
	name = s.Of(b, d.side)
	d.side = d.side[:kept] // the name is used before the next string is read
	if next = space(b, next); byteAt(b, next) != ':' {
		return nil, 0, d.syntax(next, "a colon")
	}
	return name, next + 1, nil
}

// jsonValue reads the value at i into the variable at p. k is the kind of n, or of the
// field, which can be aText.
func (d *state) jsonValue(k kind, n *node, p layout.Ptr, i int) (next int, err error) {
	c := byteAt(d.raw, i)
	switch {
	case c == 'n':
		return d.null(k, n, p, i)
	case d.sharing() && (c == '{' || c == '[') && n.canShare():
		return d.sharedJSON(n, p, i)
	}
	return d.plainJSON(k, n, p, i)
}

// plainJSON reads the value at i, which is not null.
func (d *state) plainJSON(k kind, n *node, p layout.Ptr, i int) (next int, err error) {
	b := d.raw
	c := byteAt(b, i)
	switch k {
	case aString, aText:
		if c != '"' {
			break
		}
		s, next, err := d.str(i + 1)
		if err == nil && k == aString {
			d.setString(layout.As[string](p), s)
		}
		return next, err
	case aStruct:
		if c != '{' {
			break
		}
		return d.members(n.object, p, i+1)
	case aSlice:
		if c != '[' {
			break
		}
		return d.array(n, p, i+1)
	case aPointer:
		to := p.Pointee()
		if d.sharing() && (hasSmall(n.elem) || n.elem.kind == aString) {
			return d.jsonSmall(n.elem, p, i)
		}
		if n.elem.kind == aTime && d.ownTimes() {
			err = d.timePointer(n.elem, p, func(to layout.Ptr) error {
				next, err = d.plainJSON(aTime, n.elem, to, i)
				return err
			})
			return next, err
		}
		if to.IsNil() {
			if n.elem.kind == aString {
				to = d.variable(n.elem)
			} else if err := d.take(n.elem.typ.Size); err != nil {
				return 0, err
			} else {
				to = d.variable(n.elem)
			}
			p.SetPointee(to)
		}
		return d.jsonValue(n.elem.kind, n.elem, to, i)
	case aStringMap, aBytesMap, aMap:
		if c != '{' {
			break
		}
		return d.jsonMap(n, p, i+1)
	case aBool:
		switch c {
		case 't':
			*layout.As[bool](p) = true
			return d.literal(i, "true")
		case 'f':
			*layout.As[bool](p) = false
			return d.literal(i, "false")
		}
	case anInt, aUint:
		return d.jsonInteger(n, p, i)
	case aFloat:
		return d.jsonFloat(n, p, i)
	case aTime:
		if err := d.noteTime(p); err != nil {
			return 0, err
		}
		if t, ok := utcTime(b, i); ok {
			*layout.As[metav1.Time](p) = metav1.Time{Time: t}
			return i + len(timeForm), nil
		}
		return d.jsonItself(layout.As[metav1.Time](p), i)
	case aMicroTime:
		return d.jsonItself(layout.As[metav1.MicroTime](p), i)
	case aQuantity:
		return d.jsonQuantity(layout.As[resource.Quantity](p), i)
	case anIntOrString:
		return d.jsonIntOrString(layout.As[intstr.IntOrString](p), i)
	case rawJSON:
		next, err := d.check(i)
		if err == nil {
			d.text.Bytes(layout.As[[]byte](p.Add(n.rawOffset)), layout.SpanOf(i, next-i), b, nil)
		}
		return next, err
	case aBytes:
		return d.jsonBytes(n, p, i)
	case byItself:
		return d.jsonItself(n.typ.Value(p).Interface().(json.Unmarshaler), i)
	case bySigs:
		return d.jsonBySigs(n, p, i)
	}
	return 0, d.mismatch(i, n)
}

// null reads a null. It empties what has nil and leaves alone what has not; a type
// with a method says itself what it means.
func (d *state) null(k kind, n *node, p layout.Ptr, i int) (next int, err error) {
	if next, err = d.literal(i, "null"); err != nil {
		return 0, err
	}
	switch k {
	case aStruct:
		d.fill(n.object.quantities, p)
	case aPointer:
		p.SetPointee(layout.Ptr{})
	case aSlice:
		layout.ClearSlice(p)
	case aBytes:
		if !d.text.Eager {
			return 0, errAgain // it may have a value that waits
		}
		layout.ClearSlice(p)
	case aStringMap, aBytesMap:
		if d.sharing() {
			p.SetPointee(layout.Ptr{}) // it has all its entries
		} else {
			d.text.ToNil(p)
		}
	case aMap:
		p.SetPointee(layout.Ptr{})
	case aTime:
		if err := d.noteTime(p); err != nil {
			return 0, err
		}
		*layout.As[metav1.Time](p) = metav1.Time{}
	case aQuantity:
		return d.jsonQuantity(layout.As[resource.Quantity](p), i)
	case aMicroTime, anIntOrString, byItself:
		return d.jsonItself(n.typ.Value(p).Interface().(json.Unmarshaler), i)
	case bySigs:
		return d.jsonBySigs(n, p, i)
	}
	return next, nil
}

// jsonItself lets u read the value at i.
func (d *state) jsonItself(u json.Unmarshaler, i int) (next int, err error) {
	if next, err = d.check(i); err != nil {
		return 0, err
	}
	return next, u.UnmarshalJSON(append([]byte(nil), d.raw[i:next]...))
}

// jsonBySigs reads a value with the library that this package is measured by.
func (d *state) jsonBySigs(n *node, p layout.Ptr, i int) (next int, err error) {
	if next, err = d.check(i); err != nil {
		return 0, err
	}
	return next, kjson.UnmarshalCaseSensitivePreserveInts(d.raw[i:next], n.typ.Value(p).Interface())
}

// array reads the elements of an array, the first at i, into the slice at p.
func (d *state) array(n *node, p layout.Ptr, i int) (next int, err error) {
	s := d.slices(n)
	if !layout.SliceIsNil(p) {
		// It was there before: its elements are read anew, as by encoding/json. They
		// may have strings that wait.
		if !d.text.Eager {
			return 0, errAgain
		}
		return d.arrayAgain(s, n, p, i)
	}
	if d.depth++; d.depth > maxDepth {
		return 0, errTooDeep
	}
	b := d.raw
	if i = space(b, i); byteAt(b, i) == ']' {
		d.depth--
		s.Make(p, 0)
		return i + 1, nil
	}
	elem := n.elem
	s = s.Begin(d.text)
	for {
		if err := d.take(elem.typ.Size); err != nil {
			return 0, err
		}
		if i, err = d.jsonValue(elem.kind, elem, s.Push(d.text), i); err != nil {
			return 0, err
		}
		var last bool
		if i, last, err = d.behind(i); err != nil {
			return 0, err
		}
		if last {
			d.makeSlice(n, p, s.Pushed())
			s.End(d.text, p)
			d.depth--
			return i, nil
		}
	}
}

// behind reads the comma or the bracket behind an element of an array.
func (d *state) behind(i int) (next int, last bool, err error) {
	b := d.raw
	if byteAt(b, i) <= ' ' {
		i = space(b, i)
	}
	switch byteAt(b, i) {
	case ',':
		if i++; byteAt(b, i) <= ' ' {
			i = space(b, i)
		}
		return i, false, nil
	case ']':
		return i + 1, true, nil
	}
	return 0, false, d.syntax(i, "a comma or the end of the array")
}

// arrayAgain is array for a slice that has, or had, elements.
func (d *state) arrayAgain(s *layout.Slices, n *node, p layout.Ptr, i int) (next int, err error) {
	if d.depth++; d.depth > maxDepth {
		return 0, errTooDeep
	}
	b := d.raw
	if i = space(b, i); byteAt(b, i) == ']' {
		d.depth--
		s.Make(p, 0)
		return i + 1, nil
	}
	for k := 0; ; k++ {
		var at layout.Ptr
		if k < layout.SliceLen(p) {
			at = s.Index(p, k)
		} else if err := d.take(n.elem.typ.Size); err != nil {
			return 0, err
		} else {
			at = s.Append(p)
		}
		if i, err = d.jsonValue(n.elem.kind, n.elem, at, i); err != nil {
			return 0, err
		}
		var last bool
		if i, last, err = d.behind(i); err != nil {
			return 0, err
		}
		if last {
			s.Cut(p, k+1)
			d.depth--
			return i, nil
		}
	}
}

// base64 decodes a string into the side buffer.
func (d *state) base64(s layout.Span, i int) (layout.Span, error) {
	from := len(d.side)
	out, err := base64.StdEncoding.AppendDecode(d.side, s.Of(d.raw, d.side))
	if err != nil {
		return s, fmt.Errorf("JSON at byte %d: %w", i, err)
	}
	d.side = out
	return layout.SideSpan(from, len(out)-from), nil
}

// jsonBytes reads a []byte, a string in base64.
func (d *state) jsonBytes(n *node, p layout.Ptr, i int) (next int, err error) {
	switch byteAt(d.raw, i) {
	case '"':
		s, next, err := d.str(i + 1)
		if err != nil {
			return 0, err
		}
		if s, err = d.base64(s, i); err != nil {
			return 0, err
		}
		d.text.Bytes(layout.As[[]byte](p), s, d.raw, d.side)
		return next, nil
	case '[': // of numbers: nobody writes it, encoding/json reads it
		if !d.text.Eager {
			return 0, errAgain
		}
		return d.jsonBySigs(n, p, i)
	}
	return 0, d.mismatch(i, n)
}

func (d *state) jsonInteger(n *node, p layout.Ptr, i int) (next int, err error) {
	negative, v, next, ok := integer(d.raw, i)
	if !ok {
		return 0, d.mismatch(i, n)
	}
	switch {
	case n.kind == aUint:
		ok = !negative && p.SetUint(n.size, v)
	case negative:
		ok = v <= 1<<63 && p.SetInt(n.size, -int64(v))
	default:
		ok = v <= math.MaxInt64 && p.SetInt(n.size, int64(v))
	}
	if !ok {
		return 0, fmt.Errorf("JSON at byte %d: the number %s does not fit in a %v", i, d.raw[i:next], n.typ.Go)
	}
	return next, nil
}

func (d *state) jsonFloat(n *node, p layout.Ptr, i int) (next int, err error) {
	if c := byteAt(d.raw, i); c != '-' && c-'0' >= 10 {
		return 0, d.mismatch(i, n)
	}
	if next, err = d.numberEnd(i); err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(string(d.raw[i:next]), int(n.size)*8)
	if err != nil {
		return 0, fmt.Errorf("JSON at byte %d: %w", i, err)
	}
	if n.size == 4 {
		*layout.As[float32](p) = float32(v)
	} else {
		*layout.As[float64](p) = v
	}
	return next, nil
}

func (d *state) jsonIntOrString(v *intstr.IntOrString, i int) (next int, err error) {
	if byteAt(d.raw, i) == '"' {
		s, next, err := d.str(i + 1)
		if err != nil {
			return 0, err
		}
		v.Type = intstr.String
		d.setString(&v.StrVal, s)
		return next, nil
	}
	negative, n, next, ok := integer(d.raw, i)
	if !ok || n > math.MaxInt32 {
		return d.jsonItself(v, i)
	}
	v.Type, v.IntVal = intstr.Int, int32(n)
	if negative {
		v.IntVal = -v.IntVal
	}
	return next, nil
}
