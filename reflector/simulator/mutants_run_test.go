//go:build mutants

package simulator

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// TestMutants: the simulator finds each planted bug within 1,000 seeds. It
// prints the table of docs/simulator.md.
func TestMutants(t *testing.T) {
	found := regexp.MustCompile(`seed (\d+) breaks a promise: [^:]+: ([^:]+): (.*)`)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			broken := filepath.Join(dir, filepath.Base(m.file))
			if err := os.WriteFile(broken, plant(t, m), 0o644); err != nil {
				t.Fatal(err)
			}
			whole, err := filepath.Abs(filepath.Join(root, m.file))
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{whole: broken}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(file, overlay, 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", file, "-run", "^TestSeeds$", "-count=1", "-vet=off",
				".", "-sim.seeds=1000", "-sim.shrink=false").CombinedOutput()
			if err == nil {
				t.Fatal("not found in 1,000 seeds")
			}
			what := found.FindSubmatch(out)
			if what == nil {
				t.Fatalf("failed without finding it: %v\n%s", err, out)
			}
			seeds, _ := strconv.Atoi(string(what[1]))
			fmt.Printf("| %s | %s | %d |\n", m.name, what[2], seeds)
		})
	}
}
