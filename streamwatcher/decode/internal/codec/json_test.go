package codec

import (
	"encoding/json"
	"reflect"
	"testing"

	kjson "sigs.k8s.io/json"
)

// fromJSON decodes raw and then overwrites it.
func fromJSON(p *Program, raw []byte) (any, error) {
	raw = append([]byte(nil), raw...)
	ptr, err := p.JSON(raw)
	overwrite(raw)
	if err != nil {
		return nil, err
	}
	return p.typ.Value(ptr).Interface(), nil
}

// Objects of all types that client-go knows, at random but always the same, are
// what apimachinery makes of their JSON.
func TestJSONOfAllTypes(t *testing.T) {
	for i, typ := range allTypes() {
		p := mustCompile(t, typ, Config{})
		if p.JSONErr != nil {
			t.Errorf("%v: %v", typ, p.JSONErr)
			continue
		}
		fill := filler(int64(i))
		for range 4 {
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			raw, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(typ, err)
			}
			want := reflect.New(typ).Interface()
			if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, want); err != nil {
				t.Fatal(typ, err)
			}
			got, err := fromJSON(p, raw)
			if err != nil {
				t.Fatalf("%v: %v\n%s", typ, err, raw)
			}
			same(t, typ.String(), want, got)
		}
	}
}
