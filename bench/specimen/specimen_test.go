package specimen

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestSizes: the specimens have the size that the package comment promises.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mediaType string
		low, high int // mean bytes an event
	}{
		{JSON, 8_500, 10_000},
		{Protobuf, 5_500, 6_700},
	} {
		events, err := Events(tc.mediaType, Pods(200))
		if err != nil {
			t.Fatal(err)
		}
		mean := len(bytes.Join(events, nil)) / len(events)
		if mean < tc.low || mean > tc.high {
			t.Errorf("%s: %d bytes an event, want %d to %d", tc.mediaType, mean, tc.low, tc.high)
		}
	}
}

// TestSame: two runs decode the same bytes. A change of the specimens changes
// this sum, and makes older results incomparable: say so in bench/RESULTS.md.
func TestSame(t *testing.T) {
	t.Parallel()
	const want = "8e66d2f497445ac9"
	events, err := Events(Protobuf, Pods(120))
	if err != nil {
		t.Fatal(err)
	}
	// Protobuf maps have a fixed order in gogo's encoder, so the sum is stable.
	sum := sha256.Sum256(bytes.Join(events, nil))
	if got := hex.EncodeToString(sum[:8]); got != want {
		t.Errorf("specimens have the sum %s, want %s", got, want)
	}
}

func TestVariety(t *testing.T) {
	t.Parallel()
	pods := Pods(300)
	names, uids, versions, containers := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[int]bool{}
	owners := map[string]int{}
	for _, p := range pods {
		names[p.Name] = true
		uids[string(p.UID)] = true
		versions[p.ResourceVersion] = true
		containers[len(p.Spec.Containers)] = true
		owners[p.OwnerReferences[0].Name]++
		if len(p.ManagedFields) != 3 {
			t.Errorf("%s has %d managedFields entries, want 3", p.Name, len(p.ManagedFields))
		}
		if len(p.Status.ContainerStatuses) != len(p.Spec.Containers) {
			t.Errorf("%s has %d containers and %d statuses", p.Name, len(p.Spec.Containers), len(p.Status.ContainerStatuses))
		}
	}
	if len(names) != 300 || len(uids) != 300 || len(versions) != 300 {
		t.Errorf("%d names, %d UIDs, %d resourceVersions, want 300 of each", len(names), len(uids), len(versions))
	}
	if !containers[2] || !containers[3] || len(containers) != 2 {
		t.Errorf("numbers of containers %v, want 2 and 3", containers)
	}
	for owner, n := range owners {
		if n != podsPerReplicaSet {
			t.Errorf("ReplicaSet %s owns %d pods, want %d", owner, n, podsPerReplicaSet)
		}
	}
}

// TestSuffix: pods of one ReplicaSet have different names, however many ReplicaSets there are.
func TestSuffix(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for i := range podsPerReplicaSet {
		w := suffix(rand.New(rand.NewPCG(uint64(i), 1)), i)
		if len(w) != 5 || seen[w[3:]] {
			t.Errorf("pod %d has the suffix %q, whose end was there before or which is not five characters", i, w)
		}
		seen[w[3:]] = true
	}
}

// TestRoundTrip: what is on the wire is the pod, in both encodings.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	pods := Pods(60)
	for _, mediaType := range []string{JSON, Protobuf} {
		body, err := apimachineryList(mediaType, pods, "42")
		if err != nil {
			t.Fatal(err)
		}
		obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), body)
		if err != nil {
			t.Fatalf("%s: %v", mediaType, err)
		}
		list := obj.(*corev1.PodList)
		if list.ResourceVersion != "42" || len(list.Items) != len(pods) {
			t.Fatalf("%s: %d items at %s", mediaType, len(list.Items), list.ResourceVersion)
		}
		for i := range list.Items {
			if !equality.Semantic.DeepEqual(&list.Items[i], pods[i]) {
				t.Fatalf("%s: pod %d differs: %s", mediaType, i, cmp.Diff(pods[i], &list.Items[i]))
			}
		}
	}
}
