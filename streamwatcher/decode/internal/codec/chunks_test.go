package codec

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// scribble writes to all that v has or points to.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
		if v.CanSet() && v.Len() > 0 { // into what stands behind it, if that is not guarded
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				scribble(v.Field(i))
			}
		}
	default:
		if v.CanSet() {
			v.SetZero()
		}
	}
}

// Objects are their owners' alone, although each is made with the others in mind: whatever is
// written to one, however many variables of a type each has, the others stay as they are.
func TestObjectsAreTheirOwners(t *testing.T) {
	typ := reflect.TypeFor[corev1.Pod]()
	for _, form := range forms {
		p := mustCompile(t, typ, Config{})
		var kept, want []any
		for round := range 40 {
			pod := &corev1.Pod{}
			filler(int64(round%7)).NumElements(round%5, round%5+1).Fill(pod)
			raw, err := form.encode(pod)
			if err != nil {
				t.Fatal(err)
			}
			got, err := form.private(p, raw)
			if err != nil {
				t.Fatal(err)
			}
			expected, err := form.theirs(typ)(raw)
			if err != nil {
				t.Fatal(err)
			}
			same(t, form.name, expected, got)
			if round%2 == 0 {
				scribble(reflect.ValueOf(got))
				continue
			}
			kept, want = append(kept, got), append(want, expected)
		}
		for i := range kept {
			same(t, "kept "+form.name, want[i], kept[i])
		}
	}
}

// usual foresees the smaller of the last two numbers.
func TestUsual(t *testing.T) {
	var u usual
	for i, step := range []struct{ has, foreseen int }{{3, 0}, {3, 3}, {2, 2}, {5, 2}, {5, 5}, {1, 1}, {100, 1}, {100, maxUsual}} {
		if u.note(step.has); u.number() != step.foreseen {
			t.Errorf("step %d: %d foreseen after an object with %d, want %d", i, u.number(), step.has, step.foreseen)
		}
	}
}
