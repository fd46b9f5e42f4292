package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// caseIDs are the rows that docs/cases.md has to have.
const caseIDs = `A1 A2 A3 A4 A5 A6 A7 A10 B1 B2 B4 B5 B7 B8 B9 C1 C2 C4 C5 C7 C8 C10 C11 D1 D2 D4 D6 D7 D9 D11 D12
	E1 E2 E3 E5 E6 E7 E8 E9 E10 E12 F1 F3 F5 F6 F8 G1 G2 G3 G4 G6 H1 H2 H3 H5 H6
	I1 I2 I3 I4 I5 I6 I8 J1 J2 J3 J4 J5 J6 J7 K1 K2 K3 K4
	L1 L2 L3 L4 L5 L6 L8 M1 M2 M4 N2 N3 N4 N5 O1 P1 P2 P3 P4`

// TestCases: every case is in docs/cases.md once, with tests that exist or with
// a reason why there is none yet, and no kind of script of the reflector is left out.
func TestCases(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/cases.md")
	table, later, ok := strings.Cut(text, "\n## Later\n")
	if !ok {
		t.Fatal("docs/cases.md has no section Later")
	}
	row := regexp.MustCompile(`(?m)^\| ([A-Z][0-9]+|other) \| (.+?) \| (.+) \|$`)
	var got []string
	scripts := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		if m[1] != "other" {
			got = append(got, m[1])
		}
		names := named.FindAllStringSubmatch(m[3], -1)
		if len(names) == 0 {
			t.Errorf("%s names no test", m[1])
		}
		for _, n := range names {
			if f := function.FindStringSubmatch(n[1]); f != nil {
				if !hasFunc(t, f[1], f[2]) {
					t.Errorf("%s: %s has no %s", m[1], f[1], f[2])
				}
				continue
			}
			scripts[n[1]] = true // TestFolders looks for the file
		}
	}
	for _, m := range row.FindAllStringSubmatch(later, -1) {
		got = append(got, m[1])
		if len(m[3]) < 20 {
			t.Errorf("%s comes later, and the reason is %q", m[1], m[3])
		}
	}
	want := strings.Fields(caseIDs)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("docs/cases.md has the rows\n%s\nwant\n%s", got, want)
	}
	files, err := filepath.Glob(filepath.Join(root, "reflector/testdata/script/*.txt"))
	if err != nil || len(files) < 100 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	// A script belongs to the row, or beside the scripts, of its own id.
	id := regexp.MustCompile(`script/([A-Z][0-9]+)[^/]*$`)
	known := strings.Fields(caseIDs)
	for name := range scripts {
		if m := id.FindStringSubmatch(name); m != nil {
			known = append(known, m[1])
		}
	}
	for _, f := range files {
		name := filepath.ToSlash(f)
		if m := id.FindStringSubmatch(name); m == nil || !slices.Contains(known, m[1]) {
			t.Errorf("docs/cases.md does not name %s, nor any script of its id: add it to the row whose kind it is", name)
		}
	}
}
