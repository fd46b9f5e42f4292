package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A watchRow is one watch of the pods of a namespace of its own.
//
// The namespace has these pods when the watch begins: one (created at {one},
// label app=web, node-a, set Running after {two}), two (created at {two},
// app=db, node-b), then gone (created, deleted). {head} is the last of it,
// {before} the first.
type watchRow struct {
	query  string // after watch=1
	accept string
	header http.Header
	// act changes objects once the answer's head has come.
	act func(context.Context, *testing.T, *world)
	// ends says that the server ends the stream. Otherwise a last pod is
	// created, which every selector must let through, and its ADDED ends the record.
	ends bool
}

const sentinel = "sentinel"

// prepare makes the row's namespace.
func (row watchRow) prepare(ctx context.Context, t *testing.T, w *world, name string) *world {
	t.Helper()
	own := w.inNamespace(ctx, t, name)
	own.create(ctx, t, "one", newPod(name, "one", "node-a", map[string]string{"app": "web"}))
	own.create(ctx, t, "two", newPod(name, "two", "node-b", map[string]string{"app": "db"}))
	own.setPhase(ctx, t, name, "one", corev1.PodRunning)
	own.create(ctx, t, "", newPod(name, "gone", "node-a", map[string]string{"app": "web"}))
	own.remove(ctx, t, name, "gone", 0)
	own.mark("head", own.relabel(ctx, t, name, "two", map[string]string{"app": "db", "tier": "back"}).ResourceVersion)
	own.settle(ctx, t)
	return own
}

// record opens the watch, acts and writes down what comes.
func (row watchRow) record(ctx context.Context, t *testing.T, own *world) string {
	t.Helper()
	p := probe{
		path:   "/api/v1/namespaces/{ns}/pods?watch=1" + row.query,
		accept: row.accept, header: row.header,
	}
	return p.recordWatch(ctx, t, own, func(*strings.Builder) func(event) bool {
		if row.act != nil {
			row.act(ctx, t, own)
		}
		if !row.ends {
			// It matches all selectors of the table.
			own.create(ctx, t, "", newPod(own.namespace, sentinel, "node-a", map[string]string{"app": "web"}))
		}
		return isSentinel
	})
}

// recordWatch writes down the answer to a watch. opened is called when it is one, and tells which event is the last;
// what it writes stands before the events.
func (p probe) recordWatch(ctx context.Context, t *testing.T, w *world, opened func(out *strings.Builder) (isLast func(event) bool)) string {
	t.Helper()
	resp, err := p.open(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out strings.Builder
	writeHead(&out, resp)
	if resp.StatusCode != http.StatusOK {
		raw, err := readAll(resp)
		if err != nil {
			t.Fatal(err)
		}
		p.writeBody(&out, w, resp, raw)
		return out.String()
	}
	isLast := opened(&out)
	next, err := eventReader(resp)
	if err != nil {
		t.Fatal(err)
	}
	events, end := readEvents(next, isLast)
	for _, e := range events {
		fmt.Fprintf(&out, "%s ", e.Type)
		w.writeObject(&out, e.Object, p.asked(w))
	}
	fmt.Fprintf(&out, "%s\n", end)
	return out.String()
}

// bookmarkTable records a bookmark in each representation. Servers send one
// each minute, and one or none shortly before a watch's timeout: short watches
// are opened until it comes.
func bookmarkTable(t *testing.T, w *world) {
	rows := map[string]string{"json": mediaJSON, "protobuf": mediaProtobuf, "table": mediaTable, "partial": mediaPartial}
	runTable(t, "bookmark", rows, func(ctx context.Context, t *testing.T, accept string) string {
		own := w.inNamespace(ctx, t, namespaceFor(t))
		own.create(ctx, t, "head", newPod(own.namespace, "one", "node-a", nil))
		p := probe{
			path:   "/api/v1/namespaces/{ns}/pods?watch=1&resourceVersion={head}&allowWatchBookmarks=true&timeoutSeconds=4",
			accept: accept,
		}
		for {
			if record := p.bookmark(ctx, t, own); record != "" {
				return record
			}
		}
	})
}

// bookmark opens a watch and returns the record of its first bookmark, or "".
func (p probe) bookmark(ctx context.Context, t *testing.T, w *world) string {
	t.Helper()
	resp, err := p.open(ctx, w)
	if err != nil {
		t.Fatalf("no bookmark came: %v", err)
	}
	defer resp.Body.Close()
	// Something must have happened, or there is nothing to mark.
	w.relabel(ctx, t, w.namespace, "one", map[string]string{"at": w.values["head"]})
	next, err := eventReader(resp)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	_, end := readEvents(next, func(e event) bool {
		if e.Type != "BOOKMARK" {
			return false
		}
		fmt.Fprintf(&out, "%s ", e.Type)
		w.writeObject(&out, e.Object, p.asked(w))
		return true
	})
	if end != "END" && end != "open" {
		t.Fatalf("the watch is %s", end)
	}
	return out.String()
}

// isSentinel finds the last pod, also in the rows of a Table.
func isSentinel(e event) bool {
	if rows, ok := e.Object["rows"].([]any); ok {
		for _, row := range rows {
			if cells, ok := row.(map[string]any)["cells"].([]any); ok && len(cells) > 0 && cells[0] == sentinel {
				return true
			}
		}
		return false
	}
	return (&unstructured.Unstructured{Object: e.Object}).GetName() == sentinel
}

func watchTable(t *testing.T, w *world) {
	rows := watchRows()
	phase("%s: %d rows", t.Name(), len(rows))
	runTable(t, "watch", rows, func(ctx context.Context, t *testing.T, row watchRow) string {
		return row.record(ctx, t, row.prepare(ctx, t, w, namespaceFor(t)))
	})
}

// expiredWatchTable watches from a past that was dropped. The namespaces of
// other rows serve: nothing of them may come.
func expiredWatchTable(t *testing.T, w *world) {
	rows := map[string]watchRow{
		"rv=1":                 {query: "&resourceVersion=1", ends: true},
		"rv=first":             {query: "&resourceVersion={first}", ends: true},
		"rv=first,protobuf":    {query: "&resourceVersion={first}", accept: mediaProtobuf, ends: true},
		"rv=first,table":       {query: "&resourceVersion={first}", accept: mediaTable, ends: true},
		"rv=first,bookmarks":   {query: "&resourceVersion={first}&allowWatchBookmarks=true", ends: true},
		"rv=first,field":       {query: "&resourceVersion={first}&fieldSelector=spec.nodeName%3Dnode-a", ends: true},
		"rv=first,watch-list":  {query: "&resourceVersion={first}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"},
		"rv=first,initial=off": {query: "&resourceVersion={first}&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", ends: true},
		"rv=0":                 {query: "&resourceVersion=0"},
	}
	runTable(t, "watch-expired", rows, func(ctx context.Context, t *testing.T, row watchRow) string {
		own := w.inNamespace(ctx, t, namespaceFor(t))
		own.values["first"] = w.values["first"]
		own.settle(ctx, t)
		return row.record(ctx, t, own)
	})
}

// namespaceFor makes a namespace's name of a row's.
func namespaceFor(t *testing.T) string {
	var sum uint32 = 2166136261 // FNV-1a, written out: a name needs no more
	for _, b := range []byte(t.Name()) {
		sum = (sum ^ uint32(b)) * 16777619
	}
	return fmt.Sprintf("row-%08x", sum)
}

func watchRows() map[string]watchRow {
	const watchList = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	web, onNodeA := "&labelSelector=app%3Dweb", "&fieldSelector=spec.nodeName%3Dnode-a"
	rows := map[string]watchRow{
		"rv=garbage":       {query: "&resourceVersion=abc"},
		"rv=-1":            {query: "&resourceVersion=-1"},
		"rv=future":        {query: "&resourceVersion={future}&timeoutSeconds=1", ends: true},
		"rv=future,labels": {query: "&resourceVersion={future}&timeoutSeconds=1" + web, ends: true},
		"watch-list,rv=future": {
			query: watchList + "&resourceVersion={future}&timeoutSeconds=6", ends: true},
		"watch-list,rv=garbage": {query: watchList + "&resourceVersion=abc"},
		"match without rv":      {query: "&resourceVersionMatch=NotOlderThan"},
		"continue":              {query: "&continue=abc&resourceVersion={head}"},
		"limit":                 {query: "&limit=1&resourceVersion={one}"},
		"timeout":               {query: "&resourceVersion={head}&timeoutSeconds=1", ends: true},
		"timeout=garbage":       {query: "&resourceVersion={head}&timeoutSeconds=abc"},
		"bookmarks=garbage":     {query: "&resourceVersion={head}&allowWatchBookmarks=abc"},
		"initial=garbage":       {query: "&resourceVersion={head}&sendInitialEvents=abc"},
		"field unknown":         {query: "&resourceVersion={head}&fieldSelector=spec.bogus%3Dx"},
		"label garbage":         {query: "&resourceVersion={head}&labelSelector=app%3D%3D%3D"},

		"protobuf":             {query: "&resourceVersion={one}", accept: mediaProtobuf},
		"protobuf,stream":      {query: "&resourceVersion={one}", accept: mediaProtobuf + ";stream=watch"},
		"json,stream":          {query: "&resourceVersion={one}", accept: "application/json;stream=watch"},
		"protobuf,watch-list":  {query: watchList, accept: mediaProtobuf},
		"protobuf,garbage":     {query: "&resourceVersion=abc", accept: mediaProtobuf},
		"kubectl":              {query: "&resourceVersion={one}", accept: mediaKubectl},
		"table":                {query: "&resourceVersion={one}", accept: mediaTable},
		"table,no objects":     {query: "&resourceVersion={one}&includeObject=None", accept: mediaTable},
		"table,watch-list":     {query: watchList, accept: mediaTable},
		"partial":              {query: "&resourceVersion={one}", accept: mediaPartial},
		"partials":             {query: "&resourceVersion={one}", accept: mediaPartials},
		"partial,watch-list":   {query: watchList, accept: mediaPartial},
		"protobuf,partial":     {query: watchList, accept: protobufPartial},
		"gzip":                 {query: "&resourceVersion={one}", header: http.Header{"Accept-Encoding": {"gzip"}}},
		"gzip,watch-list":      {query: watchList, header: http.Header{"Accept-Encoding": {"gzip"}}},
		"gzip,watch-list,prot": {query: watchList, accept: mediaProtobuf, header: http.Header{"Accept-Encoding": {"gzip"}}},
		"pretty":               {query: "&resourceVersion={one}&pretty=1"},
		"curl":                 {query: "&resourceVersion={one}", header: http.Header{"User-Agent": {"curl/8.0"}}},
		"http10 path":          {query: "&resourceVersion={one}&bogus=1"},

		"labels,rv=before":  {query: "&resourceVersion={before}" + web},
		"labels,rv=0":       {query: "&resourceVersion=0" + web},
		"labels,watch-list": {query: watchList + web},
		"node,rv=before":    {query: "&resourceVersion={before}" + onNodeA},
		"node,rv=0":         {query: "&resourceVersion=0" + onNodeA},
		"node,watch-list":   {query: watchList + onNodeA},
	}
	for name, query := range cross(
		[]string{"resourceVersion", "-", "0", "{before}", "{one}", "{head}"},
		[]string{"resourceVersionMatch", "-", "NotOlderThan", "Exact"},
		[]string{"sendInitialEvents", "-", "true", "false"},
		[]string{"allowWatchBookmarks", "-", "true"},
	) {
		rows[name] = watchRow{query: query}
	}
	for name, act := range actions() {
		rows["live "+name] = watchRow{query: "&resourceVersion={head}", act: act}
		rows["live "+name+",labels"] = watchRow{query: "&resourceVersion={head}" + web, act: act}
		rows["live "+name+",node"] = watchRow{query: "&resourceVersion={head}" + onNodeA, act: act}
		rows["live "+name+",phase"] = watchRow{
			query: "&resourceVersion={head}&fieldSelector=status.phase%21%3DSucceeded", act: act}
	}
	return rows
}

// actions are what happens to pods while they are watched.
func actions() map[string]func(context.Context, *testing.T, *world) {
	web := map[string]string{"app": "web"}
	return map[string]func(context.Context, *testing.T, *world){
		"create": func(ctx context.Context, t *testing.T, w *world) {
			w.create(ctx, t, "", newPod(w.namespace, "three", "node-a", web))
		},
		"label leaves and returns": func(ctx context.Context, t *testing.T, w *world) {
			w.relabel(ctx, t, w.namespace, "one", map[string]string{"app": "other"})
			w.relabel(ctx, t, w.namespace, "one", web)
		},
		"label enters": func(ctx context.Context, t *testing.T, w *world) {
			w.relabel(ctx, t, w.namespace, "two", web)
		},
		"no change": func(ctx context.Context, t *testing.T, w *world) {
			// A write that changes nothing is no write.
			w.relabel(ctx, t, w.namespace, "one", web)
		},
		"phases": func(ctx context.Context, t *testing.T, w *world) {
			w.setPhase(ctx, t, w.namespace, "two", corev1.PodRunning)
			w.setPhase(ctx, t, w.namespace, "two", corev1.PodSucceeded)
		},
		"forced delete": func(ctx context.Context, t *testing.T, w *world) {
			w.remove(ctx, t, w.namespace, "one", 0)
		},
		"graceful delete": func(ctx context.Context, t *testing.T, w *world) {
			w.remove(ctx, t, w.namespace, "one", 30)
			w.remove(ctx, t, w.namespace, "one", 30) // again: no further event
			w.remove(ctx, t, w.namespace, "one", 10)
			w.remove(ctx, t, w.namespace, "one", 0)
		},
		"graceful delete of unscheduled": func(ctx context.Context, t *testing.T, w *world) {
			w.create(ctx, t, "", newPod(w.namespace, "three", "", web))
			w.remove(ctx, t, w.namespace, "three", 30)
		},
		"graceful delete of finished": func(ctx context.Context, t *testing.T, w *world) {
			w.setPhase(ctx, t, w.namespace, "one", corev1.PodSucceeded)
			w.remove(ctx, t, w.namespace, "one", 30)
		},
		"delete and create again": func(ctx context.Context, t *testing.T, w *world) {
			w.remove(ctx, t, w.namespace, "one", 0)
			w.create(ctx, t, "", newPod(w.namespace, "one", "node-b", web))
		},
		"finalizer": func(ctx context.Context, t *testing.T, w *world) {
			pod := newPod(w.namespace, "three", "node-a", web)
			pod.Finalizers = []string{"example.com/hold"}
			w.create(ctx, t, "", pod)
			w.remove(ctx, t, w.namespace, "three", 0)
			w.unfinalize(ctx, t, w.namespace, "three")
		},
		"binding": func(ctx context.Context, t *testing.T, w *world) {
			w.create(ctx, t, "", newPod(w.namespace, "three", "", web))
			w.bind(ctx, t, w.namespace, "three", "node-a")
		},
	}
}
