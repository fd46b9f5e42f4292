package debugpage

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the page's template and style
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/health"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// policy is the Content-Security-Policy: the page's own style and nothing else.
var policy = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(pageCSS) },
	"ago":   ago, "until": until, "span": span, "stamp": stamp,
	"number": number, "size": size, "text": shortText, "long": longText,
	"restarts": restarts, "outcomes": outcomes, "mean": mean, "progress": progress,
	"events":  func(counts map[string]uint64) string { return words(reflector.EventTypes(), counts) },
	"ignored": func(counts map[string]uint64) string { return words(reflector.Causes(), counts) },
}).Parse(pageHTML))

// Config says what to show. Only Registry must be set.
type Config struct {
	// Registry has the reflectors, as a *reflector.Registry does.
	Registry interface{ Sources() []reflector.Source }
	// MaxAge is how old the knowledge of a reflector may be before it is shown as
	// not fresh: that of the readiness probe. Default: health.DefaultMaxAge.
	MaxAge time.Duration
	// Title is the page's. Default: "Reflectors".
	Title string
}

// New returns the handler of the page and its JSON. It answers GET and HEAD.
func New(c Config) (http.Handler, error) {
	var errs []error
	if c.Registry == nil {
		errs = append(errs, errors.New("debugpage: Config.Registry is nil: pass the *reflector.Registry of the reflectors' Config.Registry"))
	}
	if c.MaxAge < 0 {
		errs = append(errs, fmt.Errorf("debugpage: Config.MaxAge is %v: use a positive age, or 0 for %v", c.MaxAge, health.DefaultMaxAge))
	}
	c.MaxAge = cmp.Or(c.MaxAge, health.DefaultMaxAge)
	c.Title = cmp.Or(c.Title, "Reflectors")
	return &handler{c}, errors.Join(errs...)
}

type handler struct{ cfg Config }

// What the two forms are called in ?format.
const (
	formatJSON = "json"
	formatHTML = "html"
)

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Security-Policy", policy)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	q := r.URL.Query()
	format := q.Get("format")
	if format == "" {
		header.Set("Vary", "Accept")
		format = accepted(r.Header.Get("Accept"))
	}
	refresh, err := parseRefresh(q.Get("refresh"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	limit, err := parseLimit(q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sources := h.cfg.Registry.Sources()
	name, one := q.Get("reflector"), q.Has("reflector")
	if one {
		sources = slices.DeleteFunc(slices.Clone(sources), func(s reflector.Source) bool { return s.Status().Name != name })
	}
	now := time.Now()
	views := viewsOf(sources, h.cfg.MaxAge, now)
	var body bytes.Buffer
	switch format {
	case formatJSON:
		header.Set("Content-Type", "application/json")
		err = writeJSON(&body, views, limit)
	case formatHTML:
		header.Set("Content-Type", "text/html; charset=utf-8")
		v := newPageView(h.cfg, views, now)
		v.Refresh, v.One, v.Name = refresh, one, name
		err = page.Execute(&body, v)
	default:
		http.Error(w, "format must be json or html", http.StatusBadRequest)
		return
	}
	if err != nil {
		http.Error(w, "the page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = body.WriteTo(w) // the reader went away
}

// accepted is the form that an Accept header asks for: HTML where that is preferred, as browsers do, and JSON where it
// is all the same. Who refuses both gets JSON: that can be read, and an empty answer cannot.
func accepted(accept string) string {
	if quality(accept, "text", "html") > quality(accept, "application", "json") {
		return formatHTML
	}
	return formatJSON
}

// quality is how much an Accept header likes a media type: the q of the most specific range that has it, and 0, which
// is "not acceptable", where none does (RFC 9110, 12.5.1). goautoneg.Negotiate takes q=0 for an acceptable type that is
// liked least.
func quality(accept, major, minor string) float64 {
	q, best := 0.0, 0
	for _, r := range goautoneg.ParseAccept(strings.ToLower(accept)) {
		specific := 0
		switch {
		case r.Type == major && r.SubType == minor:
			specific = 3
		case r.Type == major && r.SubType == "*":
			specific = 2
		case r.Type == "*" && r.SubType == "*":
			specific = 1
		}
		if specific > best {
			q, best = r.Q, specific
		}
	}
	return q
}

// parseLimit returns the number of ?limit, 0 for none.
func parseLimit(q url.Values) (int, error) {
	if !q.Has("limit") {
		return 0, nil
	}
	n, err := strconv.Atoi(q.Get("limit"))
	if err != nil || n < 1 {
		return 0, fmt.Errorf("limit must be a positive number, as in 500; without it there are at most %d reflectors", sectionsShown)
	}
	return n, nil
}

// parseRefresh returns the seconds of ?refresh, 0 for none.
func parseRefresh(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if n, bad := strconv.Atoi(s); bad == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < time.Second || d > time.Hour {
		return 0, errors.New("refresh must be a duration from 1s to 1h, as in 5s")
	}
	return int(d / time.Second), nil
}
