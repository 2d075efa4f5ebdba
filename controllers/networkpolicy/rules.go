// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package networkpolicy

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/lighterage/lighterage/controllers/agentpod"
)

// What the chart calls the operator's pods.
const (
	operatorApp      = "lighterage"
	managerComponent = "manager"
	gatewayComponent = "gateway"

	nodeAgentComponent = "node-agent"
)

// dnsPorts are those of DNS as pods see them: a Service's 53 becomes what its pods listen on, 5353 with some.
var dnsPorts = []int{53, 5353}

// Spec is the NetworkPolicy of agents as it grows; Operator.Policy begins one.
type Spec struct {
	operator string
	spec     networkingv1.NetworkPolicySpec
}

// newSpec admits nothing but the manager to the control port.
func newSpec(operatorNamespace string, selector map[string]string) *Spec {
	matched := map[string]string{agentpod.AppLabel: agentpod.AppName}
	for key, value := range selector {
		matched[key] = value
	}
	s := &Spec{operator: operatorNamespace, spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: matched},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	}}
	return s.from(tcp(agentpod.ControlPort), s.operatorPod(managerComponent))
}

// from admits connections to ports; without peers, from everywhere.
func (s *Spec) from(ports []networkingv1.NetworkPolicyPort, peers ...networkingv1.NetworkPolicyPeer) *Spec {
	s.spec.Ingress = append(s.spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: ports, From: peers})
	return s
}

// to admits connections to ports of others; without peers, of everybody.
func (s *Spec) to(ports []networkingv1.NetworkPolicyPort, peers ...networkingv1.NetworkPolicyPeer) *Spec {
	s.spec.Egress = append(s.spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: ports, To: peers})
	return s
}

// Dialled is what agents connect to.
type Dialled struct {
	// Endpoint is host:port.
	Endpoint string
	// Service is the one that the host names; nil if it names none, or none that may be used.
	Service *corev1.Service
}

// toNames admits connections to what is dialled, by port, and what it takes to resolve the hosts.
func (s *Spec) toNames(dialled ...Dialled) {
	var ports []intstr.IntOrString
	for _, one := range dialled {
		_, text, err := net.SplitHostPort(one.Endpoint)
		if err != nil {
			continue // checked elsewhere, and nothing that could be dialled
		}
		if port, err := strconv.ParseUint(text, 10, 16); err == nil && port > 0 {
			ports = append(ports, seenPorts(int32(port), one.Service)...)
		}
	}
	if len(ports) == 0 {
		return
	}
	slices.SortFunc(ports, func(a, b intstr.IntOrString) int {
		return cmp.Or(cmp.Compare(a.IntVal, b.IntVal), cmp.Compare(a.StrVal, b.StrVal))
	})
	s.to(portsOf(corev1.ProtocolTCP, slices.Compact(ports)...)).resolves()
}

// seenPorts are those that policy engines see when a port is dialled: before the address of a Service is translated
// that port, afterwards the one of its pods, which may be a name.
func seenPorts(dialled int32, service *corev1.Service) []intstr.IntOrString {
	ports := []intstr.IntOrString{intstr.FromInt32(dialled)}
	if service == nil {
		return ports
	}
	for _, port := range service.Spec.Ports {
		if port.Port == dialled && port.TargetPort != ports[0] && port.TargetPort != (intstr.IntOrString{}) {
			ports = append(ports, port.TargetPort)
		}
	}
	return ports
}

// resolves admits DNS.
func (s *Spec) resolves() *Spec {
	var ports []networkingv1.NetworkPolicyPort
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		ports = append(ports, portsOf(protocol, numbers(dnsPorts...)...)...)
	}
	return s.to(ports)
}

// operatorPod are pods of the operator.
func (s *Spec) operatorPod(component string) networkingv1.NetworkPolicyPeer {
	return pods(s.operator, map[string]string{agentpod.AppLabel: operatorApp, agentpod.ComponentLabel: component})
}

// pods with labels, in a namespace; an empty one is that of the policy.
func pods(namespace string, labels map[string]string) networkingv1.NetworkPolicyPeer {
	peer := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels}}
	if namespace != "" {
		peer.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	}
	return peer
}

// agents with a mode, in a namespace; an empty one is that of the policy.
func agents(namespace, mode string) networkingv1.NetworkPolicyPeer {
	return pods(namespace, map[string]string{agentpod.AppLabel: agentpod.AppName, agentpod.ComponentLabel: mode})
}

func tcp(ports ...int) []networkingv1.NetworkPolicyPort {
	return portsOf(corev1.ProtocolTCP, numbers(ports...)...)
}

func numbers(ports ...int) []intstr.IntOrString {
	all := make([]intstr.IntOrString, 0, len(ports))
	for _, port := range ports {
		all = append(all, intstr.FromInt32(int32(port)))
	}
	return all
}

func portsOf(protocol corev1.Protocol, ports ...intstr.IntOrString) []networkingv1.NetworkPolicyPort {
	all := make([]networkingv1.NetworkPolicyPort, 0, len(ports))
	for _, port := range ports {
		all = append(all, networkingv1.NetworkPolicyPort{Protocol: ptr.To(protocol), Port: ptr.To(port)})
	}
	return all
}
