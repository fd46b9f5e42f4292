package specimen

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Namespace is where all specimens are.
const Namespace = "shop"

const (
	podsPerReplicaSet = 50
	podsPerNode       = 30
	firstVersion      = 1_000_000 // resourceVersions have seven digits, as in a cluster that has lived
)

// base is the creation of the first pod; a fixed time keeps the bytes the same.
var base = time.Date(2026, time.March, 1, 8, 0, 0, 0, time.UTC)

// Pods returns the specimens 0 to n-1, with ascending resourceVersions.
func Pods(n int) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		out[i] = Pod(i)
	}
	return out
}

// Pod returns specimen i.
func Pod(i int) *corev1.Pod {
	set := i / podsPerReplicaSet
	// Every random-looking word comes from the pod's number, or from its
	// ReplicaSet's where the pods of one share it.
	own := rand.New(rand.NewPCG(uint64(i), 1))
	shared := rand.New(rand.NewPCG(uint64(set), 2))

	app := fmt.Sprintf("%s-%03d", pick(shared, "checkout", "catalogue", "payment", "search", "ledger"), set)
	hash := word(shared, 10)
	name := app + "-" + hash + "-" + suffix(own, i%podsPerReplicaSet)
	created := metav1.NewTime(base.Add(time.Duration(i) * 7 * time.Second))
	started := metav1.NewTime(created.Add(3 * time.Second))
	containers := 2
	if set%4 == 3 {
		containers = 3
	}
	tokenVolume := "kube-api-access-" + word(own, 5)

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			GenerateName:      app + "-" + hash + "-",
			Namespace:         Namespace,
			UID:               types.UID(uid(own)),
			ResourceVersion:   strconv.Itoa(firstVersion + i),
			Generation:        1,
			CreationTimestamp: created,
			Labels: map[string]string{
				"app.kubernetes.io/name":      app,
				"app.kubernetes.io/instance":  app + "-prod",
				"app.kubernetes.io/component": "server",
				"app.kubernetes.io/version":   "2.14.3",
				"pod-template-hash":           hash,
				"team":                        pick(shared, "blue", "green", "red"),
			},
			Annotations: map[string]string{
				"prometheus.io/scrape":               "true",
				"prometheus.io/port":                 "9090",
				"kubectl.kubernetes.io/restartedAt":  "2026-03-01T07:55:00Z",
				"checksum/config":                    word(shared, 64),
				"cluster-autoscaler.kubernetes.io/x": "a \"quoted\" value,\nwith a second line",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hash, UID: types.UID(uid(shared)),
				Controller: ptr(true), BlockOwnerDeletion: ptr(true),
			}},
			ManagedFields: managedFields(created, started, containers),
		},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config"}, DefaultMode: ptr(int32(420)),
				}}},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: tokenVolume, VolumeSource: corev1.VolumeSource{Projected: tokenSource()}},
			},
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: ptr(int64(30)),
			DNSPolicy:                     corev1.DNSClusterFirst,
			ServiceAccountName:            app,
			DeprecatedServiceAccount:      app,
			NodeName:                      fmt.Sprintf("node-%03d", i/podsPerNode),
			SecurityContext:               &corev1.PodSecurityContext{RunAsNonRoot: ptr(true), RunAsUser: ptr(int64(1000)), FSGroup: ptr(int64(1000))},
			SchedulerName:                 "default-scheduler",
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(300))},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(300))},
			},
			Priority:           ptr(int32(0)),
			EnableServiceLinks: ptr(true),
			PreemptionPolicy:   ptr(corev1.PreemptLowerPriority),
		},
		Status: corev1.PodStatus{
			ObservedGeneration: 1,
			Phase:              corev1.PodRunning,
			HostIP:             fmt.Sprintf("10.0.%d.%d", i/podsPerNode/250, i/podsPerNode%250+1),
			PodIP:              fmt.Sprintf("10.%d.%d.%d", 64+i/62500, i/250%250, i%250+1),
			StartTime:          &created,
			QOSClass:           corev1.PodQOSBurstable,
		},
	}
	pod.Status.HostIPs = []corev1.HostIP{{IP: pod.Status.HostIP}}
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	for _, c := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: c, Status: corev1.ConditionTrue, LastTransitionTime: started, ObservedGeneration: 1,
		})
	}
	for c := range containers {
		addContainer(pod, c, app, tokenVolume, own, started)
	}
	return pod
}

// addContainer appends container c and its status.
func addContainer(pod *corev1.Pod, c int, app, tokenVolume string, own *rand.Rand, started metav1.Time) {
	name := []string{"server", "proxy", "log-shipper"}[c]
	image := "registry.example.com/" + app + "/" + name + ":2.14.3"
	probe := &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8080), Scheme: corev1.URISchemeHTTP}},
		TimeoutSeconds: 1, PeriodSeconds: 5, SuccessThreshold: 1, FailureThreshold: 3,
	}
	container := corev1.Container{
		Name:  name,
		Image: image,
		Args:  []string{"--listen=:8080", "--config=/etc/" + app + "/config.yaml"},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(8080 + c), Protocol: corev1.ProtocolTCP}},
		Env: []corev1.EnvVar{
			{Name: "LOG_LEVEL", Value: "info"},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", ReadOnly: true, MountPath: "/etc/" + app},
			{Name: tokenVolume, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
		},
		ReadinessProbe:           probe,
		TerminationMessagePath:   "/dev/termination-log",
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		ImagePullPolicy:          corev1.PullIfNotPresent,
		SecurityContext: &corev1.SecurityContext{
			ReadOnlyRootFilesystem: ptr(true),
		},
	}
	pod.Spec.Containers = append(pod.Spec.Containers, container)
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
		Name:        name,
		State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		Ready:       true,
		Image:       image,
		ImageID:     "registry.example.com/" + app + "/" + name + "@sha256:" + digest(image),
		ContainerID: "containerd://" + hexWord(own, 64),
		Started:     ptr(true),
	})
}

// digest is that of an image: the same wherever the image runs.
func digest(image string) string {
	sum := sha256.Sum256([]byte(image))
	return hex.EncodeToString(sum[:])
}

// tokenSource is the volume that the service account admission adds to every pod.
func tokenSource() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr(int64(3607)), Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
		DefaultMode: ptr(int32(420)),
	}
}

func pick(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }

// word returns n characters of those that Kubernetes uses in generated names.
func word(r *rand.Rand, n int) string { return draw(r, letters, n) }

const letters = "bcdfghjklmnpqrstvwxz2456789"

// suffix returns the five characters that end the name of pod i of a ReplicaSet. The last two are of its
// number, so that no two pods have one name.
func suffix(r *rand.Rand, i int) string {
	w := []byte(word(r, 5))
	w[3], w[4] = letters[i/len(letters)], letters[i%len(letters)]
	return string(w)
}

func hexWord(r *rand.Rand, n int) string { return draw(r, "0123456789abcdef", n) }

func draw(r *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

func uid(r *rand.Rand) string {
	h := hexWord(r, 32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

func ptr[T any](v T) *T { return &v }
