// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package networkpolicy

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
)

// Ports of agents, beside agentpod.ControlPort and agentpod.DataPort.
const (
	natsPort     = 4222
	messagesPort = 8443
	routePort    = 6222
	channelPort  = 8444
	httpPort     = 8443

	trialMode = "trial"
	sendMode  = "send"
	receive   = "receive"
	queueMode = "queue"
)

// Attempt is the policy of all attempts of one owner, a Transfer, Delivery, CompressionTrial or ObjectStore, whose UID
// is in the label. A sender dials the peer's gateway or receivers of this cluster; a receiver is dialled by the gateway
// or by senders of this cluster; a trial asks other agents; a probe dials a store.
func Attempt(operatorNamespace, label string, uid types.UID, traffic attempt.Traffic) networkingv1.NetworkPolicySpec {
	s := newSpec(operatorNamespace, map[string]string{label: string(uid)})
	for _, gateway := range traffic.Gateways {
		s.toNames(Dialled{Endpoint: gateway})
	}
	for _, store := range traffic.Stores {
		s.toNames(Dialled{Endpoint: store.Address, Service: store.Service})
	}
	for _, namespace := range traffic.ReceiverNamespaces {
		s.to(tcp(agentpod.DataPort), agents(namespace, receive))
	}
	switch {
	case traffic.Receives && traffic.SenderNamespace != "":
		s.from(tcp(agentpod.DataPort), agents(traffic.SenderNamespace, sendMode))
	case traffic.Receives:
		s.from(tcp(agentpod.DataPort), s.operatorPod(gatewayComponent))
	}
	if traffic.AsksAgents {
		s.to(tcp(agentpod.ControlPort), pods("", map[string]string{agentpod.AppLabel: agentpod.AppName}))
	}
	return s.spec
}

// QueueTraffic is whom the members of a Queue talk to beside clients and the gateway.
type QueueTraffic struct {
	// Clustered: to each other.
	Clustered bool
	// SendsHere and ReceivesHere: to members of Queues of their namespace, by channels.
	SendsHere, ReceivesHere bool
	// Dialled are peers' gateways and external servers.
	Dialled []Dialled
}

// Queue is the policy of the members of a Queue: clients from everywhere, trials of the namespace, the gateway, and
// whom else they talk to.
func Queue(operatorNamespace string, uid types.UID, traffic QueueTraffic) networkingv1.NetworkPolicySpec {
	selector := map[string]string{v1alpha1.QueueLabel: string(uid)}
	s := newSpec(operatorNamespace, selector)
	s.from(tcp(agentpod.ControlPort), agents("", trialMode))
	s.from(tcp(natsPort, messagesPort))
	s.from(tcp(channelPort), s.operatorPod(gatewayComponent))
	s.toNames(traffic.Dialled...)
	if traffic.ReceivesHere {
		s.from(tcp(channelPort), agents("", queueMode))
	}
	if traffic.SendsHere {
		s.to(tcp(channelPort), agents("", queueMode)).resolves()
	}
	if traffic.Clustered {
		members := pods("", map[string]string{agentpod.AppLabel: agentpod.AppName, v1alpha1.QueueLabel: string(uid)})
		s.from(tcp(routePort), members)
		s.to(tcp(routePort), members).resolves()
	}
	return s.spec
}

// HTTPEndpoint is the policy of the replicas of an HTTPEndpoint: clients from everywhere, trials of the namespace, and
// the backend by its port. service is the one that the backend names; nil if it names none, or none that it may use.
func HTTPEndpoint(
	operatorNamespace string, uid types.UID, backend int32, service *corev1.Service,
) networkingv1.NetworkPolicySpec {
	s := newSpec(operatorNamespace, map[string]string{v1alpha1.HTTPEndpointLabel: string(uid)})
	s.from(tcp(agentpod.ControlPort), agents("", trialMode))
	s.from(tcp(httpPort))
	return s.to(portsOf(corev1.ProtocolTCP, seenPorts(backend, service)...)).resolves().spec
}

// sharingKinds are the kinds whose agents share accelerators.
var sharingKinds = []string{"Transfer", "Delivery", "Queue", "HTTPEndpoint"}

// Shares adds to a policy that agents draw shares of accelerators.
func Shares(operatorNamespace string, spec networkingv1.NetworkPolicySpec) networkingv1.NetworkPolicySpec {
	s := &Spec{operator: operatorNamespace, spec: spec}
	return s.to(tcp(agentpod.SharesPort), s.operatorPod(nodeAgentComponent)).spec
}

// Of makes the NetworkPolicy of an owner. Its name holds the owner's UID, so that it is that of nobody else's.
func Of(
	kind string, owner metav1.Object, labels map[string]string, spec networkingv1.NetworkPolicySpec,
) *networkingv1.NetworkPolicy {
	uid := sha256.Sum256([]byte(owner.GetUID()))
	own := map[string]string{agentpod.AppLabel: agentpod.AppName, agentpod.ManagedByLabel: agentpod.ManagedBy}
	for key, value := range labels {
		own[key] = value
	}
	const suffix = 1 + 8 // a dash and the digest
	name := owner.GetName()
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: name[:min(len(name), 253-suffix)] + "-" + hex.EncodeToString(uid[:4]),
			Labels: own, OwnerReferences: []metav1.OwnerReference{agentpod.OwnerReference(kind, owner)},
		},
		Spec: spec,
	}
}
