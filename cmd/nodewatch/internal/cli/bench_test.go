package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// TestBench: a small run prints a row for list and watch of each encoding, in both forms.
func TestBench(t *testing.T) {
	status, stdout, stderr := call(t.Context(), "bench", "--pods", "50", "--events", "200")
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d, standard error %q", status, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	want := []string{"WHAT ENCODING ITEMS PER SECOND", "list json 50 ", "watch json 200 ", "list protobuf 50 ", "watch protobuf 200 "}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), stdout)
	}
	for i, line := range lines {
		if !strings.HasPrefix(strings.Join(strings.Fields(line), " "), want[i]) {
			t.Errorf("line %d is %q, want one that begins with %q", i, line, want[i])
		}
	}

	status, stdout, stderr = call(t.Context(), "bench", "--pods=40", "--events=60", "--encoding=json", "-o", "json")
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d, standard error %q", status, stderr)
	}
	var rows []benchRow
	for dec := json.NewDecoder(strings.NewReader(stdout)); dec.More(); {
		var r benchRow
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if len(rows) != 2 || strings.Count(stdout, "\n") != 2 {
		t.Fatalf("not two lines:\n%s", stdout)
	}
	for i, what := range []string{"list", "watch"} {
		r := rows[i]
		if r.What != what || r.Encoding != "json" || r.PerSecond <= 0 || r.ReadOnlyPerSecond <= 0 {
			t.Errorf("row %d is %+v", i, r)
		}
		// An event has about 9 KB.
		if per := r.BytesPerSecond / r.PerSecond; per < 8_000 || per > 11_000 {
			t.Errorf("%s: %.0f bytes an item", what, per)
		}
	}
	if rows[0].HeapPerPod == 0 || rows[1].HeapPerPod != 0 {
		t.Errorf("heap of %d and %d bytes a pod, want it for the list alone", rows[0].HeapPerPod, rows[1].HeapPerPod)
	}
}

func TestBenchUsage(t *testing.T) {
	for arg, want := range map[string]string{
		"--pods=0": "--pods is 0", "--pods=100001": "1 to 100000", "--events=-1": "--events is -1", "--events=1000001": "1 to 1000000",
		"--encoding=cbor": "both, json, protobuf", "-o=yaml": "table, json", "extra": "extra",
	} {
		status, stdout, stderr := call(t.Context(), "bench", arg)
		if status != exitUsage || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: status %d, %q, %q; want %q", arg, status, stdout, stderr, want)
		}
	}
}

// TestBenchInterrupted: it ends at once, and that is no failure.
func TestBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status, stdout, stderr := call(ctx, "bench", "--pods=10", "--events=1000000"); status != exitOK || stdout != "" || stderr != "" {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}
