package codec

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// dropTree is a set of paths, as a tree of names. A map's key is a name that
// begins with "[". nil is the empty set.
type dropTree struct {
	whole bool // the field itself is dropped, not something below it
	below map[string]*dropTree
}

// parseDrop makes the tree of paths such as "metadata.managedFields" or
// "metadata.annotations[example.com/x]", which all name something in t. A nil t has anything.
func parseDrop(t reflect.Type, paths []string) (*dropTree, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	root := &dropTree{}
	for _, path := range paths {
		names, err := splitPath(path)
		switch {
		case err != nil:
		case t != nil:
			err = checkPath(t, names)
		default: // it is not known what is a map and what a struct
			last := len(names) - 1
			names[last] = strings.TrimPrefix(names[last], "[")
		}
		if err != nil {
			return nil, fmt.Errorf("path %q to drop: %w", path, err)
		}
		at := root
		for _, name := range names {
			if at.below == nil {
				at.below = map[string]*dropTree{}
			}
			if at.below[name] == nil {
				at.below[name] = &dropTree{}
			}
			at = at.below[name]
		}
		at.whole = true
	}
	return root, nil
}

func splitPath(path string) (names []string, err error) {
	for rest := path; ; {
		i := strings.IndexAny(rest, ".[")
		if i < 0 {
			i = len(rest)
		}
		if i == 0 {
			return nil, fmt.Errorf("a name is missing before %q", rest)
		}
		names = append(names, rest[:i])
		rest = rest[i:]
		if strings.HasPrefix(rest, "[") {
			key, behind, ok := strings.Cut(rest, "]")
			if !ok || behind != "" {
				return nil, fmt.Errorf("the map key %q should be in brackets and at the end", rest)
			}
			return append(names, key), nil
		}
		if rest == "" {
			return names, nil
		}
		rest = rest[1:]
	}
}

// checkPath looks for what the names say in t.
func checkPath(t reflect.Type, names []string) error {
	for _, name := range names {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if strings.HasPrefix(name, "[") {
			if t.Kind() != reflect.Map || t.Key().Kind() != reflect.String {
				return fmt.Errorf("%v is no map of strings, it has no key %s]", t, name)
			}
			return nil
		}
		if t.Kind() != reflect.Struct || readsItself(t) {
			return fmt.Errorf("%v has no fields", t)
		}
		fields, err := jsonFields(t)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(fields, func(f jsonField) bool { return f.name == name })
		if i < 0 {
			return fmt.Errorf("%v has no field %q", t, name)
		}
		t = fields[i].typ
	}
	return nil
}

// String is a name for the set, the same for equal sets.
func (d *dropTree) String() string {
	if d == nil {
		return ""
	}
	var b strings.Builder
	if d.whole {
		b.WriteString("!")
	}
	for _, name := range slices.Sorted(maps.Keys(d.below)) {
		fmt.Fprintf(&b, "(%q%s)", name, d.below[name])
	}
	return b.String()
}

// field returns what is to be dropped below the field of this name, and
// whether it is dropped itself.
func (d *dropTree) field(name string) (below *dropTree, whole bool) {
	if d == nil || d.below[name] == nil {
		return nil, false
	}
	return d.below[name], d.below[name].whole
}

// keys returns the keys that are dropped from a map.
func (d *dropTree) keys() (keys []string) {
	if d == nil {
		return nil
	}
	for name := range d.below {
		if key, ok := strings.CutPrefix(name, "["); ok {
			keys = append(keys, key)
		}
	}
	return keys
}
