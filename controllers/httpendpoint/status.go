// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// Replica is a pod and what its agent says.
type Replica = replicas.Agent[*wirev1.HTTPReport]

// Facts are what was seen of an HTTPEndpoint.
type Facts struct {
	Now time.Time
	// Problem is why the spec could not be made to be.
	Problem *agentpod.Problem
	// Blocked is why no replica can be placed now; those that run stay. nil when one can be.
	Blocked *agentpod.Problem
	// NotAllowed is why replicas may not dial the backend; nil if they may, as far as is known in advance.
	NotAllowed *agentpod.Problem
	// Backend is the Service that the spec names; nil when it does not exist or the backend is a host.
	Backend *corev1.Service
	// Deployment is nil when there is none.
	Deployment *appsv1.Deployment
	Replicas   []Replica
	// Placement says where replicas may and should run; nil when the spec cannot be used.
	Placement *v1alpha1.PlacementStatus
	// Waits is what replicas wait for that the scheduler finds no node for, besides what it says itself; empty if
	// nothing.
	Waits string
	// RolloutWaits: replicas are to be replaced, and others come first.
	RolloutWaits bool
	Tariffs      []v1alpha1.Tariff
	// RefreshStatistics: they are old enough to be written again.
	RefreshStatistics bool
}

// Observe is the status that follows from what was seen. wanted is nil when the spec cannot be used.
func Observe(endpoint *v1alpha1.HTTPEndpoint, wanted *Wanted, facts Facts) v1alpha1.HTTPEndpointStatus {
	status := *endpoint.Status.DeepCopy()
	status.ObservedGeneration = endpoint.Generation
	revision := ""
	if wanted != nil {
		status.Backend = wanted.Config.GetBackend().GetAddress()
		status.Policy = wanted.Policy.Status()
		revision = wanted.Config.GetRevision()
	}
	if facts.Placement != nil {
		status.Placement = facts.Placement.DeepCopy()
		status.Placement.Message = conditions.Shorten(status.Placement.Message)
	}
	status.Ready = fmt.Sprintf("%d/%d", readyReplicas(facts.Deployment), wantedReplicas(facts.Deployment))
	status.Replicas = replicaStatus(facts.Replicas, revision)
	status.CertificateExpirationTime = replicas.FirstExpiration(facts.Replicas)
	if facts.RefreshStatistics {
		refresh(&status, wanted, facts)
	}
	now := append(state(endpoint, wanted, facts), replicas.HardwareCompression(status.Compression, hardwareMessages)...)
	status.Conditions = conditions.Merge(status.Conditions, now, endpoint.Generation, facts.Now)
	return status
}

// state is Ready, Reconciling and Stalled: the first that applies of what keeps the endpoint from being what its spec
// says.
func state(endpoint *v1alpha1.HTTPEndpoint, wanted *Wanted, facts Facts) []metav1.Condition {
	if facts.Problem != nil {
		message := facts.Problem.Message
		if n := readyReplicas(facts.Deployment); n > 0 {
			message += fmt.Sprintf("; meanwhile %d replicas serve what the spec said before", n)
		}
		return conditions.Stalled(facts.Problem.Reason, message)
	}
	if wanted == nil || facts.Deployment == nil {
		return conditions.Reconciling(v1alpha1.ReasonPending, "Nothing is running yet")
	}
	for _, check := range []func(*v1alpha1.HTTPEndpoint, *Wanted, Facts) []metav1.Condition{
		checkPolicy, checkPlacement, checkEgress, checkBackend, checkCertificate, checkConfig, checkRollout, checkReports,
		checkHealth,
	} {
		if found := check(endpoint, wanted, facts); found != nil {
			return found
		}
	}
	message := fmt.Sprintf("%d replicas serve %s at Service %q, port %d", readyReplicas(facts.Deployment),
		wanted.Config.GetBackend().GetAddress(), endpoint.Name, listenerPort(endpoint.Spec.Listener))
	if facts.RolloutWaits {
		message += "; they are replaced by ones of the operator's present version when fewer other HTTPEndpoints are " +
			"rolling out"
	}
	return conditions.Ready(v1alpha1.ReasonServing, message)
}

// checkPolicy: one that was used is gone, or cannot be used any more.
func checkPolicy(_ *v1alpha1.HTTPEndpoint, wanted *Wanted, _ Facts) []metav1.Condition {
	if wanted.PolicyProblem == nil {
		return nil
	}
	return conditions.Stalled(
		wanted.PolicyProblem.Reason,
		wanted.PolicyProblem.Message+"; meanwhile replicas go on with the policy that status shows",
	)
}

// checkPlacement: replicas wait for a node. Where all have one it does not matter that there is no other.
func checkPlacement(_ *v1alpha1.HTTPEndpoint, _ *Wanted, facts Facts) []metav1.Condition {
	d := facts.Deployment
	wanted, placed, waiting := wantedReplicas(d), int32(0), false
	for _, replica := range facts.Replicas {
		if replica.Pod.Spec.NodeName == "" {
			waiting = true
			continue
		}
		placed++
	}
	if facts.Blocked == nil || d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas >= wanted &&
		placed >= wanted && !waiting {
		return nil
	}
	return conditions.Stalled(
		facts.Blocked.Reason, fmt.Sprintf("%d of %d replicas have a node, and %s", placed, wanted, facts.Blocked.Message),
	)
}

// checkBackend: a Service that is not there, or has no such port.
func checkBackend(endpoint *v1alpha1.HTTPEndpoint, _ *Wanted, facts Facts) []metav1.Condition {
	named := endpoint.Spec.Backend.Service
	if named == nil {
		return nil
	}
	if facts.Backend == nil {
		return conditions.Stalled(v1alpha1.ReasonBackendNotFound, fmt.Sprintf("there is no Service %q in namespace %q, so "+
			"requests get 503; create it, or name another in spec.backend.service (a backend elsewhere is named in "+
			"spec.backend.host)", named.Name, endpoint.Namespace))
	}
	if facts.Backend.Spec.Type == corev1.ServiceTypeExternalName {
		return nil // it has no ports to compare with
	}
	ports := make([]string, 0, len(facts.Backend.Spec.Ports))
	for _, port := range facts.Backend.Spec.Ports {
		if port.Port == named.Port {
			return nil
		}
		ports = append(ports, fmt.Sprint(port.Port))
	}
	return conditions.Stalled(v1alpha1.ReasonBackendNotFound, fmt.Sprintf("Service %q has no port %d, so requests get "+
		"503; it has %s: change spec.backend.service.port", named.Name, named.Port, strings.Join(ports, ", ")))
}

// checkCertificate is about the certificate for clients, in the replicas' words.
func checkCertificate(endpoint *v1alpha1.HTTPEndpoint, _ *Wanted, facts Facts) []metav1.Condition {
	tls := endpoint.Spec.Listener.TLS
	if tls == nil {
		return nil
	}
	return replicas.CheckCertificates(
		"replicas", endpoint.Namespace, tls.SecretName, facts.Replicas, facts.Now,
	)
}

// checkConfig: replicas of another version may not understand what they are told.
func checkConfig(_ *v1alpha1.HTTPEndpoint, wanted *Wanted, facts Facts) []metav1.Condition {
	for _, replica := range facts.Replicas {
		if message := replica.Report.GetConfigError(); message != "" &&
			replica.Report.GetRevision() != wanted.Config.GetRevision() {
			return conditions.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("replica %s does not accept what the spec says "+
				"and goes on with what it said before: %s", replica.Pod.Name, message))
		}
	}
	return nil
}

// checkRollout: replicas that are not there yet, or not of the present pod template.
func checkRollout(_ *v1alpha1.HTTPEndpoint, _ *Wanted, facts Facts) []metav1.Condition {
	d := facts.Deployment
	wanted, ready := wantedReplicas(d), readyReplicas(d)
	if rolledOut(d) {
		return nil
	}
	progress := fmt.Sprintf("%d of %d replicas are ready", ready, wanted)
	if failure := deploymentFailure(d); failure != "" {
		return conditions.Stalled(v1alpha1.ReasonAgentNotStarted, progress+"; a replica cannot be made: "+failure)
	}
	for _, replica := range facts.Replicas {
		problem := agentpod.Stuck(replica.Pod)
		if problem == nil {
			continue
		}
		if problem.Reason == v1alpha1.ReasonUnschedulable && facts.Waits != "" {
			progress += "; " + facts.Waits
		}
		message := progress + "; " + replica.Pod.Name + ": " + problem.Message
		if facts.Now.Sub(replica.Pod.CreationTimestamp.Time) > startGrace {
			return conditions.Stalled(problem.Reason, message)
		}
		return conditions.Reconciling(v1alpha1.ReasonRollingOut, message)
	}
	for _, replica := range facts.Replicas {
		if detail := replica.Report.GetDetail(); detail != "" &&
			replica.Report.GetState() == wirev1.HTTPState_HTTP_STATE_STARTING {
			return conditions.Reconciling(v1alpha1.ReasonRollingOut, progress+"; "+replica.Pod.Name+": "+detail)
		}
	}
	return conditions.Reconciling(
		v1alpha1.ReasonRollingOut,
		fmt.Sprintf("%s, %d run the present pod template", progress, min(d.Status.UpdatedReplicas, wanted)),
	)
}

// deploymentFailure is why the API server lets no pod be made, for example a quota; empty if it does.
func deploymentFailure(d *appsv1.Deployment) string {
	for _, condition := range d.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return condition.Message
		}
	}
	return ""
}

// checkReports: replicas that do not answer, or have not taken the present configuration.
func checkReports(_ *v1alpha1.HTTPEndpoint, wanted *Wanted, facts Facts) []metav1.Condition {
	return replicas.CheckReports("replicas", facts.Replicas, wanted.Config.GetRevision(), controlPort)
}

// checkHealth: a backend that does not answer will be tried again for as long as it takes.
func checkHealth(endpoint *v1alpha1.HTTPEndpoint, wanted *Wanted, facts Facts) []metav1.Condition {
	var ill int
	var message string
	for _, replica := range facts.Replicas {
		if replica.Report.GetBackendFailure() != wirev1.BackendFailure_BACKEND_FAILURE_UNSPECIFIED {
			ill++
			message = healthMessage(endpoint, replica.Report)
		}
	}
	if ill == 0 {
		return nil
	}
	return conditions.Reconciling(v1alpha1.ReasonBackendUnhealthy, fmt.Sprintf("%d of %d replicas answer 503 because "+
		"backend %s fails its health check: %s", ill, len(facts.Replicas), wanted.Config.GetBackend().GetAddress(), message))
}

// healthMessage says what kind of failure a health check met. Of a server that is not a Service of the endpoint's own
// namespace it does not say what becomes of connections, so that status is no scanner of ports.
func healthMessage(endpoint *v1alpha1.HTTPEndpoint, report *wirev1.HTTPReport) string {
	const connection = "connection failed; the replica's log says more"
	failure := report.GetBackendFailure()
	switch failure {
	case wirev1.BackendFailure_BACKEND_FAILURE_BLOCKED:
		return "its name leads to an address that replicas must not dial, such as one of this cluster: name a Service of " +
			"this namespace in spec.backend.service, or one of another as NAME.NAMESPACE.svc, whose namespace allows it by " +
			"the annotation " +
			v1alpha1.AllowBackendsFromAnnotation
	case wirev1.BackendFailure_BACKEND_FAILURE_NAME:
		return "its name cannot be resolved"
	case wirev1.BackendFailure_BACKEND_FAILURE_TLS:
		return "it does not speak TLS, or its certificate is not valid for spec.backend.tls"
	case wirev1.BackendFailure_BACKEND_FAILURE_STATUS:
		return fmt.Sprintf("it answers with status %d", report.GetBackendStatus())
	case wirev1.BackendFailure_BACKEND_FAILURE_REFUSED, wirev1.BackendFailure_BACKEND_FAILURE_TIMEOUT:
		if endpoint.Spec.Backend.Service == nil {
			return connection
		}
	}
	switch failure {
	case wirev1.BackendFailure_BACKEND_FAILURE_REFUSED:
		return "nothing listens at its port"
	case wirev1.BackendFailure_BACKEND_FAILURE_TIMEOUT:
		return "it does not answer in time"
	}
	return connection
}

// rolledOut: all replicas are of the present pod template, and ready.
func rolledOut(d *appsv1.Deployment) bool {
	wanted, s := wantedReplicas(d), d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas >= wanted && readyReplicas(d) >= wanted &&
		s.Replicas <= wanted
}

func readyReplicas(d *appsv1.Deployment) int32 {
	if d == nil {
		return 0
	}
	return d.Status.ReadyReplicas
}

func wantedReplicas(d *appsv1.Deployment) int32 {
	if d == nil {
		return 0
	}
	return ptr.Deref(d.Spec.Replicas, 1)
}

// hardwareMessages say what each reason means here.
var hardwareMessages = map[string]string{
	v1alpha1.CompressionHardwareUsed: "the accelerator compresses",
	v1alpha1.CompressionSoftwareUsed: "software compresses, as the policy asks",
	v1alpha1.CompressionNoAccelerator: "software compresses: no node of the replicas has an accelerator that is known " +
		"to work",
	v1alpha1.CompressionSelfTestFailed: "software compresses: a node has an accelerator, but its use could not be " +
		"proved; status.accelerator of the NodeProfile says why",
	v1alpha1.CompressionLevelNotAccelerated: "software compresses: the accelerator does not compress at the policy's level",
	v1alpha1.CompressionCodecNotAccelerated: "software compresses: most clients are sent zstd, which no accelerator " +
		"does; put gzip first in codings, or leave zstd out",
	v1alpha1.CompressionBelowMinimum: "most bodies are smaller than hardwareMinSize or softwareMinSize and are sent " +
		"as they are",
	v1alpha1.CompressionSoftwareDisabled: "nothing is compressed: there is no accelerator that is known to work, and " +
		"the policy or spec.compression.software forbids software",
	v1alpha1.CompressionAcceleratorBusy: "software compresses: the accelerator is busy with others' work",
	v1alpha1.CompressionAcceleratorShare: "software compresses: the replicas' shares of their nodes' accelerators are used " +
		"up; a DataQuota gives the namespace a greater weight",
	v1alpha1.CompressionIncompressible:   "most bodies are sent as they are: their beginning does not promise to shrink",
	v1alpha1.CompressionDidNotShrink:     "most bodies are sent as they are: they did not shrink",
	v1alpha1.CompressionPolicyNever:      "nothing is compressed: the policy says Never",
	v1alpha1.CompressionPeerRefused:      "most bodies are sent as they are: clients ask for none of the codings",
	v1alpha1.CompressionOtherContentType: "most bodies are sent as they are: contentTypes does not name their type",
	v1alpha1.CompressionAlreadyEncoded:   "most bodies are sent as they are: the backend has encoded them",
	v1alpha1.CompressionNoTransform: "most bodies are sent as they are: client or backend forbid to change them " +
		"(Cache-Control: no-transform)",
	v1alpha1.CompressionPartialContent: "most responses are parts of something (206) and are sent as they are",
	v1alpha1.CompressionCrossSiteCookie: "most responses set cookies for other sites and are sent as they are " +
		"(spec.breach.crossSiteCookies)",
	v1alpha1.CompressionBusy: "most bodies are sent as they are: as many are being compressed as " +
		"spec.limits.maxCompressions and the memory allow",
	v1alpha1.CompressionCPUBudget: "most bodies are sent as they are: compressing takes as much CPU as " +
		"spec.limits.compressionCPUPercent allows",
	v1alpha1.CompressionNetworkFaster: "most bodies are sent as they are: clients have them sooner than they could be " +
		"compressed (status.decisions)",
	v1alpha1.CompressionCPUDearer: "most bodies are sent as they are: compressing them takes more CPU time than sending " +
		"fewer bytes saves (status.decisions)",
	v1alpha1.CompressionEngineFailed: "most bodies are sent as they are: the engine fails, which is a fault; please " +
		"report it with the replicas' logs",
}
