package debugpage

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// Whatever names, versions and errors say: the page has the elements and attributes that
// it has for harmless ones, its links lead nowhere else, and the texts can be read.
func TestHostileTexts(t *testing.T) {
	allowed := strings.Fields(`html head meta title style body header h1 h2 h3 p a time ul li b main table thead tbody
		tr th td small span details summary div dl dt dd pre strong`)
	attributes := strings.Fields("lang charset name content class id href datetime scope colspan open")
	now := time.Now()
	for _, path := range []string{"/", "/?reflector=" + url.QueryEscape(hostile[0]), "/?reflector=" + url.QueryEscape(hostile[3]), "/?reflector=" + url.QueryEscape("no one"+hostile[1])} {
		d := parse(t, get(t, Config{Registry: trouble(now), Title: hostile[1]}, path, ""))
		for n := range d.root.Descendants() {
			if n.Type == html.CommentNode {
				t.Errorf("%s: a comment: %s", path, n.Data)
			}
			if n.Type != html.ElementNode {
				continue
			}
			if !slices.Contains(allowed, n.Data) {
				t.Errorf("%s: an element %s: %s", path, n.Data, d.text(n))
			}
			for _, a := range n.Attr {
				if !slices.Contains(attributes, a.Key) {
					t.Errorf("%s: %s has the attribute %s=%q", path, n.Data, a.Key, a.Val)
				}
				if a.Key == "href" && !strings.HasPrefix(a.Val, "?") && !strings.HasPrefix(a.Val, "#") {
					t.Errorf("%s: a link to %s", path, a.Val)
				}
			}
		}
		if n := len(d.all(d.root, "style")); n != 1 {
			t.Errorf("%s: %d styles", path, n)
		}
		text := d.text(d.root)
		if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 }); i >= 0 {
			t.Errorf("%s: shown as it is: %q", path, text[max(i-20, 0):i+10])
		}
		if path != "/" {
			continue
		}
		for _, s := range hostile {
			if n := strings.Count(text, strings.Join(strings.Fields(shortText(s)), " ")); n < 5 {
				t.Errorf("%q can be read %d times", s, n)
			}
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcödé 漢字 🙂":      "plain, ünïcödé 漢字 🙂",
		"\u202egnp.exe":            `\u202egnp.exe`,
		"a\x00b\x1b[31m\xff\t":     `a\x00b\x1b[31m\xff\t`,
		"\uFFFD is itself":         "\uFFFD is itself",
		"two\nlines":               "two\nlines",
		"pods\u3164\u034f\ufe0f":   `pods\u3164\u034f\ufe0f`,         // not to be seen
		strings.Repeat("\x00", 11): strings.Repeat(`\x00`, 10) + "…", // a code takes its room
		"e\u0301\u0323 fine, a" + strings.Repeat("\u0301", 4): "e\u0301\u0323 fine, a\u0301\u0301" + `\u0301\u0301`,
		strings.Repeat("ä", 41):                               strings.Repeat("ä", 40) + "…",
		"":                                                    "",
	} {
		if got := clean(in, 40); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// Those in trouble come first, the worst on top; what is wrong is counted above and said below.
func TestOrder(t *testing.T) {
	now := time.Now()
	brief := healthy("brief", now)
	brief.status.State = reflector.StateBackingOff
	brief.status.LastRestart = &reflector.Restart{Reason: reason.ServerError, Err: errors.New("etcd has no leader")}
	all := fakes{
		healthy("zeta", now), spoiled("spoiled", now, 2, nil), slow("slow", now), healthy("alpha", now), brief,
		waiting("away", now, errRefused), starting("starting", now), union("union", now),
	}
	d := parse(t, get(t, Config{Registry: all}, "/", ""))
	want := []string{"starting", "union", "away", "brief", "slow", "spoiled", "alpha", "zeta"}
	var got []string
	for _, row := range d.rows() {
		got = append(got, strings.Fields(row)[0])
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
	text := d.text(d.root)
	for _, want := range []string{
		"7 reflectors 1 union 2 fine 2 not synced 1 not fresh 3 backing off 1 blocked 1 quarantined",
		"transport: watch pods: Get \"https://10.96.0.1:443/api/v1/pods?watch=true\": dial tcp 10.96.0.1:443: connect: connection refused",
		"server_error: etcd has no leader",
		"20 000 items came, about 130 000 remain",
		"worker-2 BackingOff not synced never 110 forbidden: pods is forbidden",
		"worker-0 leaving Watching",
		"shop/cart-00000 48000000",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if title := d.text(d.all(d.root, "title")[0]); title != "Reflectors · 2 not synced · 1 not fresh · 3 backing off · 1 blocked · 1 quarantined" {
		t.Errorf("the title is %q", title)
	}
	// Objects count once: with the union, or where its members are shown, with them.
	d = parse(t, get(t, Config{Registry: fakes{union("nodes", now)}}, "/", ""))
	if text := d.text(d.root); !strings.Contains(text, "0 reflectors 1 union 0 fine") || !strings.Contains(text, " 110 objects") {
		t.Errorf("a union alone: %s", text)
	}
	d = parse(t, get(t, Config{Registry: fakes{union("nodes", now), healthy("worker-1", now)}}, "/", ""))
	if text := d.text(d.root); !strings.Contains(text, "1 reflector 1 union 1 fine") || !strings.Contains(text, " 110 objects") {
		t.Errorf("a union and a member: %s", text)
	}
	// A limit of the caller's.
	d = parse(t, get(t, Config{Registry: all, MaxAge: time.Hour}, "/", ""))
	if text := d.text(d.root); strings.Contains(text, "not fresh") {
		t.Error("19 minutes are not fresh, with a limit of an hour")
	}
}

// A thousand reflectors: a row each, sections for the worst, links for the rest.
// Many quarantined objects, members and mailboxes: the first, and the number of the rest.
func TestBounds(t *testing.T) {
	now := time.Now()
	var all fakes
	for i := range 999 {
		all = append(all, healthy(fmt.Sprintf("worker-%03d", i), now))
	}
	bad := spoiled("bad", now, 5000, errors.New(strings.Repeat("far too long ", 1000)))
	bad.stats.Mailboxes = make([]reflector.Mailbox, 300)
	bad.status.Members = make([]reflector.Member, 200)
	all = append(all, bad)
	w := get(t, Config{Registry: all}, "/", "")
	if n := w.Body.Len(); n > 1<<20 {
		t.Errorf("the page has %d bytes", n)
	}
	d := parse(t, w)
	rows := d.rows()
	if len(rows) != 1000 || !strings.HasPrefix(rows[0], "bad ") {
		t.Errorf("%d rows, the first is %q", len(rows), rows[0])
	}
	sections := d.all(d.root, "details")
	if len(sections) != sectionsShown {
		t.Errorf("%d sections", len(sections))
	}
	text := d.text(sections[0])
	for _, want := range []string{"and 4 980 more", "and 280 more", "and 180 more", "far too long", "…"} {
		if !strings.Contains(text, want) {
			t.Errorf("the section lacks %q", want)
		}
	}
	links := d.all(sections[0], "a")
	if !slices.ContainsFunc(links, func(a *html.Node) bool { return attr(a, "href") == "?reflector=bad&format=json&limit=5000" }) {
		t.Error("no link leads to all that are quarantined")
	}
	if n := len(text); n > 40*longShown {
		t.Errorf("the section has %d bytes of text", n)
	}
	if text := d.text(d.root); !strings.Contains(text, "Details of the first 50 are below; those of the other 950 are a link away.") {
		t.Error("the page does not say what it leaves out")
	}
	// Each row leads to a section, here or on a page of its own.
	ids := map[string]bool{}
	for _, div := range d.all(d.root, "div") {
		ids["#"+attr(div, "id")] = true
	}
	here, elsewhere := 0, ""
	for _, tr := range d.all(d.all(d.root, "tbody")[0], "tr") {
		for _, a := range d.all(tr, "a") {
			href := attr(a, "href")
			if ids[href] {
				here++
			} else {
				elsewhere = href
			}
		}
	}
	if here != sectionsShown || !strings.HasPrefix(elsewhere, "?reflector=worker-") {
		t.Errorf("%d rows lead to a section, another to %q", here, elsewhere)
	}
	d = parse(t, get(t, Config{Registry: all}, "/"+elsewhere, ""))
	if rows := d.rows(); len(rows) != 1 || !strings.HasPrefix(rows[0], strings.TrimPrefix(elsewhere, "?reflector=")) {
		t.Errorf("%s: %q", elsewhere, rows)
	}
	// Alone there is more of it.
	d = parse(t, get(t, Config{Registry: all}, "/?reflector=bad", ""))
	if text := d.text(d.root); !strings.Contains(text, "and 4 500 more") || strings.Contains(text, "and 280 more") {
		t.Error("alone it has no more lines")
	}
}

func TestForms(t *testing.T) {
	c := Config{Registry: fakes{healthy("pods", time.Now())}}
	for _, q := range []struct {
		path, accept string
		code         int
		contentType  string
	}{
		{"/", "", 200, "text/html; charset=utf-8"},
		{"/", "*/*", 200, "application/json"},
		{"/", "application/json", 200, "application/json"},
		{"/", "application/json, text/html;q=0.5", 200, "application/json"},
		{"/", "text/html, application/json;q=0.5", 200, "text/html; charset=utf-8"},
		{"/", "image/png", 200, "application/json"},
		{"/", "text/html;q=0", 200, "application/json"},
		{"/", "text/html; q=0.0, application/json; q=0", 200, "application/json"},
		{"/", "text/html;q=0, text/*, */*;q=0.1", 200, "application/json"},
		{"/", "application/json;q=0, */*", 200, "text/html; charset=utf-8"},
		{"/", "text/*;q=0.5, */*;q=0.1", 200, "text/html; charset=utf-8"},
		{"/", "text/html;q=0.1, */*;q=0.5", 200, "application/json"},
		{"/", "TEXT/HTML", 200, "text/html; charset=utf-8"},
		{"/", ";;;,,/", 200, "application/json"},
		{"/?format=json", "", 200, "application/json"},
		{"/?format=html", "*/*", 200, "text/html; charset=utf-8"},
		{"/?format=yaml", "", 400, "text/plain; charset=utf-8"},
		{"/?limit=7", "*/*", 200, "application/json"},
		{"/?limit=7", "", 200, "text/html; charset=utf-8"},
		{"/?limit=", "*/*", 400, "text/plain; charset=utf-8"},
		{"/?limit=0", "*/*", 400, "text/plain; charset=utf-8"},
		{"/?limit=-1", "*/*", 400, "text/plain; charset=utf-8"},
		{"/?limit=all", "", 400, "text/plain; charset=utf-8"},
		{"/?limit=99999999999999999999", "*/*", 400, "text/plain; charset=utf-8"},
		{"/?refresh=x", "", 400, "text/plain; charset=utf-8"},
		{"/?refresh=0.5s", "", 400, "text/plain; charset=utf-8"},
		{"/?refresh=2h", "", 400, "text/plain; charset=utf-8"},
		{"/?refresh=<script>", "", 400, "text/plain; charset=utf-8"},
	} {
		w := get(t, c, q.path, q.accept)
		if got := w.Header().Get("Content-Type"); w.Code != q.code || got != q.contentType {
			t.Errorf("%s, Accept %q: %d %s, want %d %s", q.path, q.accept, w.Code, got, q.code, q.contentType)
		}
	}
	for path, want := range map[string]string{"/?refresh=5s": "5", "/?refresh=90": "90", "/?refresh=2m": "120", "/": ""} {
		d := parse(t, get(t, c, path, ""))
		got := ""
		for _, meta := range d.all(d.root, "meta") {
			if attr(meta, "http-equiv") == "refresh" {
				got = attr(meta, "content")
			}
		}
		if got != want {
			t.Errorf("%s: reloads after %q, want %q", path, got, want)
		}
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// The slice of a registry of the caller's is the caller's.
func TestSourcesStayAsTheyAre(t *testing.T) {
	own := fakes{healthy("a", time.Now()), healthy("b", time.Now())}.Sources()
	before := slices.Clone(own)
	get(t, Config{Registry: sources(own)}, "/?reflector=b", "")
	if !slices.Equal(own, before) {
		t.Errorf("they are %v now", own)
	}
}

type sources []reflector.Source

func (s sources) Sources() []reflector.Source { return s }

// The browser may use the style that the page has, and nothing else, and keeps nothing.
func TestHeaders(t *testing.T) {
	w := get(t, Config{Registry: fakes{}}, "/", "")
	h := w.Header()
	d := parse(t, w)
	sum := sha256.Sum256([]byte(d.all(d.root, "style")[0].FirstChild.Data))
	csp := h.Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
		t.Errorf("the policy is %q, and the style has the sum %s", csp, base64.StdEncoding.EncodeToString(sum[:]))
	}
	if h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Vary") != "Accept" {
		t.Errorf("the headers are %v", h)
	}
	if text := d.text(d.root); !strings.Contains(text, "No reflector runs.") {
		t.Errorf("of none the page says %q", text)
	}
	w = get(t, Config{Registry: fakes{healthy("a", time.Now())}}, "/?reflector=b", "")
	if d := parse(t, w); !strings.Contains(d.text(d.root), "No reflector of this name runs.") {
		t.Error("of a name that nobody has the page does not say so")
	}
}

func TestNew(t *testing.T) {
	_, err := New(Config{MaxAge: -time.Second})
	if err == nil || !strings.Contains(err.Error(), "Config.Registry is nil") || !strings.Contains(err.Error(), "Config.MaxAge is -1s") {
		t.Errorf("got %v", err)
	}
}

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "-1.0 s", 0: "0 s", 900: "0 s", 15 * time.Microsecond: "15 µs", 15 * time.Millisecond: "15 ms",
		9990 * time.Millisecond: "9.9 s", 59*time.Second + 999*time.Millisecond: "59 s", time.Minute: "1 min", 61 * time.Second: "1 min 1 s",
		3 * time.Hour: "3 h", 47*time.Hour + 59*time.Minute: "47 h 59 min", 50 * time.Hour: "2 d 2 h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1\u202f000", -1234567: "-1\u202f234\u202f567"} {
		if got := number(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 30: "3.0 GiB", 1 << 63: "8.0 EiB"} {
		if got := size(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
	now := time.Now()
	if ago(time.Time{}, now) != "never" || ago(now.Add(-time.Minute), now) != "1 min ago" || until(now, now) != "now" || until(now.Add(3*time.Second), now) != "in 3.0 s" {
		t.Error("times")
	}
	if got := restarts(map[reason.Reason]uint64{reason.EOF: 2, reason.Idle: 2000, reason.Expired: 2}); got != "idle 2\u202f000 · eof 2 · expired 2" {
		t.Errorf("restarts: %q", got)
	}
}
