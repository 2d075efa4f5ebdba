// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstoreplan

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
)

const (
	// GatewayService is the name of the gateway's Service in the namespace of the operator, and of its port.
	GatewayService     = "lighterage-gateway"
	gatewayServicePort = "gateway"

	relayMode = "relay"
	// relayPause is how long after its end a relay starts again, unless its pod was evicted.
	relayPause = time.Minute
)

// gatewayAddress is what a relay dials; empty: there is no gateway.
func gatewayAddress(service *corev1.Service) string {
	if service == nil {
		return ""
	}
	for _, port := range service.Spec.Ports {
		if port.Name == gatewayServicePort {
			return net.JoinHostPort(service.Name+"."+service.Namespace+".svc", strconv.Itoa(int(port.Port)))
		}
	}
	return ""
}

// RelayName is the name of the Job of the store's relay; empty if it is to have none. Another one takes its place when
// what it was made of changes. Probes have the number 1.
func RelayName(store *v1alpha1.ObjectStore, gateway *corev1.Service, image agentpod.Image) string {
	address := gatewayAddress(gateway)
	if store.Spec.HandOff != v1alpha1.StoreHandOffReceive || address == "" {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", store.Generation, image.Name, address))
	id := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:5])
	return attempt.Name(store.Name, id, 2)
}

// handOff has a relay run while the store is Ready and its spec asks for one.
func (d *decision) handOff() {
	status := &d.store.Status
	if d.store.Spec.HandOff != v1alpha1.StoreHandOffReceive {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionHandOffReady)
		return
	}
	name := RelayName(d.store, d.facts.Gateway, d.image)
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	state := attempt.Observe(d.facts.RelayJob, d.facts.RelayPod)
	switch {
	case name == "":
		d.relay(false, v1alpha1.ReasonGatewayNotFound, fmt.Sprintf(
			"the operator's namespace has no Service %s with a port %s", GatewayService, gatewayServicePort))
		d.requeue(attempt.StallLast)
		return
	case ready == nil || ready.Status != metav1.ConditionTrue:
		d.relay(false, v1alpha1.ReasonStoreNotReady, "the agent starts when the store is Ready")
		return
	}
	again := time.Duration(0)
	if state.Phase == attempt.Ended {
		again = relayAgain(state, d.facts)
	}
	if state.Phase != attempt.Ended || again > 0 { // else it is removed, which wakes this up
		d.out.Keep = append(d.out.Keep, name)
	}
	switch state.Phase {
	case attempt.Absent:
		if d.facts.Problem != nil {
			d.relay(false, d.facts.Problem.Reason, d.facts.Problem.Message)
			d.requeue(attempt.StallLast)
			return
		}
		d.out.Relay = d.relayAttempt(name)
		d.requeue(attempt.StartGrace)
		if !d.saysWhyItEnded() {
			d.relay(false, v1alpha1.ReasonStarting, "the agent is being started")
		}
	case attempt.Starting:
		waited := d.facts.Now.Sub(state.Since)
		d.requeue(attempt.UntilFirst(waited, attempt.StartGrace))
		if state.Stuck != nil && waited >= attempt.StartGrace {
			d.relay(false, state.Stuck.Reason, state.Stuck.Message)
		}
	case attempt.Running:
		d.relay(true, v1alpha1.ReasonRelaying,
			"Transfers that other clusters send through the store reach this cluster's gateway")
	case attempt.Ended:
		failure := agentreport.Bounded(state.Final).GetFailure()
		message := failure.GetMessage()
		if message == "" {
			message = "the agent has ended and gave no message"
		}
		reason := agentreport.FailureReason(failure.GetReason())
		d.relay(false, reason, message)
		if d.requeue(max(0, again)); again <= 0 {
			d.out.RelayEnded = reason
		}
	}
}

// saysWhyItEnded reports whether the condition has the reason of a relay that ended, which stays until another runs.
func (d *decision) saysWhyItEnded() bool {
	present := meta.FindStatusCondition(d.store.Status.Conditions, v1alpha1.ConditionHandOffReady)
	return present != nil && present.Status != metav1.ConditionTrue &&
		present.Reason != v1alpha1.ReasonStoreNotReady && present.Reason != v1alpha1.ReasonGatewayNotFound
}

// relayAgain is how long a relay that has ended is to stay so.
func relayAgain(state attempt.State, facts Facts) time.Duration {
	if state.Final.GetFailure().GetReason() == wirev1.FailureReason_FAILURE_REASON_EVICTED {
		return 0
	}
	return endOf(facts.RelayJob, facts.RelayPod).Add(relayPause).Sub(facts.Now)
}

// endOf is when an agent ended, as far as that is known.
func endOf(job *batchv1.Job, pod *corev1.Pod) time.Time {
	if pod != nil {
		if container := agentpod.ContainerStatus(pod); container != nil && container.State.Terminated != nil {
			return container.State.Terminated.FinishedAt.Time
		}
	}
	end := job.CreationTimestamp.Time
	for _, condition := range job.Status.Conditions {
		if condition.LastTransitionTime.After(end) {
			end = condition.LastTransitionTime.Time
		}
	}
	return end
}

func (d *decision) relay(ready bool, reason, message string) {
	d.set([]metav1.Condition{conditions.New(v1alpha1.ConditionHandOffReady, ready, reason, message)})
}

func (d *decision) requeue(after time.Duration) {
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, after)
}

// relayAttempt is the relay of a store.
func (d *decision) relayAttempt(name string) *attempt.Attempt {
	a := jobSpec(d.store, relayMode, name, "", d.image)
	a.Config = &wirev1.RelayConfig{
		Store: &wirev1.StoreEnd{Store: a.AddStore(d.store.Spec, "", d.facts.Service), DialPolicy: d.facts.Dial},

		GatewayAddress: gatewayAddress(d.facts.Gateway),
	}
	reachGateway(&a, d.store, d.facts.Gateway)
	return attempt.New(a)
}

// reachGateway has the NetworkPolicy of the store's agents, of which there is one, let the relay reach the gateway.
func reachGateway(a *attempt.Spec, store *v1alpha1.ObjectStore, gateway *corev1.Service) {
	if address := gatewayAddress(gateway); address != "" && store.Spec.HandOff == v1alpha1.StoreHandOffReceive {
		a.Reach(address, gateway)
	}
}

// RefuseRelay is the decision when the relay that Decide wanted started was rejected.
func RefuseRelay(store *v1alpha1.ObjectStore, problem agentpod.Problem, now time.Time) Decision {
	d := &decision{store: store.DeepCopy(), facts: Facts{Now: now}}
	d.relay(false, problem.Reason, problem.Message)
	d.requeue(attempt.StallLast)
	d.out.Status = d.store.Status
	return d.out
}
