package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFaults(t *testing.T) {
	cases := []struct {
		name, text string
		offset     int64
		msg        string
	}{
		{"html", `<html>`, 0, "should begin"},
		{"other bracket", `{"a":[}`, 6, "closes nothing"},
		{"bracket first", `]`, 0, "should begin"},
		{"comma first", `,`, 0, "should begin"},
		{"newline in a string", "{\"a\":\"x\ny\"}", 7, "control character"},
		{"zero in a string", "[\"\x00\"]", 2, "control character"},
		{"newline behind a backslash", "[\"\\\n\"]", 3, "control character"},
		{"apostrophe", `['a']`, 1, "does not know"},
		{"control byte outside of strings", "[1\x01]", 2, "does not know"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			each(t, c.text+`          `, func(t *testing.T, r *Reader) {
				err := r.SkipValue()
				var syntax *SyntaxError
				if !errors.As(err, &syntax) {
					t.Fatalf("got %v, want a SyntaxError", err)
				}
				if syntax.Offset != c.offset || !strings.Contains(syntax.Msg, c.msg) {
					t.Errorf("got %q at %d, want %q at %d", syntax.Msg, syntax.Offset, c.msg, c.offset)
				}
			})
		})
	}
}

// A value that nests too deep costs itself only, as one that is too large.
func TestTooDeepValueIsSkipped(t *testing.T) {
	const head = `{"name":"a","x":`
	deep := func(levels int) string {
		return head + strings.Repeat(`[{"a":`, levels/2) + `"]}"` + strings.Repeat(`}]`, levels/2) + `}`
	}
	text := deep(MaxDepth-2) + deep(MaxDepth) + deep(4*MaxDepth) + ` {"b":1}`
	each(t, text, func(t *testing.T, r *Reader) {
		if got, err := r.Value(1<<20, nil); err != nil || string(got) != deep(MaxDepth-2) {
			t.Fatalf("%d bytes, %v, of a value that is as deep as may be", len(got), err)
		}
		for _, levels := range []int{MaxDepth, 4 * MaxDepth} {
			seen := ""
			got, err := r.Value(1<<20, func(b []byte) { seen = string(b) })
			var e *TooLargeError
			if !errors.As(err, &e) || !e.Deep || e.Size != int64(len(deep(levels))) || got != nil || seen != deep(levels) {
				t.Fatalf("%d levels: %d bytes, %v, %d handed on", levels, len(got), err, len(seen))
			}
			if !strings.Contains(err.Error(), "nest deeper than 10000 levels") {
				t.Errorf("error is %q", err)
			}
		}
		if got, err := r.Value(1<<20, nil); err != nil || string(got) != `{"b":1}` {
			t.Errorf("behind them: %q, %v", got, err)
		}
	})
	if _, err := ValueEnd([]byte(deep(MaxDepth))); err == nil || !strings.Contains(err.Error(), "too deep") {
		t.Errorf("ValueEnd: %v", err)
	}
}

// An error names one byte: what stands around it may be secret.
func TestErrorDoesNotQuoteTheValue(t *testing.T) {
	r := NewReader(strings.NewReader("{\"password\":\"hunter2\n\"}"))
	err := r.SkipValue()
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestSnippet(t *testing.T) {
	for in, want := range map[string]string{
		"":                             `""`,
		"<html>\n":                     `"<html>\n"`,
		"\x00\x1b[31mred":              `"\x00\x1b[31mred"`,
		"é":                            `"\u00e9"`,
		strings.Repeat("a", 100):       `"` + strings.Repeat("a", 48) + `"...`,
		strings.Repeat("a", 47) + "éé": `"` + strings.Repeat("a", 47) + `"...`,
	} {
		if got := Snippet([]byte(in)); got != want {
			t.Errorf("Snippet(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestWalk(t *testing.T) {
	text := ` { "a" : [ 1 , "two", {"three":3} , [] ] , "b":{} , "\u0061\"":null } `
	each(t, text, func(t *testing.T, r *Reader) {
		var walked []string
		obj, err := r.Object()
		if err != nil {
			t.Fatal(err)
		}
		for {
			key, ok, err := obj.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			walked = append(walked, string(key))
			if string(key) != "a" {
				if err := r.SkipValue(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			arr, err := r.Array()
			if err != nil {
				t.Fatal(err)
			}
			for {
				ok, err := arr.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				v, err := r.Value(100, nil)
				if err != nil {
					t.Fatal(err)
				}
				walked = append(walked, string(v))
			}
		}
		if got, want := strings.Join(walked, " "), `a 1 "two" {"three":3} [] b a"`; got != want {
			t.Errorf("walked %s, want %s", got, want)
		}
		if r.Offset() != int64(len(text)-1) {
			t.Errorf("offset %d, want behind the bracket", r.Offset())
		}
	})
}

func TestWalkRefuses(t *testing.T) {
	for _, text := range []string{
		`[]`, `x`, `{1:2}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":1,}`, `{,}`, `{"a":1,,"b":1}`, `{"a":}`, `{"a\x":1}`, `{"a":1]`,
	} {
		if err := walk(NewReader(strings.NewReader(text + " "))); !errors.As(err, new(*SyntaxError)) {
			t.Errorf("%s: %v, want a SyntaxError", text, err)
		}
	}
	for _, text := range []string{``, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`} {
		if err := walk(NewReader(strings.NewReader(text))); err != io.ErrUnexpectedEOF {
			t.Errorf("%s: %v, want io.ErrUnexpectedEOF", text, err)
		}
	}
}

func walk(r *Reader) error {
	obj, err := r.Object()
	if err != nil {
		return err
	}
	for {
		_, ok, err := obj.Next()
		if !ok {
			return err
		}
		if err := r.SkipValue(); err != nil {
			return err
		}
	}
}

func TestStringLimit(t *testing.T) {
	each(t, `"12345" "123456"`, func(t *testing.T, r *Reader) {
		if s, err := r.String(5); err != nil || string(s) != "12345" {
			t.Errorf("got %q, %v", s, err)
		}
		if s, err := r.String(5); !errors.As(err, new(*SyntaxError)) {
			t.Errorf("got %q, %v, want a SyntaxError", s, err)
		}
	})
}

// FuzzValue: what encoding/json takes for a value, ends at the same byte here,
// however it is cut; and nothing makes the scanner hang or panic.
func FuzzValue(f *testing.F) {
	for _, s := range []string{`{"a":[1,"\"]",{}]} `, `[[[]]]x`, `"\ud83d\ude00"`, `-1e5,`, `nul`, "{\"a\"\n:\r\n1}", `{]`} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		one, err1 := NewReader(bytes.NewReader(text)).Value(1<<20, nil)
		if cut = cut % (len(text) + 1); cut < 0 {
			cut = -cut
		}
		two, err2 := NewReader(io.MultiReader(bytes.NewReader(text[:cut]), iotest.OneByteReader(bytes.NewReader(text[cut:])))).Value(1<<20, nil)
		if !bytes.Equal(one, two) || (err1 == nil) != (err2 == nil) || err1 != nil && err1.Error() != err2.Error() {
			t.Fatalf("whole: %q, %v; cut at %d: %q, %v", one, err1, cut, two, err2)
		}
		var raw json.RawMessage
		dec := json.NewDecoder(bytes.NewReader(text))
		if dec.Decode(&raw) != nil {
			return
		}
		if err1 == io.ErrUnexpectedEOF && int(dec.InputOffset()) == len(text) {
			return // a number or word at the very end may go on
		}
		if c := raw[0]; c != '{' && c != '[' && c != '"' {
			return // json.Decoder ends a number where the grammar does: 1-1 is two
		}
		if err1 != nil || !bytes.Equal(raw, one) {
			t.Fatalf("%q, %v, encoding/json says %q", one, err1, raw)
		}
	})
}

// FuzzUnquote: a string is what encoding/json says it is.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{`"plain"`, `"\u00e9\n\/"`, `"\ud83d\ude00 \ud83d \ude00\ud83d"`, "\"\xff\xfe\\u0041\"", `"\'"`, `"\u12"`, `"a"b"`, `"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, quoted []byte) {
		if len(quoted) == 0 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
			return
		}
		var want string
		wantErr := json.Unmarshal(quoted, &want)
		got, ok := Unquote(bytes.Clone(quoted))
		if ok != (wantErr == nil) || ok && string(got) != want {
			t.Fatalf("Unquote(%q) = %q, %v; encoding/json: %q, %v", quoted, got, ok, want, wantErr)
		}
	})
}
