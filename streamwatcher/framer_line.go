package streamwatcher

import (
	"bytes"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// jsonLine takes the next line for one event, if it looks as API servers write it. So the bytes of
// most events are not looked at to find out where they end, but only to decode them.
//
// What is known of the line is that it begins as an event, that metadata begins its object, and that it
// ends as an event does. What is not known is whether the object ends there. It can have
// ended before, with another event behind it in the line, or be damaged. So the line stays in
// the window until that is known: from decoding, which takes one whole value only, or else from
// a look at it, in [framer.settle], before the next event.
func (f *framer) jsonLine(ev *frameEvent) bool {
	line := f.line()
	event := bytes.TrimRight(line, " \t\r")
	typ, size := linePrefix(event)
	if typ == "" || len(event) > f.max {
		return false
	}
	raw, ok := bytes.CutSuffix(event[size:], []byte("}"))
	if !ok || len(raw) < 2 || raw[0] != '{' || raw[len(raw)-1] != '}' {
		return false
	}
	meta, err := f.peeker.Identify(decode.JSON, raw)
	if err != nil {
		return false
	}
	*ev = frameEvent{typ: typ, enc: decode.JSON, meta: meta, raw: raw, line: len(line) + 1}
	return true
}

// line returns the line that the window begins with, without its end, or nil when it is not there yet. It
// waits for the rest of a line only where events are lines, and where the event cannot be whole yet: it
// would end with a bracket.
func (f *framer) line() []byte {
	for seen := 0; ; {
		w := f.r.Window()
		if n := bytes.IndexByte(w[seen:], '\n'); n >= 0 {
			behind := bytes.TrimLeft(w[seen+n:], " \t\r\n")
			if len(behind) > 0 && behind[0] != '{' {
				return nil // no event begins there, so this one may go on
			}
			return w[:seen+n]
		}
		seen = len(w)
		switch w[seen-1] {
		case '}', ' ', '\t', '\r':
			return nil
		}
		if !f.lines || seen > f.max || f.r.More() != nil {
			return nil // an error comes again when it is asked for more
		}
	}
}

// linePrefix returns the type that a line is of, and the length of what stands before its object. Types whose
// objects are not decoded, or are no objects, are left to jsonMembers.
func linePrefix(line []byte) (watch.EventType, int) {
	for i := range linePrefixes {
		if p := &linePrefixes[i]; len(line) > len(p.text) && string(line[:len(p.text)]) == p.text {
			return p.typ, len(p.text)
		}
	}
	return "", 0
}

var linePrefixes = func() (all [3]struct {
	typ  watch.EventType
	text string
}) {
	for i, typ := range []watch.EventType{watch.Modified, watch.Added, watch.Deleted} {
		all[i].typ, all[i].text = typ, `{"type":"`+string(typ)+`","object":`
	}
	return all
}()

// settle ends what jsonLine began: it consumes the event ev, of which the line stands in the window. size
// is the object's true length, or broken says that none ends in the line. An event that is not a line is read
// once more by its brackets, to get behind it, or to find out what is wrong with it.
//
// again says that ev, whose object goes on behind the line, is whole now and is to be handed on
// once more. What was handed on before did not decode.
func (f *framer) settle(ev *frameEvent, size int, broken error) (again bool, err error) {
	if broken == nil && size == len(ev.raw) {
		f.r.Discard(ev.line)
		return false, nil
	}
	*ev = frameEvent{}
	err = f.jsonMembers(ev)
	return broken != nil && err == nil, err
}
