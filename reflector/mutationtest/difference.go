package mutationtest

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// difference returns the first place where two values differ. It looks at fields that are not exported, too:
// a Quantity that caches its text, as its String does through a pointer, was written to.
func difference(was, is reflect.Value) (m Mutation, found bool) {
	if was.Kind() != is.Kind() || was.IsValid() && was.Type() != is.Type() {
		return differ(was, is)
	}
	switch was.Kind() {
	case reflect.Pointer, reflect.Interface:
		if was.IsNil() || is.IsNil() {
			return differIf(was.IsNil() != is.IsNil(), was, is)
		}
		if was.Kind() == reflect.Pointer && was.Pointer() == is.Pointer() {
			return m, false // copies do not go that far: the location of a time
		}
		return difference(was.Elem(), is.Elem())
	case reflect.Struct:
		return structs(was, is)
	case reflect.Map:
		return maps(was, is)
	case reflect.Slice, reflect.Array:
		if was.Kind() == reflect.Slice && was.IsNil() != is.IsNil() || was.Len() != is.Len() {
			return differ(was, is)
		}
		for i := range was.Len() {
			if m, found := difference(was.Index(i), is.Index(i)); found {
				return m.under(fmt.Sprintf("[%d]", i)), true
			}
		}
		return m, false
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Invalid:
		return m, false // API objects have none that a copy would have
	}
	return differIf(!was.Equal(is), was, is)
}

func structs(was, is reflect.Value) (m Mutation, found bool) {
	if was.Type() == reflect.TypeFor[time.Time]() && was.CanInterface() {
		return differIf(!was.Interface().(time.Time).Equal(is.Interface().(time.Time)), was, is)
	}
	for i := range was.NumField() {
		if m, found := difference(was.Field(i), is.Field(i)); found {
			return m.under(fieldName(was.Type().Field(i))), true
		}
	}
	return m, false
}

func maps(was, is reflect.Value) (m Mutation, found bool) {
	if was.IsNil() != is.IsNil() {
		return differ(was, is)
	}
	for _, v := range []reflect.Value{was, is} {
		for keys := v.MapRange(); keys.Next(); {
			k := keys.Key()
			if m, found := difference(was.MapIndex(k), is.MapIndex(k)); found {
				return m.under(fmt.Sprintf("[%v]", k)), true
			}
		}
	}
	return m, false
}

// fieldName is the name in JSON; a field that is inlined has none.
func fieldName(f reflect.StructField) string {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name != "":
		return name
	case f.Anonymous || strings.Contains(options, "inline"):
		return ""
	}
	return f.Name
}

// under puts a step in front of the path.
func (m Mutation) under(step string) Mutation {
	switch {
	case step == "":
	case m.Path == "" || m.Path[0] == '[':
		m.Path = step + m.Path
	default:
		m.Path = step + "." + m.Path
	}
	return m
}

func differ(was, is reflect.Value) (Mutation, bool) {
	return Mutation{Was: show(was), Is: show(is)}, true
}

func differIf(do bool, was, is reflect.Value) (Mutation, bool) {
	if !do {
		return Mutation{}, false
	}
	return differ(was, is)
}

// show writes a value in a few words.
func show(v reflect.Value) string {
	const long = 80
	if !v.IsValid() {
		return "absent"
	}
	text := fmt.Sprintf("%v", v)
	if v.Kind() == reflect.String {
		text = fmt.Sprintf("%q", v)
	}
	if len(text) > long {
		text = text[:long] + "..."
	}
	return text
}
