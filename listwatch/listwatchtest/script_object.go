package listwatchtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxPadding bounds what + makes of an object.
const maxPadding = 128 << 20

// object is one that a script writes down in its notation:
//
//	[KIND:][NAMESPACE/]NAME@RV[/UID][!][+BYTES][=PHASE]
//
// NAME noname is the object without a name, badmeta the one whose metadata is
// no object. ! makes the spec one that does not decode, +BYTES pads it. Without
// /UID the uid is "uid-" and the name.
type object struct {
	kind, namespace, name, rv, uid, phase string
	node                                  string
	badSpec, badMeta                      bool
	padding                               int
}

// objectDefaults are those of a script's objects line.
type objectDefaults struct {
	node, namespace, phase string
}

func (d *objectDefaults) parse(text string) error {
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "node":
			d.node = value
		case "namespace":
			d.namespace = value
		case "phase":
			d.phase = value
		default:
			return fmt.Errorf("objects %s: there are node=, namespace= and phase=", word)
		}
	}
	return nil
}

func parseObject(word string, d objectDefaults) (object, error) {
	o := object{namespace: "default", phase: d.phase, node: d.node}
	if d.namespace != "" {
		o.namespace = d.namespace
	}
	fail := func(why string) (object, error) {
		return o, fmt.Errorf("%s: %s: write [KIND:][NAMESPACE/]NAME@RV[/UID][!][+BYTES][=PHASE]", word, why)
	}
	if word == "badmeta" {
		return object{badMeta: true}, nil
	}
	text := word
	if kind, rest, ok := strings.Cut(text, ":"); ok {
		o.kind, text = kind, rest
	}
	if rest, phase, ok := strings.Cut(text, "="); ok {
		text, o.phase = rest, phase
	}
	if rest, bytes, ok := strings.Cut(text, "+"); ok {
		n, err := strconv.Atoi(bytes)
		if err != nil || n < 0 || n > maxPadding {
			return fail("+" + bytes + " is no number of bytes")
		}
		text, o.padding = rest, n
	}
	text, o.badSpec = strings.CutSuffix(text, "!")
	name, rv, ok := strings.Cut(text, "@")
	if !ok || name == "" {
		return fail("no name or no @")
	}
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		o.namespace, name = namespace, rest
	}
	o.name, o.uid = name, "uid-"+name
	if version, uid, ok := strings.Cut(rv, "/"); ok {
		rv, o.uid = version, uid
	}
	if name == "noname" {
		o.name = ""
	}
	o.rv = rv
	if rv == "-" {
		o.rv = ""
	}
	return o, nil
}

// Notation writes an object as scripts do: NAME@RV, then /UID where that is not
// "uid-NAME", then =PHASE where it has one. The namespace is left out when it
// is "default" or empty.
func Notation(o metav1.Object) string {
	s := o.GetName() + "@" + o.GetResourceVersion()
	if ns := o.GetNamespace(); ns != "" && ns != "default" {
		s = ns + "/" + s
	}
	if uid := string(o.GetUID()); uid != "uid-"+o.GetName() {
		s += "/" + uid
	}
	if phase := phaseOf(o); phase != "" {
		s += "=" + phase
	}
	return s
}

// phaseOf reads status.phase of any object, typed or not.
func phaseOf(o metav1.Object) string {
	if u, ok := o.(*unstructured.Unstructured); ok {
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		return phase
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return ""
	}
	var with struct {
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	if json.Unmarshal(raw, &with) != nil {
		return ""
	}
	return with.Status.Phase
}

// typeOf is what an object without a kind of its own is of.
type typeOf struct{ apiVersion, kind string }

// json returns the object's JSON. A list's item has no kind, as on a real
// server, unless it is of another one.
func (o *object) json(t typeOf, item bool) []byte {
	head := ""
	switch {
	case o.kind != "":
		head = fmt.Sprintf(`"kind":%q,"apiVersion":"v1",`, o.kind)
	case !item:
		head = fmt.Sprintf(`"kind":%q,"apiVersion":%q,`, t.kind, t.apiVersion)
	}
	if o.badMeta {
		return []byte("{" + head + `"metadata":7}`)
	}
	spec := "{}"
	if o.node != "" {
		spec = fmt.Sprintf(`{"nodeName":%q}`, o.node)
	}
	if o.badSpec {
		spec = `{"restartPolicy":7,"replicas":"x"}`
	}
	annotations := ""
	if o.padding > 0 {
		annotations = `,"annotations":{"pad":"` + strings.Repeat("x", o.padding) + `"}`
	}
	return fmt.Appendf(nil, `{%s"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":%q%s},"spec":%s,"status":{"phase":%q}}`,
		head, o.name, o.namespace, o.uid, o.rv, annotations, spec, o.phase)
}

// protobuf returns the object's message, without envelope. Its fields are those
// of most built-in types: metadata 1, spec 2 and status 3, here with what a pod
// has in them.
func (o *object) protobuf() []byte {
	if o.badMeta {
		return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	}
	var meta, spec, status []byte
	meta = appendField(meta, 1, o.name)
	meta = appendField(meta, 3, o.namespace)
	meta = appendField(meta, 5, o.uid)
	meta = appendField(meta, 6, o.rv)
	if o.padding > 0 {
		meta = appendField(meta, 12, string(appendField(appendField(nil, 1, "pad"), 2, strings.Repeat("x", o.padding))))
	}
	if o.badSpec {
		spec = protowire.AppendVarint(protowire.AppendTag(spec, 3, protowire.VarintType), 7) // restartPolicy is a string
	}
	spec = appendField(spec, 10, o.node)
	status = appendField(status, 1, o.phase)
	return appendField(appendField(appendField(nil, 1, string(meta)), 2, string(spec)), 3, string(status))
}

// appendField appends a field that is a string, bytes or a message.
func appendField(b []byte, number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), value)
}

// protobufEnvelope is what every object is wrapped in on the wire.
func protobufEnvelope(t typeOf, raw []byte) []byte {
	typeMeta := appendField(appendField(nil, 1, t.apiVersion), 2, t.kind)
	b := append([]byte("k8s\x00"), appendField(nil, 1, string(typeMeta))...)
	b = appendField(b, 2, string(raw))
	return appendField(appendField(b, 3, ""), 4, "")
}

// bookmark is an object of which a script says the version, and whether it ends
// the initial events.
type bookmark struct {
	rv  string
	end bool
}

func (k bookmark) json(t typeOf) []byte {
	annotations := ""
	if k.end {
		annotations = `,"annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}`
	}
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":%q,"creationTimestamp":null%s},"spec":{"containers":null},"status":{}}`,
		t.kind, t.apiVersion, k.rv, annotations)
}

func (k bookmark) protobuf() []byte {
	meta := appendField(nil, 6, k.rv)
	if k.end {
		meta = appendField(meta, 12, string(appendField(appendField(nil, 1, metav1.InitialEventsAnnotationKey), 2, "true")))
	}
	return appendField(nil, 1, string(meta))
}

// scriptList is the answer to a LIST.
type scriptList struct {
	rv, token string
	remaining int64
	metaLast  bool
	null      bool // items is null
	items     []object
}

func parseList(text string, d objectDefaults) (scriptList, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return scriptList{}, errors.New("list RV OBJECT...: without a version write list -")
	}
	l := scriptList{rv: words[0]}
	if l.rv == "-" {
		l.rv = ""
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch {
		case key == "continue":
			l.token = value
		case key == "remaining":
			l.remaining, err = strconv.ParseInt(value, 10, 64)
		case word == "meta=last":
			l.metaLast = true
		case word == "items=null":
			l.null = true
		default:
			var o object
			o, err = parseObject(word, d)
			l.items = append(l.items, o)
		}
		if err != nil {
			return l, err
		}
	}
	return l, nil
}

func (l *scriptList) json(t typeOf) []byte {
	meta := fmt.Sprintf(`"metadata":{"resourceVersion":%q`, l.rv)
	if l.token != "" {
		meta += fmt.Sprintf(`,"continue":%q`, l.token)
	}
	if l.remaining > 0 {
		meta += fmt.Sprintf(`,"remainingItemCount":%d`, l.remaining)
	}
	meta += "}"
	items := []byte(`"items":[`)
	for i := range l.items {
		if i > 0 {
			items = append(items, ',')
		}
		items = append(items, l.items[i].json(t, true)...)
	}
	items = append(items, ']')
	if l.null {
		items = []byte(`"items":null`)
	}
	first, second := meta, string(items)
	if l.metaLast {
		first, second = second, first
	}
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,%s,%s}`, t.kind+"List", t.apiVersion, first, second)
}

func (l *scriptList) protobuf(t typeOf) []byte {
	meta := appendField(appendField(nil, 2, l.rv), 3, l.token)
	if l.remaining > 0 {
		meta = protowire.AppendVarint(protowire.AppendTag(meta, 4, protowire.VarintType), uint64(l.remaining))
	}
	head := appendField(nil, 1, string(meta))
	var items []byte
	for i := range l.items {
		items = appendField(items, 2, string(l.items[i].protobuf()))
	}
	body := append(head, items...)
	if l.metaLast {
		body = append(items, appendField(nil, 1, string(meta))...)
	}
	return protobufEnvelope(typeOf{t.apiVersion, t.kind + "List"}, body)
}

// parseStatus makes the Status of "410 Expired too old resource version" or
// "429 TooManyRequests retry=2s busy". The reason TooLarge makes that of a too
// large resourceVersion, with its cause; TooLargeText the same without, as old
// servers send it. continue=TOKEN is the fresh token of an expired one.
func parseStatus(text string) (*metav1.Status, error) {
	number, rest, _ := strings.Cut(text, " ")
	code, err := strconv.Atoi(number)
	if err != nil || code < 100 || code > 999 {
		return nil, fmt.Errorf("%s is no status code", number)
	}
	reason, message, _ := strings.Cut(strings.TrimSpace(rest), " ")
	st := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReason(reason),
	}
	details := func() *metav1.StatusDetails {
		if st.Details == nil {
			st.Details = &metav1.StatusDetails{}
		}
		return st.Details
	}
	for {
		word, more, _ := strings.Cut(message, " ")
		if value, ok := strings.CutPrefix(word, "retry="); ok {
			d, err := parseSpan(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", word, err)
			}
			details().RetryAfterSeconds = int32(min(d.Seconds(), 1<<31-1))
		} else if value, ok := strings.CutPrefix(word, "continue="); ok {
			st.Continue = value
		} else {
			break
		}
		message = more
	}
	st.Message = message
	if reason == "TooLarge" || reason == "TooLargeText" {
		st.Reason, st.Message = metav1.StatusReasonTimeout, "Timeout: Too large resource version: "+message
		if reason == "TooLarge" {
			details().Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
		}
	}
	return st, nil
}
