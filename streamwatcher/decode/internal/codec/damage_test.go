package codec

import (
	"encoding/json"
	"errors"
	"math/rand"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
)

// verdict is how two decoders take one input.
type verdict int

const (
	equal verdict = iota
	bothRefuse
	onlyOurs
	onlyTheirs
	verdicts
)

// agree decodes raw by ours and theirs. Both accepting and not being equal is fatal.
func agree(t testing.TB, raw []byte, ours func(raw []byte) (any, error), theirs func(raw []byte) (any, error)) verdict {
	t.Helper()
	want, theirErr := theirs(append([]byte(nil), raw...))
	got, ourErr := ours(raw)
	switch {
	case theirErr == nil && ourErr == nil:
		if !reflect.DeepEqual(want, got) {
			same(t, string(raw), want, got)
		}
		return equal
	case theirErr != nil && ourErr != nil:
		return bothRefuse
	case ourErr == nil:
		return onlyOurs
	case errors.Is(ourErr, errAgain):
		t.Fatalf("an error that is not meant for callers: %v", ourErr)
	}
	return onlyTheirs
}

func gogo(typ reflect.Type) func(raw []byte) (any, error) {
	return func(raw []byte) (any, error) {
		v := reflect.New(typ).Interface()
		return v, v.(protoObject).Unmarshal(raw)
	}
}

func sigs(typ reflect.Type) func(raw []byte) (any, error) {
	return func(raw []byte) (any, error) {
		v := reflect.New(typ).Interface()
		return v, kjson.UnmarshalCaseSensitivePreserveInts(raw, v)
	}
}

var damagedTypes = []reflect.Type{
	reflect.TypeFor[corev1.Pod](), reflect.TypeFor[corev1.Node](), reflect.TypeFor[corev1.Secret](),
	reflect.TypeFor[appsv1.Deployment](), reflect.TypeFor[corev1.Service](),
}

// damage changes a few bytes of raw: flips, cuts, insertions, repetitions.
func damage(r *rand.Rand, raw []byte) []byte {
	b := append([]byte(nil), raw...)
	for range 1 + r.Intn(3) {
		if len(b) < 2 {
			return b
		}
		at := r.Intn(len(b))
		switch r.Intn(6) {
		case 0:
			b[at] ^= 1 << r.Intn(8)
		case 1:
			b[at] = byte(r.Intn(256))
		case 2:
			b = b[:at]
		case 3:
			b = append(b[:at:at], append([]byte{byte(r.Intn(256))}, b[at:]...)...)
		case 4: // a part again
			end := at + r.Intn(len(b)-at)
			b = append(b[:end:end], b[at:]...)
		case 5: // a part missing
			end := at + r.Intn(min(len(b)-at, 20))
			b = append(b[:at:at], b[end:]...)
		}
	}
	return b
}

func TestDamagedProtobuf(t *testing.T) {
	count := damaged(t, 8, func(typ reflect.Type, obj any) ([]byte, func([]byte) (any, error), func([]byte) (any, error)) {
		raw, err := obj.(protoObject).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		p := mustCompile(t, typ, Config{})
		return raw, func(raw []byte) (any, error) { return protobuf(p, raw) }, gogo(typ)
	})
	// A map entry that ends behind its own end is one to generated code.
	if count[onlyTheirs] > count[equal]/50 || count[onlyOurs] > 0 {
		t.Errorf("too many differences")
	}
}

func TestDamagedJSON(t *testing.T) {
	count := damaged(t, 8, func(typ reflect.Type, obj any) ([]byte, func([]byte) (any, error), func([]byte) (any, error)) {
		raw, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		p := mustCompile(t, typ, Config{})
		return raw, func(raw []byte) (any, error) { return fromJSON(p, raw) }, sigs(typ)
	})
	// What stands in a field that is not known is not looked at closely.
	if count[onlyTheirs] > 0 || count[onlyOurs] > count[equal]/50 {
		t.Errorf("too many differences")
	}
}

func damaged(t *testing.T, objects int, prepare func(reflect.Type, any) ([]byte, func([]byte) (any, error), func([]byte) (any, error))) (count [verdicts]int) {
	t.Helper()
	r := rand.New(rand.NewSource(1))
	for i, typ := range damagedTypes {
		fill := filler(int64(i))
		for range objects {
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			raw, ours, theirs := prepare(typ, obj)
			if len(raw) > 20_000 {
				continue
			}
			for range 200 {
				b := damage(r, raw)
				v := agree(t, b, ours, theirs)
				count[v]++
				if v >= onlyOurs && count[v] < 6 {
					_, e1 := ours(b)
					_, e2 := theirs(b)
					t.Logf("ours: %v; theirs: %v", e1, e2)
				}
			}
		}
	}
	t.Logf("equal %d, both refuse %d, only ours %d, only theirs %d", count[equal], count[bothRefuse], count[onlyOurs], count[onlyTheirs])
	if count[equal] < 500 || count[bothRefuse] < 500 {
		t.Errorf("the damage is too small or too large to say anything")
	}
	return count
}
