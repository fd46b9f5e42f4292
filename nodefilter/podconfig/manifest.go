package podconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// MaxManifestBytes is the largest manifest, of a file or of a URL: 10 MiB, the
// kubelet's limit.
const MaxManifestBytes = 10 << 20

var (
	errManifestEmpty    = errors.New("it is empty: write a pod, or remove it")
	errManifestTooLarge = fmt.Errorf("it is larger than %d bytes, the limit of a manifest", MaxManifestBytes)
)

// manifest is one pod as it was written: decoded, without defaults.
type manifest struct {
	pod *corev1.Pod
	// tree is the JSON form of what was written, whatever the fields are: it is
	// what the UID is made of, so that neither a Go type nor a default is in it.
	tree map[string]any
	// doubts are what was written and has no effect: unknown fields, keys twice.
	// The kubelet ignores them, and so do the pods made here; somebody may want to know.
	doubts []string
	lines  lineFinder
}

// readManifest reads up to the limit.
func readManifest(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxManifestBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxManifestBytes:
		return nil, errManifestTooLarge
	}
	return data, nil
}

// manifestParser reads manifests as a Behaviour has it.
type manifestParser struct{ behaviour Behaviour }

// pod reads one pod, as YAML or JSON. A list of pods is an error, and so is a
// second document: nobody could tell which of them was meant to run. The kubelet
// takes the first document and says nothing.
func (p manifestParser) pod(data []byte) (*manifest, error) {
	d, err := p.document(data)
	if err != nil {
		return nil, err
	}
	if err := d.is("Pod"); err != nil {
		return nil, err
	}
	return d.manifest(d.json, d.tree, "")
}

// podsItem is one pod of a PodList: a manifest, or why it is none.
type podsItem struct {
	*manifest
	// name and namespace are what can be told of the pod also where err is set.
	namespace, name string
	index           int // in the list; -1 for a pod alone
	err             error
}

// pods reads a Pod or a PodList. An error is one of the whole document; one of
// an item stands with it.
func (p manifestParser) pods(data []byte) ([]podsItem, error) {
	d, err := p.document(data)
	if err != nil {
		return nil, err
	}
	if d.kind() != "PodList" {
		if err := d.is("Pod"); err != nil {
			return nil, err
		}
		m, err := d.manifest(d.json, d.tree, "")
		ns, name := nameIn(d.tree)
		return []podsItem{{manifest: m, namespace: ns, name: name, index: -1, err: err}}, nil
	}
	if err := d.is("PodList"); err != nil {
		return nil, err
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(d.json, &list); err != nil {
		return nil, d.lines.explain(err)
	}
	items := make([]podsItem, 0, len(list.Items))
	for i, raw := range list.Items {
		item := podsItem{index: i}
		var tree map[string]any
		if tree, item.err = jsonTree(raw); item.err == nil {
			item.namespace, item.name = nameIn(tree)
			// Items of a typed list need not name their kind, but cannot have another one.
			if k, _ := tree["kind"].(string); k != "" && k != "Pod" {
				item.err = fmt.Errorf("items[%d] is a %s, not a Pod", i, shorten(k))
			} else {
				item.manifest, item.err = d.manifest(raw, tree, fmt.Sprintf("items[%d]", i))
			}
		}
		items = append(items, item)
	}
	return items, nil
}

// document is one YAML or JSON document.
type document struct {
	json   []byte
	tree   map[string]any
	doubts []string
	lines  lineFinder
}

func (p manifestParser) document(data []byte) (*document, error) {
	docs := splitDocuments(data)
	switch {
	case len(docs) == 0:
		return nil, errManifestEmpty
	case len(docs) > 1 && p.behaviour != KubeletCompatible:
		return nil, fmt.Errorf("line %d: a second document begins; a manifest is one document, put each pod into a file of its own",
			1+bytes.Count(data[:docs[1].start], []byte("\n")))
	}
	// What is before the document stays, so that lines are those of the file.
	text := data[:docs[0].end]
	d := &document{lines: lineFinder{text: text}}
	var err error
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) && (p.behaviour == KubeletCompatible || json.Valid(text)) {
		// The kubelet takes all that begins so for JSON, and not for YAML in its flow style.
		d.json = text
	} else if d.json, err = yaml.YAMLToJSON(text); err != nil {
		return nil, errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: "))
	} else if _, err := yaml.YAMLToJSONStrict(text); err != nil {
		d.doubts = append(d.doubts, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if d.tree, err = jsonTree(d.json); err != nil {
		return nil, err
	}
	return d, nil
}

// kind is what the document says that it is.
func (d *document) kind() string {
	k, _ := d.tree["kind"].(string)
	return k
}

// is returns an error where the document is not of the kind in the version v1.
func (d *document) is(kind string) error {
	version, _ := d.tree["apiVersion"].(string)
	switch got := d.kind(); {
	case got == "":
		return d.lines.at("kind", fmt.Errorf("kind is missing: a manifest begins with apiVersion: v1 and kind: %s", kind))
	case got != kind:
		return d.lines.at("kind", fmt.Errorf("kind is %q, it must be %s", shorten(got), kind))
	case version != "v1":
		return d.lines.at("apiVersion", fmt.Errorf("apiVersion is %q, it must be v1", shorten(version)))
	}
	return nil
}

// manifest decodes a pod that is at a path of the document, as the kubelet does: names of
// fields are case-sensitive, unknown ones are ignored.
func (d *document) manifest(text []byte, tree map[string]any, at string) (*manifest, error) {
	m := &manifest{pod: new(corev1.Pod), tree: tree, doubts: d.doubts, lines: d.lines.below(at)}
	doubts, err := kjson.UnmarshalStrict(text, m.pod)
	if err != nil {
		return nil, m.lines.explain(err)
	}
	for _, doubt := range doubts {
		m.doubts = append(m.doubts, strings.TrimPrefix(doubt.Error(), "json: "))
	}
	if at == "" {
		// The kubelet's decoder takes the kind from what it decodes, but leaves it in the
		// items of a list, and so in their UIDs.
		m.pod.TypeMeta = metav1.TypeMeta{}
	}
	return m, nil
}

// jsonTree decodes an object. Numbers keep their text.
func jsonTree(text []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	tree, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object: a manifest begins with apiVersion: v1 and kind: Pod")
	}
	return tree, nil
}

// nameIn is what a tree says of the name of its object, as far as it does.
func nameIn(tree map[string]any) (namespace, name string) {
	meta, _ := tree["metadata"].(map[string]any)
	namespace, _ = meta["namespace"].(string)
	name, _ = meta["name"].(string)
	return namespace, name
}

// span is a part of a text.
type span struct{ start, end int }

// splitDocuments finds the documents of a YAML stream that hold something: more than
// comments and directives. JSON is one document. A line that begins with ---
// is a marker wherever it stands, since no scalar may have one (YAML 1.2, 9.1.2).
func splitDocuments(data []byte) (docs []span) {
	start, holds := 0, false
	end := func(at int) {
		if holds {
			docs = append(docs, span{start, at})
		}
		start, holds = at, false
	}
	for at := 0; at < len(data); {
		line := data[at:]
		next := len(data)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line, next = line[:i], at+i+1
		}
		if isMarker(line, "---") || isMarker(line, "...") {
			end(at)
			line = line[3:]
		}
		line = bytes.TrimSpace(line)
		// A byte order mark alone is nothing.
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		if len(line) > 0 && line[0] != '#' && (line[0] != '%' || holds) {
			holds = true
		}
		at = next
	}
	end(len(data))
	return docs
}

// isMarker reports whether a line is a document marker, alone or before a value.
func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r')
}

// shorten keeps a text that came from outside from filling an error message.
func shorten(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
