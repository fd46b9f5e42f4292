package reflector

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

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
