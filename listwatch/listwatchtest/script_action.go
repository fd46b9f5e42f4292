package listwatchtest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ends are the words that end an answer.
var ends = []string{"END", "FIN", "RST", "CUT", "TIMEOUT", "hold", "hang", "refused", "serve"}

func isEnd(word string) bool { return slices.Contains(ends, word) }

// parseAction parses what follows < in a script.
func parseAction(text string, s *Script) (func(*exchange) error, error) {
	word, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	if isEnd(word) && rest != "" {
		return nil, fmt.Errorf("%s stands alone", word)
	}
	if do, ok, err := parseShape(word, rest); ok {
		return do, err
	}
	switch word {
	case "":
		return nil, errors.New("an empty answer line")
	case "END":
		return (*exchange).end, nil
	case "FIN":
		return (*exchange).fin, nil
	case "RST":
		return (*exchange).reset, nil
	case "CUT":
		return (*exchange).cutEvent, nil
	case "TIMEOUT":
		return (*exchange).timeout, nil
	case "hold":
		return (*exchange).hold, nil
	case "hang":
		return (*exchange).hang, nil
	case "refused", "serve": // Play and Dial see to these
		return func(*exchange) error { return nil }, nil
	case "delay", "sleep":
		d, err := parseSpan(rest)
		if word == "delay" {
			return func(x *exchange) error { return x.pause(d) }, err
		}
		return func(x *exchange) error {
			if err := x.sendOff(); err != nil {
				return err
			}
			return x.pause(d)
		}, err
	case "flush":
		return (*exchange).sendOff, nil
	case "list":
		l, err := parseList(rest, s.defaults)
		return func(x *exchange) error { return x.list(&l) }, err
	case "table":
		return func(x *exchange) error { return x.whole(200, mediaJSON, tableBody(rest)) }, nil
	case "html", "empty":
		code, text, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(code)
		if err != nil || n < 200 || n > 999 {
			return nil, fmt.Errorf("%s %s: write %s CODE", word, rest, word)
		}
		if word == "empty" {
			return func(x *exchange) error { return x.whole(n, "", nil) }, nil
		}
		page := fmt.Sprintf("<!DOCTYPE html>\n<html><head><title>%s</title></head><body>%[1]s</body></html>\n", text)
		return func(x *exchange) error { return x.whole(n, "text/html; charset=utf-8", []byte(page)) }, nil
	case "raw":
		return func(x *exchange) error { return x.payload([]byte(rest + "\n")) }, nil
	case "text", "wire":
		b, err := strconv.Unquote(rest)
		if err != nil {
			return nil, fmt.Errorf("%s %s: write a quoted Go string", word, rest)
		}
		if word == "wire" {
			return func(x *exchange) error { return x.bare([]byte(b)) }, nil
		}
		return func(x *exchange) error { return x.payload([]byte(b)) }, nil
	case "hex":
		b, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
		return func(x *exchange) error { return x.payload(b) }, err
	case "file":
		b, ok := s.files[rest]
		if !ok {
			return nil, fmt.Errorf("file %s: there is no -- %s -- below", rest, rest)
		}
		return func(x *exchange) error { return x.payload(b) }, nil
	case "beat", "churn", "flood":
		return parseRepeated(word, strings.Fields(rest), s.defaults)
	}
	if word[0] >= '0' && word[0] <= '9' {
		st, err := parseStatus(text)
		return func(x *exchange) error { return x.status(st) }, err
	}
	if strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return parseEvent(word, rest, s)
	}
	return nil, fmt.Errorf("%s is no answer", word)
}

// parseShape parses the lines that say how the rest of the answer is sent.
func parseShape(word, rest string) (do func(*exchange) error, ok bool, err error) {
	switch word {
	case "code":
		number, text, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(number)
		if err != nil || n < 100 || n > 999 {
			err = fmt.Errorf("code %s: it has three digits", rest)
		}
		return func(x *exchange) error { x.code, x.codeText = n, text; return nil }, true, err
	case "header", "trailer":
		name, value, colon := strings.Cut(rest, ":")
		remove, without := strings.CutPrefix(rest, "-")
		switch {
		case word == "header" && without:
			name = textproto.CanonicalMIMEHeaderKey(remove)
			return func(x *exchange) error { x.header.Del(name); x.without = append(x.without, name); return nil }, true, nil
		case !colon:
			return nil, true, fmt.Errorf("%s %s: write NAME: VALUE, or header -NAME", word, rest)
		}
		value = strings.TrimSpace(value)
		if word == "trailer" {
			return func(x *exchange) error { x.trailers += name + ": " + value + "\r\n"; return nil }, true, nil
		}
		return func(x *exchange) error { x.header.Add(name, value); return nil }, true, nil
	case "as":
		if !slices.Contains([]string{"json", "protobuf", "pretty"}, rest) {
			return nil, true, fmt.Errorf("as %s: there are json, pretty and protobuf", rest)
		}
		return func(x *exchange) error { x.as = rest; return nil }, true, nil
	case "length":
		switch n, err := strconv.ParseInt(rest, 10, 64); {
		case rest == "none":
			return func(x *exchange) error { x.framing = unframed; return nil }, true, nil
		case err != nil || n < 0:
			return nil, true, fmt.Errorf("length %s: write a number of bytes, or none", rest)
		default:
			return func(x *exchange) error { x.framing, x.length = byLength, n; return nil }, true, nil
		}
	case "chunk":
		c, err := parseChunking(rest)
		return func(x *exchange) error { x.framing, x.chunking = chunked, c; return nil }, true, err
	case "gzip":
		if !slices.Contains([]string{"stream", "members", "unflushed"}, rest) {
			return nil, true, fmt.Errorf("gzip %s: there are stream, members and unflushed", rest)
		}
		return func(x *exchange) error { x.zip = rest; x.header.Set("Content-Encoding", "gzip"); return nil }, true, nil
	case "segment":
		size, pause, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(size)
		if err == nil && n < 1 {
			err = fmt.Errorf("segment %s: at least 1 byte", rest)
		}
		var d time.Duration
		if err == nil && pause != "" {
			d, err = parseSpan(pause)
		}
		return func(x *exchange) error { x.segment, x.pace = n, d; return nil }, true, err
	case "cut":
		where, how, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(where, 10, 64)
		if err != nil || n < 0 || !slices.Contains([]string{"FIN", "RST", "hold"}, how) {
			err = fmt.Errorf("cut %s: write cut BYTES FIN, RST or hold", rest)
		}
		return func(x *exchange) error { x.cutting, x.cutLeft, x.cutHow = true, n, how; return nil }, true, err
	case "part":
		n, err := strconv.Atoi(rest)
		return func(x *exchange) error { x.partial, x.part = true, n; return nil }, true, err
	}
	return nil, false, nil
}

// chunking is where the chunks of a body end and how their headers look.
type chunking struct {
	size   int    // of each; 0: one an event
	blocks bool   // nothing is sent before a chunk is full
	ext    string // ";a=b"
	upper  bool
	zeros  int
}

func parseChunking(text string) (chunking, error) {
	c := chunking{}
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "each":
		case "all":
			c.size, c.blocks = 1<<30, true
		case "blocks":
			c.blocks = true
		case "upper":
			c.upper = true
		case "ext":
			c.ext = ";" + value
		case "zeros":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > 1000 {
				return c, fmt.Errorf("chunk %s: write zeros=N", text)
			}
			c.zeros = n
		default:
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return c, fmt.Errorf("chunk %s: there are each, all, a number of bytes, blocks, upper, zeros=N and ext=TEXT", text)
			}
			c.size = n
		}
	}
	if c.blocks && c.size == 0 {
		return c, fmt.Errorf("chunk %s: blocks of how many bytes", text)
	}
	return c, nil
}

// parseRepeated parses the lines that send many events.
func parseRepeated(word string, f []string, d objectDefaults) (func(*exchange) error, error) {
	usage := map[string]string{
		"beat": "beat PERIOD TIMES RV", "churn": "churn PERIOD TIMES NAME RV", "flood": "flood TIMES TYPE OBJECT",
	}[word]
	if len(f) != len(strings.Fields(usage))-1 {
		return nil, errors.New("write " + usage)
	}
	if word == "flood" {
		n, err := strconv.Atoi(f[0])
		o, err2 := parseObject(f[2], d)
		return func(x *exchange) error {
			for range n {
				if err := x.event(f[1], x.encodeObject(&o)); err != nil {
					return err
				}
			}
			return nil
		}, errors.Join(err, err2)
	}
	period, err := parseSpan(f[0])
	n, err2 := strconv.Atoi(f[1])
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("%s: %w", usage, err)
	}
	if word == "beat" {
		return func(x *exchange) error {
			return x.every(period, n, func(int) error { return x.bookmark(bookmark{rv: f[2]}) })
		}, nil
	}
	rv, err := strconv.Atoi(f[3])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", usage, err)
	}
	o, err := parseObject(f[2]+"@1", d)
	return func(x *exchange) error {
		return x.every(period, n, func(i int) error {
			next := o
			next.rv = strconv.Itoa(rv + i)
			return x.event("MODIFIED", x.encodeObject(&next))
		})
	}, err
}

// parseEvent parses the lines that begin with the type of an event.
func parseEvent(word, rest string, s *Script) (func(*exchange) error, error) {
	if literal, ok, err := s.literal(rest); ok || err != nil {
		return func(x *exchange) error {
			raw, err := x.encodeLiteral(literal)
			if err != nil {
				return err
			}
			return x.event(word, raw)
		}, err
	}
	switch word {
	case "BOOKMARK", "MARK":
		k := bookmark{rv: rest, end: word == "MARK"}
		if strings.Contains(rest, " ") || rest == "" {
			return nil, fmt.Errorf("%s %s: write %s RV, or - for none", word, rest, word)
		}
		if rest == "-" {
			k.rv = ""
		}
		return func(x *exchange) error { return x.bookmark(k) }, nil
	case "ERROR":
		st, err := parseStatus(rest)
		return func(x *exchange) error {
			raw, err := x.encode(st)
			if err != nil {
				return err
			}
			return x.event(word, raw)
		}, err
	}
	var objects []object
	for _, w := range strings.Fields(rest) {
		o, err := parseObject(w, s.defaults)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s of what: write objects, JSON, or @FILE", word)
	}
	return func(x *exchange) error {
		for i := range objects {
			if err := x.event(word, x.encodeObject(&objects[i])); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// literal returns the JSON that a line gives as it is: {...} or @FILE.
func (s *Script) literal(text string) (raw []byte, ok bool, err error) {
	if name, file := strings.CutPrefix(text, "@"); file {
		raw, found := s.files[name]
		if !found {
			return nil, false, fmt.Errorf("@%s: there is no -- %s -- below", name, name)
		}
		return []byte(strings.TrimSpace(string(raw))), true, nil
	}
	return []byte(text), strings.HasPrefix(text, "{"), nil
}

// tableBody is a Table as kubectl asks for; nobody else should get one.
func tableBody(names string) []byte {
	rows := ""
	for i, name := range strings.Fields(names) {
		if i > 0 {
			rows += ","
		}
		rows += fmt.Sprintf(`{"cells":[%q],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%[1]q,"namespace":"default","uid":"uid-%[1]s","resourceVersion":"90"}}}`, name)
	}
	return []byte(`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"100"},"columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"","priority":0}],"rows":[` + rows + `]}`)
}
