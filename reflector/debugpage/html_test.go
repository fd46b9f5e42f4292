package debugpage

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// get asks the page of sources for a path, as a browser does unless accept says otherwise.
func get(t *testing.T, c Config, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if accept == "" {
		accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	h.ServeHTTP(w, r)
	return w
}

// document is a page as a browser reads it.
type document struct{ root *html.Node }

func parse(t *testing.T, w *httptest.ResponseRecorder) document {
	t.Helper()
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("%d %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	root, err := html.Parse(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return document{root}
}

// all returns the elements of that name below n.
func (d document) all(n *html.Node, name string) []*html.Node {
	var found []*html.Node
	for c := range n.Descendants() {
		if c.Type == html.ElementNode && c.Data == name {
			found = append(found, c)
		}
	}
	return found
}

// text is what is read below n, on one line; style is not.
func (d document) text(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode && c.Parent.Data != "style" {
			b.WriteString(c.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// rows are the texts of the overview's rows, the reasons left out.
func (d document) rows() []string {
	var rows []string
	for _, tr := range d.all(d.all(d.root, "tbody")[0], "tr") {
		if attr(tr, "class") != "why" {
			rows = append(rows, d.text(tr))
		}
	}
	return rows
}
