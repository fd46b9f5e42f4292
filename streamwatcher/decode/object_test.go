package decode

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

const onePod = `{"kind":"Pod","metadata":{"name":"p"}}`

// ways are the ways to get the content of an Object; they return the name that it has.
var ways = map[string]func(o *Object[*corev1.Pod]) (string, error){
	"Decode": func(o *Object[*corev1.Pod]) (string, error) {
		pod, err := o.Decode()
		return nameOf(pod), err
	},
	"DecodeShared": func(o *Object[*corev1.Pod]) (string, error) {
		pod, _, err := o.DecodeShared(nil, Parts{})
		return nameOf(pod), err
	},
	"Pack": func(o *Object[*corev1.Pod]) (string, error) {
		packed, ok, err := o.Pack()
		if !ok || err != nil {
			return "", err
		}
		pod, err := packed.Decode()
		return nameOf(pod), err
	},
	"detached": func(o *Object[*corev1.Pod]) (string, error) {
		mine := *o
		mine.Detach(nil, new(Kind))
		clear(o.Raw)
		pod, err := mine.Decode()
		*o = mine
		return nameOf(pod), err
	},
}

func nameOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.Name
}

// A line that is one object decodes as an Object does, and is known to be one then.
func TestLineOfOneObject(t *testing.T) {
	dec := mustNew[*corev1.Pod](t)
	for name, way := range ways {
		o := NewLine(Meta{Name: "p"}, []byte(onePod), dec)
		if got, err := way(&o); got != "p" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if o.presumed {
			t.Errorf("%s: its end is still to be looked for", name)
		}
		if end, err := o.End(); end != len(onePod) || err != nil {
			t.Errorf("%s: ends at %d, %v", name, end, err)
		}
	}
}

// Of a line with more behind the object the object is decoded.
func TestLineOfMoreThanOneObject(t *testing.T) {
	dec := mustNew[*corev1.Pod](t)
	for name, way := range ways {
		o := NewLine(Meta{Name: "p"}, []byte(onePod+`}{"type":"ADDED","object":{}`), dec)
		if got, err := way(&o); got != "p" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if end, err := o.End(); end != len(onePod) || len(o.Raw) != end || err != nil {
			t.Errorf("%s: ends at %d, Raw has %d bytes, %v", name, end, len(o.Raw), err)
		}
	}
}

// An object that does not decode is told from bytes that are not one.
func TestLineThatDoesNotDecode(t *testing.T) {
	dec := mustNew[*corev1.Pod](t)
	for _, c := range []struct {
		name, raw string
		broken    error // what is wrong with the line, nil if it is one object
	}{
		{"wrong field", `{"metadata":{"name":7}}`, nil},
		{"wrong field, and more behind", `{"metadata":{"name":7}}}{}`, nil},
		{"other bracket", `{"metadata":{"name":"p"]}`, new(frame.SyntaxError)},
		{"control byte", "{\"metadata\":{\"name\":\"p\x01\"}}", new(frame.SyntaxError)},
		{"control byte where nothing is decoded", "{\"x\":[\"\\\x01\"]}", new(frame.SyntaxError)},
		{"no end", `{"metadata":{"name":"}"}`, io.ErrUnexpectedEOF},
	} {
		for name, way := range ways {
			if name == "Pack" {
				continue // may take what does not decode
			}
			o := NewLine(Meta{}, []byte(c.raw), dec)
			got, err := way(&o)
			if got != "" || err == nil {
				t.Errorf("%s, %s: %q, %v", c.name, name, got, err)
			}
			_, endErr := o.End()
			if (endErr == nil) != (c.broken == nil) {
				t.Errorf("%s, %s: the end: %v", c.name, name, endErr)
			}
			if errors.Is(err, ErrLine) != (c.broken != nil) {
				t.Errorf("%s, %s: %v", c.name, name, err)
			}
			syntax := errors.As(err, new(*frame.SyntaxError))
			if _, want := c.broken.(*frame.SyntaxError); syntax != want {
				t.Errorf("%s, %s: %v", c.name, name, err)
			}
			if errors.Is(err, io.ErrUnexpectedEOF) != (c.broken == io.ErrUnexpectedEOF) {
				t.Errorf("%s, %s: %v", c.name, name, err)
			}
		}
	}
}

// Pack copies no more than the object.
func TestPackOfALine(t *testing.T) {
	dec := mustNew[*corev1.Pod](t)
	o := NewLine(Meta{}, []byte("{\"a\":\x01}"), dec)
	if p, ok, err := o.Pack(); !ok || !errors.Is(err, ErrLine) || p.Text() != "" {
		t.Errorf("%q, %v, %v", p.Text(), ok, err)
	}
}

// takers are decoders of all kinds: typed, sharing, leaving out, of any content.
func takers(t testing.TB) map[string]func(raw []byte) error {
	t.Helper()
	typed := mustNew[*corev1.Pod](t)
	dropping := mustNewWith[*corev1.Pod](t, Config{Drop: []string{"metadata.managedFields", "spec"}})
	untyped := mustNew[*unstructured.Unstructured](t)
	return map[string]func(raw []byte) error{
		"Pod": func(raw []byte) error { _, err := typed.Decode(JSON, raw); return err },
		"Pod, shared": func(raw []byte) error {
			_, _, err := typed.(Sharer[*corev1.Pod]).DecodeShared(JSON, raw, nil, Parts{})
			return err
		},
		"Pod without a spec":  func(raw []byte) error { _, err := dropping.Decode(JSON, raw); return err },
		"Unstructured":        func(raw []byte) error { _, err := untyped.Decode(JSON, raw); return err },
		"Unstructured shared": func(raw []byte) error { return shared(untyped, raw) },
	}
}

func shared(dec Decoder[*unstructured.Unstructured], raw []byte) error {
	o := NewObject(Meta{}, JSON, raw, dec)
	_, _, err := o.DecodeShared(nil, Parts{})
	return err
}

// nextVersion takes what comes after raw.
func nextVersion[T any](t testing.TB, dec Decoder[T], raw []byte) func([]byte) error {
	t.Helper()
	var none T
	first := NewObject(Meta{}, JSON, raw, dec)
	old, parts, err := first.DecodeShared(none, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	return func(raw []byte) error {
		o := NewObject(Meta{}, JSON, raw, dec)
		_, _, err := o.DecodeShared(old, parts)
		return err
	}
}

// takesOneValue checks: what a decoder takes for an object is one value to framing. On that rests
// that the end of a line is not looked for when it was decoded.
func takesOneValue(t *testing.T, all map[string]func(raw []byte) error, raw []byte) (taken int) {
	t.Helper()
	if len(raw) == 0 || raw[0] != '{' || raw[len(raw)-1] != '}' {
		return 0 // what a line is taken for
	}
	end, err := frame.ValueEnd(raw)
	for name, take := range all {
		if take(raw) != nil {
			continue
		}
		if taken++; err != nil || end != len(raw) {
			t.Fatalf("%s takes %q; framing: %d of %d bytes, %v", name, raw, end, len(raw), err)
		}
	}
	return taken
}

func TestDamagedLines(t *testing.T) {
	all := takers(t)
	r := rand.New(rand.NewPCG(1, 2))
	taken, refused := 0, 0
	typed, untyped := mustNew[*corev1.Pod](t), mustNew[*unstructured.Unstructured](t)
	for _, raw := range wire(t, "watchlist-sharded") {
		// What does not differ from the version before is not looked at again.
		all["Pod, next version"] = nextVersion(t, typed, raw)
		all["Unstructured, next version"] = nextVersion(t, untyped, raw)
		for range 1000 {
			b := bytes.Clone(raw)
			for range 1 + r.IntN(3) {
				at, n := r.IntN(len(b)), r.IntN(12)
				switch r.IntN(5) {
				case 0:
					b[at] ^= 1 << r.IntN(8)
				case 1:
					b[at] = "{}[]\"\\,:\x01\x00 x1"[n]
				case 2: // something out
					b = slices.Delete(b, at, min(at+n, len(b)-1))
				case 3: // something in
					b = slices.Insert(b, at, []byte("}{[]\"\\,:\x01 xt")[n])
				case 4: // more behind
					b = append(append(b, '}'), b[at:]...)
				}
			}
			if n := takesOneValue(t, all, b); n > 0 {
				taken++
			} else {
				refused++
			}
		}
	}
	if taken < 100 || refused < 100 {
		t.Errorf("%d taken, %d refused: the damage is too small or too large to say anything", taken, refused)
	}
}

func FuzzDecodedIsOneValue(f *testing.F) {
	for _, raw := range wire(f, "watchlist-sharded") {
		f.Add([]byte(raw))
	}
	for _, s := range []string{onePod, onePod + `}`, onePod + " ", "{\"x\":[\"\\\x01\"]}", `{"x":tru,"y":[}]}`, `{"x":{"y":[[[}}`, "{\"metadata\":{\"labels\":{\"a\x01\":\"b\"}}}",
		`{"spec":{"containers":[{"name":"a"},{"ports":[{"containerPort":1}]}]},"status":{"x":"\ud800"}}`} {
		f.Add([]byte(s))
	}
	all := takers(f)
	f.Fuzz(func(t *testing.T, raw []byte) { takesOneValue(t, all, raw) })
}

// A detached object has nothing of the bytes that it came in, wherever its metadata stood, and costs nothing where
// there is room for it and its kind is that of the one before.
func TestDetachedMeta(t *testing.T) {
	var kind Kind
	dec := mustNew[*corev1.Pod](t)
	frame := []byte("v1 Pod " + onePod + " 7")
	whole, raw := bytes.Clone(frame), frame[len("v1 Pod "):len(frame)-len(" 7")]
	buf := make([]byte, 0, len(raw))
	for round := range 3 {
		copy(frame, whole)
		m, err := Peek(JSON, raw)
		if err != nil {
			t.Fatal(err)
		}
		m.APIVersion, m.Kind = layout.View(frame[:2]), layout.View(frame[3:6])
		was := m
		if allocs := testing.AllocsPerRun(10, func() { o := NewObject(was, JSON, raw, dec); o.Detach(buf, &kind) }); allocs > 0 {
			t.Errorf("round %d: %v allocations", round, allocs)
		}
		m.ResourceVersion = layout.View(frame[len(frame)-1:])
		want := m.Clone()
		o := NewObject(m, JSON, raw, dec)
		if buf = o.Detach(buf, &kind); len(buf) != len(raw) {
			t.Errorf("round %d: %q", round, buf)
		}
		clear(frame)
		if o.Meta != want || want.Name != "p" {
			t.Fatalf("round %d: %+v, want %+v", round, o.Meta, want)
		}
	}
}
