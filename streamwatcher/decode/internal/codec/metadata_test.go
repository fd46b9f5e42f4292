package codec

import (
	"encoding/json"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The metadata of objects of all kinds, of which the rest is passed over, is what apimachinery makes of it.
func TestMetadataOfAllTypes(t *testing.T) {
	typ := reflect.TypeFor[metav1.PartialObjectMetadata]()
	p, a := mustCompile(t, typ, Config{}), mustCompile(t, typ, Config{EmptyTypeMeta: true})
	if p.ProtoErr != nil || p.JSONErr != nil {
		t.Fatal(p.ProtoErr, p.JSONErr)
	}
	compared := 0
	for i, of := range allTypes() {
		if f, ok := of.FieldByName("ObjectMeta"); !ok || !f.Anonymous {
			continue
		}
		obj := reflect.New(of).Interface()
		filler(int64(i)).Fill(obj)
		pb, err := obj.(protoObject).Marshal()
		if err != nil {
			t.Fatal(of, err)
		}
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(of, err)
		}
		if v := agree(t, pb, func(raw []byte) (any, error) { return protobuf(p, raw) }, gogo(typ)); v != equal {
			t.Errorf("%v in protobuf: verdict %d", of, v)
		}
		if v := agree(t, text, func(raw []byte) (any, error) { return fromJSON(p, raw) }, sigs(typ)); v != equal {
			t.Errorf("%v in JSON: verdict %d", of, v)
		}
		text = append([]byte(`{"kind":"Of","apiVersion":"its/own",`), text[1:]...)
		meta, err := fromJSON(a, text)
		if err != nil {
			t.Fatal(of, err)
		}
		want := obj.(metav1.ObjectMetaAccessor).GetObjectMeta()
		if got := meta.(*metav1.PartialObjectMetadata); got.Kind != "" || got.APIVersion != "" || got.Name != want.GetName() || got.UID != want.GetUID() {
			t.Errorf("%v: %v", of, got)
		}
		compared++
	}
	if compared < 100 {
		t.Errorf("only %d types have metadata", compared)
	}
}
