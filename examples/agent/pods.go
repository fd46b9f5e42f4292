package main

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/nodefilter"
	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Pod has what the agent needs of a pod. The rest of it is not decoded and takes no memory.
type Pod struct {
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		UID       types.UID         `json:"uid"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// keep is how long a deleted pod is still found: its last lines come when it is gone.
const keep = time.Minute

const uidIndex = "uid"

// podsOf returns the pods of a node, found by UID. The selector is the one that a node's own
// credentials are allowed.
func podsOf(cfg *rest.Config, node string) (*reflector.Reflector[*Pod], error) {
	selector, err := nodefilter.OnNode(node)
	if err != nil {
		return nil, err
	}
	lw, err := listwatch.New[*Pod](listwatch.Config{
		REST:          cfg,
		Resource:      corev1.SchemeGroupVersion.WithResource("pods"),
		Kind:          "Pod",
		FieldSelector: selector,
		Decode:        decode.Config{NumbersOf: &corev1.Pod{}}, // so that protobuf can be read, too
	})
	if err != nil {
		return nil, err
	}
	byUID := reflector.Index[*Pod]{Name: uidIndex, Values: func(p *Pod) []string { return []string{string(p.Metadata.UID)} }}
	return reflector.New(reflector.Config[*Pod]{
		ListerWatcher: lw,
		Store:         reflector.NewStore(byUID),
		Retain:        reflector.Retain{For: keep},
		Accept:        func(p *Pod) bool { return p.Spec.NodeName == node },
		OnStop:        lw.Close,
	})
}

// find returns the pod with the UID, if it is on the node or was until a minute ago.
func find(store *reflector.Store[*Pod], uid types.UID) (p *Pod, deleted, ok bool) {
	for _, p := range store.By(uidIndex, string(uid)) {
		return p, false, true
	}
	gone, ok := store.Tombstones().ByUID(uid)
	return gone.Object, true, ok
}

// describe is what goes in front of a line.
func describe(p *Pod, deleted bool) string {
	var b strings.Builder
	b.WriteString(p.Metadata.Namespace + "/" + p.Metadata.Name)
	if app := p.Metadata.Labels["app"]; app != "" {
		b.WriteString(" app=" + app)
	}
	if deleted {
		b.WriteString(" (deleted)")
	}
	return b.String()
}
