package streamwatcher

import (
	"errors"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// maxTypeBytes bounds the word in "type".
const maxTypeBytes = 256

// json reads one {"type":…,"object":…}. API servers write each on a line of its own, the type
// first; those are taken by the line. In all others the members are walked as they come
// from the stream, in any order, with others between them; line breaks mean nothing.
func (f *framer) json(ev *frameEvent) error {
	if c, err := f.r.SkipSpace(); err != nil {
		return err
	} else if c != '{' {
		return f.notAnEvent("not a JSON watch event")
	}
	if f.jsonLine(ev) {
		return nil
	}
	err := f.jsonMembers(ev)
	w := f.r.Window()
	f.lines = err == nil && len(w) > 0 && w[0] == '\n'
	return err
}

// jsonMembers reads one event by its brackets. It stands at the first of them.
func (f *framer) jsonMembers(ev *frameEvent) error {
	ev.enc = decode.JSON
	f.frameAt, f.objectAt, f.headMeta = f.r.Offset(), -1, decode.Meta{}
	objectEnd := 0

	f.r.Keep(f.max, f.spillJSON)
	members, err := f.r.Object()
	if err != nil {
		return err
	}
	for {
		key, ok, err := members.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if f.r.Offset()-f.frameAt > f.giveUp {
			return &frame.SyntaxError{Offset: f.frameAt, Msg: "JSON watch event without end"}
		}
		switch string(key) {
		case "type":
			if ev.typ != "" {
				return f.twice()
			}
			word, err := f.r.String(maxTypeBytes)
			if err != nil {
				return err
			}
			ev.typ = eventType(word)
		case "object":
			if f.objectAt >= 0 {
				return f.twice()
			}
			if _, err := f.r.SkipSpace(); err == nil {
				f.objectAt = int(f.r.Offset() - f.frameAt)
			}
			if err := f.r.SkipValue(); err != nil {
				return err
			}
			objectEnd = int(f.r.Offset() - f.frameAt)
		default:
			if err := f.r.SkipValue(); err != nil {
				return err
			}
		}
	}
	if ev.typ == "" {
		return &frame.SyntaxError{Offset: f.frameAt, Msg: "JSON object that is no watch event, it has no type,"}
	}

	whole, err := f.r.Kept()
	tooLarge, isLarge := errors.AsType[*frame.TooLargeError](err)
	switch {
	case isLarge:
		ev.fault, ev.meta = tooLarge, f.headMeta
	case f.objectAt < 0:
		ev.fault = errNoObject
	default:
		ev.raw = whole[f.objectAt:objectEnd:objectEnd]
	}
	switch {
	case ev.typ == watch.Error:
		f.setStatus(ev, decode.JSON, ev.raw)
		ev.meta = decode.Meta{}
	case ev.fault == nil && ev.typ == watch.Bookmark:
		ev.meta, ev.fault = f.peeker.Peek(decode.JSON, ev.raw)
	case ev.fault == nil:
		ev.meta, ev.fault = f.peeker.Identify(decode.JSON, ev.raw)
	}
	return nil
}

// twice is the error of an event that has its type or its object twice. Which of them counts would hang
// on how much of the event was looked at when it was handed on.
func (f *framer) twice() error {
	return &frame.SyntaxError{Offset: f.frameAt, Msg: "JSON watch event with two types or two objects"}
}

// peekHeadJSON gets what metadata the head of a frame over the limit has.
func (f *framer) peekHeadJSON(head []byte) {
	if f.objectAt >= 0 && f.objectAt < len(head) {
		m, _ := f.peeker.Identify(decode.JSON, head[f.objectAt:])
		f.headMeta = m.Clone() // the head is given up
	}
}
