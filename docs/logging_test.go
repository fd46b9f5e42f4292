package docs

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLogTable: docs/seeing.md lists every message that the library logs, with its
// level and keys, and nothing else. Both are stable: who changes one changes the table.
func TestLogTable(t *testing.T) {
	t.Parallel()
	have := map[string]bool{}
	doc := read(t, "docs/seeing.md")
	for line := range strings.Lines(between(t, doc, "<!-- begin log table -->", "<!-- end log table -->")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.Contains(line, "---") || strings.HasPrefix(line, "| package") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[4] == "" {
			t.Errorf("no meaning: %s", line)
		}
		have[strings.Join(cells[:4], " | ")] = true
	}
	found := map[string]bool{}
	for _, folder := range []string{"listwatch", "streamwatcher", "reflector", "nodefilter"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			switch d.Name() {
			case "testdata", "listwatchtest", "simulator": // not of the library
				return fs.SkipDir
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, l := range logLines(t, path) {
				found["`"+filepath.ToSlash(rel)+"` | "+l.String()] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(found)) {
		if !have[row] {
			t.Errorf("docs/seeing.md lacks: | %s | MEANING |", row)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(have)) {
		if !found[row] {
			t.Errorf("docs/seeing.md has what is not logged: %s", row)
		}
	}
	if len(found) < 20 {
		t.Errorf("only %d messages found", len(found))
	}
}

func between(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, begin)
	inner, _, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("there is no %s ... %s", begin, end)
	}
	return inner
}

// logLine is a message, or what With puts into every message of a logger.
type logLine struct {
	level, message string
	keys           []string
}

func (l logLine) String() string {
	keys := make([]string, len(l.keys))
	for i, k := range l.keys {
		keys[i] = "`" + k + "`"
	}
	return l.level + " | " + l.message + " | " + strings.Join(keys, ", ")
}

var (
	logMethod = regexp.MustCompile(`^(?:(Debug|Info|Warn|Error)(Context)?|Log|LogAttrs|With)$`)
	isLogger  = regexp.MustCompile(`(?i)log(ger)?$`)
)

// logLines finds the calls of a logger in a package: of what is named log or logger.
func logLines(t *testing.T, folder string) []logLine {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	p := &logPackage{}
	set := token.NewFileSet()
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(set, f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				p.funcs = append(p.funcs, fn)
			}
		}
	}
	var lines []logLine
	for _, fn := range p.funcs {
		for n := range ast.Preorder(fn.Body) {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				continue
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !isLogger.MatchString(lastName(method.X)) {
				continue
			}
			m := logMethod.FindStringSubmatch(method.Sel.Name)
			if m == nil || lastName(method.X) == "slog" {
				continue
			}
			level, args := strings.ToUpper(m[1]), call.Args
			switch {
			case m[0] == "With":
				level = "all"
			case m[1] == "":
				level, args = levelName(args[1]), args[2:]
			case m[2] != "":
				args = args[1:]
			}
			messages := []string{"(every message)"}
			if m[0] != "With" {
				if messages = p.texts(fn, args[0]); len(messages) == 0 {
					t.Errorf("%s: the message cannot be read", set.Position(call.Pos()))
				}
				args = args[1:]
			}
			keys, err := p.keys(fn, args, call.Ellipsis.IsValid())
			if err != nil {
				t.Errorf("%s: %v", set.Position(call.Pos()), err)
			}
			for _, k := range keys {
				if k == "error" || k == "fault" {
					t.Errorf("%s: the key of errors is err, not %s", set.Position(call.Pos()), k)
				}
			}
			for _, message := range messages {
				lines = append(lines, logLine{level, message, keys})
			}
		}
	}
	return lines
}

// logPackage is what is needed to find out what a variable says.
type logPackage struct{ funcs []*ast.FuncDecl }

// texts are the texts that e may have in fn.
func (p *logPackage) texts(fn *ast.FuncDecl, e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return []string{unquoted(e)}
	case *ast.BinaryExpr: // a text and what it is about
		var all []string
		for _, s := range p.texts(fn, e.X) {
			all = append(all, strings.TrimSuffix(s, "...")+"...")
		}
		return all
	case *ast.CallExpr: // of a function of the package that returns texts
		var all []string
		for _, f := range p.funcs {
			if f.Name.Name == lastName(e.Fun) {
				for n := range ast.Preorder(f.Body) {
					if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
						all = append(all, p.texts(f, r.Results[0])...)
					}
				}
			}
		}
		return all
	case *ast.Ident:
		var all []string
		for n := range ast.Preorder(fn.Body) {
			if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && lastName(a.Lhs[0]) == e.Name {
				all = append(all, p.texts(fn, a.Rhs[0])...)
			}
		}
		for _, caller := range p.funcs { // a parameter
			i := parameter(fn, e.Name)
			if i < 0 {
				break
			}
			for n := range ast.Preorder(caller.Body) {
				if call, ok := n.(*ast.CallExpr); ok && lastName(call.Fun) == fn.Name.Name && i < len(call.Args) {
					all = append(all, p.texts(caller, call.Args[i])...)
				}
			}
		}
		return all
	}
	return nil
}

func parameter(fn *ast.FuncDecl, name string) int {
	i := 0
	for _, field := range fn.Type.Params.List {
		for _, n := range field.Names {
			if n.Name == name {
				return i
			}
			i++
		}
	}
	return -1
}

// keys returns the keys of a call's attributes, in alphabetical order. Where a slice is
// passed on they are all that the function makes or, of a parameter, what its callers give.
func (p *logPackage) keys(fn *ast.FuncDecl, args []ast.Expr, spread bool) ([]string, error) {
	found := map[string]bool{}
	nodes := args
	if spread {
		nodes = nil
		for n := range ast.Preorder(fn.Body) {
			if call, ok := n.(*ast.CallExpr); ok && attrKey(call) != "" {
				nodes = append(nodes, call)
			}
		}
		if i := parameter(fn, lastName(args[len(args)-1])); i >= 0 {
			for _, caller := range p.funcs {
				for n := range ast.Preorder(caller.Body) {
					if call, ok := n.(*ast.CallExpr); ok && lastName(call.Fun) == fn.Name.Name && i < len(call.Args) {
						nodes = append(nodes, call.Args[i:]...)
					}
				}
			}
		}
		if len(nodes) == 0 {
			return nil, errors.New("the keys cannot be read: pass slog.Attr that are made in the same function, or a parameter")
		}
	}
	for i := 0; i < len(nodes); i++ {
		if call, ok := nodes[i].(*ast.CallExpr); ok && attrKey(call) != "" {
			found[attrKey(call)] = true
			continue
		}
		lit, ok := nodes[i].(*ast.BasicLit)
		if !ok {
			return nil, errors.New("a key is no literal")
		}
		found[unquoted(lit)] = true
		i++ // its value
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// attrKey is the key of a call such as slog.String("key", value), else empty.
func attrKey(call *ast.CallExpr) string {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || lastName(f.X) != "slog" || len(call.Args) != 2 {
		return ""
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return ""
	}
	return unquoted(lit)
}

func unquoted(lit *ast.BasicLit) string {
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return lit.Value
	}
	return s
}

// levelName is WARN of slog.LevelWarn, "varies" of a variable.
func levelName(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return strings.ToUpper(strings.TrimPrefix(s.Sel.Name, "Level"))
	}
	return "varies"
}

// lastName is c of a.b.c.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
