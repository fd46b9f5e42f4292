package podconfig

import (
	"strings"
	"testing"
	"time"
)

// TestValidateNames: an error names the field, as a kubelet's does; that the kubelet
// refuses the same manifests is test/e2e/podsources' business (TestValidation).
func TestValidateNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ spec, want string }{
		{`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}`,
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required"},
		{`affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, preference: {}}]}}`,
			"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid"},
		{`affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}`,
			"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required"},
		{`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: {}, matchLabelKeys: [x], mismatchLabelKeys: [x]}]}}`,
			"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[0]: Invalid"},
		{`topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: Never}]`,
			`spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Never"`},
		{`topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]`,
			"spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate"},
		{`securityContext: {sysctls: [{name: "Net.core", value: "1"}]}`, "spec.securityContext.sysctls[0].name: Invalid"},
		{`{hostNetwork: true, securityContext: {sysctls: [{name: net.core.somaxconn, value: "1"}]}}`, "the host's where hostNetwork is true"},
		{`{hostIPC: true, securityContext: {sysctls: [{name: kernel/sem, value: "1"}]}}`, "the host's where hostIPC is true"},
		{`securityContext: {appArmorProfile: {type: Localhost}}`, "spec.securityContext.appArmorProfile.localhostProfile: Required"},
		{`dnsConfig: {nameservers: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4]}`, "spec.dnsConfig.nameservers: Too many: 4: must have at most 3"},
		{`{hostUsers: false, hostPID: true}`, "spec.hostPID: Forbidden"},
		{`os: {name: plan9}`, "spec.os.name: Unsupported"},
	} {
		spec := strings.TrimSuffix(strings.TrimPrefix(c.spec, "{"), "}")
		if !strings.HasPrefix(c.spec, "{") {
			spec = c.spec
		}
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}], " + spec + "}\n"
		m, err := manifestParser{Improved}.pod([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", c.spec, err)
		}
		if _, err = (staticPods{source: FileSource, node: "n1"}).make("a.yaml", m, nil, time.Now()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.spec, err, c.want)
		}
	}
}
