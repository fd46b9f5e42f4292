//go:build unix

package decode

import (
	"os"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// A difference is a row of the table in docs/decoding.md and what shows it.
type difference struct {
	row         string // its first cell, or the beginning of it
	ours        func(raw []byte) error
	theirs      func(raw []byte) error // nil where it cannot be shown: it would take the process, or a gigabyte
	raw         []string
	oursAccepts bool // and theirs refuses, or the other way round
}

// nested is a type that contains itself.
type nested struct {
	In *nested `json:"in" protobuf:"bytes,1,opt,name=in"`
}

// by returns what says whether T is decoded.
func by[T any](t *testing.T, enc Encoding, cfg Config) func(raw []byte) error {
	d := mustNewWith[T](t, cfg)
	return func(raw []byte) error {
		_, err := d.Decode(enc, raw)
		return err
	}
}

func sigsInto[T any](raw []byte) error { return kjson.UnmarshalCaseSensitivePreserveInts(raw, new(T)) }

func gogoPod(raw []byte) error { return new(corev1.Pod).Unmarshal(raw) }

// message is a protobuf field of a message, or of bytes.
func message(number int, content string) string {
	b := []byte{byte(number<<3 | 2)}
	n := len(content)
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return string(append(b, byte(n))) + content
}

func differences(t *testing.T) []difference {
	deep := ""
	for range 10_001 {
		deep = message(1, deep)
	}
	return []difference{
		{row: "JSON: in an object or array that is not known, or dropped,", ours: by[*corev1.Pod](t, JSON, Config{Drop: []string{"status"}}), theirs: sigsInto[corev1.Pod], oursAccepts: true,
			raw: []string{`{"x":[1 2]}`, `{"x":[1.2.3]}`, `{"x":[trul]}`, `{"x":["\x"]}`, `{"status":{"a":[,]}}`}},
		{row: "JSON: in what is dropped from unstructured content,", ours: by[*unstructured.Unstructured](t, JSON, Config{Drop: []string{"status"}}), theirs: sigsInto[map[string]any], oursAccepts: true,
			raw: []string{`{"kind":"X","status":[1 2]}`, `{"kind":"X","status":{"a":["\x"]}}`}},
		{row: "JSON: `null` as an object", ours: by[*corev1.Pod](t, JSON, Config{}), theirs: sigsInto[corev1.Pod], raw: []string{`null`, ` null `}},
		{row: "JSON: `map[string][]byte` with an array of numbers for a value", ours: by[*corev1.Secret](t, JSON, Config{}), theirs: sigsInto[corev1.Secret], raw: []string{`{"data":{"k":[1,2]}}`}},
		{row: "JSON: no `kind`, or one that is no string, in unstructured content", ours: by[*unstructured.Unstructured](t, JSON, Config{}), theirs: func(raw []byte) error {
			_, _, err := unstructured.UnstructuredJSONScheme.Decode(raw, nil, nil)
			return err
		}, oursAccepts: true, raw: []string{`{"metadata":{"name":"p"}}`, `{"kind":7}`, `{"kind":""}`}},
		{row: "both: no `kind`, or another, in an object with a Go type", ours: by[*corev1.Pod](t, JSON, Config{}), theirs: func(raw []byte) error {
			_, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
			return err
		}, oursAccepts: true, raw: []string{`{"metadata":{"name":"p"}}`, `{"kind":"Nothing","apiVersion":"v1"}`}},
		{row: "protobuf: a map entry whose key or value goes on behind the entry's end,", ours: by[*corev1.Pod](t, Protobuf, Config{}), theirs: gogoPod,
			raw: []string{message(1, message(11, "\x0a\x05k")+message(1, "name")), message(1, message(11, "\x08\x01k"))}},
		{row: "protobuf: messages more than 10,000 deep", ours: by[*nested](t, Protobuf, Config{}), raw: []string{deep}},
		{row: "both: an object whose slices and pointers would take more than 1 MiB and 128 times its bytes", ours: by[*corev1.Pod](t, Protobuf, Config{}), theirs: gogoPod,
			raw: []string{message(2, strings.Repeat("\x12\x00", 20_000))}},
		{row: "both: more than 1 GiB", ours: by[*corev1.Pod](t, JSON, Config{}), raw: nil},
		{row: "CBOR", ours: func(raw []byte) error { _, err := EncodingOf("application/cbor"); return err }, theirs: func(raw []byte) error {
			return nil // k8s.io/apimachinery/pkg/runtime/serializer/cbor
		}, raw: []string{"\xd9\xd9\xf7\xa0"}},
	}
}

// Each row of the table says what is so, and what is so stands in the table.
func TestDifferences(t *testing.T) {
	text, err := os.ReadFile("../../docs/decoding.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| input | apimachinery | here | why |")
	if !ok {
		t.Fatal("docs/decoding.md has no table of differences")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")[1:]
	all := differences(t)
	if len(rows) != len(all) {
		t.Errorf("the table has %d rows, here are %d", len(rows), len(all))
	}
	for _, d := range all {
		theirs, ours := "accepts", "refuses"
		if d.oursAccepts {
			theirs, ours = ours, theirs
		}
		found := 0
		for _, row := range rows {
			cells := strings.Split(row, " | ")
			if strings.HasPrefix(cells[0], "| "+d.row) && len(cells) == 4 && strings.HasPrefix(cells[1], theirs) && cells[2] == ours {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d rows begin with %q and say that apimachinery %s and that it is otherwise here", found, d.row, theirs)
		}
		for _, raw := range d.raw {
			if err := d.ours([]byte(raw)); (err == nil) != d.oursAccepts {
				t.Errorf("%s: here: %v on %.60q", d.row, err, raw)
			}
			if d.theirs != nil {
				if err := d.theirs([]byte(raw)); (err == nil) == d.oursAccepts {
					t.Errorf("%s: apimachinery: %v on %.60q", d.row, err, raw)
				}
			}
		}
	}
}

// A gigabyte is refused without being looked at: the pages cannot be read.
func TestMoreThanAGigabyte(t *testing.T) {
	huge, err := syscall.Mmap(-1, 0, 1<<30+1, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(huge) })
	pod, content := by[*corev1.Pod](t, Protobuf, Config{}), by[*unstructured.Unstructured](t, JSON, Config{})
	meta := by[*metav1.PartialObjectMetadata](t, JSON, Config{})
	for name, decode := range map[string]func([]byte) error{"protobuf": pod, "unstructured": content, "metadata": meta} {
		if err := decode(huge); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
