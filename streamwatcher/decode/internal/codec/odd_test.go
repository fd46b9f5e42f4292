package codec

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type inner struct {
	A string `json:"a"`
	B *inner `json:"b"`
	C []inner
}

type Embedded struct {
	Name  string `json:"name"`
	Third string
}

type other struct {
	Third string
}

type named string

// odd has a field of each kind that a Go struct of the caller's own can have.
type odd struct {
	Embedded
	other
	metav1.TypeMeta `json:",inline"`

	Name string `json:"name"` // before Embedded's

	I8   int8   `json:"i8"`
	I16  int16  `json:"i16"`
	I32  int32  `json:"i32"`
	I64  int64  `json:"i64"`
	U8   uint8  `json:"u8"`
	U64  uint64 `json:"u64"`
	F32  float32
	F64  float64           `json:"f64,omitempty"`
	Flag bool              `json:"flag"`
	S    string            `json:"s"`
	PS   *string           `json:"ps"`
	PPS  **string          `json:"pps"`
	PI   *int32            `json:"pi"`
	By   []byte            `json:"by"`
	BB   [][]byte          `json:"bb"`
	SS   []string          `json:"ss"`
	SN   []named           `json:"sn"`
	SI   []int             `json:"si"`
	SP   []*inner          `json:"sp"`
	In   inner             `json:"in"`
	Ins  []inner           `json:"ins"`
	M    map[string]string `json:"m"`
	MN   map[named]named   `json:"mn"`
	MB   map[string][]byte `json:"mb"`
	MI   map[string]int    `json:"mi"`
	MM   map[string]map[string]string
	MS   map[string][]inner `json:"ms"`
	MX   map[string]*inner  `json:"mx"`
	MInt map[int]string     `json:"mint"`
	Any  any                `json:"any"`
	Arr  [2]string          `json:"arr"`
	Raw  json.RawMessage    `json:"raw"`
	Num  json.Number        `json:"num"`

	T   metav1.Time            `json:"t"`
	PT  *metav1.Time           `json:"pt"`
	MT  metav1.MicroTime       `json:"mt"`
	D   metav1.Duration        `json:"d"`
	Q   resource.Quantity      `json:"q"`
	MQ  corev1.ResourceList    `json:"mq"`
	IS  intstr.IntOrString     `json:"is"`
	PIS *intstr.IntOrString    `json:"pis"`
	FV  *metav1.FieldsV1       `json:"fv"`
	RX  runtime.RawExtension   `json:"rx"`
	RXs []runtime.RawExtension `json:"rxs"`

	Skipped string `json:"-"`
}

// values are put into each field of odd.
var values = []string{
	`null`, `true`, `false`, `0`, `-0`, `1`, `-1`, `127`, `128`, `-128`, `-129`, `255`, `256`, `32768`, `2147483647`, `2147483648`, `-2147483648`,
	`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `18446744073709551615`, `18446744073709551616`,
	`1.5`, `1e3`, `1E+2`, `1e400`, `01`, `-`, `1.`, `.5`, `1e`, `+1`, `NaN`, `tru`, `nul`, `nulls`, `truefalse`,
	`""`, `"a"`, `"é"`, `"\u00e9\ud83d\ude00"`, `"\ud800"`, `"\ud800x"`, `"\x"`, `"a\"b\\\/\b\f\n\r\t"`, "\"a\xffb\"", "\"\xed\xa0\x80\"", "\"a\nb\"", "\"\x00\"", `"`, `"\`, `"\u12`,
	`"AQID"`, `"AQI="`, `"AQI"`, `"A\u0051ID"`, `"===="`, `"AQ\nID"`,
	`[]`, `[ ]`, `[null]`, `["a"]`, `["a","b","c"]`, `[1,2,3]`, `[{}]`, `[{"a":"x"},{"a":"y","b":{"a":"z"}}]`, `[1,]`, `[,]`, `[1 2]`, `["a"}`, `[`, `["AQID",null,""]`,
	`{}`, `{ }`, `{"a":"x"}`, `{"a":null}`, `{"a":"AQID","b":""}`, `{"a":1}`, `{"a":{"b":"c"}}`, `{"a":[{"a":"x","C":[{"a":"y"}]}]}`, `{"a" : "x" , "b" : "y"}`, `{"a":"x",}`, `{a:1}`, `{"a"}`, `{"a":}`, `{"\u0061":"x"}`,
	`{"a":"x","C":[{"a":"1"},{"a":"2","C":[{"a":"3"},{"a":"4"},{"a":"5"},{"a":"6"},{"a":"7"},{"a":"8"}]}]}`, `{"1":"x","-2":"y"}`, `{"x":"y"}`,
	`{"unknown":{"x":[1,{"y":"]}"}]},"a":"x"}`, `{"unknown":[1},"a":"x"}`, `{"A":"x"}`,
	`"2024-02-29T12:34:56Z"`, `"2023-02-29T12:34:56Z"`, `"2024-01-31T23:59:59Z"`, `"2024-01-01T24:00:00Z"`, `"2024-01-01T00:00:00+02:00"`, `"2024-01-01T00:00:00.123456Z"`, `"2024-00-10T00:00:00Z"`, `"0000-01-01T00:00:00Z"`, `"2024-1-01T00:00:00Z"`,
	`"1h2m"`, `"100m"`, `" 5Gi "`, `"1e3"`, `"12345678901234567890123"`, `"0.0000000001"`, `"-5"`, `"abc"`, `{"cpu":"100m","memory":"5Gi"}`, `{"cpu":null}`, `{"cpu":1}`,
}

// Each value in each field, and each pair of some of them one after the other, which tells
// what is kept of the first.
func TestJSONKinds(t *testing.T) {
	typ := reflect.TypeFor[odd]()
	p := mustCompile(t, typ, Config{})
	if p.JSONErr != nil {
		t.Fatal(p.JSONErr)
	}
	fields, err := jsonFields(typ)
	if err != nil {
		t.Fatal(err)
	}
	// One that shares parts must not be led astray by a field that stands twice, then or later.
	shared := mustCompile(t, typ, Config{Share: 1024, Intern: 64})
	var count [verdicts]int
	try := func(text string) {
		agree(t, []byte(text), forms[1].fromShared(shared), full(sigs(typ)))
		v := agree(t, []byte(text), func(raw []byte) (any, error) { return fromJSON(p, raw) }, sigs(typ))
		count[v]++
		if v == onlyOurs && !strings.Contains(text, `"unknown":[1}`) || v == onlyTheirs && !strings.Contains(text, `"mb":{`) {
			_, err := fromJSON(p, []byte(text))
			t.Errorf("verdict %d on %s: %v", v, text, err)
		}
	}
	short := []string{`null`, `1`, `"x"`, `"AQID"`, `[]`, `[{"a":"x"},{"a":"y","C":[{"a":"1"},{"a":"2"}]}]`, `[{},{},{}]`, `["a","b"]`, `[null]`, `{}`, `{"a":"x","C":[{"a":"1"},{"a":"2"}]}`, `{"b":{}}`,
		`{"b":"y"}`, `{"a":[{"b":{"a":"q"}}]}`, `{"a":null,"C":null}`, `"5Gi"`, `"2024-01-31T23:59:59Z"`, `[1]`}
	for _, f := range fields {
		for _, v := range values {
			try(`{"` + f.name + `":` + v + `}`)
			try(` {"x":` + v + `, "` + f.name + `" : ` + v + ` } `)
		}
		for i, a := range short {
			for j, b := range short {
				try(`{"` + f.name + `":` + a + `,"` + f.name + `":` + b + `}`)
				if (i+j)%3 == 0 {
					try(`{"` + f.name + `":` + a + `,"` + f.name + `":` + b + `,"` + f.name + `":` + a + `}`)
				}
			}
		}
	}
	if count[equal] < 3000 || count[bothRefuse] < 3000 {
		t.Errorf("counts %v", count)
	}
}

func TestJSONDocuments(t *testing.T) {
	p := mustCompile(t, reflect.TypeFor[odd](), Config{})
	theirs := sigs(p.typ.Go)
	ours := func(raw []byte) (any, error) { return fromJSON(p, raw) }
	for _, text := range []string{``, ` `, `{`, `}`, `{}}`, `{}{}`, `{} `, "\n{}\n", `{}x`, `{"s":"a"}`, `{"s":"a"`, `{"s"`, `{"":1}`, `{"s":"a",}`, `{,}`, `{"S":"a"}`, `{"Name":"x","name":"y","Third":"c"}`,
		`{"x":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`, `{"x":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`,
		`{"in":` + strings.Repeat(`{"b":`, 9998) + `{}` + strings.Repeat("}", 9998) + `}`, `{"in":` + strings.Repeat(`{"b":`, 9999) + `{}` + strings.Repeat("}", 9999) + `}`,
		`{"raw":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`,
	} {
		if v := agree(t, []byte(text), ours, theirs); v > bothRefuse {
			t.Errorf("verdict %d on %.100s", v, text)
		}
	}
	for _, text := range []string{`null`, `[]`, `1`, `"x"`} { // to encoding/json these are a struct, or a type error
		if got, err := ours([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// A field that stands in several places of a message, as no server writes it.
func TestProtobufInPieces(t *testing.T) {
	pod := func(name, image string, labels map[string]string) []byte {
		b, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: []string{name, image}, OwnerReferences: []metav1.OwnerReference{{Name: name}}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image, Env: []corev1.EnvVar{{Name: image}}}}, ActiveDeadlineSeconds: new(int64)}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b := pod("a", "x", map[string]string{"k": "1", "l": "2"}), pod("b", "y", map[string]string{"k": "3"})
	p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{})
	raw := append(append(append([]byte{}, a...), b...), a...)
	v := agree(t, raw, func(raw []byte) (any, error) { return protobuf(p, raw) }, gogo(p.typ.Go))
	got, err := protobuf(p, raw)
	if v != equal || err != nil || len(got.(*corev1.Pod).Spec.Containers) != 3 {
		t.Errorf("verdict %d, %v", v, err)
	}
}

type numbers struct {
	A []int32          `protobuf:"varint,1,rep,name=a"`
	B []bool           `protobuf:"varint,2,rep,name=b"`
	C float64          `protobuf:"fixed64,3,opt,name=c"`
	D *float32         `protobuf:"fixed32,4,opt,name=d"`
	E []float64        `protobuf:"fixed64,5,rep,name=e"`
	F *uint8           `protobuf:"varint,6,opt,name=f"`
	G [][]byte         `protobuf:"bytes,7,rep,name=g"`
	H []*inner2        `protobuf:"bytes,8,rep,name=h"`
	I map[string]int64 `protobuf:"bytes,9,rep,name=i"`
}

type inner2 struct {
	S string  `protobuf:"bytes,1,opt,name=s"`
	N *inner2 `protobuf:"bytes,2,opt,name=n"`
}

func TestProtobufNumbers(t *testing.T) {
	p := mustCompile(t, reflect.TypeFor[numbers](), Config{})
	if p.ProtoErr != nil {
		t.Fatal(p.ProtoErr)
	}
	f32, u8 := float32(1.5), uint8(7)
	want := &numbers{A: []int32{1, -1, 300, 5}, B: []bool{true, false}, C: 2.5, D: &f32, E: []float64{1.5, 2.5}, F: &u8,
		G: [][]byte{[]byte("x"), {}}, H: []*inner2{{S: "s", N: &inner2{}}}, I: map[string]int64{"k": 9, "": 0}}
	raw := "\x08\x01" + "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + "\x0a\x03\xac\x02\x05" + // unpacked, then packed
		"\x12\x02\x01\x00" + "\x19\x00\x00\x00\x00\x00\x00\x04\x40" + "\x25\x00\x00\xc0\x3f" +
		"\x2a\x10\x00\x00\x00\x00\x00\x00\xf8\x3f\x00\x00\x00\x00\x00\x00\x04\x40" + "\x30\x87\x02" +
		"\x3a\x01x\x3a\x00" + "\x42\x05\x0a\x01s\x12\x00" + "\x4a\x05\x0a\x01k\x10\x09" + "\x4a\x00"
	got, err := protobuf(p, []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "numbers", want, got)
	for i := range raw {
		_, _ = protobuf(p, []byte(raw[:i])) // no panic
	}
	for _, entry := range []string{"\x4a\x03\x08\x01k", "\x4a\x03\x12\x01k", "\x4a\x05\x0a\x01k\x10"} {
		if got, err := protobuf(p, []byte(entry)); err == nil {
			t.Errorf("a map entry with a field of another type: %+v", got)
		}
	}
	// Messages in one another: before each stands a header of four bytes with the length of the rest.
	const levels = maxDepth + 10
	var deep []byte
	for left := 4 * levels; left > 0; left -= 4 {
		tag := byte(2<<3 | wireBytes) // inner2.N
		if len(deep) == 0 {
			tag = 8<<3 | wireBytes // numbers.H
		}
		rest := left - 4
		deep = append(deep, tag, byte(rest)|0x80, byte(rest>>7)|0x80, byte(rest>>14))
	}
	if _, err := protobuf(p, deep); err == nil || !strings.Contains(err.Error(), "too deep") {
		t.Errorf("%d messages in one another: %v", levels, err)
	}
	if _, err := protobuf(p, append([]byte("\x42\x04"), "\x12\x02\x12\x00"...)); err != nil {
		t.Errorf("three messages in one another: %v", err)
	}
}

// What no table reads is read by its method, with its own copy of the bytes.
func TestSlicesThatAreMessages(t *testing.T) {
	p := mustCompile(t, reflect.TypeFor[metav1.APIResource](), Config{})
	for _, o := range []metav1.APIResource{{Verbs: metav1.Verbs{"get", "list"}}, {Verbs: metav1.Verbs{}}, {}} {
		raw, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if v := agree(t, raw, func(raw []byte) (any, error) { return protobuf(p, raw) }, gogo(p.typ.Go)); v != equal {
			t.Errorf("verdict %d", v)
		}
	}
}

// selfish reads itself, and not by the number in its tag.
type selfish struct {
	S string `protobuf:"bytes,1,opt,name=s"`
}

func (s *selfish) Unmarshal(b []byte) error {
	s.S = "itself: " + string(b)
	return nil
}

// embedding has selfish's method, which is not for it.
type embedding struct {
	selfish `protobuf:"bytes,1,opt,name=selfish"`
	T       string `protobuf:"bytes,2,opt,name=t"`
}

func TestUnmarshalOfTheCallersOwn(t *testing.T) {
	p := mustCompile(t, reflect.TypeFor[embedding](), Config{})
	got, err := protobuf(p, []byte("\x0a\x03abc\x12\x01t"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "embedding", &embedding{selfish{"itself: abc"}, "t"}, got)
	if _, err := Compile(reflect.TypeFor[selfish](), Config{}); err != nil {
		t.Error(err)
	}
	if p := mustCompile(t, reflect.TypeFor[selfish](), Config{}); p.ProtoErr == nil {
		t.Error("a type that reads itself has a table")
	}
}

// An object of two bytes an element does not take a kilobyte an element.
func TestRoom(t *testing.T) {
	p := mustCompile(t, reflect.TypeFor[corev1.Pod](), Config{})
	n := 100_000
	spec := strings.Repeat("\x12\x00", n) // containers
	size := len(spec)
	raw := "\x12" + string([]byte{byte(size) | 0x80, byte(size>>7) | 0x80, byte(size >> 14)}) + spec
	if _, err := protobuf(p, []byte(raw)); err == nil || !strings.Contains(err.Error(), "would take more") {
		t.Errorf("protobuf: %v", err)
	}
	if _, err := fromJSON(p, []byte(`{"spec":{"containers":[{}`+strings.Repeat(`,{}`, n)+`]}}`)); err == nil || !strings.Contains(err.Error(), "would take more") {
		t.Errorf("JSON: %v", err)
	}
	if _, err := protobuf(mustCompile(t, reflect.TypeFor[discoveryv1.EndpointSlice](), Config{}), []byte(strings.Repeat("\x12\x00", 1000))); err != nil {
		t.Errorf("1000 empty endpoints: %v", err)
	}
}

// Times are in the zone of the process, as apimachinery's are.
func TestTimesAreLocal(t *testing.T) {
	old := time.Local
	time.Local = time.FixedZone("x", 3600)
	defer func() { time.Local = old }()
	p := mustCompile(t, reflect.TypeFor[odd](), Config{})
	got, err := fromJSON(p, []byte(`{"t":"2024-02-03T04:05:06Z"}`))
	if err != nil || got.(*odd).T.Format(time.RFC3339) != "2024-02-03T05:05:06+01:00" {
		t.Errorf("%v, %v", got, err)
	}
}
