// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// Member is a pod and what its agent says.
type Member = replicas.Agent[*wirev1.QueueReport]

// Facts are what was seen of a Queue.
type Facts struct {
	Now time.Time
	// Kept is why a Queue that is to be deleted is still there; nil when it is not to be.
	Kept *agentpod.Problem
	// Problem is why the spec could not be made to be.
	Problem *agentpod.Problem
	// Blocked is why no member can be placed now; those that run stay. nil when one can be.
	Blocked *agentpod.Problem
	// NotAllowed is why members may not dial one of the external servers; nil if they may, as far as is known in
	// advance.
	NotAllowed *agentpod.Problem
	// Set is nil when there is none.
	Set     *appsv1.StatefulSet
	Members []Member
	// Placement says where members may and should run; nil when the spec cannot be used.
	Placement *v1alpha1.PlacementStatus
	// Waits is what members wait for that the scheduler finds no node for, besides what it says itself; empty if
	// nothing.
	Waits string
	// RolloutWaits: members are to be replaced, and others come first.
	RolloutWaits bool
	Tariffs      []v1alpha1.Tariff
	// RefreshStatistics: they are old enough to be written again.
	RefreshStatistics bool
}

// Observe is the status that follows from what was seen. wanted is nil when the spec cannot be used.
func Observe(queue *v1alpha1.Queue, wanted *Wanted, facts Facts) v1alpha1.QueueStatus {
	status := *queue.Status.DeepCopy()
	status.ObservedGeneration = queue.Generation
	status.Address = clientAddress(queue)
	revision := ""
	if wanted != nil {
		status.Policy = wanted.Policy.Status()
		status.InheritedMinSize = wanted.Inherited.DeepCopy()
		revision = wanted.Config.GetRevision()
	}
	if facts.Placement != nil {
		status.Placement = facts.Placement.DeepCopy()
		status.Placement.Message = conditions.Shorten(status.Placement.Message)
	}
	status.Ready = fmt.Sprintf("%d/%d", readyMembers(facts.Set), memberCount(queue.Spec))
	status.Members = memberStatus(facts.Members, contentOf(facts.Members).GetLeader(), revision)
	status.CertificateExpirationTime = replicas.FirstExpiration(facts.Members)
	if facts.RefreshStatistics {
		refresh(&status, queue, wanted, facts)
	}
	showChannels(&status, queue, wanted, facts.Members, facts.RefreshStatistics)
	if facts.RefreshStatistics {
		status.Received = receivedStatus(facts.Members)
	}
	if facts.RefreshStatistics || queue.Spec.Archive == nil {
		refreshArchives(&status, queue, facts.Members)
	}
	status.Restore = restoreStatus(queue, facts.Members, status.Restore)
	trackStream(queue, facts.Members, queue.Status, &status, facts.Now)
	now := slices.Concat(state(queue, wanted, facts, status.Loss), replicas.HardwareCompression(
		status.Compression, hardwareMessages,
	), channelCompression(queue, wanted, facts.Members),
		archiveConditions(queue, facts))
	if queue.Spec.Archive == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionArchived)
	}
	if queue.Spec.Restore == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionRestored)
	}
	if len(queue.Spec.SendingChannels()) == 0 {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionChannelCompression)
	}
	status.Conditions = conditions.Merge(status.Conditions, now, queue.Generation, facts.Now)
	return status
}

// do says that so many members do something.
func do[N int32 | uint64](n N, one, several string) string {
	if n == 1 {
		return "1 member " + one
	}
	return fmt.Sprintf("%d members %s", n, several)
}

func clientAddress(queue *v1alpha1.Queue) string {
	return fmt.Sprintf("tls://%s.%s.svc:%d", queue.Name, queue.Namespace, clientPort)
}

// state is Ready, Reconciling and Stalled: the first that applies of what keeps the queue from being what its spec
// says.
func state(queue *v1alpha1.Queue, wanted *Wanted, facts Facts, loss *v1alpha1.QueueLoss) []metav1.Condition {
	if facts.Kept != nil {
		return conditions.Stalled(facts.Kept.Reason, facts.Kept.Message)
	}
	if facts.Problem != nil {
		message := facts.Problem.Message
		if n := readyMembers(facts.Set); n > 0 {
			message += fmt.Sprintf("; meanwhile %s what the spec said before", do(n, "serves", "serve"))
		}
		return conditions.Stalled(facts.Problem.Reason, message)
	}
	if wanted == nil || facts.Set == nil {
		return conditions.Reconciling(v1alpha1.ReasonPending, "Nothing is running yet")
	}
	for _, check := range []func(*v1alpha1.Queue, *Wanted, Facts) []metav1.Condition{
		checkPolicy, checkPlacement, checkEgress, checkCertificate, checkAuthentication, checkExternal, checkStorage,
		checkRestore, checkRollout, checkConfig, checkReports, checkLeader,
		checkChannels, checkArchive,
	} {
		if found := check(queue, wanted, facts); found != nil {
			return found
		}
	}
	if loss != nil {
		return conditions.Stalled(v1alpha1.ReasonMessagesLost, lossMessage(queue, loss))
	}
	message := do(
		readyMembers(facts.Set), "keeps messages and serves", "keep messages and serve",
	) + " clients at " + clientAddress(queue)
	if queue.Spec.Engine.External != nil {
		message = fmt.Sprintf(
			"%s clients at %s, and external servers keep the messages", do(readyMembers(facts.Set), "serves", "serve"),
			clientAddress(queue),
		)
	}
	if len(queue.Spec.SendingChannels()) > 0 {
		message += fmt.Sprintf(", and send what is put to %s", destinations(queue))
	}
	if facts.RolloutWaits {
		message += "; they are replaced by ones of the operator's present version when fewer other Queues are rolling out"
	}
	return conditions.Ready(v1alpha1.ReasonServing, message)
}

// checkPolicy: one that was used is gone, or cannot be used any more.
func checkPolicy(_ *v1alpha1.Queue, wanted *Wanted, _ Facts) []metav1.Condition {
	if wanted.PolicyProblem == nil {
		return nil
	}
	return conditions.Stalled(
		wanted.PolicyProblem.Reason,
		wanted.PolicyProblem.Message+"; meanwhile the Queue goes on with the policy that status shows",
	)
}

// checkPlacement: members wait for a node. Where all have one it does not matter that there is no other.
func checkPlacement(queue *v1alpha1.Queue, _ *Wanted, facts Facts) []metav1.Condition {
	wanted, set := memberCount(queue.Spec), facts.Set
	placed := int32(0)
	for _, member := range facts.Members {
		if member.Pod.Spec.NodeName != "" {
			placed++
		}
	}
	if facts.Blocked == nil || set.Status.ObservedGeneration >= set.Generation && set.Status.UpdatedReplicas >= wanted &&
		placed >= wanted {
		return nil
	}
	return conditions.Stalled(
		facts.Blocked.Reason, fmt.Sprintf("%d of %d members have a node, and %s", placed, wanted, facts.Blocked.Message),
	)
}

// checkCertificate is about the certificate for clients, in the members' words.
func checkCertificate(queue *v1alpha1.Queue, _ *Wanted, facts Facts) []metav1.Condition {
	if queue.Spec.TLS == nil {
		return nil
	}
	return replicas.CheckCertificates(
		"members", queue.Namespace, queue.Spec.TLS.SecretName, facts.Members, facts.Now,
	)
}

// checkAuthentication is about tokens, which the manager may not read.
func checkAuthentication(queue *v1alpha1.Queue, _ *Wanted, facts Facts) []metav1.Condition {
	for _, member := range facts.Members {
		text := member.Report.GetAuthenticationError()
		if text == "" {
			continue
		}
		remedy := "correct spec.authentication"
		if tokens := queue.Spec.Authentication.Tokens; tokens != nil {
			remedy = fmt.Sprintf("correct Secret %q in namespace %q, whose keys are names of clients and whose values are "+
				"their tokens (members notice it within about two minutes)", tokens.SecretName, queue.Namespace)
		}
		return conditions.Stalled(
			v1alpha1.ReasonAuthenticationUnusable,
			fmt.Sprintf("%s cannot authenticate all clients: %s; %s", member.Pod.Name, text, remedy),
		)
	}
	return nil
}

// checkConfig: members of another version may not understand what they are told, and some changes a store refuses. What
// takes a restart they refuse too, until the rollout restarts them. A member that names no revision does what the spec
// says but for the limits of the stream, which change when all members have space.
func checkConfig(_ *v1alpha1.Queue, wanted *Wanted, facts Facts) []metav1.Condition {
	for _, member := range facts.Members {
		message, revision := member.Report.GetConfigError(), member.Report.GetRevision()
		switch {
		case message == "" || revision == wanted.Config.GetRevision():
		case revision == "":
			return conditions.Reconciling(v1alpha1.ReasonRollingOut, fmt.Sprintf("member %s serves with limits that were "+
				"before, and tries again to change them: %s", member.Pod.Name, message))
		default:
			return conditions.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("member %s does not accept what the spec says "+
				"and goes on with what it said before: %s", member.Pod.Name, message))
		}
	}
	return nil
}

// checkExternal is about external servers, in the members' words. What they have stays there, and members go on by
// themselves.
func checkExternal(queue *v1alpha1.Queue, _ *Wanted, facts Facts) []metav1.Condition {
	for _, member := range facts.Members {
		failure := member.Report.GetExternalFailure()
		if failure == nil || queue.Spec.Engine.External == nil {
			continue
		}
		return conditions.Stalled(agentreport.FailureReason(failure.GetReason()), member.Pod.Name+": "+failure.GetMessage())
	}
	return nil
}

// checkRollout: members that are not there yet, or not of the present pod template.
func checkRollout(queue *v1alpha1.Queue, _ *Wanted, facts Facts) []metav1.Condition {
	set := facts.Set
	wanted, ready := memberCount(queue.Spec), readyMembers(set)
	if rolledOut(set, wanted) {
		return nil
	}
	progress := fmt.Sprintf(
		"%d of %d members are ready", ready, wanted,
	) + meanwhile(queue, facts.Members, ready) + narrowed(facts.Members)
	for _, member := range facts.Members {
		problem := agentpod.Stuck(member.Pod)
		if problem == nil {
			continue
		}
		if problem.Reason == v1alpha1.ReasonUnschedulable && facts.Waits != "" {
			progress += "; " + facts.Waits
		}
		message := progress + "; " + member.Pod.Name + ": " + problem.Message
		if facts.Now.Sub(member.Pod.CreationTimestamp.Time) > startGrace {
			return conditions.Stalled(problem.Reason, message)
		}
		return conditions.Reconciling(v1alpha1.ReasonRollingOut, message)
	}
	for _, member := range facts.Members {
		if detail := member.Report.GetDetail(); detail != "" && !leads(member) {
			return conditions.Reconciling(v1alpha1.ReasonRollingOut, progress+"; "+member.Pod.Name+": "+detail)
		}
	}
	if missing := int(wanted) - len(facts.Members); missing > 0 && rollingOutFor(queue, facts.Now) > startGrace {
		return conditions.Stalled(v1alpha1.ReasonRefused, fmt.Sprintf("%s; the StatefulSet controller has not created %d "+
			"of their pods for more than %s, probably because a ResourceQuota or an admission policy rejects a pod or its "+
			"claim: kubectl describe statefulset %s -n %s shows the API server's message", progress, missing, startGrace,
			set.Name, queue.Namespace))
	}
	return conditions.Reconciling(
		v1alpha1.ReasonRollingOut,
		fmt.Sprintf("%s; %d of %d run the present pod template", progress, min(set.Status.UpdatedReplicas, wanted), wanted),
	)
}

// rollingOutFor is for how long the Queue has not been ready, if members were missing when that was last looked at. A
// pod that was deleted is missing for a moment only, so a missing pod alone says nothing.
func rollingOutFor(queue *v1alpha1.Queue, now time.Time) time.Duration {
	before := meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionReady)
	if before == nil || before.Status == metav1.ConditionTrue ||
		before.Reason != v1alpha1.ReasonRollingOut && before.Reason != v1alpha1.ReasonRefused {
		return 0
	}
	return now.Sub(before.LastTransitionTime.Time)
}

// meanwhile says whether those that are ready of several members serve clients, which they do when one of them leads.
func meanwhile(queue *v1alpha1.Queue, members []Member, ready int32) string {
	content := contentOf(members)
	switch {
	case memberCount(queue.Spec) == 1 || queue.Spec.Engine.External != nil || ready == 0:
		return ""
	case content.GetLeader() == "":
		return fmt.Sprintf(
			" and none leads, so that nothing can be put or got until most of them reach each other at port %d", routePort,
		)
	case content.GetLag() > 0:
		return fmt.Sprintf(
			" and serve clients; one lacks %d changes that %s, which leads, has", content.GetLag(), content.GetLeader(),
		)
	default:
		return " and serve clients"
	}
}

// narrowed is what the member that leads says of those that are away: while their volumes' last space counts, the
// others take fewer messages.
func narrowed(members []Member) string {
	for _, member := range members {
		if detail := member.Report.GetDetail(); detail != "" && leads(member) {
			return "; " + member.Pod.Name + ": " + detail
		}
	}
	return ""
}

func leads(member Member) bool {
	return member.Report.GetContent().GetLeader() == member.Pod.Name
}

// checkReports: members that do not answer, or have not taken the present configuration.
func checkReports(_ *v1alpha1.Queue, wanted *Wanted, facts Facts) []metav1.Condition {
	return replicas.CheckReports("members", facts.Members, wanted.Config.GetRevision(), controlPort)
}

// checkLeader: without one nothing can be put. Members choose another by themselves when most of them reach each other.
func checkLeader(queue *v1alpha1.Queue, _ *Wanted, facts Facts) []metav1.Condition {
	content := contentOf(facts.Members)
	external := queue.Spec.Engine.External != nil
	switch {
	case external && content.GetLeader() == "":
		return conditions.Reconciling(v1alpha1.ReasonNoLeader, "no member gives out messages to clients of gRPC and HTTP, "+
			"or to a channel; one does when it has written into the external servers for some seconds that it does")
	case external && content.GetUnreachable() > 0:
		return conditions.Reconciling(v1alpha1.ReasonMembersUnreachable, fmt.Sprintf("%d of the external servers that keep "+
			"the messages are not reached by the others: messages have fewer copies than the spec says; look after the servers",
			content.GetUnreachable()))
	case content.GetLeader() == "":
		return conditions.Reconciling(v1alpha1.ReasonNoLeader, fmt.Sprintf("no member leads, so that nothing can be put or "+
			"got; members choose one when most of them reach each other at port %d", routePort))
	case content.GetUnreachable() > 0:
		return conditions.Reconciling(v1alpha1.ReasonMembersUnreachable, fmt.Sprintf("%s not reached by %s, which leads: "+
			"messages have fewer copies than the spec says; let the members reach each other at port %d",
			do(content.GetUnreachable(), "is", "are"), content.GetLeader(), routePort))
	}
	return nil
}

// rolledOut: all members are of the present pod template, and ready.
func rolledOut(set *appsv1.StatefulSet, wanted int32) bool {
	return set.Status.ObservedGeneration >= set.Generation && set.Status.UpdatedReplicas >= wanted &&
		readyMembers(set) >= wanted
}

func readyMembers(set *appsv1.StatefulSet) int32 {
	if set == nil {
		return 0
	}
	return min(set.Status.ReadyReplicas, ptr.Deref(set.Spec.Replicas, 1))
}

// hardwareMessages say what each reason means here.
var hardwareMessages = map[string]string{
	v1alpha1.CompressionHardwareUsed: "the accelerator compresses",
	v1alpha1.CompressionSoftwareUsed: "software compresses, as the policy asks",
	v1alpha1.CompressionNoAccelerator: "software compresses: no node of the members has an accelerator that is known to " +
		"work",
	v1alpha1.CompressionSelfTestFailed: "software compresses: a node has an accelerator, but its use could not be " +
		"proved; status.accelerator of the NodeProfile says why",
	v1alpha1.CompressionLevelNotAccelerated: "software compresses: the accelerator does not compress at the policy's level",
	v1alpha1.CompressionCodecNotAccelerated: "software compresses: no accelerator does the first of the policy's " +
		"codecs; put deflate first",
	v1alpha1.CompressionBelowMinimum: "most messages are smaller than compression.minSize, or the policy's sizes, " +
		"and are stored as they are",
	v1alpha1.CompressionNetworkFaster: "most messages are stored as they are: members or servers have them sooner than " +
		"they could be compressed (status.decisions)",
	v1alpha1.CompressionDiskFaster: "most messages are stored as they are: the storage has them sooner than they could be " +
		"compressed (status.decisions)",
	v1alpha1.CompressionCPUDearer: "most messages are stored as they are: compressing them takes more CPU time than it " +
		"saves (status.decisions)",
	v1alpha1.CompressionOff: "nothing is compressed: compression.minSize is 0",
	v1alpha1.CompressionSoftwareDisabled: "nothing is compressed: there is no accelerator that is known to work, and " +
		"the policy or spec.compression.software forbids software",
	v1alpha1.CompressionIncompressible:  "most messages are stored as they are: they do not promise to shrink",
	v1alpha1.CompressionDidNotShrink:    "most messages are stored as they are: they did not shrink",
	v1alpha1.CompressionPolicyNever:     "nothing is compressed: the policy says Never",
	v1alpha1.CompressionAlreadyEncoded:  "most messages were put compressed",
	v1alpha1.CompressionAcceleratorBusy: "software compresses: the accelerator is busy with others' work",
	v1alpha1.CompressionAcceleratorShare: "software compresses: the members' shares of their nodes' accelerators are used " +
		"up; a DataQuota gives the namespace a greater weight",
	v1alpha1.CompressionEngineFailed: "most messages are stored as they are: the engine fails, which is a fault; " +
		"please report it with the members' logs",
}
