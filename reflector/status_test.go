package reflector

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nodewatch-go/nodewatch/reflector/reason"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// sealed is an error whose fields have no JSON form, and are nobody's business.
type sealed struct {
	Secret string
	Func   func()
}

func (*sealed) Error() string { return "it broke" }

// In JSON an error is its text.
func TestStatusAsJSON(t *testing.T) {
	err := &sealed{Secret: "hunter2", Func: func() {}}
	s := Status{
		Name: "pods", State: StateBackingOff,
		LastRestart: &Restart{Reason: reason.Transport, Err: err},
		LastError:   errors.Join(err),
		Quarantined: []Quarantined{{Key: decode.Key{Namespace: "a", Name: "b"}, ResourceVersion: "7", Err: err}},
	}
	text, e := json.Marshal(s)
	if e != nil {
		t.Fatal(e)
	}
	for _, want := range []string{
		`"Name":"pods"`, `"State":"BackingOff"`, `"LastError":"it broke"`, `"LastRestart":{"Reason":"transport","At":"0001-01-01T00:00:00Z","Err":"it broke"}`,
		`"Key":"a/b","ResourceVersion":"7"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if strings.Count(string(text), "it broke") != 3 || strings.Contains(string(text), "hunter2") {
		t.Errorf("want the text of each error and nothing else of it: %s", text)
	}

	text, e = json.Marshal(Status{LastRestart: &Restart{Reason: reason.EOF}})
	if e != nil || strings.Contains(string(text), "Err") {
		t.Errorf("without errors: %s, %v", text, e)
	}
}

// A field that is added to Status or Stats has its JSON form: no time of the year
// 1, and no duration in nanoseconds, which a reader would take for anything.
func TestTimesAsJSON(t *testing.T) {
	for name, zero := range map[string]any{"status": Status{}, "stats": Stats{}} {
		text, err := json.Marshal(zero)
		if err != nil || strings.Contains(string(text), "0001") {
			t.Errorf("%s of nothing: %s, %v", name, text, err)
		}
	}
	const d = 90 * time.Second
	durations := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch {
		case v.Type() == reflect.TypeFor[time.Duration]():
			v.SetInt(int64(d))
			durations++
		case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		case v.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0))
		}
	}
	var s Stats
	fill(reflect.ValueOf(&s).Elem())
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), `Seconds":90`); got != durations || durations < 9 {
		t.Errorf("%d of %d durations are seconds: %s", got, durations, text)
	}
	if strings.Contains(string(text), "90000000000") {
		t.Errorf("nanoseconds: %s", text)
	}
}
