package shard

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Parse reads a shardSelector: calls of shardRange(FIELD, 'FIRST', 'END'), combined
// with ||, all of the same field. FIRST and END are 0x and 16 hexadecimal
// digits in lower case; END does not belong to the range and may be 2^64.
//
// A selector is an expression of CEL, of which that is all that a server takes. The words
// of errors are kube-apiserver's, except that it says in its own what is not CEL.
func Parse(text string) (Selector, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Selector{}, errors.New("empty shard selector is not allowed; omit the parameter for unfiltered lists")
	}
	p := parser{text: text}
	e, err := p.whole()
	if err != nil {
		return Selector{}, fmt.Errorf("CEL parse error: %w", err)
	}
	found, err := rangesOf(e)
	if err != nil {
		return Selector{}, err
	}
	s := Selector{field: found[0].field}
	for _, f := range found {
		if f.field != s.field {
			return Selector{}, fmt.Errorf("all shard ranges must use the same field, got %q and %q", s.field, f.field)
		}
		s.ranges = append(s.ranges, f.Range)
	}
	return s, nil
}

// fieldRange is one call of shardRange.
type fieldRange struct {
	Range
	field Field
}

// rangesOf returns the calls of shardRange that e consists of.
func rangesOf(e *expression) ([]fieldRange, error) {
	switch {
	case e.kind != callKind:
		return nil, fmt.Errorf("unexpected expression kind %v; expected shardRange() call or || operator", e.kind)
	case e.name == orOperator:
		left, err := rangesOf(e.parts[0])
		if err != nil {
			return nil, err
		}
		right, err := rangesOf(e.parts[1])
		return append(left, right...), err
	case e.name == "shardRange":
		one, err := rangeOf(e.parts)
		return []fieldRange{one}, err
	}
	return nil, fmt.Errorf("unsupported function %q; only shardRange() and || are allowed", e.name)
}

func rangeOf(args []*expression) (r fieldRange, err error) {
	if len(args) != 3 {
		return r, fmt.Errorf("shardRange() requires exactly 3 arguments, got %d", len(args))
	}
	path, err := pathOf(args[0])
	if err != nil {
		return r, fmt.Errorf("shardRange() first argument: %w", err)
	}
	fields := []Field{UID, Namespace}
	at := slices.IndexFunc(fields, func(f Field) bool { return f.String() == path })
	if at < 0 {
		return r, fmt.Errorf("unsupported field path %q; supported: %s, %s", path, UID, Namespace)
	}
	r.field = fields[at]
	first, err := hexOf(args[1], "hexStart")
	if err != nil {
		return r, err
	}
	end, err := hexOf(args[2], "hexEnd")
	if err != nil {
		return r, err
	}
	if len(first) > len(end) || len(first) == len(end) && first >= end {
		return r, fmt.Errorf("shard range start %s must be less than end %s", first, end)
	}
	if r.First, err = strconv.ParseUint(first[2:], 16, 64); err != nil {
		return r, err
	}
	r.Last = math.MaxUint64
	if end != endOfSpace {
		if r.Last, err = strconv.ParseUint(end[2:], 16, 64); err != nil {
			return r, err
		}
		r.Last-- // it is above First
	}
	return r, nil
}

// pathOf returns a chain of names with dots. The text may be that of a server, which may be long.
func pathOf(e *expression) (string, error) {
	var names []string
	for ; e.kind == selectKind; e = e.parts[0] {
		names = append(names, e.name)
	}
	if e.kind != identKind {
		return "", fmt.Errorf("expected field path (e.g. object.metadata.uid), got expression kind %v", e.kind)
	}
	names = append(names, e.name)
	slices.Reverse(names)
	return strings.Join(names, "."), nil
}

// hexOf returns the text of one end of a range. name is what the server calls it.
func hexOf(e *expression, name string) (string, error) {
	switch {
	case e.kind != literalKind:
		return "", fmt.Errorf("%s must be a string literal (e.g. '0xff'), got expression kind %v", name, e.kind)
	case e.goes != "":
		return "", fmt.Errorf("%s must be a string literal, got %s", name, e.goes)
	}
	hex, ok := strings.CutPrefix(e.name, "0x")
	switch {
	case !ok:
		return "", fmt.Errorf("%s must have '0x' prefix, got %q", name, e.name)
	case hex == "":
		return "", fmt.Errorf("%s: hex value is required after '0x'", name)
	case len(hex) > 17:
		return "", fmt.Errorf("%s: hex value too long (%d chars, max 17): %q", name, len(hex), hex)
	}
	for _, c := range hex {
		if !strings.ContainsRune("0123456789abcdef", c) {
			return "", fmt.Errorf("%s: invalid hex character %q in %q", name, string(c), e.name)
		}
	}
	switch {
	case len(hex) == 17 && e.name != endOfSpace:
		return "", fmt.Errorf("%s: 17-digit hex value must be '%s' (2^64), got %q", name, endOfSpace, e.name)
	case len(hex) < 16:
		return "", fmt.Errorf("%s must be a 0x-prefixed 16-digit hex value, got %q (did you mean %q?)",
			name, e.name, "0x"+strings.Repeat("0", 16-len(hex))+hex)
	}
	return e.name, nil
}
