package podconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// lineFinder tells the line of a field of a manifest. It parses the text anew, with
// positions, and only when there is an error to explain.
type lineFinder struct {
	text []byte
	// prefix is the path of the pod in the document: "" or that of an item of a list.
	prefix string
}

// below is the finder for paths that begin at a path of this one.
func (f lineFinder) below(path string) lineFinder {
	f.prefix = path
	return f
}

// at puts the line of a field in front of an error; without one where the field
// and all above it are not in the text.
func (f lineFinder) at(path string, err error) error {
	if line := f.line(path); line > 0 {
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// explain puts the line in front of what a decoder or the validation says.
func (f lineFinder) explain(err error) error {
	var invalid *field.Error
	if errors.As(err, &invalid) {
		return f.at(invalid.Field, err)
	}
	var mismatch *json.UnmarshalTypeError // of sigs.k8s.io/json too
	if errors.As(err, &mismatch) {
		return f.at(mismatch.Field, fmt.Errorf("%s: a %s cannot be a %s", mismatch.Field, mismatch.Value, mismatch.Type))
	}
	return err
}

// line returns the line of the deepest part of a path that is in the text, from 1; 0
// where nothing of it is. A path is as package field prints it, such as
// spec.containers[0].image. A step into a list without an index is followed where
// the list has one element.
func (f lineFinder) line(path string) int {
	var doc yaml.Node
	if yaml.Unmarshal(f.text, &doc) != nil || len(doc.Content) == 0 {
		return 0
	}
	node, line := doc.Content[0], 0
	if f.prefix != "" {
		path = f.prefix + "." + path
	}
	for _, step := range pathSteps(path) {
		var at int
		if node, at = descend(node, step); node == nil {
			break
		}
		line = at
	}
	return line
}

// descend returns what is at one step below a node, and the line where it begins.
func descend(node *yaml.Node, step string) (*yaml.Node, int) {
	// Bounded, since an alias may lead to what it is in.
	for range 10 {
		switch node.Kind {
		case yaml.AliasNode:
			node = node.Alias
		case yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == step {
					return node.Content[i+1], node.Content[i].Line
				}
			}
			return nil, 0
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
				return node.Content[i], node.Content[i].Line
			}
			if len(node.Content) != 1 {
				return nil, 0
			}
			node = node.Content[0]
		default:
			return nil, 0
		}
	}
	return nil, 0
}

// pathSteps cuts a path at its dots and brackets. A key in brackets may have
// dots in it: metadata.annotations[example.com/a] has three steps.
func pathSteps(path string) (steps []string) {
	for path != "" {
		var step string
		if rest, ok := strings.CutPrefix(path, "["); ok {
			step, path, _ = strings.Cut(rest, "]")
		} else if i := strings.IndexAny(path, ".["); i >= 0 {
			step, path = path[:i], path[i:]
		} else {
			step, path = path, ""
		}
		path = strings.TrimPrefix(path, ".")
		if step != "" {
			steps = append(steps, step)
		}
	}
	return steps
}
