// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const registry = "image.registry=registry.example/team/"

// withoutCRDs is for tests of other objects: the definitions are nearly all that takes time to render and to read.
const withoutCRDs = "crds.install=false"

var digest = "sha256:" + strings.Repeat("0123456789abcdef", 4)

func TestTemplate(t *testing.T) {
	apart := []any{
		"spec", "template", "spec", "affinity", "podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution", 0,
		"podAffinityTerm", "topologyKey",
	}
	for _, c := range []struct {
		name   string
		set    []string
		kind   string
		object string
		path   []any
		want   any
	}{
		{
			"image", nil, "Deployment", "lighterage-manager", []any{"spec", "template", "spec", "containers", 0, "image"},
			"registry.example/team/lighterage/manager:v0.1.0",
		},
		{
			"tag", []string{"image.tag=v9"}, "DaemonSet", "lighterage-node-agent",
			[]any{"spec", "template", "spec", "containers", 0, "image"}, "registry.example/team/lighterage/agent:v9",
		},
		{
			"agent's image", []string{"image.tag=v9"}, "Deployment", "lighterage-manager",
			[]any{"spec", "template", "spec", "containers", 0, "args", 0},
			"--agent-image=registry.example/team/lighterage/agent:v9",
		},
		{
			"pull secrets", []string{"image.pullSecrets={one}"}, "Deployment", "lighterage-gateway",
			[]any{"spec", "template", "spec", "imagePullSecrets", 0, "name"}, "one",
		},
		{
			"keep", nil, "CustomResourceDefinition", "transfers.lighterage.dev",
			[]any{"metadata", "annotations", "helm.sh/resource-policy"}, "keep",
		},
		{"no CRDs", []string{"crds.install=false"}, "CustomResourceDefinition", "transfers.lighterage.dev", nil, nil},
		{"one replica has no budget", nil, "PodDisruptionBudget", "lighterage-gateway", nil, nil},
		{
			"two replicas", []string{"gateway.replicas=2"}, "PodDisruptionBudget", "lighterage-gateway",
			[]any{"spec", "maxUnavailable"}, int64(1),
		},
		{
			"standby", []string{"manager.replicas=2"}, "PodDisruptionBudget", "lighterage-manager",
			[]any{"spec", "maxUnavailable"}, int64(1),
		},
		{
			"eviction of what is not ready", []string{"gateway.replicas=2"}, "PodDisruptionBudget", "lighterage-gateway",
			[]any{"spec", "unhealthyPodEvictionPolicy"}, "AlwaysAllow",
		},
		{
			"one replica is anywhere", nil, "Deployment", "lighterage-gateway", []any{"spec", "template", "spec", "affinity"},
			nil,
		},
		{
			"gateways apart", []string{"gateway.replicas=2"}, "Deployment", "lighterage-gateway", apart,
			"kubernetes.io/hostname",
		},
		{
			"managers apart", []string{"manager.replicas=2"}, "Deployment", "lighterage-manager", apart,
			"kubernetes.io/hostname",
		},
		{
			"host port", []string{"gateway.hostPort=8443"}, "Deployment", "lighterage-gateway",
			[]any{"spec", "template", "spec", "containers", 0, "ports", 0, "hostPort"}, int64(8443),
		},
		{
			"rollout with a host port", []string{"gateway.hostPort=8443"}, "Deployment", "lighterage-gateway",
			[]any{"spec", "strategy", "rollingUpdate", "maxSurge"}, int64(0),
		},
		{
			"node port", []string{"gateway.service.type=NodePort", "gateway.service.nodePort=30843"}, "Service",
			"lighterage-gateway", []any{"spec", "ports", 0, "nodePort"}, int64(30843),
		},
		{
			"source ranges", []string{"gateway.service.loadBalancerSourceRanges={192.0.2.0/24}"}, "Service",
			"lighterage-gateway", []any{"spec", "loadBalancerSourceRanges", 0}, "192.0.2.0/24",
		},
		{
			"load balancer", nil, "Service", "lighterage-gateway", []any{"spec", "type"}, "LoadBalancer",
		},
		{"no node agent", []string{"nodeAgent.enabled=false"}, "DaemonSet", "lighterage-node-agent", nil, nil},
		{
			"tolerations", []string{"nodeAgent.tolerations[0].operator=Exists"}, "DaemonSet", "lighterage-node-agent",
			[]any{"spec", "template", "spec", "tolerations", 0, "operator"}, "Exists",
		},
		{
			"priority", []string{"gateway.priorityClassName=high"}, "Deployment", "lighterage-gateway",
			[]any{"spec", "template", "spec", "priorityClassName"}, "high",
		},
		{
			"node selector", []string{"manager.nodeSelector.zone=a"}, "Deployment", "lighterage-manager",
			[]any{"spec", "template", "spec", "nodeSelector", "zone"}, "a",
		},
		{
			"affinity", []string{"manager.affinity.nodeAffinity.x=y"}, "Deployment", "lighterage-manager",
			[]any{"spec", "template", "spec", "affinity", "nodeAffinity", "x"}, "y",
		},
		{
			"annotations", []string{"gateway.podAnnotations.a=b"}, "Deployment", "lighterage-gateway",
			[]any{"spec", "template", "metadata", "annotations", "a"}, "b",
		},
		{
			"digest", []string{"image.digests.agent=" + digest}, "DaemonSet", "lighterage-node-agent",
			[]any{"spec", "template", "spec", "containers", 0, "image"}, "registry.example/team/lighterage/agent@" + digest,
		},
		{
			"digest of what the manager starts", []string{"image.digests.agent=" + digest}, "Deployment", "lighterage-manager",
			[]any{"spec", "template", "spec", "containers", 0, "args", 0},
			"--agent-image=registry.example/team/lighterage/agent@" + digest,
		},
		{
			"digest of what it may start", []string{"image.digests.agent=" + digest}, "ValidatingAdmissionPolicy",
			"lighterage-agents", []any{"spec", "variables", 0, "expression"},
			"'registry.example/team/lighterage/agent@" + digest + "'",
		},
		{
			"memory of the manager", nil, "Deployment", "lighterage-manager",
			[]any{"spec", "template", "spec", "containers", 0, "env", 2, "valueFrom", "resourceFieldRef", "resource"},
			"limits.memory",
		},
		{
			"memory of the gateway", nil, "Deployment", "lighterage-gateway",
			[]any{"spec", "template", "spec", "containers", 0, "env", 0, "valueFrom", "resourceFieldRef", "resource"},
			"limits.memory",
		},
		{
			"no admission", []string{"admissionPolicies.enabled=false"}, "ValidatingAdmissionPolicy", "lighterage-agents", nil,
			nil,
		},
		{
			"traffic policy", []string{"gateway.service.externalTrafficPolicy=Local"}, "Service", "lighterage-gateway",
			[]any{"spec", "externalTrafficPolicy"}, "Local",
		},
		{"no policies", []string{"networkPolicy.enabled=false"}, "NetworkPolicy", "lighterage-gateway", nil, nil},
		{
			"policy of the gateway", nil, "NetworkPolicy", "lighterage-gateway", []any{"spec", "ingress", 0, "ports", 2, "port"},
			int64(8443),
		},
		{
			"policy of the node agent", nil, "NetworkPolicy", "lighterage-node-agent",
			[]any{"spec", "ingress", 0, "from", 0, "podSelector", "matchLabels", "app.kubernetes.io/component"}, "manager",
		},
		{
			"port of the API server", []string{"networkPolicy.apiServerPorts={7443}"}, "NetworkPolicy", "lighterage-gateway",
			[]any{"spec", "egress", 0, "ports", 0, "port"}, int64(7443),
		},
		{
			"port of peers", []string{"networkPolicy.peerPorts={9000}"}, "NetworkPolicy", "lighterage-manager",
			[]any{"spec", "egress", 4, "ports", 0, "port"}, int64(9000),
		},
		{
			"policy without node agent", []string{"nodeAgent.enabled=false"}, "NetworkPolicy", "lighterage-node-agent", nil, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			set := append([]string{registry}, c.set...)
			if c.kind != "CustomResourceDefinition" {
				set = append(set, withoutCRDs)
			}
			objects, err := template(t, set...)
			if err != nil {
				t.Fatal(err)
			}
			o := find(objects, c.kind, c.object)
			if c.want == nil {
				if o != nil && (c.path == nil || at(o.Object, c.path...) != nil) {
					t.Errorf("there is a %s %s", c.kind, c.object)
				}
				return
			}
			if o == nil {
				t.Fatalf("there is no %s %s", c.kind, c.object)
			}
			if got := at(o.Object, c.path...); got != c.want {
				t.Errorf("%v is %v, want %v", c.path, got, c.want)
			}
		})
	}
}

// TestAnyPeerPort: peers choose the port of their gateway, so by default the manager may dial any TCP port.
func TestAnyPeerPort(t *testing.T) {
	t.Parallel()
	objects, err := template(t, registry, withoutCRDs)
	if err != nil {
		t.Fatal(err)
	}
	egress := at(find(objects, "NetworkPolicy", "lighterage-manager").Object, "spec", "egress")
	want := map[string]any{"ports": []any{map[string]any{"protocol": "TCP"}}}
	if !slices.ContainsFunc(egress.([]any), func(rule any) bool { return reflect.DeepEqual(rule, want) }) {
		t.Errorf("the manager may dial %v", egress)
	}
}

// TestArguments checks values that become flags.
func TestArguments(t *testing.T) {
	t.Parallel()
	set := []string{registry, withoutCRDs}
	flags := map[string]map[string]string{"manager": {}, "gateway": {}}
	for _, v := range []struct{ value, program, flag string }{
		{"clusterName=east", "manager", "cluster-name"},
		{"ca.existingSecret=my-ca", "manager", "ca-secret"},
		{"deliveryRetention=24h", "manager", "delivery-retention"},
		{"statementMonths=25", "manager", "statement-months"},
		{"runCertificateLifetime=2h", "manager", "run-certificate-lifetime"},
		{"servingCertificateLifetime=48h", "manager", "serving-certificate-lifetime"},
		{"image.pullPolicy=Always", "manager", "agent-image-pull-policy"},
		{"manager.logLevel=debug", "manager", "log-level"},
		{"network.dataPath=SMC", "manager", "data-path"},
		{"network.dataPath=SMC", "gateway", "data-path"},
		{"gateway.verbosity=1", "gateway", "v"},
		{"gateway.limits.connections=1000000", "gateway", "max-connections"},
		{"gateway.limits.peerRequestsPerSecond=40", "gateway", "peer-requests-per-second"},
		{"gateway.limits.peerRequestBurst=200", "gateway", "peer-request-burst"},
		{"gateway.limits.peerWaitingRuns=512", "gateway", "peer-max-waiting-runs"},
		{"gateway.limits.peerDeliveriesPerNamespace=2000", "gateway", "peer-max-deliveries"},
		{"gateway.limits.tunnels=2048", "gateway", "max-tunnels"},
	} {
		set = append(set, v.value)
		_, flags[v.program][v.flag], _ = strings.Cut(v.value, "=")
	}
	objects, err := template(t, set...)
	if err != nil {
		t.Fatal(err)
	}
	for program, wanted := range flags {
		args := arguments(t, objects, "lighterage-"+program)
		for flag, value := range wanted {
			if !slices.Contains(args, "--"+flag+"="+value) {
				t.Errorf("the %s's arguments lack --%s=%s: %v", program, flag, value, args)
			}
		}
	}
}

// TestSlots: the right to patch the status of Nodes is given to a manager that is told to cap agents, and to no other.
func TestSlots(t *testing.T) {
	t.Parallel()
	for slots, want := range map[string]bool{"0": false, "3": true} {
		objects, err := template(t, registry, withoutCRDs, "accelerator.slotsPerNode="+slots)
		if err != nil {
			t.Fatal(err)
		}
		role, binding := find(objects, "ClusterRole", "lighterage-accelerator-slots"), find(
			objects, "ClusterRoleBinding", "lighterage-accelerator-slots",
		)
		told := slices.Contains(arguments(t, objects, "lighterage-manager"), "--accelerator-slots="+slots)
		if (role != nil) != want || (binding != nil) != want || told != want {
			t.Errorf("%s slots: role %v, binding %v, told %v", slots, role, binding, told)
		}
	}
}

// TestClusterLimits: the manager is told the limits of the cluster, and of no limit nothing.
func TestClusterLimits(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"limits.runningTransfers=5": "--max-running-transfers=5", "limits.bandwidth=200Mi": "--max-bandwidth=200Mi",
		"limits.runningTransfers=0": "",
	} {
		objects, err := template(t, registry, withoutCRDs, value)
		if err != nil {
			t.Fatal(err)
		}
		told := slices.DeleteFunc(slices.Clone(arguments(t, objects, "lighterage-manager")), func(argument string) bool {
			return !strings.HasPrefix(argument, "--max-running-transfers") && !strings.HasPrefix(argument, "--max-bandwidth")
		})
		if strings.Join(told, " ") != want {
			t.Errorf("%s: told %v", value, told)
		}
	}
}

// TestNodeLabels: the right to patch Nodes, which is one to cordon them as well, is given with the node agents alone.
func TestNodeLabels(t *testing.T) {
	t.Parallel()
	for enabled, want := range map[string]bool{"false": false, "true": true} {
		objects, err := template(t, registry, "nodeAgent.enabled="+enabled, withoutCRDs)
		if err != nil {
			t.Fatal(err)
		}
		may := false
		for _, o := range objects {
			rules, _ := at(o.Object, "rules").([]any)
			for i := range rules {
				resources, _ := at(o.Object, "rules", i, "resources").([]any)
				verbs, _ := at(o.Object, "rules", i, "verbs").([]any)
				may = may || slices.Contains(resources, any("nodes")) && slices.Contains(verbs, any("patch"))
			}
		}
		if bound := find(objects, "ClusterRoleBinding", "lighterage-node-labels") != nil; may != want || bound != want {
			t.Errorf("nodeAgent.enabled=%s: Nodes may be patched: %v, role bound: %v", enabled, may, bound)
		}
	}
}

func arguments(t *testing.T, objects []unstructured.Unstructured, deployment string) []string {
	t.Helper()
	o := find(objects, "Deployment", deployment)
	if o == nil {
		t.Fatalf("there is no Deployment %s", deployment)
	}
	list, _ := at(o.Object, "spec", "template", "spec", "containers", 0, "args").([]any)
	args := make([]string, 0, len(list))
	for _, a := range list {
		args = append(args, a.(string))
	}
	return args
}

// TestFlagsExist holds what the chart tells the programs to the flags that they define.
func TestFlagsExist(t *testing.T) {
	t.Parallel()
	objects, err := template(
		t, registry, withoutCRDs, "ca.existingSecret=my-ca", "accelerator.slotsPerNode=3", "watchNamespaces={bank}",
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"manager", "gateway"} {
		flags := defined(t, program)
		told := arguments(t, objects, "lighterage-"+program)
		if len(told) == 0 || len(flags) < len(told) {
			t.Errorf("%s has %d flags and is told %d: something is missing", program, len(flags), len(told))
		}
		for _, a := range told {
			name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
			if !flags[name] {
				t.Errorf("%s has no flag --%s", program, name)
			}
		}
	}
}

// defined returns the flags of a program, which its FlagSet named flags gets. It reads the source: to build the program
// and ask it takes a hundred times as long.
func defined(t *testing.T, program string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "controllers/cmd", program, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(source, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if set, ok := method.X.(*ast.Ident); !ok || set.Name != "flags" {
				return true
			}
			// the first text is the name, before it there is at most the place for the value
			for _, argument := range call.Args {
				if text, ok := argument.(*ast.BasicLit); ok && text.Kind == token.STRING {
					found[strings.Trim(text.Value, "`\"")] = true
					break
				}
			}
			return true
		})
	}
	return found
}

// TestRefused gives values that cannot work; the message says what is wrong with which.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"", "image.registry is required"},
		{"image.registry=https://registry.example", "/image/registry"},
		{"image.pullPolicy=always", "'IfNotPresent', 'Always', 'Never'"},
		{"image.tagg=v1", "'tagg' not allowed"},
		{"gateway.replica=2", "'replica' not allowed"},
		{"gateway.replicas=0", "/gateway/replicas"},
		{"gateway.service.type=Ingress", "'LoadBalancer', 'NodePort', 'ClusterIP'"},
		{"gateway.service.nodePort=70000", "/gateway/service/nodePort"},
		{"gateway.hostPort=70000", "/gateway/hostPort"},
		{"gateway.tlsRoute.parentRefs[0].sectionName=tls", "/gateway/tlsRoute/parentRefs/0"},
		{"network.dataPath=RDMA", "'TCP', 'MPTCP', 'SMC'"},
		{"clusterName=East_1", "/clusterName"},
		{"deliveryRetention=7d", "/deliveryRetention"},
		{"statementMonths=1", "/statementMonths"},
		{"manager.leaseDuration=1h", "/manager/leaseDuration"},
		{"nodeAgent.enabled=maybe", "/nodeAgent/enabled"},
		{"metrics.enabled=true", "'metrics' not allowed"},
		{"watchNamespaces={Bank}", "/watchNamespaces/0"},
		{"image.digests.agent=sha256:1234", "/image/digests/agent"},
		{"gateway.service.type=ClusterIP,gateway.service.externalTrafficPolicy=Local", "externalTrafficPolicy needs"},
		{"networkPolicy.apiServerPorts={}", "/networkPolicy/apiServerPorts"},
		{"gateway.service.type=ClusterIP,gateway.service.nodePort=30000", "gateway.service.nodePort needs"},
		{
			"gateway.service.type=NodePort,gateway.service.loadBalancerSourceRanges={192.0.2.0/24}",
			"loadBalancerSourceRanges needs",
		},
	} {
		t.Run(c.set, func(t *testing.T) {
			t.Parallel()
			set := []string{withoutCRDs, registry, c.set}
			if c.set == "" {
				set = set[:1]
			}
			_, err := template(t, set...)
			if err == nil {
				t.Errorf("%s was accepted", c.set)
			} else if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: the message lacks %q: %v", c.set, c.want, err)
			}
		})
	}
}

// TestValuesOfBefore: an upgrade with --reuse-values has none of the sections that a later chart added.
func TestValuesOfBefore(t *testing.T) {
	t.Parallel()
	objects, err := template(
		t, registry, withoutCRDs, "pointInTime=null", "claimTemplates=null", "populator=null", "hooks=null", "pulls=null",
		"gateway.tlsRoute=null", "gateway.hostPort=null", "network.dataPath=null",
	)
	if err != nil {
		t.Fatal(err)
	}
	bindings := 0
	for _, o := range objects {
		if strings.HasPrefix(o.GetName(), "lighterage-hook-copies-") {
			bindings++
		}
	}
	if bindings != 2 {
		t.Errorf("%d names may be hooks, want the two by default", bindings)
	}
}

// TestRestricted checks what the restricted Pod Security Standard asks of each pod, and that nobody is root.
func TestRestricted(t *testing.T) {
	t.Parallel()
	objects, err := template(t, registry, withoutCRDs, "manager.replicas=2")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, o := range objects {
		spec, _ := at(o.Object, "spec", "template", "spec").(map[string]any)
		if spec == nil {
			continue
		}
		checked++
		for _, c := range []struct {
			path []any
			want any
		}{
			{[]any{"securityContext", "runAsNonRoot"}, true},
			{[]any{"securityContext", "runAsUser"}, int64(65532)},
			{[]any{"securityContext", "seccompProfile", "type"}, "RuntimeDefault"},
			{[]any{"containers", 0, "securityContext", "allowPrivilegeEscalation"}, false},
			{[]any{"containers", 0, "securityContext", "readOnlyRootFilesystem"}, true},
			{[]any{"containers", 0, "securityContext", "capabilities", "drop", 0}, "ALL"},
			{[]any{"containers", 1}, nil},
			{[]any{"hostNetwork"}, nil},
		} {
			if got := at(spec, c.path...); got != c.want {
				t.Errorf("%s %s: %v is %v, want %v", o.GetKind(), o.GetName(), c.path, got, c.want)
			}
		}
		volumes, _ := spec["volumes"].([]any)
		for _, v := range volumes {
			for kind := range v.(map[string]any) {
				if !slices.Contains([]string{"name", "secret", "projected", "configMap"}, kind) {
					t.Errorf("%s %s has a volume of type %s", o.GetKind(), o.GetName(), kind)
				}
			}
		}
	}
	if checked != 3 {
		t.Errorf("%d workloads, want 3", checked)
	}
}

// TestValuesAreDocumented holds the chart's README to its values.
func TestValuesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, chartDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	_, section, _ := strings.Cut(string(readme), "\n## Values\n")
	for line := range strings.SplitSeq(section, "\n") {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(cell, "`")
			documented[name] = true
		}
	}
	known := map[string]bool{}
	collect(known, "", values)
	for name := range known {
		if !documented[name] {
			t.Errorf("README.md does not list the value %s", name)
		}
	}
	for name := range documented {
		if !known[name] {
			t.Errorf("README.md lists %s, which is no value", name)
		}
	}
}

// collect notes the paths of what a user sets: everything that is no map, and maps whose content is the user's own.
func collect(into map[string]bool, prefix string, values map[string]any) {
	for k, v := range values {
		name := strings.TrimPrefix(prefix+"."+k, ".")
		m, ok := v.(map[string]any)
		if !ok || len(m) == 0 || k == "resources" {
			into[name] = true
			continue
		}
		collect(into, name, m)
	}
}
