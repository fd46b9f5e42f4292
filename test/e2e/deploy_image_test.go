package e2e

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

func labelsOf(m map[string]string) labels.Labels { return labels.Set(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// instructions are those of deploy/Dockerfile: their word and the rest.
func instructions(t *testing.T) (all [][2]string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if word, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && word != "#" {
			all = append(all, [2]string{word, rest})
		}
	}
	return all
}

// buildContext copies the files that a build of the image would have.
func buildContext(t *testing.T) string {
	t.Helper()
	root, context := "../..", t.TempDir()
	ignored := dockerignore(t)
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case ignored(name) && d.IsDir():
			return fs.SkipDir
		case ignored(name) || !d.Type().IsRegular() && !d.IsDir():
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(context, name), 0o755)
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(context, name), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return context
}

// buildImage runs the Dockerfile's build command, and returns the binary that the image would have.
func buildImage(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "nodewatch")
	for _, i := range instructions(t) {
		if i[0] != "RUN" || !strings.Contains(i[1], "go build") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", regexp.MustCompile(` -o \S+`).ReplaceAllString(i[1], " -o "+binary))
		cmd.Dir = buildContext(t)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", i[1], err, out)
		}
		return binary
	}
	t.Fatal("the Dockerfile builds nothing")
	return ""
}

// TestDockerfile: there is no docker here. What its build would do is done in a copy of the files that
// it would have: the build command gives a static binary that runs, what is copied is there, and
// what is run is it, by a user that is a number and not 0.
func TestDockerfile(t *testing.T) {
	context := buildContext(t)
	var entry, user string
	made := map[string]bool{"/etc/ssl/certs/ca-certificates.crt": true} // Debian's, which golang's image is
	stages := 0
	for _, i := range instructions(t) {
		switch word, rest := i[0], strings.Fields(i[1]); word {
		case "FROM":
			stages++
			if last := rest[len(rest)-1]; stages == 2 && last != "scratch" {
				t.Errorf("the image is FROM %s", last)
			}
		case "RUN":
			if strings.Contains(i[1], "go build") {
				made[rest[slices.Index(rest, "-o")+1]] = true
			}
		case "COPY":
			for _, from := range rest[:len(rest)-1] {
				switch {
				case strings.HasPrefix(from, "--from="):
				case rest[0] == "--from=build" && !made[from]:
					t.Errorf("COPY of %s, which the build does not make", from)
				case rest[0] != "--from=build":
					if _, err := os.Stat(filepath.Join(context, from)); err != nil {
						t.Errorf("COPY of what the build context does not have: %v", err)
					}
				}
			}
			if to := rest[len(rest)-1]; rest[0] == "--from=build" {
				made["in "+to] = true
			}
		case "USER":
			user = i[1]
		case "ENTRYPOINT":
			entry = strings.Trim(i[1], `[]"`)
		}
	}
	if stages != 2 || !made["in "+entry] {
		t.Errorf("%d stages, and ENTRYPOINT %s is not copied into the image", stages, entry)
	}
	if uid, err := strconv.Atoi(strings.Split(user, ":")[0]); err != nil || uid == 0 {
		t.Errorf("USER %s is not a number of somebody else than root", user)
	}

	binary := buildImage(t)
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary is not static: it has %v", p.Type)
		}
	}
	// As in the image: no environment, an empty folder.
	version := exec.CommandContext(t.Context(), binary, "version")
	version.Env, version.Dir = []string{}, t.TempDir()
	if out, err := version.CombinedOutput(); err != nil || !strings.Contains(string(out), "nodewatch") {
		t.Errorf("the binary does not run: %v: %s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the binary is %.1f MB", float64(info.Size())/1e6)
}

// dockerignore reports whether a file of the repository is not in the build context, by
// deploy/Dockerfile.dockerignore.
func dockerignore(t *testing.T) func(name string) bool {
	t.Helper()
	text, err := os.ReadFile("../../deploy/Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			patterns = append(patterns, line)
		}
	}
	return func(name string) bool {
		for _, p := range patterns {
			// ** is any number of folders; the only other form here is a name at the top.
			anywhere, ok := strings.CutPrefix(p, "**/")
			if hit, err := path.Match(anywhere, path.Base(name)); err == nil && ok && hit || name == p {
				return true
			}
		}
		return false
	}
}
