package specimen

import (
	"bytes"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"
)

// The media types in which specimens are encoded.
const (
	JSON     = runtime.ContentTypeJSON
	Protobuf = runtime.ContentTypeProtobuf
)

// Serializer returns apimachinery's serializers for a media type. It panics
// for one that the built-in types do not have.
func Serializer(mediaType string) runtime.SerializerInfo {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok || info.StreamSerializer == nil {
		panic(fmt.Sprintf("specimen: no stream serializer for %q", mediaType))
	}
	return info
}

// Events returns each pod as a MODIFIED watch event, framed as an API server frames it.
func Events(mediaType string, pods []*corev1.Pod) ([][]byte, error) {
	out := make([][]byte, 0, len(pods))
	for _, p := range pods {
		raw, err := event(mediaType, watch.Modified, p)
		if err != nil {
			return nil, fmt.Errorf("specimen: encoding %s as %s: %w", p.Name, mediaType, err)
		}
		out = append(out, raw)
	}
	return out, nil
}

func event(mediaType string, what watch.EventType, obj runtime.Object) ([]byte, error) {
	info := Serializer(mediaType)
	var frame bytes.Buffer
	err := restwatch.NewEncoder(
		streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(&frame), info.StreamSerializer.Serializer),
		scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion),
	).Encode(&watch.Event{Type: what, Object: obj})
	return frame.Bytes(), err
}
