package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
	"github.com/nodewatch-go/nodewatch/test/e2e/apiserver"
)

// deployed is the namespace and the name of everything in deploy/base.
const deployed = "nodewatch"

// variant is a folder of deploy/, and what its service account may do.
type variant struct {
	folder string
	// rules are what the API server says of it, beside what any service account may do.
	rules []string
	// scoped says that the rights are those to the pods of the token's node alone.
	scoped bool
}

var variants = []variant{
	{folder: "base", rules: []string{`[""] ["pods"] [] ["list" "watch"]`}},
	{folder: "node-scoped", scoped: true, rules: []string{
		`["authentication.k8s.io"] ["nodes"] [] ["impersonate:associated-node"]`,
		`[""] ["pods"] [] ["impersonate-on:associated-node:list" "impersonate-on:associated-node:watch"]`}},
}

// TestDeploy: what is in deploy/ is what a real API server takes; its service account may do what
// nodewatch does and nothing else; and its container's command works with what the pod gives it. There
// are no kubelets here: the command runs as a process, with the arguments, the environment and the
// token that a kubelet would make of the applied object.
func TestDeploy(t *testing.T) {
	if !wanted("real") {
		return // listwatchtest has no DaemonSets
	}
	binary := buildImage(t) // before the clock of the tests runs
	for _, v := range variants {
		t.Run(v.folder, func(t *testing.T) {
			tg := startReal(t)
			ctx, cancel := context.WithTimeout(t.Context(), convergence)
			defer cancel()
			quiet := tg.RESTConfig(apiserver.Admin)
			quiet.WarningHandler = rest.NoWarnings{} // the specimens use port names twice
			admin, err := kubernetes.NewForConfig(quiet)
			if err != nil {
				t.Fatal(err)
			}
			ds := deployApply(ctx, t, v, admin, kubeconfig(t, tg, apiserver.Admin))
			t.Run("restricted", func(t *testing.T) { deployRestricted(ctx, t, admin, ds) })
			account, nobody := podToken(ctx, t, tg, admin, ds, deployed), podToken(ctx, t, tg, admin, ds, "nobody")
			t.Run("rights", func(t *testing.T) { deployRights(ctx, t, v, account, nobody) })
			t.Run("runs", func(t *testing.T) { deployRuns(ctx, t, binary, admin, account, ds) })
		})
	}
}

// deployApply tries a variant and applies it, as a user would, and returns the DaemonSet.
func deployApply(ctx context.Context, t *testing.T, v variant, admin *kubernetes.Clientset, config string) *appsv1.DaemonSet {
	kubectl := tool(t, "kubectl", "kubernetes-client")
	apply := func(more ...string) string {
		stdout, stderr, status := runToEnd(t, kubectl, append([]string{"--kubeconfig", config, "apply", "--validate=strict",
			"-k", "../../deploy/" + v.folder}, more...)...)
		if status != 0 || strings.Contains(stderr, "Warning") {
			t.Fatalf("kubectl apply %v: status %d: %s", more, status, stderr)
		}
		return stdout
	}
	// The namespace has to be there before the API server can try the rest.
	if _, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: deployed}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if out := apply("--dry-run=server", "--server-side", "--force-conflicts"); !strings.Contains(out, "daemonset.apps/nodewatch") {
		t.Errorf("the dry run says nothing of the DaemonSet:\n%s", out)
	}
	if err := admin.CoreV1().Namespaces().Delete(ctx, deployed, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	finalizeNamespace(ctx, t, admin)
	apply()
	for line := range strings.Lines(apply()) {
		if !strings.HasSuffix(strings.TrimSpace(line), "unchanged") {
			t.Errorf("a second apply changes something: %s", line)
		}
	}
	ds, err := admin.AppsV1().DaemonSets(deployed).Get(ctx, deployed, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// finalizeNamespace does what the namespace controller would do, and waits.
func finalizeNamespace(ctx context.Context, t *testing.T, admin *kubernetes.Clientset) {
	t.Helper()
	eventually(ctx, t, "the namespace to go", func() error {
		ns, err := admin.CoreV1().Namespaces().Get(ctx, deployed, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		ns.Spec.Finalizers = nil
		if _, err := admin.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil {
			return err
		}
		return fmt.Errorf("it is there still")
	})
}

// deployNode is where the pods of the tests run.
const deployNode = "node-a"

// podToken is a client with the token that a pod of a service account has on the node: it is bound
// to the pod, and says which node that is on.
func podToken(ctx context.Context, t *testing.T, tg target, admin *kubernetes.Clientset, ds *appsv1.DaemonSet, account string) *rest.Config {
	t.Helper()
	if account != ds.Spec.Template.Spec.ServiceAccountName {
		sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}
		if _, err := admin.CoreV1().ServiceAccounts(deployed).Create(ctx, sa, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: account + "-x"}, Spec: *ds.Spec.Template.Spec.DeepCopy()}
	pod.Spec.NodeName, pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = deployNode, account, account
	pod, err := admin.CoreV1().Pods(deployed).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}}
	answer, err := admin.CoreV1().ServiceAccounts(deployed).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := tg.RESTConfig(apiserver.Admin)
	config.BearerToken = answer.Status.Token
	return config
}

// deployRestricted: the pods of the DaemonSet are what the namespace's label allows, and the label
// is in force.
func deployRestricted(ctx context.Context, t *testing.T, admin *kubernetes.Clientset, ds *appsv1.DaemonSet) {
	create := func(change func(*corev1.Pod)) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deployed, GenerateName: "try-"}, Spec: *ds.Spec.Template.Spec.DeepCopy()}
		change(pod)
		_, err := admin.CoreV1().Pods(deployed).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := create(func(*corev1.Pod) {}); err != nil {
		t.Errorf("a pod of the template: %v", err)
	}
	privileged := true
	for name, change := range map[string]func(*corev1.Pod){
		"privileged":   func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.Privileged = &privileged },
		"host network": func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"root":         func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = nil },
	} {
		if err := create(change); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	// What the restricted profile leaves open.
	if s := ds.Spec.Template.Spec.Containers[0].SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		t.Error("the root file system can be written")
	}
}

// deployRights: by the API server's own answer the service account has the rights of the variant beside
// those that any service account has, and no others; and single requests agree.
func deployRights(ctx context.Context, t *testing.T, v variant, account, nobody *rest.Config) {
	everybody := rulesOf(ctx, t, nobody)
	own := slices.DeleteFunc(rulesOf(ctx, t, account), func(rule string) bool { return slices.Contains(everybody, rule) })
	if slices.Sort(own); !slices.Equal(own, slices.Sorted(slices.Values(v.rules))) {
		t.Errorf("the service account may do %q, want %q", own, v.rules)
	}

	as := func(user string) *kubernetes.Clientset {
		config := rest.CopyConfig(account)
		config.Impersonate.UserName = user
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	user := ""
	if v.scoped {
		user = "system:node:" + deployNode
	}
	list := func(client *kubernetes.Clientset, selector string) error {
		_, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: selector})
		return err
	}
	client := as(user)
	if err := list(client, "spec.nodeName="+deployNode); err != nil {
		t.Error(err)
	}
	forbidden := map[string]func() error{
		"get a pod": func() error {
			_, err := client.CoreV1().Pods(deployed).Get(ctx, deployed+"-x", metav1.GetOptions{})
			return err
		},
		"delete a pod": func() error { return client.CoreV1().Pods(deployed).Delete(ctx, deployed+"-x", metav1.DeleteOptions{}) },
		"list secrets": func() error { _, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); return err },
		"get the node": func() error { _, err := client.CoreV1().Nodes().Get(ctx, deployNode, metav1.GetOptions{}); return err },
		"list nodes":   func() error { _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); return err },
		"its roles":    func() error { _, err := client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{}); return err },
		"as an admin":  func() error { return list(as("admin"), "") },
	}
	if v.scoped {
		forbidden["pods as itself"] = func() error { return list(as(""), "spec.nodeName="+deployNode) }
		forbidden["pods of all nodes"] = func() error { return list(client, "") }
		forbidden["pods of another node"] = func() error { return list(client, "spec.nodeName=node-b") }
		forbidden["as another node"] = func() error { return list(as("system:node:node-b"), "spec.nodeName=node-b") }
	} else if err := list(client, ""); err != nil {
		// RBAC does not see selectors.
		t.Errorf("the pods of all nodes: %v; if RBAC sees selectors now, docs/running.md and rbac.yaml have to say it", err)
	}
	for name, request := range forbidden {
		if err := request(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want forbidden", name, err)
		}
	}
}

// rulesOf is what an account may do in a namespace.
func rulesOf(ctx context.Context, t *testing.T, config *rest.Config) (all []string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}
	rules, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules.Status.ResourceRules {
		all = append(all, fmt.Sprintf("%q %q %q %q", r.APIGroups, r.Resources, r.ResourceNames, r.Verbs))
	}
	return all
}

// deployRuns: the container's command prints the node's pods, its probes answer on the port that
// the DaemonSet names, and its memory is within what it requests, with 110 pods on the node.
func deployRuns(ctx context.Context, t *testing.T, binary string, admin *kubernetes.Clientset, account *rest.Config, ds *appsv1.DaemonSet) {
	const node = deployNode
	for i, pod := range specimen.Pods(2 * podsOfNode) {
		pod.ResourceVersion, pod.UID = "", ""
		pod.Spec.NodeName = []string{node, "node-b"}[i%2]
		if _, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		made, err := admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod.ResourceVersion, pod.UID = made.ResourceVersion, made.UID
		if _, err := admin.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	container := ds.Spec.Template.Spec.Containers[0]
	args, env := commandOf(t, container, node)
	// The port is the machine's here, and others have it.
	address := loopback(t)
	for i, arg := range args {
		if strings.HasPrefix(arg, "--metrics-addr=") {
			if want := fmt.Sprint("--metrics-addr=0.0.0.0:", container.Ports[0].ContainerPort); arg != want {
				t.Errorf("%s, want %s: else the kubelet's probes find nobody", arg, want)
			}
			args[i] = "--metrics-addr=" + address
		}
	}
	path := t.TempDir() + "/kubeconfig"
	if err := apiserver.WriteKubeconfig(path, account); err != nil {
		t.Fatal(err)
	}
	// Instead of the token and the authority that a kubelet mounts.
	env = append(env, "KUBECONFIG="+path)
	once := exec.CommandContext(ctx, binary, append(slices.Clone(args), "--once", "--output=name")...)
	once.Env = env
	out, err := once.Output()
	// With those that podToken made.
	if n := bytes.Count(out, []byte("pod/")); err != nil || n != podsOfNode+2 {
		t.Fatalf("--once prints %d pods, want %d: %v", n, podsOfNode+2, err)
	}

	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }() // it was killed
	defer func() { _ = cmd.Process.Kill() }()
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		if probe.HTTPGet.Port.String() != container.Ports[0].Name {
			t.Errorf("a probe asks port %s, the container has %s", probe.HTTPGet.Port.String(), container.Ports[0].Name)
		}
		eventually(ctx, t, probe.HTTPGet.Path, func() error {
			_, err := fetch(ctx, "http://"+address+probe.HTTPGet.Path)
			return err
		})
	}
	annotations := ds.Spec.Template.Annotations
	if annotations["prometheus.io/port"] != strconv.Itoa(int(container.Ports[0].ContainerPort)) {
		t.Errorf("the annotations %v are not about port %d", annotations, container.Ports[0].ContainerPort)
	}
	metrics := func() map[string]float64 {
		page, err := fetch(ctx, "http://"+address+annotations["prometheus.io/path"])
		if err != nil {
			t.Fatal(err)
		}
		return samples(page)
	}
	first := metrics()

	// A minute's worth of a busy node, each pod changing once.
	pods, err := admin.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		pod.Status.Message = "changed"
		if _, err := admin.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	modified := fmt.Sprintf(`nodewatch_events_total{reflector=%q,resource="pods",type="MODIFIED"}`, node)
	var last map[string]float64
	eventually(ctx, t, "events of all pods", func() error {
		if last = metrics(); last[modified]-first[modified] < podsOfNode {
			return fmt.Errorf("%v of %d", last[modified]-first[modified], podsOfNode)
		}
		return nil
	})
	resident, cpu := last["process_resident_memory_bytes"], last["process_cpu_seconds_total"]
	t.Logf("%d pods: %.1f MiB resident; %.0f ms of CPU until ready, %.0f ms for %d events and the scrapes", podsOfNode, resident/(1<<20),
		first["process_cpu_seconds_total"]*1000, (cpu-first["process_cpu_seconds_total"])*1000, podsOfNode)
	request := container.Resources.Requests.Memory()
	if resident == 0 || resident > request.AsApproximateFloat64() {
		t.Errorf("%.1f MiB are resident, more than the %s that the DaemonSet requests", resident/(1<<20), request)
	}
}

// podsOfNode is how many pods a kubelet takes by default.
const podsOfNode = 110

// commandOf is what a kubelet runs of a container on a node.
func commandOf(t *testing.T, c corev1.Container, node string) (args, env []string) {
	t.Helper()
	values := map[string]string{}
	for _, e := range c.Env {
		switch {
		case e.ValueFrom == nil:
			values[e.Name] = e.Value
		case e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "spec.nodeName":
			values[e.Name] = node
		default:
			t.Fatalf("this test cannot make the variable %s", e.Name)
		}
		env = append(env, e.Name+"="+values[e.Name])
	}
	for _, arg := range c.Args {
		for name, value := range values {
			arg = strings.ReplaceAll(arg, "$("+name+")", value)
		}
		if strings.Contains(arg, "$(") {
			t.Errorf("%s has a variable that is not there", arg)
		}
		args = append(args, arg)
	}
	return args, env
}

// samples are those of a page of metrics.
func samples(page string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(line, "#") {
			all[name] = v
		}
	}
	return all
}

// TestDeployPodMonitor: the component is rendered with the base, and selects the pods and a port that
// the DaemonSet has.
func TestDeployPodMonitor(t *testing.T) {
	dir := t.TempDir()
	// kustomize takes no absolute paths to resources.
	root, err := exec.Command("go", "list", "-C", "../..", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	overlay := strings.Repeat("../", 20) + strings.TrimPrefix(strings.TrimSpace(string(root)), "/") + "/deploy"
	write(t, dir+"/kustomization.yaml", "resources: ["+overlay+"/base]\ncomponents: ["+overlay+"/components/podmonitor]\n")
	out, stderr, status := runToEnd(t, tool(t, "kubectl", "kubernetes-client"), "kustomize", dir)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var ds appsv1.DaemonSet
	var monitor struct {
		Metadata metav1.ObjectMeta
		Spec     struct {
			Selector            metav1.LabelSelector
			PodMetricsEndpoints []struct{ Port, Path string }
		}
	}
	found := 0
	for doc := range strings.SplitSeq(out, "\n---\n") {
		var into any
		switch {
		case strings.Contains(doc, "kind: DaemonSet"):
			into = &ds
		case strings.Contains(doc, "kind: PodMonitor"):
			into = &monitor
		default:
			continue
		}
		found++
		if err := yaml.Unmarshal([]byte(doc), into); err != nil {
			t.Fatal(err)
		}
	}
	if found != 2 {
		t.Fatalf("%d of a DaemonSet and a PodMonitor are rendered:\n%s", found, out)
	}
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil || selector.Empty() || !selector.Matches(labelsOf(ds.Spec.Template.Labels)) || monitor.Metadata.Namespace != ds.Namespace {
		t.Errorf("the monitor of namespace %s selects %v (%v), the pods of namespace %s have %v", monitor.Metadata.Namespace, selector, err, ds.Namespace, ds.Spec.Template.Labels)
	}
	if e := monitor.Spec.PodMetricsEndpoints; len(e) != 1 || e[0].Port != ds.Spec.Template.Spec.Containers[0].Ports[0].Name ||
		e[0].Path != ds.Spec.Template.Annotations["prometheus.io/path"] {
		t.Errorf("the endpoints %+v are not the container's", e)
	}
}
