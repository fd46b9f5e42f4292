package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestPromises: every promise of docs/promises.md stands in the comment that it
// names, with its tests beside it, and each test and script exists.
func TestPromises(t *testing.T) {
	t.Parallel()
	promises := 0
	for line := range strings.Lines(read(t, "docs/promises.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) < 3 || !strings.HasPrefix(line, "| ") || strings.Contains(line, "---") || strings.HasPrefix(line, "| promise") {
			continue
		}
		promises++
		sentence := strings.TrimSpace(cells[0])
		tests := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(tests) == 0 {
			t.Errorf("no test holds: %s", sentence)
		}
		var comment string
		if len(cells) == 4 {
			comment = commentOf(t, strings.Trim(cells[1], "` "), strings.Trim(cells[2], "` "))
			if !strings.Contains(comment, sentence) {
				t.Errorf("%s: the comment of %s does not say: %s", cells[1], cells[2], sentence)
			}
		}
		for _, m := range tests {
			if f := function.FindStringSubmatch(m[1]); f != nil && !hasFunc(t, f[1], f[2]) {
				t.Errorf("%s has no %s", f[1], f[2])
			}
			// TestFolders looks for the scripts.
			if _, name := filepath.Split(m[1]); len(cells) == 4 && !strings.Contains(comment, name) {
				t.Errorf("%s: the comment of %s does not name %s beside: %s", cells[1], cells[2], name, sentence)
			}
		}
	}
	if promises < 36 {
		t.Errorf("only %d promises found", promises)
	}
}

// commentOf returns the comment of a declaration, on one line: of NAME, of the
// field or method TYPE.NAME.
func commentOf(t *testing.T, file, symbol string) string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	owner, name, member := strings.Cut(symbol, ".")
	var found []*ast.CommentGroup
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if member && d.Recv != nil && d.Name.Name == name && typeName(d.Recv.List[0].Type) == owner {
				found = append(found, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					if !member && spec.Names[0].Name == symbol {
						found = append(found, d.Doc, spec.Doc)
					}
				case *ast.TypeSpec:
					if spec.Name.Name != owner {
						continue
					}
					if !member {
						found = append(found, d.Doc, spec.Doc)
					} else if s, ok := spec.Type.(*ast.StructType); ok {
						for _, f := range s.Fields.List {
							for _, n := range f.Names {
								if n.Name == name {
									found = append(found, f.Doc)
								}
							}
						}
					}
				}
			}
		}
	}
	var text strings.Builder
	for _, c := range found {
		text.WriteString(c.Text()) // of none it is empty
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

// typeName returns the name of a receiver's type without pointer and parameters.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
