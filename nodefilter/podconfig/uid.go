package podconfig

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// uidScheme names how UIDs are made. It is a part of what is hashed: whoever
// changes the scheme changes this name, all UIDs with it, and the golden test. An
// upgrade that does so restarts every static pod.
const uidScheme = "nodewatch static pod 1"

// manifestUID is the hash of a manifest, and the UID of a pod that was first seen with it (see
// staticPods.continues): 32 hexadecimal digits, as the kubelet's are. It depends on the source, the node, the place of the manifest and what it
// says, and on nothing else: not on comments, the order of fields, YAML or JSON, and
// not on the Go types and defaults of the Kubernetes version that nodewatch was built
// with, of which the kubelet's own UID is made (kubeletUID).
//
// It is the first half of the SHA-256 of scheme, source, node, place and the
// JSON of the manifest: as encoding/json writes it, with sorted keys, without
// nulls, and without apiVersion and kind, which need not be there in a list. Each
// has its length (64 bits, big endian) before it, so that no two sequences are one text.
func manifestUID(tree map[string]any, source Source, node, where string) types.UID {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(uidScheme), []byte(source), []byte(node), []byte(where), canonical(tree)} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	return types.UID(hex.EncodeToString(h.Sum(nil)[:16]))
}

// canonical is one text for all ways to write a manifest.
func canonical(tree map[string]any) []byte {
	plain := maps.Clone(tree)
	delete(plain, "apiVersion")
	delete(plain, "kind")
	text, err := json.Marshal(withoutNulls(plain))
	if err != nil {
		// A tree of JSON values cannot fail.
		panic("podconfig: " + err.Error())
	}
	return text
}

// withoutNulls is the value without the fields that are null: those are not set.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			if value != nil {
				out[key] = withoutNulls(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutNulls(v[i])
		}
		return out
	}
	return v
}
