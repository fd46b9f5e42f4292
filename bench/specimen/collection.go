package specimen

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// A Collection is the body of a LIST, or the initial events of a watch-list, of
// many pods. It is encoded in pieces and never held as objects, so that one of 100,000
// pods costs little more than its bytes.
type Collection struct {
	begin, end []byte
	pieces     [][]byte
	version    string
}

// podsPerPiece is how many pods are encoded at a time.
const podsPerPiece = 250

// NewList returns the same bytes as List with the pods 0 to n-1.
func NewList(mediaType string, n int, resourceVersion string) (*Collection, error) {
	c := &Collection{version: resourceVersion}
	var err error
	if mediaType == JSON {
		c.begin = []byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"` + resourceVersion + `"},"items":[`)
		c.end = []byte("]}")
		c.pieces, err = pieces(n, func(dst []byte, pod *corev1.Pod, first bool) ([]byte, error) {
			if !first {
				dst = append(dst, ',')
			}
			raw, err := json.Marshal(pod)
			return append(dst, raw...), err
		})
		return c, err
	}
	c.pieces, err = pieces(n, func(dst []byte, pod *corev1.Pod, _ bool) ([]byte, error) {
		raw, err := pod.Marshal()
		dst = binary.AppendUvarint(append(dst, 2<<3|2), uint64(len(raw))) // PodList.items
		return append(dst, raw...), err
	})
	if err != nil {
		return nil, err
	}
	// The envelope that apimachinery has for protobuf: a runtime.Unknown with
	// four letters before it, whose second field is the list.
	empty, err := (&corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: resourceVersion}}).Marshal()
	if err != nil {
		return nil, err
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	around, err := unknown.Marshal()
	if err != nil {
		return nil, err
	}
	// With no Raw the fields 3 and 4, which are empty, are the last four bytes.
	cut := len(around) - 4
	c.begin = append([]byte("k8s\x00"), around[:cut]...)
	c.begin = binary.AppendUvarint(append(c.begin, 2<<3|2), uint64(len(empty)+length(c.pieces)))
	c.begin, c.end = append(c.begin, empty...), around[cut:]
	return c, nil
}

// NewInitialEvents returns the ADDED events of the pods 0 to n-1 and the bookmark that says
// that these are all, as a watch with sendInitialEvents begins.
func NewInitialEvents(mediaType string, n int, resourceVersion string) (*Collection, error) {
	all, err := pieces(n, func(dst []byte, pod *corev1.Pod, _ bool) ([]byte, error) {
		raw, err := event(mediaType, watch.Added, pod)
		return append(dst, raw...), err
	})
	if err != nil {
		return nil, err
	}
	end, err := event(mediaType, watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: resourceVersion, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	return &Collection{pieces: all, end: end, version: resourceVersion}, err
}

// Expired returns the ERROR event of a watch whose resourceVersion is too old.
func Expired(mediaType string) ([]byte, error) {
	return event(mediaType, watch.Error, &metav1.Status{
		Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old resource version",
	})
}

// pieces encodes the pods 0 to n-1 with add.
func pieces(n int, add func(dst []byte, pod *corev1.Pod, first bool) ([]byte, error)) ([][]byte, error) {
	out := make([][]byte, (n+podsPerPiece-1)/podsPerPiece)
	err := parallel(len(out), func(first, last int) error {
		for p := first; p < last; p++ {
			var err error
			for i := p * podsPerPiece; i < min(n, (p+1)*podsPerPiece); i++ {
				if out[p], err = add(out[p], Pod(i), i == 0); err != nil {
					return fmt.Errorf("specimen: encoding pod %d: %w", i, err)
				}
			}
		}
		return nil
	})
	return out, err
}

func length(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// At returns the collection at another resourceVersion, with the same number of
// digits. It shares the pods with c.
func (c *Collection) At(resourceVersion string) *Collection {
	if len(resourceVersion) != len(c.version) {
		panic("specimen: the resourceVersion " + resourceVersion + " has not as many digits as " + c.version)
	}
	at := *c
	at.version = resourceVersion
	at.begin = bytes.Replace(c.begin, []byte(c.version), []byte(resourceVersion), 1)
	at.end = bytes.Replace(c.end, []byte(c.version), []byte(resourceVersion), 1)
	return &at
}

// Len is how many bytes the collection has.
func (c *Collection) Len() int { return len(c.begin) + length(c.pieces) + len(c.end) }

// WriteTo writes the collection. It may be called by several goroutines.
func (c *Collection) WriteTo(w io.Writer) (int64, error) {
	var sum int64
	write := func(b []byte) error {
		n, err := w.Write(b)
		sum += int64(n)
		return err
	}
	if err := write(c.begin); err != nil {
		return sum, err
	}
	for _, p := range c.pieces {
		if err := write(p); err != nil {
			return sum, err
		}
	}
	return sum, write(c.end)
}

var _ io.WriterTo = (*Collection)(nil)
