package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http/httputil"
	"os"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
)

// byteScanner is JSONScanner a byte at a time: what it does, without how it is made fast.
type byteScanner struct {
	place place
	open  []byte
}

func (s *byteScanner) scan(p []byte) (n int, done bool, fault string) {
	for i, c := range p {
		end, fault := s.step(c)
		switch {
		case fault != "":
			return i, false, fault
		case end && s.place == inScalar:
			return i, true, ""
		case end:
			return i + 1, true, ""
		}
	}
	return len(p), false, ""
}

// step takes one byte. end is true at the last byte of the value, or at the first behind a scalar.
func (s *byteScanner) step(c byte) (end bool, fault string) {
	switch s.place {
	case atStart:
		switch classOf[c] {
		case scalar:
			s.place = inScalar
			return false, ""
		case open, quote:
			s.place = between
			return s.step(c)
		}
		return false, "a JSON value should begin here"
	case inScalar:
		return classOf[c] != scalar, ""
	case inEscape:
		if c < ' ' {
			return false, faultControl
		}
		s.place = inString
		return false, ""
	case inString:
		switch {
		case c == '"':
			s.place = between
			return len(s.open) == 0, ""
		case c == '\\':
			s.place = inEscape
		case c < ' ':
			return false, faultControl
		}
		return false, ""
	}
	switch classOf[c] {
	case quote:
		s.place = inString
	case open:
		if len(s.open) == MaxDepth {
			return false, "JSON nested too deep"
		}
		s.open = append(s.open, c+2) // what shuts it stands two behind
	case shut:
		top := len(s.open) - 1
		if top < 0 || s.open[top] != c {
			return false, "bracket that closes nothing"
		}
		s.open = s.open[:top]
		return top == 0, ""
	case bad:
		return false, "byte that JSON does not know"
	}
	return false, ""
}

// FuzzScan: a value ends where it ends a byte at a time, however it is cut; and where sigs.k8s.io/json and
// encoding/json take a text for one value, it ends at its last byte.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,"\"]",{}]} `, `[[[]]]x`, `"\ud83d\ude00"`, `-1e5,`, `nul`, "{\"a\"\n:\r\n1}", `{]`, "[\"\x01\"]", "[\"\\\x01\"]", "[\x01]",
		`{"k:{\"name\":\"server\"}":{".":{},"f:args":{}},"é":"日本語 \\"}`, strings.Repeat("[", 70) + strings.Repeat("]", 70),
		`{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"p","annotations":{"a":"}}\n{"}}}}` + "\n",
	} {
		f.Add([]byte(s), uint16(len(s)/2))
	}
	for _, line := range recorded(f, "watchlist-sharded") {
		f.Add(line, uint16(len(line)/3))
	}
	f.Fuzz(func(t *testing.T, text []byte, at uint16) {
		cut := int(at) % (len(text) + 1)
		var want byteScanner
		n, done, fault := want.scan(text)
		var s JSONScanner
		if n2, done2, fault2 := s.Scan(text); n2 != n || done2 != done || fault2 != fault {
			t.Fatalf("%d, %v, %q; a byte at a time %d, %v, %q", n2, done2, fault2, n, done, fault)
		}
		s.Reset()
		n2, done2, fault2 := s.Scan(text[:cut])
		if !done2 && fault2 == "" {
			var more int
			more, done2, fault2 = s.Scan(text[cut:])
			n2 += more
		}
		if n2 != n || done2 != done || fault2 != fault {
			t.Fatalf("cut at %d: %d, %v, %q; a byte at a time %d, %v, %q", cut, n2, done2, fault2, n, done, fault)
		}
		end, err := ValueEnd(text)
		switch {
		case done && (end != n || err != nil):
			t.Fatalf("ValueEnd: %d, %v, want %d", end, err, n)
		case fault != "" && !errors.As(err, new(*SyntaxError)), fault == "" && !done && err != io.ErrUnexpectedEOF:
			t.Fatalf("ValueEnd: %v, the scanner says %q", err, fault)
		}
		if len(text) == 0 || text[0] != '{' && text[0] != '[' && text[0] != '"' {
			return
		}
		var raw json.RawMessage
		if kjson.UnmarshalCaseSensitivePreserveInts(text, &raw) == nil && !(done && n == len(bytes.TrimRight(text, " \t\r\n"))) {
			t.Fatalf("one value to sigs.k8s.io/json, %d, %v, %q here", n, done, fault)
		}
	})
}

// recorded are the lines of a watch of a kube-apiserver.
func recorded(t testing.TB, name string) [][]byte {
	t.Helper()
	chunked, err := os.ReadFile("../testdata/wire/" + name + ".body")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(chunked)))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(body), []byte("\n"))
	if len(lines) < 3 {
		t.Fatalf("%s has %d events", name, len(lines))
	}
	return lines
}

func TestValueEnd(t *testing.T) {
	for text, want := range map[string]int{`{}`: 2, `{"a":"}"}}`: 9, `"x" `: 3, `[{}] {}`: 4, `7,`: 1} {
		if got, err := ValueEnd([]byte(text)); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{``, `{`, `{"a`, `{"a":1`, `7`} {
		if got, err := ValueEnd([]byte(text)); err != io.ErrUnexpectedEOF {
			t.Errorf("%s: %d, %v, want io.ErrUnexpectedEOF", text, got, err)
		}
	}
	_, err := ValueEnd([]byte("{\"a\":\x01}"))
	if syntax := (*SyntaxError)(nil); !errors.As(err, &syntax) || syntax.Offset != 5 {
		t.Errorf("a control byte: %v, want a SyntaxError at 5", err)
	}
}
