package codec

// Pack returns the text raw without what is dropped. All else is copied as it stands, and is not checked:
// what it returns decodes to the same as raw, or does not decode.
func (a *Any) Pack(raw []byte) (string, error) {
	if a.drop == nil {
		return string(raw), nil
	}
	d, err := a.tape(raw)
	if err != nil {
		return "", err
	}
	defer a.release(d)
	i := space(raw, 0)
	if byteAt(raw, i) != '{' {
		return "", d.syntax(i, "an object")
	}
	out, i, err := d.pack(d.packed[:0], a.drop, i)
	if err != nil {
		return "", err
	}
	if i = space(raw, i); i < len(raw) {
		return "", d.syntax(i, "the end")
	}
	d.packed = out
	return string(out), nil
}

// pack appends the value at i without what is dropped of it.
func (d *tape) pack(out []byte, drop *dropTree, i int) (_ []byte, next int, err error) {
	b, open := d.raw, byteAt(d.raw, i)
	if drop == nil || open != '{' && open != '[' {
		next, err = d.pass(i)
		return append(out, b[i:max(i, next)]...), next, err
	}
	if d.depth++; d.depth > maxDepth {
		return nil, 0, errTooDeep
	}
	out = append(out, open)
	shut := open + 2 // '}' and ']' stand two behind
	if i = space(b, i+1); byteAt(b, i) == shut {
		d.depth--
		return append(out, shut), i + 1, nil
	}
	for first := true; ; {
		start, below, dropped := i, drop, false
		if open == '{' {
			var name []byte
			if name, i, err = d.name(i); err != nil {
				return nil, 0, err
			}
			below, dropped = drop.member(name)
			i = space(b, i)
		}
		if dropped {
			i, err = d.pass(i)
		} else {
			if !first {
				out = append(out, ',')
			}
			first = false
			out, i, err = d.pack(append(out, b[start:i]...), below, i)
		}
		if err != nil {
			return nil, 0, err
		}
		switch i = space(b, i); byteAt(b, i) {
		case ',':
			i = space(b, i+1)
		case shut:
			d.depth--
			return append(out, shut), i + 1, nil
		default:
			return nil, 0, d.syntax(i, "a comma or the end")
		}
	}
}
