package listwatchtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestScriptErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"> GET rv=", "s:1: GET is no request"},
		{">", "s:1: a request is"},
		{"> LIST rv", "s:1: rv: write KEY=VALUE"},
		{"> LIST rw=1", "s:1: rw=1: no parameter of a request"},
		{"> LIST times=0", "s:1: times=0: not between"},
		{strings.Repeat("> LIST times=10000\n", 11), "s:11: more than 100000 requests in all"},
		{"> LIST times=1000000", "s:1: times=1000000: not between"},
		{"> LIST after=2s..1s", "s:1: after=2s..1s: 2s is more than 1s"},
		{"> LIST after=x..1s", `s:1: after=x..1s: time: invalid duration "x"`},
		{"> LIST after=-1s..1s", "s:1: after=-1s..1s: -1s is negative"},
		{"> DIAL rv=1\n< refused", "s:1: rv=1: a DIAL has only"},
		{"> DIAL", "s:1: a DIAL without an answer"},
		{"> DIAL\n< list 1", "s:2: list 1: a DIAL is answered with"},
		{"> LIST\n< refused", "s:2: refused: only a DIAL"},
		{"< hold", "s:1: an answer before the first request"},
		{"> LIST\n<", "s:2: an empty answer line"},
		{"> LIST\n< END\n< list 1", "s:2: END: END ends an answer"},
		{"> LIST\n< hold 3s", "s:2: hold stands alone"},
		{"> LIST\n< list 1\n< serve", "s:2: list 1: before serve"},
		{"> LIST\n< list", "s:2: list RV OBJECT"},
		{"> LIST\n< list 1 a@1+x", "s:2: a@1+x: +x is no number of bytes"},
		{"> LIST\n< list 1 a@1+999999999", "is no number of bytes"},
		{"> LIST\n< list 1 remaining=x", "s:2: strconv.ParseInt"},
		{"> LIST\n< 99 x", "s:2: 99 is no status code"},
		{"> LIST\n< 429 Too retry=x y", "s:2: retry=x"},
		{"> LIST\n< html x", "s:2: html x: write html CODE"},
		{"> WATCH\n< ADDED", "s:2: ADDED of what"},
		{"> WATCH\n< ADDED @x", "s:2: @x: there is no -- x -- below"},
		{"> WATCH\n< file x", "s:2: file x: there is no -- x -- below"},
		{"> WATCH\n< BOOKMARK", "s:2: BOOKMARK"},
		{"> WATCH\n< beat 1s 3", "s:2: write beat PERIOD TIMES RV"},
		{"> WATCH\n< churn 1s x a 1", "s:2: churn PERIOD"},
		{"> WATCH\n< flood x ADDED a@1", "s:2: strconv.Atoi"},
		{"> WATCH\n< text x", "s:2: text x: write a quoted Go string"},
		{"> WATCH\n< hex 0", "s:2: encoding/hex"},
		{"> WATCH\n< header X", "s:2: header X: write NAME: VALUE"},
		{"> WATCH\n< code 20", "s:2: code 20: it has three digits"},
		{"> WATCH\n< as yaml", "s:2: as yaml: there are"},
		{"> WATCH\n< length -1", "s:2: length -1: write a number"},
		{"> WATCH\n< chunk 0", "s:2: chunk 0: there are"},
		{"> WATCH\n< chunk blocks", "s:2: chunk blocks: blocks of how many"},
		{"> WATCH\n< gzip", "s:2: gzip : there are"},
		{"> WATCH\n< segment 0", "s:2: segment 0: at least 1 byte"},
		{"> WATCH\n< cut 5", "s:2: cut 5: write cut BYTES"},
		{"> WATCH\n< part x", "s:2: strconv.Atoi"},
		{"> WATCH\n< sleep 5", "s:2: time: missing unit"},
		{"> WATCH\n< dance", "s:2: dance is no answer"},
		{"config x", "s:1: config x: write KEY=VALUE"},
		{"else hang", "s:1: else hang: there is only else serve"},
		{"resource v1/pods", "s:1: resource v1/pods"},
		{"objects color=red", "s:1: objects color=red"},
		{"-- a --\n-- a --\n", "the file a is there twice"},
	} {
		_, err := ParseScript("s", []byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestScriptIsParsedWhole(t *testing.T) {
	s, err := ParseScript("dir/s.txt", []byte(`# A comment.
config initial=list page=2
objects node=n1 namespace=ns phase=Running
> LIST rv=* limit=2 times=3 after=1s..
< delay 1s
< serve
> WATCH
< ADDED a@1
store ns/a@1=Running
log 1  two words
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Settings) != 2 || s.Settings[1] != (Setting{"dir/s.txt:2", "page", "2"}) {
		t.Errorf("settings: %+v", s.Settings)
	}
	if len(s.Wants) != 2 || s.Wants[0] != (Want{"dir/s.txt:9", "store", "ns/a@1=Running"}) || s.Wants[1].Text != "1  two words" {
		t.Errorf("wants: %+v", s.Wants)
	}
	if len(s.steps) != 4 {
		t.Fatalf("%d steps", len(s.steps))
	}
	for i, st := range s.steps[:3] {
		if !st.served() || len(st.actions) != 2 || st.low != time.Second || st.high != unbounded || st.request.String() != "LIST rv=* limit=2" {
			t.Errorf("step %d: %+v", i, st)
		}
	}
	if st := s.steps[3]; st.served() || st.timed || len(st.actions) != 1 {
		t.Errorf("the last step: %+v", st)
	}
}

func TestLoadScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.txt")
	if _, err := LoadScript(file); err == nil || !strings.Contains(err.Error(), "listwatchtest: script:") {
		t.Errorf("no file: %v", err)
	}
	must(t, os.WriteFile(file, []byte("> NO"), 0o600))
	if _, err := LoadScript(file); err == nil || !strings.Contains(err.Error(), file+":1: ") {
		t.Errorf("a bad file: %v", err)
	}
	must(t, os.WriteFile(file, []byte("> LIST\n< list 1"), 0o600))
	if s, err := LoadScript(file); err != nil || s.Name != file {
		t.Errorf("a good file: %v", err)
	}
}

// TestNotation: what a script writes down is what its objects are written as,
// in JSON and in protobuf.
func TestNotation(t *testing.T) {
	srv := New(Config{})
	defer srv.Close()
	pod := typeOf{"v1", "Pod"}
	for _, word := range []string{"a@1", "a@1/uid-7", "a@1=Failed", "kube-system/dns@12", "kube-system/dns@12/u=Running"} {
		o, err := parseObject(word, objectDefaults{})
		if err != nil {
			t.Fatal(err)
		}
		for encoding, raw := range map[string][]byte{"json": o.json(pod, false), "protobuf": protobufEnvelope(pod, o.protobuf())} {
			var p corev1.Pod
			var err error
			if encoding == "json" {
				_, _, err = srv.codecs.compact.Decode(raw, nil, &p)
			} else {
				_, _, err = srv.codecs.protobuf.Decode(raw, nil, &p)
			}
			if err != nil || Notation(&p) != word {
				t.Errorf("%s in %s: %q, %v", word, encoding, Notation(&p), err)
			}
		}
		u := &unstructured.Unstructured{}
		must(t, u.UnmarshalJSON(o.json(pod, false)))
		if got := Notation(u); got != word {
			t.Errorf("%s unstructured: %s", word, got)
		}
	}
	o, err := parseObject("a@1+1000", objectDefaults{node: "n1"})
	must(t, err)
	if n := len(o.json(pod, false)); n < 1000 || n > 1500 {
		t.Errorf("a@1+1000 has %d bytes", n)
	}
	bad, err := parseObject("a@1!", objectDefaults{})
	must(t, err)
	if _, _, err := srv.codecs.compact.Decode(bad.json(pod, false), nil, &corev1.Pod{}); err == nil {
		t.Error("a@1! decodes from JSON")
	}
	if _, _, err := srv.codecs.protobuf.Decode(protobufEnvelope(pod, bad.protobuf()), nil, &corev1.Pod{}); err == nil {
		t.Error("a@1! decodes from protobuf")
	}
}

// FuzzParseScript: whatever is in a file, parsing ends with a script or with
// errors that have a position.
func FuzzParseScript(f *testing.F) {
	seeds, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range seeds {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("> LIST rv=* times=9999 after=..1s\n< chunk 1 upper zeros=3\n< cut 5 RST\n< list - a@1 meta=last\nconfig a=b\nstore\n-- f --\nx"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseScript("s", text)
		if (s == nil) == (err == nil) {
			t.Fatalf("script %v, error %v", s, err)
		}
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if strings.HasPrefix(line, "s:") {
					return
				}
			}
			t.Errorf("no position in %q", err)
		}
	})
}
