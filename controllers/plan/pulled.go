// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// A Transfer that pulls has another one made in the cluster of the source. This file is about that one, which is
// planned as any other one that sends to a Peer.

const (
	// PullAskedStep is how exact PullAskedAnnotation is.
	PullAskedStep = time.Hour
	// pullAbandoned is how long a Transfer stays that the other cluster does not ask for any more.
	pullAbandoned = 24 * time.Hour
)

// PullReference names a Transfer of another cluster that pulls.
type PullReference struct {
	// Peer is the name of the Peer here that vouches for that cluster.
	Peer string
	// Namespace, Name and UID are of the Transfer there.
	Namespace, Name, UID string
}

// PullName is the name of the Transfer that is made for one that pulls. Both clusters come to the same, so that the
// other one can grant it, and nothing else, what it sends.
func PullName(namespace, name, uid string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name + "/" + uid))
	return "pull-" + hex.EncodeToString(sum[:16])
}

// NewPulled is the Transfer for one that pulls, from a namespace of this cluster. run is that of it which is asked for.
func NewPulled(namespace string, of PullReference, spec v1alpha1.TransferSpec, run string,
	now time.Time) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: PullName(of.Namespace, of.Name, of.UID),
			Labels: map[string]string{v1alpha1.PulledByLabel: of.Peer},
			Annotations: map[string]string{
				v1alpha1.PullAnnotation:      of.Namespace + "/" + of.Name + "/" + of.UID,
				v1alpha1.PullAskedAnnotation: now.UTC().Format(time.RFC3339),
				v1alpha1.RunAnnotation:       run,
			},
		},
		Spec: spec,
	}
}

// PulledFor returns the Transfer of another cluster for which one was made; false: it was made for none. Where label,
// annotation, name and destination do not agree, somebody else made or changed it.
func PulledFor(transfer *v1alpha1.Transfer) (of PullReference, pulled bool) {
	parts := strings.Split(transfer.Annotations[v1alpha1.PullAnnotation], "/")
	if len(parts) != 3 || transfer.Labels[v1alpha1.PulledByLabel] == "" {
		return PullReference{}, false
	}
	of = PullReference{
		Peer: transfer.Labels[v1alpha1.PulledByLabel], Namespace: parts[0], Name: parts[1], UID: parts[2],
	}
	to := &transfer.Spec.Destination
	return of, transfer.Name == PullName(of.Namespace, of.Name, of.UID) && to.Peer == of.Peer &&
		to.Namespace == of.Namespace
}

// pulledName is what PullName makes. Admission reserves it, the label and the annotation for the gateway.
var pulledName = regexp.MustCompile(`^pull-[0-9a-f]{32}$`)

// LooksPulled reports whether a Transfer has a mark of those that the gateway makes for other clusters, which admission
// lets nobody else make. One that has it and is not what PulledFor knows is not to run: no PeerGrant was looked at.
func LooksPulled(transfer *v1alpha1.Transfer) bool {
	_, labelled := transfer.Labels[v1alpha1.PulledByLabel]
	_, annotated := transfer.Annotations[v1alpha1.PullAnnotation]
	return labelled || annotated || pulledName.MatchString(transfer.Name)
}

// PullAbandoned is how long it is until a Transfer that was made for one of another cluster is to be deleted if it is
// not asked for; 0: now.
func PullAbandoned(transfer *v1alpha1.Transfer, now time.Time) time.Duration {
	asked, err := time.Parse(time.RFC3339, transfer.Annotations[v1alpha1.PullAskedAnnotation])
	if err != nil || asked.After(now.Add(PullAskedStep)) {
		asked = transfer.CreationTimestamp.Time
	}
	return max(asked.Add(pullAbandoned).Sub(now), 0)
}

// checkCycle rejects what is pulled from here while it is pulled into here, from wherever.
func checkCycle(facts TransferFacts) *agentpod.Problem {
	if facts.PullsIntoSource == "" {
		return nil
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonPullCycle, Message: fmt.Sprintf(
		"Transfer %q of this namespace pulls into the directory that this one is to send, so that data could go round; "+
			"delete it, or have the other cluster pull from where the data come from", facts.PullsIntoSource)}
}

// relayedTexts are what another cluster may read in place of messages: nothing of nodes, quotas, volumes and other
// objects.
var relayedTexts = map[string]string{
	v1alpha1.ReasonSourceNotFound: "there is no such claim in the source's namespace; correct source, or have it " +
		"created there",
	v1alpha1.ReasonPullCycle: "a Transfer of that cluster pulls into the same directory; pull from where its data come " +
		"from",
	v1alpha1.ReasonQuotaExceeded: "the run waits for quotas and limits of the source cluster",
	v1alpha1.ReasonPeerNotFound:  "the source cluster has no Peer for this cluster any more; have it created there",
	v1alpha1.ReasonPeerHasNoEndpoint: "the source cluster's Peer for this cluster has no endpoint to send to; have " +
		"spec.endpoint set there",
	v1alpha1.ReasonPeerUnreachable: "the source cluster cannot reach the gateway of this cluster; check its Service and " +
		"firewalls",
	v1alpha1.ReasonPeerUntrusted: "the source cluster and this one do not trust each other's CA; exchange them again",
	v1alpha1.ReasonTransferring:  "the source cluster sends",
	v1alpha1.ReasonOpening:       "the source cluster's agent waits for the receiving one",
	v1alpha1.ReasonStarting:      "the source cluster starts the sending agent",
	v1alpha1.ReasonRetrying:      "an attempt failed, as status.history says, and another one follows",
	v1alpha1.ReasonSucceeded:     "the source cluster has sent everything",
}

// PullAnswer is what another cluster is told of the Transfer that was made for it.
func PullAnswer(transfer *v1alpha1.Transfer) *wirev1.PullResponse {
	status := &transfer.Status
	answer := &wirev1.PullResponse{Transfer: transfer.Name, Run: status.LastRunRequest, Phase: string(status.Phase)}
	if answer.GetPhase() == "" {
		answer.Phase = string(v1alpha1.TransferPending)
	}
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); ready != nil {
		answer.Reason, answer.Message = ready.Reason, relayedTexts[ready.Reason]
		if answer.GetMessage() == "" {
			answer.Message = "the conditions of Transfer " + transfer.Name + " in the source cluster say more"
		}
	}
	answer.Stalled = meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled)
	answer.RecoveryPoint = wireTime(status.RecoveryPoint)
	run := status.Run
	if run == nil {
		return answer
	}
	answer.RunId, answer.Attempt, answer.Failures = run.ID, natural(run.Attempt), natural(run.Failures)
	answer.Report = &wirev1.Report{
		Progress: wireProgress(status.Progress), Compression: wireCompression(status.Compression),
	}
	if status.Phase == v1alpha1.TransferComplete {
		answer.Report.State = wirev1.AgentState_AGENT_STATE_SUCCEEDED
	}
	if status.Progress != nil {
		answer.BytesPerSecond = natural64(status.Progress.BytesPerSecond)
	}
	for i := range status.History {
		ended := &status.History[i]
		if ended.RunID != run.ID {
			continue
		}
		answer.Attempts = append(answer.Attempts, &wirev1.PullAttempt{
			Attempt: natural(ended.Attempt), Reason: ended.Reason,
			StartTime: wireTime(ended.StartTime), CompletionTime: wireTime(ended.CompletionTime),
			Bytes: natural64(ended.Bytes), CompressedBytes: natural64(ended.CompressedBytes),
			ResumedBytes: natural64(ended.ResumedBytes),
		})
	}
	return answer
}

func wireProgress(p *v1alpha1.Progress) *wirev1.Progress {
	if p == nil {
		return nil
	}
	return &wirev1.Progress{
		Files: natural64(p.Files), FilesTotal: natural64(p.FilesTotal), PartialBytes: natural64(p.PartialBytes),
		Bytes: natural64(p.Bytes - p.PartialBytes), BytesTotal: natural64(p.BytesTotal), Scanned: p.ETA != nil,
		UnchangedFiles: natural64(p.UnchangedFiles), UnchangedBytes: natural64(p.UnchangedBytes),
		ResumedBytes: natural64(p.ResumedBytes), ResentBytes: natural64(p.ResentBytes), Removed: natural64(p.Removed),
		ReusedBytes: natural64(p.ReusedBytes), HoleBytes: natural64(p.HoleBytes),
	}
}

func wireCompression(c *v1alpha1.CompressionStatus) *wirev1.Compression {
	if c == nil {
		return nil
	}
	operations := func(o v1alpha1.Operations) *wirev1.Operations {
		return &wirev1.Operations{Operations: natural64(o.Operations), Bytes: natural64(o.Bytes)}
	}
	counts := func(shown map[string]int64) map[string]uint64 {
		told := map[string]uint64{}
		for reason, n := range shown {
			told[reason] = natural64(n)
		}
		return told
	}
	return &wirev1.Compression{
		Codec: c.Codec, Engine: c.Engine, Level: c.Level, Reason: c.Reason,
		UncompressedBytes: natural64(c.UncompressedBytes), CompressedBytes: natural64(c.CompressedBytes),
		Hardware: operations(c.Hardware), Software: operations(c.Software), Stored: operations(c.Stored),
		Reasons: counts(c.Reasons), Skipped: counts(c.Skipped),
	}
}

func wireTime(at *metav1.Time) *timestamppb.Timestamp {
	if at == nil {
		return nil
	}
	return timestamppb.New(at.Time)
}

func natural(n int32) uint32   { return uint32(max(n, 0)) } //nolint:gosec // not negative
func natural64(n int64) uint64 { return uint64(max(n, 0)) } //nolint:gosec // not negative
