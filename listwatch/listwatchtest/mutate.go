package listwatchtest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// maxBody bounds the body of a request, as a real server does.
const maxBody = 3 << 20

func (s *Server) serveCreate(w http.ResponseWriter, r *http.Request, c *collection, info requestInfo) error {
	return s.answerWrite(w, r, c, http.StatusCreated, func() (Object, error) {
		obj, err := s.readObject(w, r, c, info)
		if err != nil {
			return nil, err
		}
		sub := whole
		if c.hasStatus() {
			sub = mainOnly
		}
		obj.SetUID("")
		obj.SetCreationTimestamp(metav1.Time{})
		return s.writer.create(c, obj, sub, dryRun(r))
	})
}

func (s *Server) serveUpdate(w http.ResponseWriter, r *http.Request, c *collection, info requestInfo) error {
	return s.answerWrite(w, r, c, http.StatusOK, func() (Object, error) {
		obj, err := s.readObject(w, r, c, info)
		if err != nil {
			return nil, err
		}
		if obj.GetName() != info.name {
			return nil, errors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), info.name))
		}
		return s.writer.update(c, info.namespace, info.name, writes(c, info), dryRun(r), func(Object) (Object, error) { return obj, nil })
	})
}

func (s *Server) servePatch(w http.ResponseWriter, r *http.Request, c *collection, info requestInfo) error {
	return s.answerWrite(w, r, c, http.StatusOK, func() (Object, error) {
		patch, err := readBody(w, r)
		if err != nil {
			return nil, err
		}
		// What does not parse is as unsupported as what is not known.
		media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		return s.writer.update(c, info.namespace, info.name, writes(c, info), dryRun(r), func(old Object) (Object, error) {
			return applyPatch(c, old, types.PatchType(media), patch)
		})
	})
}

// answerWrite answers with the object that write stored. Whether the answer can be
// given in a form that the client reads is found out before.
func (s *Server) answerWrite(w http.ResponseWriter, r *http.Request, c *collection, code int, write func() (Object, error)) error {
	out, err := negotiate(r, c)
	if err != nil {
		return err
	}
	stored, err := write()
	if err != nil {
		return err
	}
	return s.writeOne(w, r, c, out, code, stored)
}

// writes says which part a request to an object or its status writes.
func writes(c *collection, info requestInfo) subresource {
	switch {
	case info.subresource == "status":
		return statusOnly
	case c.hasStatus():
		return mainOnly
	}
	return whole
}

// applyPatch returns old with the patch applied.
func applyPatch(c *collection, old Object, patchType types.PatchType, patch []byte) (Object, error) {
	original, err := json.Marshal(withKind(old, c.gvk()))
	if err != nil {
		return nil, err
	}
	var patched []byte
	switch patchType {
	case types.MergePatchType:
		var doc, change any
		if err := json.Unmarshal(original, &doc); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(patch, &change); err != nil {
			return nil, errors.NewBadRequest(err.Error())
		}
		patched, err = json.Marshal(mergePatch(doc, change))
	case types.StrategicMergePatchType:
		if !c.typed {
			return nil, errMediaType("application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
		}
		if patched, err = strategicpatch.StrategicMergePatch(original, patch, c.newObject()); err != nil {
			return nil, errors.NewBadRequest(err.Error())
		}
	case types.JSONPatchType:
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, errors.NewBadRequest(err.Error())
		}
		if patched, err = operations.Apply(original); err != nil {
			return nil, errors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
	default:
		return nil, statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			"415: Unsupported Media Type", &metav1.StatusDetails{})
	}
	if err != nil {
		return nil, err
	}
	return decodeJSON(c, patched)
}

// dryRun reports whether a write is to be tried only.
func dryRun(r *http.Request) bool { return r.URL.Query().Get("dryRun") == metav1.DryRunAll }

func errMediaType(accepted string) error {
	return statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+accepted, nil)
}

// mergePatch is RFC 7386: null deletes, an object is merged, anything else replaces.
func mergePatch(doc, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	target, ok := doc.(map[string]any)
	if !ok {
		target = make(map[string]any)
	}
	for key, value := range change {
		if value == nil {
			delete(target, key)
		} else {
			target[key] = mergePatch(target[key], value)
		}
	}
	return target
}

func (s *Server) serveDelete(w http.ResponseWriter, r *http.Request, c *collection, info requestInfo) error {
	out, err := negotiate(r, c)
	if err != nil {
		return err
	}
	d, err := s.readDeletion(w, r)
	if err != nil {
		return err
	}
	last, gone, err := s.writer.remove(c, info.namespace, info.name, d)
	if err != nil {
		return err
	}
	// A pod is answered with itself; other kinds with a Status once they are gone.
	if gone && c.Kind != "Pod" {
		s.writeObject(w, r, output{media: out.media, pretty: out.pretty}, http.StatusOK, &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
			Details: &metav1.StatusDetails{Name: info.name, Group: c.Group, Kind: c.Resource.Resource, UID: last.GetUID()},
		})
		return nil
	}
	return s.writeOne(w, r, c, out, http.StatusOK, last)
}

func (s *Server) serveDeleteCollection(w http.ResponseWriter, r *http.Request, c *collection, info requestInfo) error {
	out, err := negotiate(r, c)
	if err != nil {
		return err
	}
	opts, sel, err := s.options(r, c, info)
	if err != nil {
		return err
	}
	d, err := s.readDeletion(w, r)
	if err != nil {
		return err
	}
	entries, listMeta, err := s.list(r.Context(), c, &opts, sel)
	if err != nil {
		return err
	}
	for _, e := range entries {
		_, _, err := s.writer.remove(c, e.object.GetNamespace(), e.object.GetName(), d)
		if err != nil && !errors.IsNotFound(err) {
			return err
		}
	}
	list, err := s.listObject(r, c, out, entries, listMeta)
	if err != nil {
		return err
	}
	s.writeObject(w, r, out, http.StatusOK, list)
	return nil
}

// readDeletion reads DeleteOptions from the body, or from the query where there is none.
func (s *Server) readDeletion(w http.ResponseWriter, r *http.Request) (deletion, error) {
	var opts metav1.DeleteOptions
	body, err := readBody(w, r)
	if err != nil {
		return deletion{}, err
	}
	if len(body) > 0 {
		if isProtobuf(r) {
			_, _, err = s.codecs.protobuf.Decode(body, nil, &opts)
		} else {
			err = json.Unmarshal(body, &opts)
		}
		if err != nil {
			return deletion{}, errors.NewBadRequest(err.Error())
		}
	}
	if grace := r.URL.Query().Get("gracePeriodSeconds"); grace != "" && opts.GracePeriodSeconds == nil {
		seconds, err := strconv.ParseInt(grace, 10, 64)
		if err != nil {
			return deletion{}, errors.NewBadRequest(err.Error())
		}
		opts.GracePeriodSeconds = &seconds
	}
	d := deletion{grace: opts.GracePeriodSeconds, dry: dryRun(r) || slices.Contains(opts.DryRun, metav1.DryRunAll)}
	if p := opts.Preconditions; p != nil {
		d.uid, d.rv = (*string)(p.UID), p.ResourceVersion
	}
	return d, nil
}

// serveBinding puts a pod on a node, as a scheduler asks for it.
func (s *Server) serveBinding(w http.ResponseWriter, r *http.Request, c *collection, info requestInfo) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	var binding corev1.Binding
	if isProtobuf(r) {
		_, _, err = s.codecs.protobuf.Decode(body, nil, &binding)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(body, &binding)
	}
	if err != nil {
		return errors.NewBadRequest(err.Error())
	}
	_, err = s.writer.update(c, info.namespace, info.name, whole, dryRun(r), func(old Object) (Object, error) {
		pod := deepCopy(old).(*corev1.Pod)
		if pod.Spec.NodeName != "" {
			return nil, errors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, info.name,
				fmt.Errorf("pod %s is already assigned to node %q", info.name, pod.Spec.NodeName))
		}
		pod.Spec.NodeName = binding.Target.Name
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now().Rfc3339Copy(),
		})
		return pod, nil
	})
	if err != nil {
		return err
	}
	s.writeObject(w, r, output{media: mediaJSON, pretty: prettyByDefault(r)}, http.StatusCreated, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
	})
	return nil
}

// readObject reads the object of a write, which must be of the right kind and
// in the right namespace.
func (s *Server) readObject(w http.ResponseWriter, r *http.Request, c *collection, info requestInfo) (Object, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	var obj Object
	switch media := r.Header.Get("Content-Type"); {
	case isProtobuf(r) && c.typed:
		obj = c.newObject()
		_, gvk, err := s.codecs.protobuf.Decode(body, nil, obj)
		if err == nil && gvk != nil && *gvk != c.gvk() {
			err = errKind(c, *gvk)
		}
		if err != nil {
			return nil, errors.NewBadRequest(err.Error())
		}
	case media != "" && !isMedia(r, mediaJSON):
		return nil, errMediaType(mediaTypes)
	default:
		if obj, err = decodeJSON(c, body); err != nil {
			return nil, err
		}
	}
	if info.namespace != "" {
		if ns := obj.GetNamespace(); ns != "" && ns != info.namespace {
			return nil, errors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
		}
		obj.SetNamespace(info.namespace)
	}
	return obj, nil
}

// decodeJSON reads an object of the collection's kind. The errors' words are
// the server's.
func decodeJSON(c *collection, body []byte) (Object, error) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(body, &is); err != nil {
		return nil, errors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): "+
			"couldn't get version/kind; json parse error: %v (%s)", c.Kind, err, summary(body)))
	}
	if gvk := is.GroupVersionKind(); gvk.Kind != "" && gvk != c.gvk() {
		return nil, errors.NewBadRequest(errKind(c, gvk).Error())
	}
	obj := c.newObject()
	into := any(obj)
	if u, ok := obj.(*unstructured.Unstructured); ok {
		into = &u.Object
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, into); err != nil {
		return nil, errors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", c.Kind, c.Version, c.Kind, err))
	}
	return obj, nil
}

// errKind is about an object of another kind than the path's.
func errKind(c *collection, gvk schema.GroupVersionKind) error {
	return fmt.Errorf("%[1]s in version %[2]q cannot be handled as a %[3]s: converting (%[2]s.%[1]s) to (%[4]s): unknown conversion",
		gvk.Kind, gvk.Version, c.Kind, strings.TrimPrefix(c.internalType(), "*"))
}

// summary shows the beginning of a body that cannot be read.
func summary(body []byte) string {
	const most = 30
	switch {
	case len(body) == 0:
		return "<empty>"
	case body[0] == '{' && len(body) <= most:
		return string(body)
	case body[0] == '{':
		return string(body[:most]) + " ..."
	case len(body) <= most:
		return hex.EncodeToString(body)
	}
	return hex.EncodeToString(body[:most]) + " ..."
}

func isProtobuf(r *http.Request) bool { return isMedia(r, mediaProtobuf) }

// isMedia reports whether that is the media type of the request's body.
func isMedia(r *http.Request, want string) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == want
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, errors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return body, nil
}
