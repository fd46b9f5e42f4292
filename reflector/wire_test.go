package reflector_test

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a ListerWatcher of Go code, without a server, gives a reflector; see random_server_test.go.

// status makes the Status of "410 Expired too old" or "429 TooManyRequests retry=2s …".
func status(code int, text string) *metav1.Status {
	why, message, _ := strings.Cut(text, " ")
	st := &metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReason(why)}
	if after, ok := strings.CutPrefix(message, "retry="); ok {
		var seconds string
		seconds, message, _ = strings.Cut(after, " ")
		d, _ := time.ParseDuration(seconds)
		st.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(d / time.Second)}
	}
	st.Message = message
	if why == "TooLarge" {
		st.Reason, st.Message = metav1.StatusReasonTimeout, "Timeout: Too large resource version: "+message
	}
	return st
}

func bookmark(rv string, end bool) []byte {
	annotations := ""
	if end {
		annotations = `,"annotations":{"k8s.io/initial-events-end":"true"}`
	}
	return fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":%q,"creationTimestamp":null%s},"spec":{"containers":null},"status":{}}`, rv, annotations)
}

// object makes the JSON of NAME@RV, NAME@RV/UID, NAME@RV! (does not decode),
// KIND:NAME@RV (another kind), noname (no name), NAME@RV=PHASE.
func object(word string) []byte {
	kind, text, other := strings.Cut(word, ":")
	if !other {
		kind, text = "Pod", word
	}
	text, phase, _ := strings.Cut(text, "=")
	spec := "{}"
	if cut, bad := strings.CutSuffix(text, "!"); bad {
		text, spec = cut, `{"restartPolicy":7}`
	}
	name, rv, _ := strings.Cut(text, "@")
	rv, uid, own := strings.Cut(rv, "/")
	if !own {
		uid = "uid-" + name
	}
	if name == "noname" {
		name = ""
	}
	if name == "toolarge" {
		return []byte(`{"metadata":7}`)
	}
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q},"spec":%s,"status":{"phase":%q}}`,
		kind, name, uid, rv, spec, phase)
}
