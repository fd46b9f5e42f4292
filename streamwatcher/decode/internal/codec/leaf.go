package codec

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// makeMap makes the map at p, if it is nil. n is its node, an aMap.
func (d *state) makeMap(n *node, p layout.Ptr) {
	if !p.Pointee().IsNil() {
		return
	}
	if n.elem.kind == aQuantity {
		*layout.As[map[string]resource.Quantity](p) = make(map[string]resource.Quantity)
	} else {
		n.typ.Value(p).Elem().Set(reflect.MakeMap(n.typ.Go))
	}
}

// entryOf returns a zero variable of n, for a value that moves into a map at once.
func (d *state) entryOf(n *node) layout.Ptr {
	if n.kind != aQuantity {
		return n.typ.New()
	}
	d.quantity = resource.Quantity{} // nothing stands in it, so one is enough
	return layout.Of(&d.quantity)
}

// put sets an entry of the map at p to the value at v.
func (d *state) put(n *node, p layout.Ptr, key string, v layout.Ptr) {
	d.fill(n.quantities, v) // an entry without a value has a zero one
	if n.elem.kind == aQuantity {
		(*layout.As[map[string]resource.Quantity](p))[key] = *layout.As[resource.Quantity](v)
		return
	}
	k := reflect.New(n.typ.Go.Key()).Elem()
	k.SetString(key)
	n.typ.Value(p).Elem().SetMapIndex(k, n.elem.typ.Value(v).Elem())
}

// timeForm is how servers write times, with its quotes.
const timeForm = `"2006-01-02T15:04:05Z"`

// utcTime reads a time of that form.
func utcTime(b []byte, i int) (t time.Time, ok bool) {
	if len(b)-i < len(timeForm) {
		return t, false
	}
	s := b[i : i+len(timeForm)]
	if s[0] != '"' || s[5] != '-' || s[8] != '-' || s[11] != 'T' || s[14] != ':' || s[17] != ':' || s[20] != 'Z' || s[21] != '"' {
		return t, false
	}
	year, a := twoDigits(s[1:])
	low, b1 := twoDigits(s[3:])
	month, b2 := twoDigits(s[6:])
	day, b3 := twoDigits(s[9:])
	hour, b4 := twoDigits(s[12:])
	minute, b5 := twoDigits(s[15:])
	second, b6 := twoDigits(s[18:])
	// The days that some month has not, and seconds that no day has, are for time.Parse to judge.
	if !(a && b1 && b2 && b3 && b4 && b5 && b6) || month < 1 || month > 12 || day < 1 || day > 28 || hour >= 24 || minute >= 60 || second >= 60 {
		return t, false
	}
	return time.Date(year*100+low, time.Month(month), day, hour, minute, second, 0, time.UTC).Local(), true
}

func twoDigits(s []byte) (int, bool) {
	hi, lo := s[0]-'0', s[1]-'0'
	return int(hi)*10 + int(lo), hi < 10 && lo < 10
}
