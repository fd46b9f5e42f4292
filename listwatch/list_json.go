package listwatch

import (
	"errors"
	"fmt"
	"io"

	kjson "sigs.k8s.io/json"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

const (
	maxKindBytes = 1 << 10
	maxMetaBytes = 1 << 20
)

// errTwice is for what a list has once. Which of the two counts, readers of
// JSON and of protobuf do not agree on.
var errTwice = errors.New("the list has it twice")

// json reads a list in JSON. Its members come in any order: a server writes
// the lists of built-in types with the kind in front and those of custom
// resources in alphabetical order, the items before kind and metadata.
func (l *listReader[T]) json() error {
	list, err := l.r.Object()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for {
		key, ok, err := list.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		name := string(key)
		switch name {
		case "kind", "apiVersion", "metadata", "items":
			if seen[name] {
				return fmt.Errorf("%q: %w", name, errTwice)
			}
			seen[name] = true
		}
		if err := l.jsonMember(name); err != nil {
			return err
		}
	}
	if err := l.jsonEnd(); err != nil {
		return err
	}
	return l.finish()
}

func (l *listReader[T]) jsonMember(name string) error {
	switch name {
	case "kind":
		text, err := l.r.String(maxKindBytes)
		if err != nil {
			return err
		}
		l.kind = string(text)
		return l.checkKind()
	case "apiVersion":
		text, err := l.r.String(maxKindBytes)
		l.apiVersion = string(text)
		return err
	case "metadata":
		raw, err := l.r.Value(maxMetaBytes, nil)
		if err != nil {
			return err
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &l.meta); err != nil {
			return fmt.Errorf("metadata of the list: %w", err)
		}
		return l.handMeta()
	case "items":
		l.hasItems = true
		return l.jsonItems()
	}
	return l.r.SkipValue()
}

func (l *listReader[T]) jsonItems() error {
	if c, err := l.r.SkipSpace(); err != nil {
		return frame.Inside(err)
	} else if c == 'n' {
		return l.null("items")
	}
	items, err := l.r.Array()
	if err != nil {
		return err
	}
	for {
		ok, err := items.Next()
		if !ok || err != nil {
			return err
		}
		if err := l.jsonItem(); err != nil {
			return err
		}
	}
}

// jsonItem reads one item. One that is whole in the window is looked at once, to find its metadata
// and its end; of any other the end is found first, as its bytes come.
func (l *listReader[T]) jsonItem() error {
	if c, err := l.r.SkipSpace(); err == nil && c == '{' {
		window := l.r.Window()
		meta, end, err := l.peek.PeekJSON(window)
		if err == nil && end <= l.lw.config.MaxItemBytes {
			l.r.Discard(end)
			return l.hand(decode.NewObject(meta, decode.JSON, window[:end:end], l.decoder))
		}
	}
	l.head = decode.Meta{}
	raw, err := l.r.Value(l.lw.config.MaxItemBytes, l.headJSON)
	return l.item(decode.JSON, raw, err)
}

// null consumes the word null.
func (l *listReader[T]) null(what string) error {
	raw, err := l.r.Value(len("null"), nil)
	var longer *frame.TooLargeError
	if err != nil && !errors.As(err, &longer) {
		return err
	}
	if string(raw) != "null" {
		return fmt.Errorf("%s of the list is neither an array nor null", what)
	}
	return nil
}

// jsonEnd reads the body to its end, where nothing but blanks may stand. It
// finds out too whether the transport's end was a clean one.
func (l *listReader[T]) jsonEnd() error {
	_, err := l.r.SkipSpace()
	if err == io.EOF {
		return nil
	}
	if err == nil {
		err = errors.New("more bytes behind the list")
	}
	return err
}
