package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository's top folder as seen from here.
const root = ".."

var (
	// named is what a document has in backquotes.
	named = regexp.MustCompile("`([^`]+)`")
	// function is such a name of a test: its folder, and it.
	function = regexp.MustCompile(`^(.+)/((?:Test|Fuzz|Example)[A-Za-z0-9_]*)$`)
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// documents are all Markdown files of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.md", "docs/*.md", "bench/*.md", "test/e2e/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, filepath.ToSlash(rel))
		}
	}
	if !slices.Contains(out, "README.md") {
		t.Fatalf("no README.md among %q", out)
	}
	return out
}

// TestReadmeExample: the code in README.md is the function that the Example runs.
func TestReadmeExample(t *testing.T) {
	t.Parallel()
	source := read(t, "docs/example_test.go")
	begin, end := strings.Index(source, "func watchNode("), strings.Index(source, "\nfunc Example()")
	if begin < 0 || end < begin {
		t.Fatal("docs/example_test.go has no watchNode before Example")
	}
	want := strings.TrimSpace(source[begin:end])
	if !strings.Contains(read(t, "README.md"), "```go\n"+want+"\n```\n") {
		t.Errorf("README.md does not show this code as it is:\n%s", want)
	}
}

// TestCommand: .ci/run runs the test command that stands in README.md, taken from there.
func TestCommand(t *testing.T) {
	t.Parallel()
	var commands []string
	for line := range strings.Lines(read(t, "README.md")) {
		if strings.HasPrefix(line, "go test ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	if len(commands) != 1 {
		t.Fatalf("README.md has the test commands %q, want one", commands)
	}
	ci := read(t, ".ci/run")
	m := regexp.MustCompile(`\$\((sed -n '[^']+' README\.md)\)`).FindStringSubmatch(ci)
	if m == nil {
		t.Fatal(".ci/run does not take the test command from README.md with sed")
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", m[1])
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", m[1], err)
	}
	if got := strings.TrimSpace(string(out)); got != commands[0] {
		t.Errorf(".ci/run runs %q, README.md says %q", got, commands[0])
	}
	if strings.Contains(ci, commands[0]) {
		t.Errorf(".ci/run has %q a second time", commands[0])
	}
}

// TestLinks: a relative link in a document leads to a file.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	fenced := regexp.MustCompile("(?s)```.*?\n```") // f[T](x) is no link
	seen := 0
	for _, doc := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, doc), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", doc, m[1])
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d links found", seen)
	}
}

// TestFolders: a folder or file of this repository that a document names in backquotes exists.
func TestFolders(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile("`((?:listwatch|streamwatcher|reflector|nodefilter|cmd|bench|test|docs|examples|tools|internal)/[a-zA-Z0-9_./-]*)`")
	seen := 0
	for _, doc := range documents(t) {
		for _, m := range name.FindAllStringSubmatch(read(t, doc), -1) {
			if function.MatchString(m[1]) {
				continue // a test, see TestPromises
			}
			seen++
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", doc, m[1])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d names found", seen)
	}
}

// TestMakeTargets: what the documents and .ci/run tell make to do, the Makefile can.
func TestMakeTargets(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	use := regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9]+)")
	seen := 0
	for _, doc := range append(documents(t), ".ci/run") {
		for _, m := range use.FindAllStringSubmatch(read(t, doc), -1) {
			seen++
			if !regexp.MustCompile("(?m)^" + m[1] + ":.*## ").MatchString(makefile) {
				t.Errorf("%s says make %s; the Makefile has no such target, or no help for it", doc, m[1])
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d uses of make found", seen)
	}
}

// hasFunc reports whether a test file in the folder has the function.
func hasFunc(t *testing.T, folder, function string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "\nfunc "+function+"(") {
			return true
		}
	}
	return false
}
