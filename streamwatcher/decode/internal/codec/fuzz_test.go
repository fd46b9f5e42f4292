package codec

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzProtobuf: what both accept is the same, and there is no panic.
func FuzzProtobuf(f *testing.F) {
	programs := make([]*Program, len(damagedTypes))
	for i, typ := range damagedTypes {
		programs[i] = mustCompile(f, typ, Config{})
		fill := filler(int64(i))
		for range 3 {
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			if raw, err := obj.(protoObject).Marshal(); err == nil && len(raw) < 4000 {
				f.Add(uint8(i), raw)
			}
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, raw []byte) {
		p := programs[int(i)%len(programs)]
		agree(t, raw, func(raw []byte) (any, error) { return protobuf(p, raw) }, gogo(p.typ.Go))
	})
}

// FuzzJSON: what both accept is the same, what apimachinery accepts is accepted,
// and there is no panic.
func FuzzJSON(f *testing.F) {
	types := append([]reflect.Type{reflect.TypeFor[odd]()}, damagedTypes...)
	programs := make([]*Program, len(types))
	for i, typ := range types {
		programs[i] = mustCompile(f, typ, Config{})
		if i == 0 {
			continue
		}
		fill := filler(int64(i))
		for range 3 {
			obj := reflect.New(typ).Interface()
			fill.Fill(obj)
			if raw, err := json.Marshal(obj); err == nil && len(raw) < 4000 {
				f.Add(uint8(i), raw)
			}
		}
	}
	for _, v := range values {
		f.Add(uint8(0), []byte(`{"any":`+v+`,"in":`+v+`,"ins":`+v+`,"s":`+v+`,"q":`+v+`}`))
	}
	f.Fuzz(func(t *testing.T, i uint8, raw []byte) {
		p := programs[int(i)%len(programs)]
		v := agree(t, raw, func(raw []byte) (any, error) { return fromJSON(p, raw) }, sigs(p.typ.Go))
		if v == onlyTheirs && !known(raw) {
			_, err := fromJSON(p, raw)
			t.Fatalf("refused: %v", err)
		}
	})
}

// known tells whether raw can be one of the inputs that apimachinery accepts and
// this package does not: no object at all, or bytes as an array of numbers within a map.
func known(raw []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return true
	}
	for _, bytesMap := range []string{"mb", "data", "binaryData"} {
		if _, ok := members[bytesMap]; ok {
			return true
		}
	}
	return false
}
