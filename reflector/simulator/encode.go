package simulator

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

const (
	namespace = "default"
	// selectorLabel is on the objects that match the client's selector.
	selectorLabel = "app"
	// contentNote is the annotation that tells which version's content this is.
	contentNote = "write"
	// maxItemBytes is the client's limit of one object, which huge versions exceed.
	maxItemBytes = 4 << 10
)

// wireKey names one encoding of a version.
type wireKey struct {
	enc decode.Encoding
	// left: as the DELETED of an object that left the selector, which has the
	// content from before and the resourceVersion of now.
	left bool
}

// content is the version whose content an event about v shows.
func (v *version) content() *version {
	if !v.gone && !v.in && v.prev != nil {
		return v.prev
	}
	return v
}

// object returns v as the object of an event or an item.
func (v *version) object(enc decode.Encoding) []byte {
	c := v.content()
	k := wireKey{enc, c != v}
	if raw := v.wire[k]; raw != nil {
		return raw
	}
	pad := ""
	if c.flaw == huge && !v.gone {
		pad = strings.Repeat("x", maxItemBytes)
	}
	mistype := c.flaw == mistyped && !v.gone
	var raw []byte
	if enc == decode.JSON {
		raw = jsonPod(v, c, mistype, pad)
	} else {
		raw = protobufPod(v, c, mistype, pad)
	}
	v.wire[k] = raw
	return raw
}

const jsonHead = `{"kind":"Pod","apiVersion":"v1",`

func jsonPod(v, c *version, mistype bool, pad string) []byte {
	labels, policy := "", `"Always"`
	if c.in {
		labels = `"` + selectorLabel + `":"x"`
	}
	if mistype {
		policy = "7"
	}
	return fmt.Appendf(nil, jsonHead+`"metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d",`+
		`"labels":{%s},"annotations":{%q:"%d","pad":%q}},"spec":{"restartPolicy":%s},"status":{"phase":"Running"}}`,
		v.name, namespace, v.uid, v.rv, labels, contentNote, c.seq, pad, policy)
}

// protobufPod returns the message alone, without the envelope, as items of lists are.
func protobufPod(v, c *version, mistype bool, pad string) []byte {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: v.name, Namespace: namespace, UID: types.UID(v.uid), ResourceVersion: strconv.FormatInt(v.rv, 10),
			Annotations: map[string]string{contentNote: strconv.Itoa(c.seq), "pad": pad},
		},
		Spec:   corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if c.in {
		pod.Labels = map[string]string{selectorLabel: "x"}
	}
	raw := must(pod.Marshal())
	if mistype {
		// A spec that ends in the middle of a field.
		raw = protowire.AppendTag(raw, 2, protowire.BytesType)
		raw = protowire.AppendBytes(raw, []byte{0x1a, 0x7f})
	}
	return raw
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the model's own bytes
	}
	return v
}

// envelope puts a protobuf message into what API servers send.
func envelope(apiVersion, kind string, raw []byte) []byte {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	return append([]byte(decode.Magic), must(u.Marshal())...)
}

// event returns the bytes of one watch event; object is in the encoding, and for
// protobuf in its envelope.
func event(enc decode.Encoding, typ string, object []byte) []byte {
	if enc == decode.JSON {
		return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", typ, object)
	}
	ext := protowire.AppendTag(nil, 1, protowire.BytesType)
	ext = protowire.AppendBytes(ext, object)
	msg := protowire.AppendTag(nil, 1, protowire.BytesType)
	msg = protowire.AppendString(msg, typ)
	msg = protowire.AppendTag(msg, 2, protowire.BytesType)
	msg = protowire.AppendBytes(msg, ext)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...)
}

// podEvent returns an event about v.
func podEvent(enc decode.Encoding, typ string, v *version) []byte {
	raw := v.object(enc)
	if enc == decode.Protobuf {
		raw = envelope("v1", "Pod", raw)
	}
	return event(enc, typ, raw)
}

// bookmark returns a BOOKMARK event. odd is one as some servers send it: with
// nothing in it but what must be, and fields that are null.
func bookmark(enc decode.Encoding, rv int64, end, odd bool) []byte {
	notes := map[string]string{}
	if end {
		notes[metav1.InitialEventsAnnotationKey] = "true"
	}
	if enc == decode.JSON {
		kind := `"kind":"Pod","apiVersion":"v1",`
		if odd {
			kind = ""
		}
		return event(enc, "BOOKMARK", fmt.Appendf(nil, `{%s"metadata":{"resourceVersion":"%d","annotations":%s},"spec":{"containers":null},"status":{}}`,
			kind, rv, must(json.Marshal(notes))))
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatInt(rv, 10), Annotations: notes}}
	return event(enc, "BOOKMARK", envelope("v1", "Pod", must(pod.Marshal())))
}

// foreign returns an event about a Node, or a Status where an object should be.
func foreign(enc decode.Encoding, rv int64, status bool) []byte {
	if status {
		return event(enc, "ADDED", statusBytes(enc, &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}))
	}
	meta := metav1.ObjectMeta{Name: "p00", Namespace: namespace, UID: "node", ResourceVersion: strconv.FormatInt(rv, 10)}
	if enc == decode.JSON {
		return event(enc, "ADDED", fmt.Appendf(nil, `{"kind":"Node","apiVersion":"v1","metadata":%s}`, must(json.Marshal(meta))))
	}
	node := corev1.Node{ObjectMeta: meta}
	return event(enc, "ADDED", envelope("v1", "Node", must(node.Marshal())))
}

// statusBytes encodes s, in its envelope.
func statusBytes(enc decode.Encoding, s *metav1.Status) []byte {
	if enc == decode.JSON {
		s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		return must(json.Marshal(s))
	}
	return envelope("v1", "Status", must(s.Marshal()))
}

// listBytes encodes one page.
func listBytes(enc decode.Encoding, rv int64, token string, remaining int64, items []*version) []byte {
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatInt(rv, 10), Continue: token}
	if token != "" {
		meta.RemainingItemCount = &remaining
	}
	if enc == decode.JSON {
		b := fmt.Appendf(nil, `{"kind":"PodList","apiVersion":"v1","metadata":%s,"items":[`, must(json.Marshal(meta)))
		for i, v := range items {
			if i > 0 {
				b = append(b, ',')
			}
			// Items of built-in types do not say their kind.
			b = append(b, '{')
			b = append(b, bytes.TrimPrefix(v.object(enc), []byte(jsonHead))...)
		}
		return append(b, "]}\n"...)
	}
	b := protowire.AppendTag(nil, 1, protowire.BytesType)
	b = protowire.AppendBytes(b, must(meta.Marshal()))
	for _, v := range items {
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		b = protowire.AppendBytes(b, v.object(enc))
	}
	return envelope("v1", "PodList", b)
}

// gzipped compresses parts of a stream into stored blocks: what matters here is
// where members and blocks end, not how small they are.
type gzipped struct {
	how   members
	crc   uint32
	size  uint32
	begun bool
	late  []byte // the trailer that comes with the next part
}

var (
	gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}
	flushBlock = []byte{0, 0, 0, 0xff, 0xff} // stored, empty
	lastBlock  = []byte{1, 0, 0, 0xff, 0xff} // the same, final
)

// part returns the bytes that carry p, and at how many of them, from the start,
// all of p but its last byte is there.
func (z *gzipped) part(p []byte) (out []byte, own int) {
	out = append(out, z.late...)
	z.late = nil
	if !z.begun {
		out = append(out, gzipHeader...)
		z.begun, z.crc, z.size = true, 0, 0
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), 60000)
		out = append(out, 0, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
		out = append(out, rest[:n]...)
		rest = rest[n:]
	}
	own = len(out) - 1
	z.crc, z.size = crc32.Update(z.crc, crc32.IEEETable, p), z.size+uint32(len(p))
	switch z.how {
	case oneMember:
		out = append(out, flushBlock...)
	case eachFlushed:
		out = append(append(out, flushBlock...), z.end()...)
	case eachClosed:
		out = append(out, z.end()...)
	case lateTrailer:
		// Where the data ends is known; the checksum comes later.
		end := z.end()
		out = append(out, end[:len(lastBlock)]...)
		z.late = end[len(lastBlock):]
	}
	return out, own
}

// end closes the member, if one is open.
func (z *gzipped) end() []byte {
	if !z.begun {
		out := z.late
		z.late = nil
		return out
	}
	z.begun = false
	out := append([]byte(nil), lastBlock...)
	out = binary.LittleEndian.AppendUint32(out, z.crc)
	return binary.LittleEndian.AppendUint32(out, z.size)
}
