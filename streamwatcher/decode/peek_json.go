package decode

import (
	"fmt"
	"io"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
	"github.com/nodewatch-go/nodewatch/streamwatcher/frame"
)

// extent is how far into an object a peek goes.
type extent uint8

const (
	// toIdentity: up to where all of Meta is known but InitialEventsEnd. Servers write the
	// identity before labels, annotations and managedFields, which are not looked at then.
	toIdentity extent = iota
	// toMetadata: up to where metadata ends, and kind and apiVersion are known.
	toMetadata
	// toEnd: all of the object, whose end is wanted too.
	toEnd
)

// members is a set of members that were seen.
type members uint8

const (
	apiVersionMember members = 1 << iota
	kindMember
	metadataMember
	nameMember
	namespaceMember
	uidMember
	resourceVersionMember

	metadataKnown = apiVersionMember | kindMember | metadataMember
	identityKnown = apiVersionMember | kindMember | nameMember | namespaceMember | uidMember | resourceVersionMember
)

// jsonPeek is one peek into a JSON text. It checks of it what framing checks, as far as it comes.
type jsonPeek struct {
	b    []byte
	i    int // the next byte
	far  extent
	seen members
	m    Meta // what is known
	scan frame.JSONScanner
}

// begin makes p ready for the next text. m is what is known without it.
func (p *jsonPeek) begin(b []byte, far extent, m Meta) {
	p.b, p.i, p.far, p.seen, p.m = b, 0, far, 0, m
}

// end returns what was found, and forgets the text.
func (p *jsonPeek) end() (m Meta, end int) {
	m, end = p.m, p.i
	p.begin(nil, 0, Meta{})
	return m, end
}

// object reads the object itself. As in encoding/json a null changes nothing, and of a
// member that comes twice within what is read the second counts.
func (p *jsonPeek) object() error {
	if p.blanks() != '{' {
		return p.syntax("'{' should stand here")
	}
	p.i++
	for first := true; ; first = false {
		key, ok, err := p.member(first)
		if !ok {
			return err
		}
		switch string(key) {
		case "apiVersion":
			p.seen |= apiVersionMember
			err = p.text(&p.m.APIVersion)
		case "kind":
			p.seen |= kindMember
			err = p.text(&p.m.Kind)
		case "metadata":
			p.seen |= metadataMember
			err = p.metadata()
		default:
			err = p.skip()
		}
		if err != nil || p.identified() || p.far == toMetadata && p.seen&metadataKnown == metadataKnown {
			return err
		}
	}
}

// identified tells whether nothing is left to look for.
func (p *jsonPeek) identified() bool {
	return p.far == toIdentity && p.seen&identityKnown == identityKnown
}

// metadata reads the value of "metadata", or as much of it as is needed.
func (p *jsonPeek) metadata() error {
	ok, err := p.enter()
	if !ok {
		return err
	}
	for first := true; ; first = false {
		key, ok, err := p.member(first)
		if !ok {
			return err
		}
		switch string(key) {
		case "name":
			p.seen |= nameMember
			err = p.text(&p.m.Name)
		case "namespace":
			p.seen |= namespaceMember
			err = p.text(&p.m.Namespace)
		case "uid":
			p.seen |= uidMember
			err = p.text((*string)(&p.m.UID))
		case "resourceVersion":
			p.seen |= resourceVersionMember
			err = p.text(&p.m.ResourceVersion)
		case "annotations":
			err = p.annotations()
		default:
			err = p.skip()
		}
		if err != nil || p.identified() {
			return err
		}
	}
}

// annotations reads the value of "annotations". A null clears the map, other
// values add to it.
func (p *jsonPeek) annotations() error {
	ok, err := p.enter()
	if !ok {
		if err == nil {
			p.m.InitialEventsEnd = false
		}
		return err
	}
	for first := true; ; first = false {
		key, ok, err := p.member(first)
		if !ok {
			return err
		}
		if string(key) != metav1.InitialEventsAnnotationKey {
			if err := p.skip(); err != nil {
				return err
			}
			continue
		}
		var value string
		if err := p.text(&value); err != nil {
			return err
		}
		p.m.InitialEventsEnd = value == "true"
	}
}

// blanks passes over blanks and returns the byte behind them, 0 at the end: that stands nowhere in JSON.
func (p *jsonPeek) blanks() byte {
	for ; p.i < len(p.b); p.i++ {
		switch c := p.b[p.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// member goes to the next member of an object and behind its colon. ok is false behind the
// object's end, and on an error.
func (p *jsonPeek) member(first bool) (key []byte, ok bool, err error) {
	c := p.blanks()
	if c == '}' {
		p.i++
		return nil, false, nil
	}
	if !first {
		if c != ',' {
			return nil, false, p.syntax("a comma or the end should stand here")
		}
		p.i++
	}
	if key, err = p.str(); err != nil {
		return nil, false, err
	}
	if p.blanks() != ':' {
		return nil, false, p.syntax("':' should stand here")
	}
	p.i++
	return key, true, nil
}

// enter enters the object that is a value; ok is false behind a null, and on an error.
func (p *jsonPeek) enter() (ok bool, err error) {
	switch p.blanks() {
	case '{':
		p.i++
		return true, nil
	case 'n':
		return false, p.skip()
	}
	return false, p.syntax("'{' should stand here")
}

// text reads a value that is a string into dst; a null leaves dst alone.
func (p *jsonPeek) text(dst *string) error {
	if p.blanks() == 'n' {
		return p.skip()
	}
	s, err := p.str()
	if err == nil {
		*dst = layout.View(s)
	}
	return err
}

// str reads a string. What it returns is a part of the text, unless there are escapes in it.
func (p *jsonPeek) str() ([]byte, error) {
	if p.blanks() != '"' {
		return nil, p.syntax("a JSON string should stand here")
	}
	from := p.i + 1
	at := frame.PlainStop(p.b, from)
	if at < len(p.b) && p.b[at] == '"' {
		p.i = at + 1
		return p.b[from:at], nil
	}
	if err := p.skip(); err != nil {
		return nil, err
	}
	content := p.b[from : p.i-1]
	if frame.StringStop(content, 0) == len(content) && utf8.Valid(content) {
		return content, nil
	}
	s, ok := frame.AppendUnquoted(nil, content)
	if !ok {
		return nil, &frame.SyntaxError{Offset: int64(from - 1), Msg: "JSON string with a bad escape"}
	}
	return s, nil
}

// skip passes over a value of any kind.
func (p *jsonPeek) skip() error {
	p.blanks()
	p.scan.Reset()
	n, done, fault := p.scan.Scan(p.b[p.i:])
	p.i += n
	switch {
	case fault != "":
		return p.syntax(fault)
	case !done:
		return io.ErrUnexpectedEOF
	}
	return nil
}

// syntax names the byte at hand, and nothing of what stands around it.
func (p *jsonPeek) syntax(msg string) error {
	if p.i == len(p.b) {
		return io.ErrUnexpectedEOF
	}
	return &frame.SyntaxError{Offset: int64(p.i), Msg: fmt.Sprintf("%s, not %q", msg, rune(p.b[p.i]))}
}
