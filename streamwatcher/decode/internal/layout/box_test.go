package layout

import (
	"reflect"
	"runtime"
	"testing"
	"unsafe"
)

// Boxed strings and numbers are ordinary values, of exactly their size together, with nothing left
// of the bytes that they were read from.
func TestBoxes(t *testing.T) {
	src, side := []byte("abcdefgh"), []byte("xyz")
	numbers := []int64{1 << 40, -7}
	b := MakeBoxes(src, side, 8, 3, numbers)
	key := b.Text(SpanOf(0, 2))
	got := []any{b.String(SpanOf(2, 3)), b.Number(), b.String(SideSpan(0, 3)), b.String(SpanOf(5, 0)), b.Number()}
	if len(b.text.buf)+len(b.strings)+len(b.numbers) != 0 {
		t.Errorf("%d bytes, %d strings and %d numbers are left", len(b.text.buf), len(b.strings), len(b.numbers))
	}
	overwriteAll(src)
	overwriteAll(side)
	clear(numbers)
	runtime.GC()
	if want := []any{"cde", int64(1 << 40), "xyz", "", int64(-7)}; key != "ab" || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v, want %v", key, got, want)
	}
	first, last := got[0].(string), got[2].(string)
	if unsafe.Add(unsafe.Pointer(unsafe.StringData(first)), 3) != unsafe.Pointer(unsafe.StringData(last)) {
		t.Error("the strings do not stand side by side")
	}
	if s := "text"; BoxString(&s) != any("text") {
		t.Error(BoxString(&s))
	}
	defer func() {
		if recover() == nil {
			t.Error("a string more than there is room for")
		}
	}()
	b.String(SpanOf(0, 0))
}

func overwriteAll(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}
