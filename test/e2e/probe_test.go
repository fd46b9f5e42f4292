package e2e

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// A probe is one request; its strings may hold {names} of the world's values.
type probe struct {
	method string         // default GET
	path   string         // with query
	user   apiserver.User // default Admin
	token  string         // in place of the user's
	accept string         // default application/json
	body   string
	header http.Header // more headers
}

// open sends the request and returns the answer with its body unread.
func (p probe) open(ctx context.Context, w *world) (*http.Response, error) {
	user := p.user
	if user == "" {
		user = apiserver.Admin
	}
	config := rest.CopyConfig(w.RESTConfig(user))
	config.DisableCompression = true // rows ask for it themselves
	if p.token != "" {
		config.BearerToken = p.token
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	method := p.method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, config.Host+w.expand(p.path), strings.NewReader(w.expand(p.body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "e2e")
	if p.accept != "" {
		req.Header.Set("Accept", p.accept)
	}
	if p.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range p.header {
		req.Header[name] = values
	}
	return transport.RoundTrip(req)
}

// asked returns the resourceVersion that the request names.
func (p probe) asked(w *world) string {
	u, err := url.Parse(w.expand(p.path))
	if err != nil {
		return ""
	}
	return u.Query().Get("resourceVersion")
}

// record sends the request and puts the whole answer into words that do not
// depend on the server's clock, addresses and versions.
func (p probe) record(ctx context.Context, t *testing.T, w *world) string {
	t.Helper()
	resp, err := p.open(ctx, w)
	if err != nil {
		t.Fatalf("%s %s: %v", p.method, p.path, err)
	}
	defer resp.Body.Close()
	raw, err := readAll(resp)
	if err != nil {
		t.Fatalf("%s %s: read the body: %v", p.method, p.path, err)
	}
	var out strings.Builder
	writeHead(&out, resp)
	p.writeBody(&out, w, resp, raw)
	return out.String()
}

func readAll(resp *http.Response) ([]byte, error) {
	body, err := plain(resp)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(body)
}

// plain returns the body without its compression.
func plain(resp *http.Response) (io.Reader, error) {
	if resp.Header.Get("Content-Encoding") == "gzip" {
		return gzip.NewReader(resp.Body)
	}
	return resp.Body, nil
}

// writeHead writes the status and the headers that clients act on.
func writeHead(out *strings.Builder, resp *http.Response) {
	fmt.Fprintf(out, "%d\n", resp.StatusCode)
	for _, name := range []string{"Allow", "Cache-Control", "Content-Encoding", "Content-Type",
		"Location", "Retry-After", "Vary", "Warning", "Www-Authenticate"} {
		if values := resp.Header.Values(name); len(values) > 0 {
			fmt.Fprintf(out, "%s: %s\n", name, strings.Join(values, " | "))
		}
	}
}

// writeBody writes a body of any kind and encoding.
func (p probe) writeBody(out *strings.Builder, w *world, resp *http.Response, raw []byte) {
	object, err := decode(raw)
	if err != nil {
		fmt.Fprintf(out, "body %q\n", numbers(string(raw)))
		return
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		layout := "compact"
		if strings.Contains(string(raw), "\n  ") {
			layout = "pretty"
		}
		fmt.Fprintf(out, "%s, ends with newline: %t\n", layout, strings.HasSuffix(string(raw), "\n"))
	}
	w.writeObject(out, object, p.asked(w))
}

// codecs know the kinds of client-go, and Table and PartialObjectMetadata.
var codecs = func() serializer.CodecFactory {
	kinds := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(kinds))
	utilruntime.Must(metav1.AddMetaToScheme(kinds))
	return serializer.NewCodecFactory(kinds)
}()

// decode reads JSON or protobuf into the form of JSON.
func decode(raw []byte) (map[string]any, error) {
	var object map[string]any
	// This Unmarshal makes int64 of whole numbers, as the helpers of unstructured want.
	if err := utiljson.Unmarshal(raw, &object); err == nil {
		return object, nil
	}
	typed, gvk, err := codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	if object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
		return nil, err
	}
	object["apiVersion"], object["kind"] = gvk.ToAPIVersionAndKind()
	return object, nil
}

// writeObject writes a Status, a Table, a list or one object.
func (w *world) writeObject(out *strings.Builder, object map[string]any, asked string) {
	u := unstructured.Unstructured{Object: object}
	fmt.Fprintf(out, "%s %s\n", u.GetAPIVersion(), u.GetKind())
	switch {
	case u.GetKind() == "Status":
		writeStatus(out, object)
	case u.GetKind() == "Table":
		w.writeListMeta(out, object, asked)
		w.writeTable(out, object, asked)
	case u.IsList():
		w.writeListMeta(out, object, asked)
		items, _ := object["items"].([]any)
		fmt.Fprintf(out, "%d items\n", len(items))
		for _, item := range items {
			fmt.Fprintf(out, "  %s\n", w.line(item.(map[string]any), asked))
		}
	default:
		fmt.Fprintf(out, "%s\n", w.line(object, asked))
	}
}

// writeStatus writes a Status field by field, numbers of messages as N.
func writeStatus(out *strings.Builder, object map[string]any) {
	if meta, _ := object["metadata"].(map[string]any); meta != nil && meta["continue"] != nil {
		meta["continue"] = "TOKEN"
	}
	delete(object, "apiVersion")
	delete(object, "kind")
	text, _ := json.MarshalIndent(object, "", "  ")
	for line := range strings.Lines(string(text) + "\n") {
		if strings.Contains(line, `"message"`) {
			line = numbers(uuids.ReplaceAllString(line, "UID"))
		}
		out.WriteString(line)
	}
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

var digits = regexp.MustCompile(`[0-9]+`)

func numbers(s string) string { return digits.ReplaceAllString(s, "N") }

// writeListMeta writes the metadata of a list.
func (w *world) writeListMeta(out *strings.Builder, object map[string]any, asked string) {
	meta, _ := object["metadata"].(map[string]any)
	rv, _ := meta["resourceVersion"].(string)
	token, _ := meta["continue"].(string)
	fmt.Fprintf(out, "resourceVersion %s, continue %t, remainingItemCount %v\n",
		w.version(rv, asked), token != "", meta["remainingItemCount"])
	if info, ok := meta["shardInfo"].(map[string]any); ok {
		fmt.Fprintf(out, "shardInfo %v\n", info["selector"])
	}
}

// writeTable writes columns and rows; ages are left out.
func (w *world) writeTable(out *strings.Builder, object map[string]any, asked string) {
	columns, _ := object["columnDefinitions"].([]any)
	for _, c := range columns {
		column := c.(map[string]any)
		fmt.Fprintf(out, "  column %v %v format=%v priority=%v\n", column["name"], column["type"], column["format"], column["priority"])
	}
	rows, _ := object["rows"].([]any)
	for _, r := range rows {
		row := r.(map[string]any)
		cells, _ := row["cells"].([]any)
		var words []string
		for _, cell := range cells {
			text := fmt.Sprint(cell)
			if regexp.MustCompile(`^[0-9]+s$`).MatchString(text) {
				text = "AGE"
			}
			words = append(words, text)
		}
		fmt.Fprintf(out, "  row %s\n", strings.Join(words, " | "))
		if item, _ := row["object"].(map[string]any); item != nil {
			fmt.Fprintf(out, "    %v %v %s\n", item["apiVersion"], item["kind"], w.line(item, asked))
		}
	}
}

// line writes what the suites look at in one object.
func (w *world) line(object map[string]any, asked string) string {
	u := unstructured.Unstructured{Object: object}
	name := u.GetName()
	if ns := u.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	if w.namespace != "" {
		name = strings.Replace(name, w.namespace, "NS", 1)
	}
	words := []string{name, "rv=" + w.version(u.GetResourceVersion(), asked)}
	for _, at := range [][]string{{"spec", "nodeName"}, {"status", "phase"}, {"status", "podIP"}} {
		if value, ok, _ := unstructured.NestedString(object, at...); ok && value != "" {
			words = append(words, at[1]+"="+value)
		}
	}
	if labels := u.GetLabels(); len(labels) > 0 {
		text, _ := json.Marshal(labels) // sorted by key
		words = append(words, "labels="+string(text))
	}
	if u.GetDeletionTimestamp() != nil {
		words = append(words, "deleting")
	}
	if grace := u.GetDeletionGracePeriodSeconds(); grace != nil {
		words = append(words, fmt.Sprintf("grace=%d", *grace))
	}
	if u.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "" {
		words = append(words, "initial-events-end="+u.GetAnnotations()[metav1.InitialEventsAnnotationKey])
	}
	for _, field := range []string{"uid", "creationTimestamp"} {
		if value, ok, _ := unstructured.NestedString(object, "metadata", field); !ok || value == "" {
			words = append(words, "no-"+field)
		}
	}
	return strings.Join(words, " ")
}

// An event is one event of a watch, its object in the form of JSON.
type event struct {
	Type   string
	Object map[string]any
}

// eventReader returns a function that reads the next event of a watch, io.EOF
// at the clean end of the stream.
func eventReader(resp *http.Response) (func() (event, error), error) {
	body, err := plain(resp)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/vnd.kubernetes.protobuf") {
		return func() (event, error) { return protobufEvent(body) }, nil
	}
	dec := json.NewDecoder(body)
	return func() (event, error) {
		var wire struct {
			Type   string
			Object json.RawMessage
		}
		if err := dec.Decode(&wire); err != nil {
			return event{}, err
		}
		object, err := decode(wire.Object)
		return event{Type: wire.Type, Object: object}, err
	}, nil
}

// protobufEvent reads one frame: four bytes of length, then a WatchEvent.
func protobufEvent(body io.Reader) (event, error) {
	var length [4]byte
	if _, err := io.ReadFull(body, length[:]); err != nil {
		return event{}, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > 1<<24 {
		return event{}, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(body, frame); err != nil {
		return event{}, errors.Join(err, errors.New("a frame was cut"))
	}
	var wire metav1.WatchEvent
	if err := wire.Unmarshal(frame); err != nil {
		return event{}, err
	}
	object, err := decode(wire.Object.Raw)
	return event{Type: wire.Type, Object: object}, err
}
