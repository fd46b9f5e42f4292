package podconfig

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// urlContent is what the good answers of a URL said.
type urlContent struct {
	parser manifestParser
	static staticPods
	where  string // in UIDs
	place  string // in faults
	ledger *ledger

	// sum is of the last body that was used, if any was. One that could not be used is
	// parsed anew each time, so that it never passes for "nothing new".
	sum   [sha256.Size]byte
	used  bool
	pods  []*corev1.Pod
	known map[string]urlPod // by the name in the manifest
	// faults are of items of that body.
	faults []SourceError
}

// urlPod is a pod as it was read last without a fault.
type urlPod struct {
	pod     *corev1.Pod
	meaning types.UID
}

// forget is for the kubelet's behaviour: the pods are gone, but the answer that they were of
// passes for known when it comes again, and does not bring them back.
func (u *urlContent) forget() { u.pods, u.known = nil, nil }

// again notes that the faults of the last body are still there.
func (u *urlContent) again() {
	for _, f := range u.faults {
		u.ledger.fail(f.Where, f.Message)
	}
}

// read returns the pods of a body. An error says that the body is no manifest; then
// nothing is changed.
func (u *urlContent) read(body []byte) ([]*corev1.Pod, error) {
	sum := sha256.Sum256(body)
	if u.used && u.sum == sum {
		u.again()
		return u.pods, nil
	}
	items, err := u.parser.pods(body)
	if err != nil {
		return nil, err
	}
	next := urlContent{known: make(map[string]urlPod, len(items))}
	uids := make(map[types.UID]bool, len(items))
	// An item that cannot be read may be a pod that runs: not one of them is taken for
	// deleted then.
	lost := false // an item is invalid, and nobody knows which pod it was
	for _, item := range items {
		key := itemKey(item)
		now, err := u.item(item)
		// Two of one name, or one UID, are two answers to one question; the first counts.
		if err == nil && (next.known[key].pod != nil || uids[now.pod.UID]) {
			err = fmt.Errorf("pod %s/%s, or its UID, is in the list before: this one is not used", now.pod.Namespace, now.pod.Name)
			next.fault(u.place, item, err.Error())
			continue
		}
		if err != nil {
			// A pod alone has no others that could go on without it.
			if u.parser.behaviour == KubeletCompatible || item.index < 0 {
				return nil, fmt.Errorf("%s%w", itemPrefix(item), err)
			}
			now = u.known[key]
			lost = lost || item.name == ""
			next.fault(u.place, item, err.Error()+keeps(now.pod))
			if now.pod == nil || next.known[key].pod != nil {
				continue
			}
		}
		uids[now.pod.UID] = true
		next.known[key] = now
		next.pods = append(next.pods, now.pod)
	}
	if lost {
		for _, pod := range u.pods {
			for key, known := range u.known {
				if known.pod == pod && next.known[key].pod == nil && !uids[pod.UID] {
					next.known[key] = known
					next.pods = append(next.pods, pod)
				}
			}
		}
	}
	u.sum, u.used, u.pods, u.known, u.faults = sum, true, next.pods, next.known, next.faults
	u.settle()
	return u.pods, nil
}

// settle brings the ledger up to date.
func (u *urlContent) settle() {
	now := make(map[string]bool, len(u.faults))
	for _, f := range u.faults {
		now[f.Where] = true
	}
	u.again()
	u.ledger.mendOthers(func(where string) bool { return now[where] || where == u.place })
}

// item makes the pod of one item; the one that is known where it means the same.
func (u *urlContent) item(item podsItem) (urlPod, error) {
	if item.err != nil {
		return urlPod{}, item.err
	}
	meaning := manifestUID(item.tree, HTTPSource, u.static.node, u.where)
	before := u.known[itemKey(item)]
	if before.pod != nil && before.meaning == meaning {
		return before, nil
	}
	pod, err := u.static.make(u.where, item.manifest, before.pod, time.Now())
	if err != nil {
		return urlPod{}, err
	}
	for _, doubt := range item.doubts {
		u.ledger.log.Warn("a part of a manifest has no effect", "where", itemPlace(u.place, item), "err", doubt)
	}
	return urlPod{pod, meaning}, nil
}

func (u *urlContent) fault(place string, item podsItem, message string) {
	u.faults = append(u.faults, SourceError{Where: itemPlace(place, item), Message: message})
}

// itemKey is the name of an item in the manifest, with its namespace.
func itemKey(item podsItem) string {
	namespace := item.namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return namespace + "/" + item.name
}

func itemPlace(place string, item podsItem) string {
	return strings.TrimSpace(place + " " + itemPrefix(item))
}

// itemPrefix is the place in the list; nothing for a pod alone.
func itemPrefix(item podsItem) string {
	if item.index < 0 {
		return ""
	}
	return fmt.Sprintf("items[%d] ", item.index)
}
