package codec

import (
	"reflect"
	"testing"
)

// Objects of all types that client-go knows, at random but always the same, are
// what the generated code makes of them.
func TestProtobufOfAllTypes(t *testing.T) {
	types := allTypes()
	if len(types) < 300 {
		t.Fatalf("only %d types", len(types))
	}
	for i, typ := range types {
		p := mustCompile(t, typ, Config{})
		if p.ProtoErr != nil {
			t.Errorf("%v: %v", typ, p.ProtoErr)
			continue
		}
		fill := filler(int64(i))
		for range 4 {
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			raw, err := obj.(protoObject).Marshal()
			if err != nil {
				t.Fatal(typ, err)
			}
			want := reflect.New(typ).Interface()
			if err := want.(protoObject).Unmarshal(raw); err != nil {
				t.Fatal(typ, err)
			}
			got, err := protobuf(p, raw)
			if err != nil {
				t.Fatal(typ, err)
			}
			same(t, typ.String(), want, got)
		}
	}
}
