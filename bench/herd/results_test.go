package herd

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// writeResults writes RESULTS.md and arrivals.svg.
func writeResults(dir string, clients, pods int, all []outcome) error {
	if err := os.WriteFile(filepath.Join(dir, "RESULTS.md"), []byte(page(clients, pods, all)), 0o644); err != nil {
		return err
	}
	for _, o := range all {
		if o.schedule == pictured {
			return os.WriteFile(filepath.Join(dir, "arrivals.svg"), []byte(picture(o)), 0o644)
		}
	}
	return fmt.Errorf("the schedule %q of arrivals.svg was not measured", pictured)
}

// pictured is the schedule of arrivals.svg.
var pictured = schedule{down: 10 * time.Second, forgets: true}

func page(clients, pods int, all []outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Thundering herd

%d node-scoped clients with %d pods each, all connected, when the server dies. Written by `+"`make bench-herd`"+` in virtual
time, with client-go %s (itself, not a model of it) and %s. What is measured and why is in [docs/herd.md](../../docs/herd.md).

- requests/s: the most LIST, WATCH and watch-list requests within any second (and within any 100 ms) from the kill on; then each alone.
- least: the smallest such peak of any policy with which 99 of 100 clients are fresh within %v of readiness.
- dials/s: the most connections asked for within any second. Those that are refused cost the server nothing.
- per client: requests from the kill until all are fresh.
- MB: bytes of lists and initial events.
- fresh: time from readiness until so many clients had the pod that was created at readiness.
`, clients, pods, required("k8s.io/client-go"), runtime.Version(), freshGoal)
	section := func(title string, in func(schedule) bool) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		b.WriteString("| outage | client | requests/s | in 100 ms | LIST | WATCH | watch-list | least | dials/s | per client | MB | fresh p50 | p99 | max |\n")
		b.WriteString("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
		for _, o := range all {
			if in(o.schedule) {
				row(&b, clients, o, nodewatchClient, o.ours)
				row(&b, clients, o, clientGoClient, o.theirs)
			}
		}
	}
	section("Healthy as soon as it listens", func(s schedule) bool { return s.then == healthy && s.ill == 0 })
	section("Serves before it is ready, as kube-apiserver does", func(s schedule) bool { return s.then == healthy && s.ill > 0 })
	section("Sick for a while", func(s schedule) bool { return s.then != healthy })
	return b.String()
}

func row(b *strings.Builder, clients int, o outcome, c client, t *tally) {
	outage, least := o.schedule.String(), fmt.Sprintf("%.0f", o.schedule.least(clients))
	if c.name == clientGoClient.name {
		outage, least = "", "" // as above
	} else if o.schedule.down == 0 || o.schedule.then != healthy {
		least = ""
	}
	seconds := func(q float64) string { return fmt.Sprintf("%.1f s", t.freshAfter(q).Seconds()) }
	fmt.Fprintf(b, "| %s | %s | %d | %d | %d | %d | %d | %s | %d | %.1f | %.1f | %s | %s | %s |\n", outage, c.name,
		t.peak(time.Second, requests...), t.peak(bin, requests...),
		t.peak(time.Second, list), t.peak(time.Second, watch), t.peak(time.Second, watchList), least,
		t.peak(time.Second, dial), float64(t.total(requests...))/float64(clients), float64(t.listed)/1e6,
		seconds(0.5), seconds(0.99), seconds(1))
}

// required is the version of a module in go.mod; the build information of a
// test binary does not have it.
func required(module string) string {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		return "of an unknown version"
	}
	for line := range strings.Lines(string(mod)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == module {
			return f[1]
		}
	}
	return "of an unknown version"
}

// picture draws the requests within a second over the time since the kill.
func picture(o outcome) string {
	const (
		width, height     = 900.0, 320.0
		left, top, margin = 60.0, 40.0, 40.0
	)
	bins := max(len(o.ours.bins), len(o.theirs.bins))
	perSecond := func(t *tally, i int) int {
		sum := 0
		for k := max(i-int(time.Second/bin)+1, 0); k <= min(i, len(t.bins)-1); k++ {
			sum += t.in(k, requests)
		}
		return sum
	}
	top1 := max(o.ours.peak(time.Second, requests...), o.theirs.peak(time.Second, requests...), 1)
	x := func(i int) float64 { return left + float64(i)*(width-left-margin)/float64(bins) }
	y := func(n int) float64 { return height - margin - float64(n)*(height-top-margin)/float64(top1) }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%.0f" y="20" font-size="14">LIST, WATCH and watch-list requests within a second; %s</text>`+"\n", left, o.schedule)
	for i := 0; i < bins; i += int(10 * time.Second / bin) {
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle">%d s</text>`+"\n", x(i), height-margin+18, i*int(bin)/int(time.Second))
	}
	for part := range 5 {
		n := top1 * part / 4
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="end">%d</text>`+"\n", left-6, y(n)+4, n)
		fmt.Fprintf(&b, `<path d="M%.0f %.1fH%.0f" stroke="#ddd"/>`+"\n", left, y(n), width-margin)
	}
	fmt.Fprintf(&b, `<path d="M%.1f %.0fV%.0f" stroke="#888" stroke-dasharray="4"/>`+"\n", x(int((o.schedule.down+o.schedule.ill)/bin)), top, height-margin)
	for i, line := range []struct {
		name, color string
		t           *tally
	}{{nodewatchClient.name, "#1565c0", o.ours}, {clientGoClient.name, "#d84315", o.theirs}} {
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, line.color)
		for k := range bins {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(k), y(perSecond(line.t, k)))
		}
		b.WriteString("\"/>\n")
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" fill="%s">%s: all fresh %.1f s after readiness</text>`+"\n",
			width-margin-280, top+16+float64(i)*16, line.color, line.name, line.t.freshAfter(1).Seconds())
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// TestTally: peaks are those of any window, not of one that begins with a second.
func TestTally(t *testing.T) {
	count := newTally(100)
	count.bins = make([][kinds]int, 30)
	for i, n := range map[int]int{8: 3, 9: 5, 12: 7, 17: 11, 18: 1, 29: 20} {
		count.bins[i][watch] = n
		count.bins[i][dial] = 1000
	}
	count.bins[12][list] = 2
	if got := count.peak(time.Second, requests...); got != 3+5+7+2+11 {
		t.Errorf("peak of a second is %d, want %d: the bins 8 to 17", got, 3+5+7+2+11)
	}
	if got := count.peak(bin, requests...); got != 20 {
		t.Errorf("peak of a bin is %d, want 20", got)
	}
	if got := count.total(requests...); got != 49 {
		t.Errorf("%d requests, want 49", got)
	}
	for n := range 100 {
		count.fresh[n] = time.Duration(n+1) * time.Second
	}
	for q, want := range map[float64]time.Duration{0.5: 50 * time.Second, 0.99: 99 * time.Second, 1: 100 * time.Second} {
		if got := count.freshAfter(q); got != want {
			t.Errorf("the part %v is fresh after %v, want %v", q, got, want)
		}
	}
	// The page and the picture have what was counted.
	o := outcome{schedule{down: 10 * time.Second, forgets: true}, count, count}
	if got := page(100, 30, []outcome{o}); !strings.Contains(got,
		"| down 10s, 410 | nodewatch | 28 | 20 | 2 | 26 | 0 | 50 | 4000 | 0.5 | 0.0 | 50.0 s | 99.0 s | 100.0 s |\n| ") {
		t.Errorf("the page does not have the row:\n%s", got)
	}
	if got := picture(o); !strings.HasPrefix(got, "<svg ") || strings.Count(got, "<polyline ") != 2 {
		t.Errorf("the picture is:\n%s", got)
	}
}
