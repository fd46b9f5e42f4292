package shard

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// kind is what an expression is, with the numbers that the server's errors have (ast.ExprKind of cel-go).
type kind int

const (
	callKind    kind = 1
	identKind   kind = 3
	literalKind kind = 5
	selectKind  kind = 7
)

// The names that CEL has for its operators as functions.
const (
	orOperator  = "_||_"
	andOperator = "_&&_"
)

// expression is one node of what was parsed.
type expression struct {
	kind  kind
	name  string        // of the function, the variable or the field; of a literal its value
	goes  string        // what the server calls the type of a literal that is no string
	parts []*expression // arguments; of a selection what is selected from
}

// maxDepth bounds brackets in brackets, as cel-go bounds recursion.
const maxDepth = 250

// parser reads the part of CEL (github.com/google/cel-spec, "Syntax") that can stand in
// a selector, and what is needed to say of some mistakes what the server says.
type parser struct {
	text  string
	at    int
	depth int
}

// whole reads the text to its end.
func (p *parser) whole() (*expression, error) {
	if !utf8.ValidString(p.text) || strings.Contains(p.text, "\x00") {
		return nil, errors.New("the selector is no text")
	}
	e, err := p.binary(orOperator)
	if err == nil && p.peek() != 0 {
		err = p.unexpected()
	}
	return e, err
}

// binary reads operands of an operator: of || those of &&, of && terms.
func (p *parser) binary(operator string) (*expression, error) {
	operand := p.term
	if operator == orOperator {
		operand = func() (*expression, error) { return p.binary(andOperator) }
	}
	e, err := operand()
	for err == nil && p.accept(strings.Trim(operator, "_")) {
		var right *expression
		right, err = operand()
		e = &expression{kind: callKind, name: operator, parts: []*expression{e, right}}
	}
	return e, err
}

// term reads a literal, a variable, a call or an expression in brackets, and the selections behind it.
func (p *parser) term() (*expression, error) {
	e, err := p.primary()
	for err == nil && p.accept(".") {
		var name string
		if name, err = p.name(); err != nil {
			break
		}
		if p.peek() == '(' {
			// A method. The server does not look at what it is called on.
			e, err = p.call(name)
			continue
		}
		e = &expression{kind: selectKind, name: name, parts: []*expression{e}}
	}
	return e, err
}

func (p *parser) primary() (*expression, error) {
	switch c := p.peek(); {
	case c == '(':
		if p.depth++; p.depth > maxDepth {
			return nil, errors.New("too many brackets")
		}
		p.at++
		e, err := p.binary(orOperator)
		if err == nil && !p.accept(")") {
			err = p.unexpected()
		}
		p.depth--
		return e, err
	case c >= '0' && c <= '9':
		return p.numeral()
	case c == '\'' || c == '"':
		return p.literal(false)
	case (c == 'r' || c == 'R') && p.at+1 < len(p.text) && (p.text[p.at+1] == '\'' || p.text[p.at+1] == '"'):
		p.at++
		return p.literal(true)
	}
	prefix := ""
	if p.accept(".") {
		prefix = "." // CEL's way to name something of the outermost scope
	}
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	switch word, reserved := reservedWords[name]; {
	case word != "":
		return &expression{kind: literalKind, name: name, goes: word}, nil
	case reserved:
		return nil, fmt.Errorf("reserved word %q", name)
	case p.peek() == '(':
		return p.call(prefix + name)
	}
	return &expression{kind: identKind, name: prefix + name}, nil
}

// reservedWords are no names of variables and functions; of literals they have the type. Fields may be called so.
var reservedWords = func() map[string]string {
	words := map[string]string{"true": "bool", "false": "bool", "null": "structpb.NullValue"}
	for _, word := range strings.Fields("in as break const continue else for function if import let loop package namespace return var void while") {
		words[word] = ""
	}
	return words
}()

// call reads the arguments of a function.
func (p *parser) call(name string) (*expression, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errors.New("too many brackets")
	}
	p.at++ // the bracket
	e := &expression{kind: callKind, name: name}
	for p.peek() != ')' {
		if len(e.parts) > 0 && !p.accept(",") {
			return nil, p.unexpected()
		}
		arg, err := p.binary(orOperator)
		if err != nil {
			return nil, err
		}
		e.parts = append(e.parts, arg)
	}
	p.at++
	p.depth--
	return e, nil
}

// literal reads a string.
func (p *parser) literal(raw bool) (*expression, error) {
	quote := p.text[p.at : p.at+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(p.text[p.at:], triple) {
		quote = triple
	}
	value, rest, found := strings.Cut(p.text[p.at+len(quote):], quote)
	switch {
	case !found, len(quote) == 1 && strings.ContainsAny(value, "\r\n"):
		return nil, fmt.Errorf("string without an end at byte %d", p.at)
	case !raw && strings.Contains(value, `\`), raw && strings.HasSuffix(value, `\`):
		return nil, fmt.Errorf("string with an escape at byte %d", p.at)
	}
	p.at = len(p.text) - len(rest)
	return &expression{kind: literalKind, name: value}, nil
}

// numeral reads a whole number. Its value is of no use to anybody.
func (p *parser) numeral() (*expression, error) {
	from := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	if p.at < len(p.text) && (isLetter(p.text[p.at]) || p.text[p.at] == '.') || p.at-from > 18 {
		return nil, fmt.Errorf("number that is no selector's at byte %d", from)
	}
	return &expression{kind: literalKind, name: p.text[from:p.at], goes: "int64"}, nil
}

// name reads an identifier.
func (p *parser) name() (string, error) {
	p.peek()
	from := p.at
	for p.at < len(p.text) && (isLetter(p.text[p.at]) || p.at > from && p.text[p.at] >= '0' && p.text[p.at] <= '9') {
		p.at++
	}
	if p.at == from {
		return "", p.unexpected()
	}
	return p.text[from:p.at], nil
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// peek passes over blanks and comments and returns the byte behind them, 0 at the end.
func (p *parser) peek() byte {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case strings.IndexByte(" \t\r\n\f", c) >= 0:
			p.at++
		case strings.HasPrefix(p.text[p.at:], "//"):
			_, rest, _ := strings.Cut(p.text[p.at:], "\n")
			p.at = len(p.text) - len(rest)
		default:
			return c
		}
	}
	return 0
}

// accept passes over token, if it comes next.
func (p *parser) accept(token string) bool {
	p.peek()
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

func (p *parser) unexpected() error {
	if p.peek() == 0 {
		return errors.New("the selector ends too early")
	}
	return fmt.Errorf("unexpected %q at byte %d", p.text[p.at], p.at)
}
