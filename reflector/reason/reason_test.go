package reason

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"testing"
)

// All is the closed set: every constant of the file, once, in words that are
// fit for a metric label.
func TestAllIsComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			declared += len(g.Specs)
		}
	}
	seen := map[Reason]bool{}
	for _, r := range All() {
		if seen[r] {
			t.Errorf("%q is there twice", r)
		}
		seen[r] = true
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(string(r)) {
			t.Errorf("%q is no word", r)
		}
	}
	if len(seen) != declared {
		t.Errorf("All has %d reasons, %d are declared", len(seen), declared)
	}
}

type carrier struct{ r Reason }

func (c carrier) Error() string       { return "carrier" }
func (c carrier) FaultReason() Reason { return c.r }

func TestOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Reason
		ok   bool
	}{
		{nil, "", false},
		{errors.New("plain"), "", false},
		{carrier{Idle}, Idle, true},
		{fmt.Errorf("list: %w", carrier{Expired}), Expired, true},
		{errors.Join(errors.New("plain"), carrier{Decode}), Decode, true},
		{fmt.Errorf("%w, then %w", carrier{Idle}, carrier{EOF}), Idle, true},
	} {
		if got, ok := Of(c.err); got != c.want || ok != c.ok {
			t.Errorf("%v: %q, %v, want %q, %v", c.err, got, ok, c.want, c.ok)
		}
	}
}
