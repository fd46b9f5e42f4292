package listwatchtest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// subresource says which part of an object a write is about.
type subresource uint8

const (
	whole      subresource = iota // everything: only the Go API may do that
	mainOnly                      // all but the status
	statusOnly                    // the status, and what may go with it
)

// writer writes to a store by the rules of an API server. Its errors are API
// status errors, as a client gets them.
type writer struct {
	*store
	finishAfter time.Duration
	timers      timers
}

// create stores a copy of obj and returns what is stored. With dry nothing is.
func (w *writer) create(c *collection, obj Object, sub subresource, dry bool) (Object, error) {
	obj = deepCopy(obj)
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(obj.GetGenerateName() + string(uuid.NewUUID())[:5])
	}
	if err := checkNew(c, obj); err != nil {
		return nil, err
	}
	clearKind(c, obj)
	if sub == mainOnly {
		statusPart.set(obj, c.newObject())
	}
	if obj.GetUID() == "" {
		obj.SetUID(uuid.NewUUID())
	}
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		obj.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	}
	if hasGeneration(c) {
		obj.SetGeneration(1)
	}
	setDefaults(obj)

	w.mu.Lock()
	defer w.mu.Unlock()
	key := c.key(obj.GetNamespace(), obj.GetName())
	if c.objects[key] != nil {
		return nil, errors.NewAlreadyExists(c.GroupResource(), obj.GetName())
	}
	if !dry {
		w.commitLocked(c, key, obj)
	}
	return obj, nil
}

// checkNew returns what is wrong with the metadata of a new object.
func checkNew(c *collection, obj Object) error {
	if obj.GetResourceVersion() != "" {
		return errors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	var errs field.ErrorList
	path := field.NewPath("metadata")
	name := obj.GetName()
	switch {
	case c.Namespaced && obj.GetNamespace() == "":
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	case !c.Namespaced && obj.GetNamespace() != "":
		errs = append(errs, field.Forbidden(path.Child("namespace"), "not allowed on this type"))
	}
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name or generateName is required"))
	} else {
		for _, msg := range nameRule(c)(name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), name, msg))
		}
	}
	if len(errs) > 0 {
		return errors.NewInvalid(c.gvk().GroupKind(), name, errs)
	}
	return nil
}

// nameRule returns what names the kind allows.
func nameRule(c *collection) validation.ValidateNameFunc {
	if c.typed && (c.Kind == "Namespace" || c.Kind == "Service") {
		return validation.NameIsDNSLabel
	}
	return validation.NameIsDNSSubdomain
}

// update replaces the object of obj's name with what change makes of it. change
// gets the stored object, which it must not alter, and returns a new one.
func (w *writer) update(c *collection, namespace, name string, sub subresource, dry bool, change func(Object) (Object, error)) (Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := c.key(namespace, name)
	old := c.objects[key]
	if old == nil {
		return nil, errors.NewNotFound(c.GroupResource(), name)
	}
	obj, err := change(old)
	if err != nil {
		return nil, err
	}
	if err := checkUpdate(c, old, obj); err != nil {
		return nil, err
	}
	clearKind(c, obj)
	// What a client cannot change.
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	obj.SetGeneration(old.GetGeneration())
	obj.SetResourceVersion(old.GetResourceVersion())
	switch {
	case sub == mainOnly:
		statusPart.set(obj, old)
	case sub == statusOnly && c.typed:
		specPart.set(obj, old) // labels and annotations may change with a status
	case sub == statusOnly:
		changed := deepCopy(old)
		statusPart.set(changed, obj)
		obj = changed
	}
	if hasGeneration(c) && !specPart.equal(old, obj) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	switch {
	case dry, equality.Semantic.DeepEqual(old, obj): // a write that changes nothing is not written
	case released(old, obj):
		w.commitLocked(c, key, nil)
	default:
		w.commitLocked(c, key, obj)
	}
	return obj, nil
}

// released reports whether an update removes the last finalizer of an object
// that waits for nothing else to go: the update is its deletion then.
func released(old, obj Object) bool {
	grace := obj.GetDeletionGracePeriodSeconds()
	return obj.GetDeletionTimestamp() != nil && (grace == nil || *grace == 0) &&
		len(old.GetFinalizers()) > 0 && len(obj.GetFinalizers()) == 0
}

func checkUpdate(c *collection, old, obj Object) error {
	if rv := obj.GetResourceVersion(); rv != "" && rv != old.GetResourceVersion() {
		return errors.NewConflict(c.GroupResource(), old.GetName(),
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if uid := obj.GetUID(); uid != "" && uid != old.GetUID() {
		return errors.NewConflict(c.GroupResource(), old.GetName(),
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, old.GetUID()))
	}
	return nil
}

// deletion says how to delete.
type deletion struct {
	grace  *int64 // nil is the object's own
	uid    *string
	rv     *string
	atOnce bool // without asking anybody, finalizers included: only the Go API may do that
	dry    bool
}

// check returns an error when a precondition does not hold.
func (d deletion) check(c *collection, old Object) error {
	kind := schema.GroupResource{Group: c.Group, Resource: c.Kind}
	switch {
	case d.uid != nil && *d.uid != string(old.GetUID()):
		return errors.NewConflict(kind, old.GetName(), fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *d.uid, old.GetUID()))
	case d.rv != nil && *d.rv != old.GetResourceVersion():
		return errors.NewConflict(kind, old.GetName(), fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
			"The object might have been modified", *d.rv, old.GetResourceVersion()))
	}
	return nil
}

// remove deletes an object, or begins to. It returns the object's last state,
// and whether it is gone.
func (w *writer) remove(c *collection, namespace, name string, d deletion) (Object, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := c.key(namespace, name)
	old := c.objects[key]
	if old == nil {
		return nil, false, errors.NewNotFound(c.GroupResource(), name)
	}
	if err := d.check(c, old); err != nil {
		return nil, false, err
	}
	pod, isPod := old.(*corev1.Pod)
	if d.atOnce || (!isPod && len(old.GetFinalizers()) == 0) {
		return w.dropLocked(c, key, old, d.dry), true, nil
	}
	grace := int64(0)
	if isPod {
		grace = gracePeriod(pod, d.grace)
	}
	// A pod is marked first even when it goes at once: watchers see a MODIFIED
	// with a grace period of 0 before the DELETED.
	obj := markDeleted(c, old, grace)
	if obj != old && !d.dry {
		w.commitLocked(c, key, obj)
	}
	if grace == 0 && len(obj.GetFinalizers()) == 0 {
		return w.dropLocked(c, key, obj, d.dry), true, nil
	}
	if obj != old && grace > 0 && w.finishAfter > 0 && !d.dry {
		uid := string(obj.GetUID())
		w.timers.after(min(w.finishAfter, time.Duration(grace)*time.Second), func() {
			// An error means that someone else was faster.
			_, _, _ = w.remove(c, namespace, name, deletion{grace: new(int64(0)), uid: &uid})
		})
	}
	return obj, false, nil
}

// dropLocked removes what is at key, and returns it with the version of that.
func (w *writer) dropLocked(c *collection, key string, last Object, dry bool) Object {
	if dry {
		return last
	}
	w.commitLocked(c, key, nil)
	gone := shallowCopy(last)
	gone.SetResourceVersion(formatRV(w.rv))
	return gone
}

// markDeleted returns old as an object that goes after grace seconds, or old
// itself when it is going as soon already.
func markDeleted(c *collection, old Object, grace int64) Object {
	deadline := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second)).Rfc3339Copy()
	had := old.GetDeletionGracePeriodSeconds()
	if old.GetDeletionTimestamp() != nil {
		if had == nil || *had <= grace {
			return old
		}
		// The new period counts from the first request too.
		deadline = metav1.NewTime(old.GetDeletionTimestamp().Add(time.Duration(grace-*had) * time.Second)).Rfc3339Copy()
	}
	obj := deepCopy(old)
	obj.SetDeletionTimestamp(&deadline)
	obj.SetDeletionGracePeriodSeconds(&grace)
	if hasGeneration(c) && old.GetDeletionTimestamp() == nil {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	return obj
}

// gracePeriod is how many seconds a pod is given to end: none when no kubelet
// has it, or when it has ended already.
func gracePeriod(pod *corev1.Pod, asked *int64) int64 {
	period := int64(0)
	switch {
	case asked != nil:
		period = *asked
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		period = *pod.Spec.TerminationGracePeriodSeconds
	}
	switch {
	case pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return 0
	case period < 0:
		return 1
	}
	return period
}

// hasGeneration reports whether the server counts changes of the spec: it does
// for pods and for custom resources.
func hasGeneration(c *collection) bool { return !c.typed || c.Kind == "Pod" }

// setDefaults fills in the little that selectors, deletion and kubectl rely on.
func setDefaults(obj Object) {
	switch o := obj.(type) {
	case *corev1.Pod:
		setDefault(&o.Spec.RestartPolicy, corev1.RestartPolicyAlways)
		setDefault(&o.Spec.DNSPolicy, corev1.DNSClusterFirst)
		setDefault(&o.Spec.SchedulerName, corev1.DefaultSchedulerName)
		setDefault(&o.Status.Phase, corev1.PodPending)
		if o.Spec.TerminationGracePeriodSeconds == nil {
			o.Spec.TerminationGracePeriodSeconds = new(int64(corev1.DefaultTerminationGracePeriodSeconds))
		}
	case *corev1.Namespace:
		setDefault(&o.Status.Phase, corev1.NamespaceActive)
		if o.Labels == nil {
			o.Labels = make(map[string]string)
		}
		o.Labels[corev1.LabelMetadataName] = o.Name
	case *corev1.Secret:
		setDefault(&o.Type, corev1.SecretTypeOpaque)
	case *corev1.Service:
		setDefault(&o.Spec.Type, corev1.ServiceTypeClusterIP)
	}
}

func setDefault[S ~string](field *S, value S) {
	if *field == "" {
		*field = value
	}
}

// clearKind brings an object into the form in which it is stored: typed ones
// know their kind by their type.
func clearKind(c *collection, obj Object) {
	if c.typed {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	} else {
		obj.GetObjectKind().SetGroupVersionKind(c.gvk())
	}
}
