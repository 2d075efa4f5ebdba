// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package networkpolicy_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/networkpolicy"
)

const operator = "lighterage-system"

// pod is one end of a connection.
type pod struct {
	namespace string
	labels    map[string]string
}

func agent(namespace, mode, label, uid string) pod {
	return pod{namespace, map[string]string{agentpod.AppLabel: agentpod.AppName, agentpod.ComponentLabel: mode,
		label: uid}}
}

func ofOperator(component string) pod {
	return pod{operator, map[string]string{agentpod.AppLabel: "lighterage", agentpod.ComponentLabel: component}}
}

var (
	manager, gateway = ofOperator("manager"), ofOperator("gateway")
	nodeAgent        = ofOperator("node-agent")
	sibling          = agent("bank", "queue", v1alpha1.QueueLabel, "q2")
	foreign          = agent("shop", "queue", v1alpha1.QueueLabel, "q3")
	stranger         = pod{"shop", map[string]string{"app": "web"}}
	// impostor bears the gateway's labels in a namespace of its own.
	impostor = pod{"shop", gateway.labels}
	sender   = agent("bank", "send", v1alpha1.TransferLabel, "t1")
	receiver = agent("books", "receive", v1alpha1.DeliveryLabel, "d1")
	trial    = agent("bank", "trial", v1alpha1.TrialLabel, "x1")
	member   = agent("bank", "queue", v1alpha1.QueueLabel, "q1")
	other    = agent("bank", "queue", v1alpha1.QueueLabel, "q2")
	replica  = agent("bank", "http", v1alpha1.HTTPEndpointLabel, "h1")
)

// admits is what a policy engine would say of a connection from or to a pod in the policy's namespace that the policy
// selects.
func admits(
	t *testing.T, spec networkingv1.NetworkPolicySpec, of pod, ingress bool, peer pod, protocol corev1.Protocol,
	port intstr.IntOrString,
) bool {
	t.Helper()
	if !selects(t, &spec.PodSelector, of.labels) {
		t.Fatalf("the policy does not select %v", of)
	}
	if len(spec.PolicyTypes) != 2 {
		t.Fatalf("policy types %v", spec.PolicyTypes)
	}
	if ingress {
		for _, rule := range spec.Ingress {
			if ports(rule.Ports, protocol, port) && peers(t, rule.From, of.namespace, peer) {
				return true
			}
		}
		return false
	}
	for _, rule := range spec.Egress {
		if ports(rule.Ports, protocol, port) && peers(t, rule.To, of.namespace, peer) {
			return true
		}
	}
	return false
}

func ports(rules []networkingv1.NetworkPolicyPort, protocol corev1.Protocol, port intstr.IntOrString) bool {
	for _, rule := range rules {
		if *rule.Protocol == protocol && *rule.Port == port {
			return true
		}
	}
	return len(rules) == 0
}

func peers(t *testing.T, rules []networkingv1.NetworkPolicyPeer, namespace string, peer pod) bool {
	t.Helper()
	for _, rule := range rules {
		where := peer.namespace == namespace
		if rule.NamespaceSelector != nil {
			where = selects(t, rule.NamespaceSelector, map[string]string{corev1.LabelMetadataName: peer.namespace})
		}
		if where && selects(t, rule.PodSelector, peer.labels) {
			return true
		}
	}
	return len(rules) == 0
}

func selects(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Matches(labels.Set(of))
}

// TestPolicies asks the policies what a policy engine would ask. There is none in the local clusters.
func TestPolicies(t *testing.T) {
	sends := networkpolicy.Attempt(
		operator, v1alpha1.TransferLabel, "t1", attempt.Traffic{Gateways: []string{"gateway.west.example:30843"}},
	)
	direct := networkpolicy.Attempt(operator, v1alpha1.TransferLabel, "t1", attempt.Traffic{ReceiverNamespaces: []string{"books"}})
	local := networkpolicy.Attempt(operator, v1alpha1.TransferLabel, "t1", attempt.Traffic{})
	receives := networkpolicy.Attempt(operator, v1alpha1.DeliveryLabel, "d1", attempt.Traffic{Receives: true})
	receivesHere := networkpolicy.Attempt(
		operator, v1alpha1.DeliveryLabel, "d1", attempt.Traffic{Receives: true, SenderNamespace: "bank"},
	)
	samples := networkpolicy.Attempt(operator, v1alpha1.TrialLabel, "x1", attempt.Traffic{AsksAgents: true})
	reads := networkpolicy.Attempt(operator, v1alpha1.TrialLabel, "x1", attempt.Traffic{})
	alone := networkpolicy.Queue(operator, "q1", networkpolicy.QueueTraffic{})
	clustered := networkpolicy.Queue(operator, "q1", networkpolicy.QueueTraffic{Clustered: true, Dialled: []networkpolicy.Dialled{
		{Endpoint: "gateway.west.example:443"}, {Endpoint: "nats.example:4333"},
	}})
	forwards := networkpolicy.Queue(operator, "q1", networkpolicy.QueueTraffic{SendsHere: true})
	takes := networkpolicy.Queue(operator, "q1", networkpolicy.QueueTraffic{ReceivesHere: true})
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Port: 80, TargetPort: intstr.FromInt32(8080)}, {Port: 81, TargetPort: intstr.FromString("admin")},
	}}}
	relays := networkpolicy.Queue(operator, "q1", networkpolicy.QueueTraffic{Dialled: []networkpolicy.Dialled{
		{Endpoint: "nats.bank.svc:80", Service: service}, {Endpoint: "nats.shop.svc:81", Service: service},
	}})
	front := networkpolicy.HTTPEndpoint(operator, "h1", 80, service)
	shares := networkpolicy.Shares(operator, local)
	named := networkpolicy.HTTPEndpoint(operator, "h1", 81, service)
	outside := networkpolicy.HTTPEndpoint(operator, "h1", 9000, nil)

	const in, out = true, false
	for _, c := range []struct {
		what    string
		spec    networkingv1.NetworkPolicySpec
		of      pod
		ingress bool
		peer    pod
		port    int32
		want    bool
	}{
		{"sender, manager's control", sends, sender, in, manager, 9443, true},
		{"sender, a stranger's control", sends, sender, in, stranger, 9443, false},
		{"sender, control of an impostor", sends, sender, in, impostor, 9443, false},
		{"sender, peer's gateway", sends, sender, out, stranger, 30843, true},
		{"sender, another port", sends, sender, out, stranger, 443, false},
		{"sender, API server", sends, sender, out, stranger, 6443, false},
		{"sender here, receiver", direct, sender, out, receiver, 8443, true},
		{"sender here, receiver's control", direct, sender, out, receiver, 9443, false},
		{
			"sender here, receiver elsewhere", direct, sender, out, agent("shop", "receive", v1alpha1.DeliveryLabel, "d1"), 8443,
			false,
		},
		{"both claims in one pod", local, sender, out, receiver, 8443, false},
		{"receiver, gateway", receives, receiver, in, gateway, 8443, true},
		{"receiver, impostor of the gateway", receives, receiver, in, impostor, 8443, false},
		{"receiver, sender here", receives, receiver, in, sender, 8443, false},
		{"receiver, out", receives, receiver, out, stranger, 443, false},
		{"receiver here, sender", receivesHere, receiver, in, sender, 8443, true},
		{
			"receiver here, sender elsewhere", receivesHere, receiver, in, agent("shop", "send", v1alpha1.TransferLabel, "t1"),
			8443, false,
		},
		{"receiver here, gateway", receivesHere, receiver, in, gateway, 8443, false},
		{"trial, member", samples, trial, out, member, 9443, true},
		{"trial, other namespace's", samples, trial, out, receiver, 9443, false},
		{"trial of a claim, member", reads, trial, out, member, 9443, false},
		{"member, clients", alone, member, in, stranger, 4222, true},
		{"member, clients of the service", alone, member, in, stranger, 8443, true},
		{"member, gateway", alone, member, in, gateway, 8444, true},
		{"member, a stranger at the gateway's port", alone, member, in, stranger, 8444, false},
		{"member, trial", alone, member, in, trial, 9443, true},
		{"member, a stranger at control", alone, member, in, stranger, 9443, false},
		{"member, a Queue of its namespace", alone, member, in, sibling, 8444, false},
		{"member, a Queue that sends to it", takes, member, in, sibling, 8444, true},
		{"member, a Queue of another namespace", takes, member, in, foreign, 8444, false},
		{"member, to a Queue of its namespace", forwards, member, out, sibling, 8444, true},
		{"member, to control of such a Queue", forwards, member, out, sibling, 9443, false},
		{"member, to a Queue of another namespace", forwards, member, out, foreign, 8444, false},
		{"member alone, routes", alone, member, in, member, 6222, false},
		{"member alone, out", alone, member, out, stranger, 443, false},
		{"member, member", clustered, member, in, member, 6222, true},
		{"member, member, out", clustered, member, out, member, 6222, true},
		{"member, another Queue's", clustered, member, in, other, 6222, false},
		{"member, peer's gateway", clustered, member, out, stranger, 443, true},
		{"member, external server", clustered, member, out, stranger, 4333, true},
		{"member, external Service", relays, member, out, stranger, 80, true},
		{"member, pods of an external Service", relays, member, out, stranger, 8080, true},
		{"member, another port of these pods", relays, member, out, stranger, 8081, false},
		{"no shares, node agent", local, sender, out, nodeAgent, 9444, false},
		{"shares, node agent", shares, sender, out, nodeAgent, 9444, true},
		{"shares, its control", shares, sender, out, nodeAgent, 9443, false},
		{"shares, gateway", shares, sender, out, gateway, 9444, false},
		{"shares, in", shares, sender, in, nodeAgent, 9444, false},
		{"replica, clients", front, replica, in, stranger, 8443, true},
		{"replica, a stranger at control", front, replica, in, stranger, 9443, false},
		{"replica, trial", front, replica, in, trial, 9443, true},
		{"replica, backend", front, replica, out, stranger, 80, true},
		{"replica, backend's pods", front, replica, out, stranger, 8080, true},
		{"replica, something else", front, replica, out, stranger, 81, false},
		{"replica, host", outside, replica, out, stranger, 9000, true},
	} {
		if got := admits(t, c.spec, c.of, c.ingress, c.peer, corev1.ProtocolTCP, intstr.FromInt32(c.port)); got != c.want {
			t.Errorf("%s, port %d: %v", c.what, c.port, got)
		}
	}
	if !admits(t, named, replica, out, stranger, corev1.ProtocolTCP, intstr.FromString("admin")) {
		t.Error("a replica cannot reach a port of the backend's pods that has a name")
	}
	if !admits(t, relays, member, out, stranger, corev1.ProtocolTCP, intstr.FromString("admin")) {
		t.Error("a member cannot reach a port of an external server's pods that has a name")
	}
	for what, c := range map[string]struct {
		spec networkingv1.NetworkPolicySpec
		of   pod
		want bool
	}{
		"sender": {sends, sender, true}, "sender here": {direct, sender, false}, "receiver": {receives, receiver, false},
		"trial":        {samples, trial, false},
		"member alone": {alone, member, false}, "members": {clustered, member, true}, "replica": {front, replica, true},
	} {
		if got := admits(t, c.spec, c.of, out, stranger, corev1.ProtocolUDP, intstr.FromInt32(53)); got != c.want {
			t.Errorf("%s resolves names: %v", what, got)
		}
	}
}

// TestNames: two owners of one name, one after the other or of two kinds, have policies of two names.
func TestNames(t *testing.T) {
	owner := func(uid types.UID) *v1alpha1.Transfer {
		return &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: uid}}
	}
	first := networkpolicy.Of("Transfer", owner("a"), map[string]string{"k": "v"}, networkingv1.NetworkPolicySpec{})
	if second := networkpolicy.Of(
		"Transfer", owner("b"), nil, networkingv1.NetworkPolicySpec{},
	); first.Name == second.Name {
		t.Errorf("both are called %s", first.Name)
	}
	if first.Labels["k"] != "v" || first.Labels[agentpod.ManagedByLabel] != agentpod.ManagedBy ||
		len(first.OwnerReferences) != 1 {
		t.Errorf("metadata %+v", first.ObjectMeta)
	}
}
