package layout

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

type name string

// The invariant that the runtime does not promise: see doc.go.
func TestMapsOfNamedStrings(t *testing.T) {
	var m map[name]name
	*As[map[string]string](Of(&m)) = map[string]string{}
	for _, k := range strings.Fields("a b c d e f g h i j k l m n o p q r s t u v w x y z") {
		(*As[map[string]string](Of(&m)))[k] = k + k
	}
	for k, v := range m {
		if v != k+k || m[k] != v {
			t.Errorf("%q: %q", k, v)
		}
	}
	m["new"] = "x"
	if v := reflect.ValueOf(m).MapIndex(reflect.ValueOf(name("q"))); len(m) != 27 || v.String() != "qq" {
		t.Errorf("%d entries, %v", len(m), v)
	}
	delete(m, "a")
	if _, ok := (*As[map[string]string](Of(&m)))["a"]; ok {
		t.Error("a deleted key")
	}
}

type element struct {
	s    string
	b    []byte
	m    map[string]string
	next *element
	list []element
}

// The strings of elements that move while they wait arrive where the elements are,
// in one buffer of exactly their size.
func TestTextFollowsElements(t *testing.T) {
	src := []byte("abcdefghijklmnopqrstuvwxyz")
	var text Text
	var list []element
	s := NewSlices(reflect.TypeFor[[]element]())
	outer := s.Begin(&text)
	for i := range 20 {
		e := As[element](outer.Push(&text))
		text.String(&e.s, SpanOf(i, 2), src, nil)
		text.Bytes(&e.b, SpanOf(i, 1), src, nil)
		text.BeginStrings(&e.m)
		text.Entry(Word{Span: SpanOf(i, 1)}, Word{Known: "known", IsKnown: true})
		inner := s.Begin(&text) // an array within an element of the same type
		for j := range 6 {
			e := As[element](inner.Push(&text))
			text.String(&e.s, SpanOf(j, 3), src, nil)
		}
		inner.Make(Of(&e.list), inner.Pushed())
		inner.End(&text, Of(&e.list))
	}
	outer.Make(Of(&list), outer.Pushed())
	outer.End(&text, Of(&list))
	if list[0].s != "" {
		t.Error("a string before Finish")
	}
	text.Finish(src, nil)
	clear(src)
	runtime.GC()
	const all = "abcdefghijklmnopqrstuvwxyz"
	size := 0
	for i, e := range list {
		if e.s != all[i:i+2] || string(e.b) != all[i:i+1] || cap(e.b) != 1 || e.m[all[i:i+1]] != "known" || len(e.list) != 6 {
			t.Fatalf("element %d: %+v", i, e)
		}
		for j, e := range e.list {
			if e.s != all[j:j+3] {
				t.Fatalf("element %d.%d: %+v", i, j, e)
			}
		}
		size += 2 + 1 + 1 + 6*3
	}
	// Pending strings come first, then the maps: from the first byte to the last
	// the buffer has nothing else.
	first := uintptr(unsafe.Pointer(unsafe.StringData(list[0].s)))
	var last uintptr
	for k := range list[19].m {
		last = uintptr(unsafe.Pointer(unsafe.StringData(k))) + uintptr(len(k))
	}
	if int(last-first) != size {
		t.Errorf("the strings take %d bytes, they are %d", last-first, size)
	}
	if len(text.pending)+len(text.maps)+len(text.pairs)+text.total != 0 {
		t.Error("Finish keeps something")
	}
	for _, p := range text.pending[:cap(text.pending)] {
		if p.dst != nil {
			t.Fatal("a forgotten variable is kept alive")
		}
	}
}

func TestAppendAndCut(t *testing.T) {
	s := NewSlices(reflect.TypeFor[[]int32]())
	var v []int32
	for i := range 10 {
		*As[int32](s.Append(Of(&v))) = int32(i)
	}
	s.Cut(Of(&v), 3)
	if *As[int32](s.Append(Of(&v))) != 3 { // as it was before the cut
		t.Error(v)
	}
	if *As[int32](s.Index(Of(&v), 2)) != 2 || SliceLen(Of(&v)) != 4 {
		t.Error(v)
	}
	s.Make(Of(&v), 0)
	if v == nil || len(v) != 0 {
		t.Error(v)
	}
	if s.Make(Of(&v), 5); len(v) != 5 || cap(v) != 5 {
		t.Error(v)
	}
	ClearSlice(Of(&v))
	if v != nil || !SliceIsNil(Of(&v)) {
		t.Error(v)
	}
	defer func() {
		if recover() == nil {
			t.Error("an index outside of the slice")
		}
	}()
	s.Index(Of(&v), 0)
}

// An error in the middle of arrays leaves nothing behind.
func TestReset(t *testing.T) {
	var text Text
	s := NewSlices(reflect.TypeFor[[]element]())
	e := As[element](s.Begin(&text).Push(&text))
	e.s = "left behind"
	As[element](s.Begin(&text).Push(&text)).s = "too"
	s.Reset()
	text.Reset()
	for range 2 {
		if e := As[element](s.Begin(&text).Push(&text)); e.s != "" {
			t.Errorf("a new element is %+v", *e)
		}
	}
}

func TestIntegers(t *testing.T) {
	var v struct {
		a int8
		b int16
		c int32
		d int64
		e uint8
		f uint16
		g uint32
		h uint64
	}
	typ := reflect.TypeOf(v)
	for i := range typ.NumField() {
		f := typ.Field(i)
		p := Of(&v).Add(f.Offset)
		if i < 4 {
			if !p.SetInt(f.Type.Size(), -5) || p.SetInt(f.Type.Size(), -1<<62) != (i == 3) {
				t.Error(f.Name)
			}
			p.SetInt(f.Type.Size(), -5)
		} else {
			if p.SetUint(f.Type.Size(), 1<<62) != (i == 7) || !p.SetUint(f.Type.Size(), 5) {
				t.Error(f.Name)
			}
		}
	}
	if v.a != -5 || v.b != -5 || v.c != -5 || v.d != -5 || v.e != 5 || v.f != 5 || v.g != 5 || v.h != 5 {
		t.Errorf("%+v", v)
	}
}

// Strings of an eager Text are there at once.
func TestEager(t *testing.T) {
	text := Text{Eager: true}
	src, side := []byte("abc"), []byte("xyz")
	var s string
	var b []byte
	m := map[string]string{"old": "1"}
	mb := map[string][]byte{}
	text.String(&s, SpanOf(1, 2), src, side)
	text.Bytes(&b, SideSpan(0, 1), src, side)
	text.BeginStrings(&m)
	text.Entry(Word{Span: SpanOf(0, 1)}, Word{Span: SideSpan(1, 2)})
	text.EndEager(src, side)
	text.BeginBytes(&mb)
	text.Entry(Word{Span: SpanOf(0, 1)}, Word{IsKnown: true})
	text.EndEager(src, side)
	if s != "bc" || string(b) != "x" || m["a"] != "yz" || m["old"] != "1" || mb["a"] != nil || len(mb) != 1 {
		t.Error(s, b, m, mb)
	}
	text.ToNil(Of(&m))
	if m != nil {
		t.Error(m)
	}
}

// With Twins, equal strings are one, also where the variable of the first got another since.
func TestTwins(t *testing.T) {
	src := []byte("namename-1 namename-1 other-12 namename-1 short short")
	var a, b, c, d, e, f string
	var raw []byte
	text := Text{Twins: true}
	text.String(&a, SpanOf(0, 10), src, nil)
	text.Bytes(&raw, SpanOf(0, 10), src, nil)
	text.String(&b, SpanOf(11, 10), src, nil)
	text.String(&a, SpanOf(22, 8), src, nil)
	text.Known(&e, "known")
	text.String(&c, SpanOf(31, 10), src, nil)
	text.String(&d, SpanOf(42, 5), src, nil)
	text.String(&f, SpanOf(48, 5), src, nil)
	text.BeginStrings(new(map[string]string))
	text.Entry(Word{Span: SpanOf(31, 10)}, Word{Span: SpanOf(42, 5)})
	text.Finish(src, nil)
	clear(src)
	if a != "other-12" || b != "namename-1" || c != b || d != "short" || f != d || e != "known" || string(raw) != b {
		t.Fatalf("%q %q %q %q %q %q %q", a, b, c, d, e, f, raw)
	}
	if unsafe.StringData(b) != unsafe.StringData(c) || unsafe.StringData(d) == unsafe.StringData(f) || unsafe.StringData(b) == unsafe.SliceData(raw) {
		t.Error("the long strings should be one, the short ones and the bytes should not")
	}
	// Far behind, it stands again.
	many := make([]string, farTwin+2)
	src = []byte("abcdefghijklmnopqrstuvwxyz")
	for i := range many {
		text.String(&many[i], SpanOf(i%(farTwin+1), 10), src, nil)
	}
	text.Finish(src, nil)
	if many[0] != "abcdefghij" || many[farTwin+1] != many[0] || unsafe.StringData(many[0]) == unsafe.StringData(many[farTwin+1]) {
		t.Errorf("%q", many)
	}
}

// Variables that were foreseen stand in one array, others in arrays of their own; none is
// handed out twice, all are zero.
func TestChunk(t *testing.T) {
	c := NewChunk(reflect.TypeFor[element]())
	for round := range 3 {
		seen := map[unsafe.Pointer]bool{}
		var first unsafe.Pointer
		for _, n := range []int{1, 2, 3, 1} {
			p := c.Take(n, 6)
			if first == nil {
				first = p.p
			}
			for i := range n {
				e := As[element](p.Add(uintptr(i) * unsafe.Sizeof(element{})))
				if e.s != "" || e.next != nil || seen[unsafe.Pointer(e)] {
					t.Fatalf("round %d: not a new variable: %+v", round, e)
				}
				seen[unsafe.Pointer(e)] = true
				e.s, e.next = "used", e
				if near := uintptr(unsafe.Pointer(e)) - uintptr(first); (near < 6*unsafe.Sizeof(*e)) != (len(seen) <= 6) {
					t.Fatalf("round %d: variable %d is %d bytes behind the first", round, len(seen), near)
				}
			}
		}
		if c.Used() != 7 {
			t.Errorf("%d used", c.Used())
		}
		if c.End(); c.Used() != 0 || c.at != nil || c.made.data != nil {
			t.Error("End keeps something")
		}
	}
}

// A string and its bytes are one variable, whatever its length, which keeps nothing of what it was made from.
func TestBeside(t *testing.T) {
	src := []byte(strings.Repeat("0123456789abcdef", MaxBeside/16))
	var all []*string
	for n := range MaxBeside + 1 {
		all = append(all, Beside(src[:n]))
	}
	want := string(src)
	clear(src)
	runtime.GC()
	for n, s := range all {
		if *s != want[:n] {
			t.Fatalf("%d bytes are %q", n, *s)
		}
		if at := unsafe.Pointer(unsafe.StringData(*s)); n > 0 && at != unsafe.Add(unsafe.Pointer(s), unsafe.Sizeof(*s)) {
			t.Fatalf("%d bytes stand at %p, the string at %p", n, at, s)
		}
	}
}

// What stands before the strings is whole and aligned, however long they are, and both live as long as one of them.
func TestFinishBehind(t *testing.T) {
	type pair struct{ a, b uint64 }
	src := []byte("0123456789abcdefghi")
	for n := range 4 {
		for size := range src {
			var text Text
			var s, nothing string
			var b []byte
			text.String(&s, SpanOf(0, size), src, nil)
			text.Bytes(&b, SpanOf(size, len(src)-size), src, nil)
			text.String(&nothing, SpanOf(0, 0), src, nil)
			var head []pair
			for i := range n {
				head = append(head, pair{uint64(i), ^uint64(i)})
			}
			first := FinishBehind(&text, head, src, nil)
			clear(head)
			runtime.GC()
			if (first == nil) != (n == 0) || uintptr(unsafe.Pointer(first))%unsafe.Alignof(*first) != 0 {
				t.Fatalf("%d before %d bytes stand at %p", n, size, first)
			}
			for i, p := range Row(first, n) {
				if p != (pair{uint64(i), ^uint64(i)}) {
					t.Fatalf("%d before %d bytes: the one at %d is %v", n, size, i, p)
				}
			}
			if s != string(src[:size]) || string(b) != string(src[size:]) || cap(b) != len(b) || nothing != "" {
				t.Fatalf("%d before %d bytes: %q, %q and %q", n, size, s, b, nothing)
			}
		}
	}
}

// ownRoom is not on a stack, which may move.
var ownRoom [4 * 4096]byte

// A new variable is written to once in each page that it lies in, and nothing else is: not what stands before or behind
// it, and nothing where it has no size.
func TestOwn(t *testing.T) {
	const page = 4096
	room := ownRoom[:]
	first := int(-uintptr(unsafe.Pointer(&room[0])) % page) // where the first whole page begins
	for _, size := range []int{0, 1, 8, page - 1, page, page + 1, 2*page + 2} {
		for _, at := range []int{first, first + 1, first + page - 1, first + page - 8} {
			for i := range room {
				room[i] = 1
			}
			own(unsafe.Pointer(&room[at]), uintptr(size))
			for i := range room {
				in := i >= at && i < at+size
				want := byte(1)
				if in && (i == at || (i-first)%page == 0) {
					want = 0
				}
				if room[i] != want {
					t.Fatalf("%d bytes %d behind the beginning of a page: byte %d is %d", size, at-first, i-at, room[i])
				}
			}
		}
	}
}
