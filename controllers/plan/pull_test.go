// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
)

// newPull is a Transfer of bank that pulls from vault of west.
func newPull() (*v1alpha1.Transfer, plan.PullFacts) {
	transfer := newTransfer("ledger", time.Hour)
	transfer.Spec.Source.Peer, transfer.Spec.Source.Namespace = "west", "vault"
	transfer.Spec.Destination.Peer = ""
	peer := goodFacts().Peer
	return transfer, plan.PullFacts{
		Now: now, NewRunID: "abcde", Peer: peer, Pulling: 1,
		Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "copy"}},
	}
}

// asked is one whose run has begun, and was asked for.
func asked(t *testing.T) (*v1alpha1.Transfer, plan.PullFacts) {
	t.Helper()
	transfer, facts := newPull()
	decision := plan.DecidePull(transfer, facts)
	if decision.Ask == nil {
		t.Fatalf("it is not asked for: %+v", decision.Status.Conditions)
	}
	transfer.Status = decision.Status
	return transfer, facts
}

func answerOf(run, phase string) *wirev1.PullResponse {
	return &wirev1.PullResponse{
		Run: run, RunId: "fghij", Attempt: 2, Failures: 1, Phase: phase, Reason: v1alpha1.ReasonTransferring, Message: "m",
		Report: &wirev1.Report{
			Progress: &wirev1.Progress{Files: 1, FilesTotal: 2, Bytes: 50, BytesTotal: 100},
			Compression: &wirev1.Compression{
				Codec: "deflate", Engine: "dfltcc", Reason: v1alpha1.CompressionHardwareUsed, UncompressedBytes: 100,
				CompressedBytes: 25,
			},
		},
		Attempts: []*wirev1.PullAttempt{{Attempt: 1, Reason: v1alpha1.ReasonConnectionLost}},
	}
}

// delivery of what newPull asks for, made when it was asked.
func delivery(phase v1alpha1.DeliveryPhase) *v1alpha1.Delivery {
	d := &v1alpha1.Delivery{Status: v1alpha1.DeliveryStatus{Phase: phase}}
	d.CreationTimestamp = metav1.NewTime(now.Truncate(time.Second))
	d.Spec.Destination.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/books"}
	return d
}

// otherwise is one that is complete, of which something is not as asked.
func otherwise(change func(*v1alpha1.Delivery)) *v1alpha1.Delivery {
	d := delivery(v1alpha1.DeliveryComplete)
	change(d)
	return d
}

func readyOf(status v1alpha1.TransferStatus) metav1.Condition {
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return *ready
	}
	return metav1.Condition{}
}

func TestPullAsksForItsRun(t *testing.T) {
	transfer, facts := asked(t)
	decision := plan.DecidePull(transfer, facts)
	if diff := cmp.Diff(transfer.Status, decision.Status); diff != "" {
		t.Errorf("a second look changes the status: %s", diff)
	}
	ask := decision.Ask
	if ask.GetRun() != "abcde" || ask.GetUid() != string(transfer.UID) || ask.GetSource().GetNamespace() != "vault" ||
		ask.GetSource().GetClaimName() != "ledger" || ask.GetClaimName() != "copy" || ask.GetPath() != "/books" ||
		ask.GetPause() || ask.GetSuspend() {
		t.Errorf("asked is %v", ask)
	}
	transfer.Spec.Pause = true
	if decision = plan.DecidePull(transfer, facts); !decision.Ask.GetPause() {
		t.Error("the other cluster is not told of the pause")
	}
	transfer.Spec.Pause, transfer.Spec.Suspend = false, true
	if decision = plan.DecidePull(transfer, facts); !decision.Ask.GetSuspend() {
		t.Error("the other cluster is not told that it is suspended")
	}
}

func TestPullIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Transfer, *plan.PullFacts)
		reason string
	}{
		"no Peer":  {func(_ *v1alpha1.Transfer, f *plan.PullFacts) { f.Peer = nil }, v1alpha1.ReasonPeerNotFound},
		"no claim": {func(_ *v1alpha1.Transfer, f *plan.PullFacts) { f.Claim = nil }, v1alpha1.ReasonDestinationNotFound},
		"hooks": {func(t *v1alpha1.Transfer, _ *plan.PullFacts) {
			t.Spec.Source.Hooks = &v1alpha1.SourceHooks{}
		}, v1alpha1.ReasonInvalidSpec},
		"snapshot": {func(t *v1alpha1.Transfer, _ *plan.PullFacts) {
			t.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
		}, v1alpha1.ReasonInvalidSpec},
		"to another cluster": {func(t *v1alpha1.Transfer, _ *plan.PullFacts) {
			t.Spec.Destination.Peer = "north"
		}, v1alpha1.ReasonInvalidSpec},
		"policy": {func(t *v1alpha1.Transfer, _ *plan.PullFacts) {
			t.Spec.Compression = &v1alpha1.Compression{}
		}, v1alpha1.ReasonInvalidSpec},
		"long patterns": {func(t *v1alpha1.Transfer, _ *plan.PullFacts) {
			for range 20 {
				t.Spec.Include = append(t.Spec.Include, strings.Repeat("a", 512))
			}
		}, v1alpha1.ReasonInvalidSpec},
		"in use": {func(_ *v1alpha1.Transfer, f *plan.PullFacts) {
			other := newTransfer("other", 2*time.Hour)
			other.UID, other.Spec.Destination.Peer = "other", ""
			f.Others = []v1alpha1.Transfer{*other}
		}, v1alpha1.ReasonDestinationInUse},
	} {
		transfer, facts := newPull()
		c.change(transfer, &facts)
		decision := plan.DecidePull(transfer, facts)
		if ready := readyOf(decision.Status); decision.Ask != nil || ready.Reason != c.reason ||
			!meta.IsStatusConditionTrue(decision.Status.Conditions, v1alpha1.ConditionStalled) {
			t.Errorf("%s: %+v, asked %v", name, ready, decision.Ask)
		}
	}
}

// One that looks like one of several destinations is none.
func TestPullIsNoLeg(t *testing.T) {
	transfer, facts := newPull()
	owned := true
	transfer.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Transfer", Name: "whole", UID: "u", Controller: &owned,
	}}
	transfer.Spec.Pause = true
	if decision := plan.DecidePull(transfer, facts); decision.Status.Phase != v1alpha1.TransferPaused {
		t.Errorf("phase is %s", decision.Status.Phase)
	}
}

func TestPullShowsTheAnswer(t *testing.T) {
	transfer, facts := asked(t)
	decision := plan.HearPull(transfer, facts, plan.PullHeard{Answer: answerOf("abcde", "Transferring")})
	status := decision.Status
	if status.Phase != v1alpha1.TransferTransferring || status.Run.Attempt != 2 || status.Run.Failures != 1 ||
		status.Progress.Percent != 50 || status.Compression.Engine != "dfltcc" || status.Pull.RunID != "fghij" ||
		len(status.History) != 1 || status.History[0].Reason != v1alpha1.ReasonConnectionLost {
		t.Errorf("status is %+v", status)
	}
	transfer.Status = status
	again := plan.HearPull(transfer, facts, plan.PullHeard{Answer: answerOf("abcde", "Transferring")})
	if diff := cmp.Diff(status, again.Status); diff != "" {
		t.Errorf("the same answer changes the status: %s", diff)
	}
	stalled := answerOf("abcde", "Retrying")
	stalled.Stalled, stalled.Reason = true, v1alpha1.ReasonSourceNotFound
	decision = plan.HearPull(transfer, facts, plan.PullHeard{Answer: stalled})
	if !meta.IsStatusConditionTrue(decision.Status.Conditions, v1alpha1.ConditionStalled) {
		t.Error("it is not stalled as the other one is")
	}
	// Whatever it waits for there, it is the same run that is asked for.
	for _, waits := range []*wirev1.PullResponse{
		{Run: "abcde", Phase: "Pending", Stalled: true, Reason: v1alpha1.ReasonSourceNotFound},
		{Phase: "Pending", Stalled: true, Reason: v1alpha1.ReasonSourceNotFound}, {Phase: "New", Reason: "not a reason"},
	} {
		transfer.Status = plan.HearPull(transfer, facts, plan.PullHeard{Answer: waits}).Status
		facts.NewRunID = "other"
		if next := plan.DecidePull(transfer, facts); next.Status.Run.ID != "abcde" || next.Ask.GetRun() != "abcde" {
			t.Errorf("after %v another run begins: %+v", waits, next.Status.Run)
		}
	}
	failed := answerOf("zzzzz", "Failed")
	failed.Stalled, failed.Reason = true, v1alpha1.ReasonSourceNotFound
	next := plan.HearPull(transfer, facts, plan.PullHeard{Answer: failed}).Status
	if ready := readyOf(next); ready.Reason != v1alpha1.ReasonPulling ||
		!meta.IsStatusConditionTrue(next.Conditions, v1alpha1.ConditionReconciling) {
		t.Errorf("the end of an earlier run is shown as this one's: %+v", ready)
	}
	earlier := plan.HearPull(transfer, facts, plan.PullHeard{Answer: answerOf("zzzzz", "Complete")})
	if earlier.Status.Run.CompletionTime != nil {
		t.Error("the end of an earlier run counts for this one")
	}
}

// What the source cluster says of its run may be anything: rates, times, counts and texts. It makes no status that the
// API server rejects, nor a forecast that is not one, and the same answer changes nothing.
func TestPullOfAbsurdAnswers(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12)) //nolint:gosec // The same numbers each time.
	numbers := []uint64{0, 1, 1 << 20, 1 << 40, math.MaxInt64, math.MaxUint64}
	pick := func() uint64 { return numbers[random.IntN(len(numbers))] }
	at := func() *timestamppb.Timestamp {
		seconds := []int64{0, 1, now.Unix(), now.Add(time.Hour).Unix(), math.MaxInt64, math.MinInt64}
		return &timestamppb.Timestamp{Seconds: seconds[random.IntN(len(seconds))], Nanos: int32(random.IntN(3)-1) << 30}
	}
	texts := []string{"", "Transferring", "Retrying", "Complete", "Failed", "Paused", strings.Repeat("x", 1<<16), "\x1b[2J"}
	text := func() string { return texts[random.IntN(len(texts))] }
	deadline := within(time.Hour)
	for range 2000 {
		transfer, facts := newPull()
		transfer.Spec.Deadline = &deadline
		transfer.Status = plan.DecidePull(transfer, facts).Status
		answer := &wirev1.PullResponse{
			Run: "abcde", RunId: text(), Attempt: uint32(pick()), Failures: uint32(pick()), //nolint:gosec // Anything will do.
			Phase: text(), Reason: text(), Message: text(), Stalled: random.IntN(2) > 0, BytesPerSecond: pick(),
			RecoveryPoint: at(), Report: &wirev1.Report{
				Progress:    &wirev1.Progress{Bytes: pick(), BytesTotal: pick(), ResumedBytes: pick(), Scanned: random.IntN(2) > 0},
				Compression: &wirev1.Compression{UncompressedBytes: pick(), CompressedBytes: pick()},
			},
		}
		for range random.IntN(20) {
			answer.Attempts = append(answer.Attempts, &wirev1.PullAttempt{
				Attempt: uint32(pick()), Reason: text(), StartTime: at(), CompletionTime: at(), //nolint:gosec // As above.
				Bytes: pick(), CompressedBytes: pick(), ResumedBytes: pick(),
			})
		}
		facts.Now = now.Add(time.Minute)
		transfer.Status = plan.HearPull(transfer, facts, plan.PullHeard{Answer: answer}).Status
		s := transfer.Status
		if d := s.Deadline; d == nil || d.PredictedTime != nil && (d.PredictedTime.Time.Before(facts.Now) ||
			d.PredictedTime.After(facts.Now.Add(367*24*time.Hour))) {
			t.Fatalf("%+v of %v", d, answer)
		}
		if p := s.Progress; p != nil && (p.Bytes < 0 || p.BytesPerSecond < 0 || p.Percent < 0 || p.Percent > 100) {
			t.Fatalf("%+v of %v", p, answer)
		}
		if s.RecoveryPoint != nil && s.RecoveryPoint.After(facts.Now) || s.Run.Attempt < 0 || len(s.History) > 10 {
			t.Fatalf("%+v of %v", s, answer)
		}
		for _, record := range s.History {
			if record.Bytes < 0 || record.CompressedBytes < 0 || record.Duration != nil && record.Duration.Duration < 0 {
				t.Fatalf("%+v of %v", record, answer)
			}
		}
		small(t, "an absurd answer", transfer)
		if again := plan.HearPull(transfer, facts, plan.PullHeard{Answer: answer}); s.Run.CompletionTime == nil {
			if diff := cmp.Diff(s, again.Status); diff != "" {
				t.Fatalf("the same answer changes the status: %s", diff)
			}
		}
	}
}

// A run is complete when this cluster has received it, whatever the other one says.
func TestPullIsCompleteWhenReceived(t *testing.T) {
	for name, c := range map[string]struct {
		delivery *v1alpha1.Delivery
		phase    v1alpha1.TransferPhase
		reason   string
	}{
		"nothing": {nil, v1alpha1.TransferFailed, v1alpha1.ReasonNotReceived},
		"failed":  {delivery(v1alpha1.DeliveryFailed), v1alpha1.TransferFailed, v1alpha1.ReasonNotReceived},
		"of an earlier run": {otherwise(func(d *v1alpha1.Delivery) {
			d.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
		}), v1alpha1.TransferFailed, v1alpha1.ReasonNotReceived},
		"of another claim": {otherwise(func(d *v1alpha1.Delivery) {
			d.Spec.Destination.PersistentVolumeClaim.ClaimName = "other"
		}), v1alpha1.TransferFailed, v1alpha1.ReasonNotReceived},
		"of another directory": {otherwise(func(d *v1alpha1.Delivery) {
			d.Spec.Destination.PersistentVolumeClaim.Path = "/elsewhere"
		}), v1alpha1.TransferFailed, v1alpha1.ReasonNotReceived},
		"receiving": {delivery(v1alpha1.DeliveryReceiving), v1alpha1.TransferTransferring, v1alpha1.ReasonTransferring},
		"complete":  {delivery(v1alpha1.DeliveryComplete), v1alpha1.TransferComplete, v1alpha1.ReasonSucceeded},
	} {
		transfer, facts := asked(t)
		facts.Delivery = c.delivery
		answer := answerOf("abcde", "Complete")
		answer.Report.State = wirev1.AgentState_AGENT_STATE_SUCCEEDED
		status := plan.HearPull(transfer, facts, plan.PullHeard{Answer: answer}).Status
		if ready := readyOf(status); status.Phase != c.phase || ready.Reason != c.reason {
			t.Errorf("%s: %s, %+v", name, status.Phase, ready)
		}
		if over := status.Run.CompletionTime != nil; over != (c.phase != v1alpha1.TransferTransferring) {
			t.Errorf("%s: over is %t", name, over)
		}
		if (status.RecoveryPoint != nil) != (c.phase == v1alpha1.TransferComplete) {
			t.Errorf("%s: recovery point %v", name, status.RecoveryPoint)
		}
	}
}

func TestPullWithoutAnswer(t *testing.T) {
	transfer, facts := asked(t)
	for _, c := range []struct {
		reason  string
		stalled bool
	}{
		{v1alpha1.ReasonPeerUnreachable, false}, {v1alpha1.ReasonNotGranted, true}, {v1alpha1.ReasonPeerIncompatible, true},
	} {
		decision := plan.HearPull(transfer, facts, plan.PullHeard{Problem: &agentpod.Problem{Reason: c.reason, Message: "m"}})
		if meta.IsStatusConditionTrue(decision.Status.Conditions, v1alpha1.ConditionStalled) != c.stalled ||
			readyOf(decision.Status).Reason != c.reason || decision.Status.Run.CompletionTime != nil ||
			decision.RequeueAfter == 0 {
			t.Errorf("%s: %+v, again in %s", c.reason, decision.Status.Conditions, decision.RequeueAfter)
		}
		transfer.Status = decision.Status
		if pause := plan.PullPause(transfer, 1); pause < time.Minute {
			t.Errorf("%s: it is asked again after %s, at the cost of others", c.reason, pause)
		}
	}
}

// A pull that waits for somebody, or for a cluster that does not answer, keeps nobody from its destination.
func TestPullUnderWay(t *testing.T) {
	transfer, facts := asked(t)
	under := func(heard plan.PullHeard) bool {
		after := transfer.DeepCopy()
		after.Status = plan.HearPull(transfer, facts, heard).Status
		return plan.UnderWay(after)
	}
	if !plan.UnderWay(transfer) {
		t.Error("another one may begin while the source is being asked")
	}
	for phase, want := range map[string]bool{
		"Transferring": true, "Opening": true, "Retrying": true, "Paused": false, "Suspended": false,
	} {
		if got := under(plan.PullHeard{Answer: answerOf("abcde", phase)}); got != want {
			t.Errorf("%s: under way is %t", phase, got)
		}
	}
	stalled := answerOf("abcde", "Transferring")
	stalled.Stalled = true
	if under(plan.PullHeard{Answer: stalled}) {
		t.Error("a stalled one holds its place")
	}
	for _, reason := range []string{
		v1alpha1.ReasonNotGranted, v1alpha1.ReasonPeerNotFound, v1alpha1.ReasonPeerUnreachable,
	} {
		if under(plan.PullHeard{Problem: &agentpod.Problem{Reason: reason, Message: "m"}}) {
			t.Errorf("%s: it holds its place", reason)
		}
	}
}

// A receipt that was asked for and is not there is said to be missing, or pending.
func TestPullReceipt(t *testing.T) {
	for name, c := range map[string]struct {
		asked   bool
		receipt *v1alpha1.ReceiptStatus
		reason  string
	}{
		"not asked for": {false, nil, ""},
		"missing":       {true, nil, v1alpha1.ReasonReceiptMissing},
		"pending":       {true, &v1alpha1.ReceiptStatus{}, v1alpha1.ReasonReceiptPending},
	} {
		transfer, facts := asked(t)
		transfer.Spec.Receipt = c.asked
		facts.Delivery = delivery(v1alpha1.DeliveryComplete)
		facts.Delivery.Status.Receipt = c.receipt
		status := plan.HearPull(transfer, facts, plan.PullHeard{Answer: answerOf("abcde", "Complete")}).Status
		signed := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReceiptSigned)
		if (signed == nil) != (c.reason == "") || signed != nil && signed.Reason != c.reason {
			t.Errorf("%s: %+v", name, signed)
		}
		transfer.Status = status
		if again := plan.DecidePull(transfer, facts); cmp.Diff(status, again.Status) != "" {
			t.Errorf("%s: a second look changes the status: %s", name, cmp.Diff(status, again.Status))
		}
	}
}

// A hold is told to the other cluster first, and what that does not end is ended here.
func TestPullIsHeld(t *testing.T) {
	transfer, facts := asked(t)
	if plan.DecidePull(transfer, facts).Held {
		t.Error("one that nobody paused is held")
	}
	transfer.Spec.Pause = true
	if decision := plan.DecidePull(transfer, facts); !decision.Held || decision.Ask == nil {
		t.Errorf("held is %t, asked %v", decision.Held, decision.Ask)
	}
}

func newPulled() *v1alpha1.Transfer {
	spec := newTransfer("ledger", 0).Spec
	spec.Destination.Namespace = "bank"
	return plan.NewPulled("vault", plan.PullReference{Peer: "west", Namespace: "bank", Name: "ledger", UID: "u"}, spec,
		"abcde", now)
}

func TestPulledMustAgree(t *testing.T) {
	of, pulled := plan.PulledFor(newPulled())
	if !pulled || of != (plan.PullReference{Peer: "west", Namespace: "bank", Name: "ledger", UID: "u"}) {
		t.Fatalf("%+v, %t", of, pulled)
	}
	for name, change := range map[string]func(*v1alpha1.Transfer){
		"name":        func(t *v1alpha1.Transfer) { t.Name = "mine" },
		"label":       func(t *v1alpha1.Transfer) { t.Labels[v1alpha1.PulledByLabel] = "north" },
		"no label":    func(t *v1alpha1.Transfer) { t.Labels = nil },
		"annotation":  func(t *v1alpha1.Transfer) { t.Annotations[v1alpha1.PullAnnotation] = "bank/ledger/v" },
		"shorter":     func(t *v1alpha1.Transfer) { t.Annotations[v1alpha1.PullAnnotation] = "bank/ledger" },
		"destination": func(t *v1alpha1.Transfer) { t.Spec.Destination.Namespace = "shop" },
		"peer":        func(t *v1alpha1.Transfer) { t.Spec.Destination.Peer = "north" },
	} {
		transfer := newPulled()
		if change(transfer); func() bool { _, pulled := plan.PulledFor(transfer); return pulled }() {
			t.Errorf("another %s is taken for what the gateway made", name)
		}
		if !plan.LooksPulled(transfer) {
			t.Errorf("with another %s it runs like any other, without a PeerGrant", name)
		}
	}
}

// Each mark alone keeps a Transfer from running like any other, and none is on those of tenants.
func TestLooksPulled(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Transfer){
		"name":       func(t *v1alpha1.Transfer) { t.Labels, t.Annotations = nil, nil },
		"label":      func(t *v1alpha1.Transfer) { t.Name, t.Annotations = "mine", nil },
		"annotation": func(t *v1alpha1.Transfer) { t.Name, t.Labels = "mine", nil },
	} {
		transfer := newPulled()
		if change(transfer); !plan.LooksPulled(transfer) {
			t.Errorf("the %s alone is no mark", name)
		}
	}
	for _, name := range []string{"ledger", "pull-ledger", newPulled().Name + "-west"} {
		if plan.LooksPulled(newTransfer(name, 0)) {
			t.Errorf("%s of a tenant would be deleted", name)
		}
	}
}

func TestPullIsAbandoned(t *testing.T) {
	transfer := newPulled()
	transfer.CreationTimestamp = metav1.NewTime(now)
	for after, want := range map[time.Duration]bool{0: false, 23 * time.Hour: false, 25 * time.Hour: true} {
		if left := plan.PullAbandoned(transfer, now.Add(after)); (left == 0) != want {
			t.Errorf("after %s there are %s left", after, left)
		}
	}
	transfer.Annotations[v1alpha1.PullAskedAnnotation] = now.Add(1000 * time.Hour).Format(time.RFC3339)
	if left := plan.PullAbandoned(transfer, now.Add(25*time.Hour)); left != 0 {
		t.Errorf("a time in the future keeps it for %s", left)
	}
}

// What a peer reads has nothing of what the message says.
func TestPullAnswerRevealsNothing(t *testing.T) {
	const secret = "node z15-a of 17 has no room beside claim payroll"
	transfer, _ := running(2)
	pulled := newPulled()
	pulled.Status = transfer.Status
	pulled.Status.Run.Node = "z15-a"
	pulled.Status.History = []v1alpha1.AttemptRecord{{RunID: "abcde", Attempt: 1, Node: "z15-a", Message: secret}}
	for _, reason := range []string{v1alpha1.ReasonUnschedulable, v1alpha1.ReasonQuotaExceeded, v1alpha1.ReasonPullCycle} {
		pulled.Status.Conditions = conditions.Merge(nil, conditions.Stalled(reason, secret), 1, now)
		answer := plan.PullAnswer(pulled)
		told, err := proto.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"z15-a", "payroll"} {
			if strings.Contains(string(told), word) {
				t.Errorf("%s tells of %s: %v", reason, word, answer)
			}
		}
		if !answer.GetStalled() || answer.GetReason() != reason || len(answer.GetAttempts()) != 1 {
			t.Errorf("%s: %v", reason, answer)
		}
	}
}

func TestPullCycleIsRejected(t *testing.T) {
	facts := goodFacts()
	facts.PullsIntoSource = "from-west"
	decision := plan.DecideTransfer(newPulled(), facts, image)
	if decision.Start != nil || readyOf(decision.Status).Reason != v1alpha1.ReasonPullCycle {
		t.Errorf("%+v", decision.Status.Conditions)
	}
}

// FuzzPullAnswer: whatever another cluster answers, status has what the API takes, and nothing completes by its word.
func FuzzPullAnswer(f *testing.F) {
	whole, err := proto.Marshal(answerOf("abcde", "Complete"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, given []byte) {
		answer := &wirev1.PullResponse{}
		if proto.Unmarshal(given, answer) != nil {
			return
		}
		answer.Run = "abcde"
		transfer, facts := asked(t)
		status := plan.HearPull(transfer, facts, plan.PullHeard{Answer: answer}).Status
		if status.Phase == v1alpha1.TransferComplete || len(status.History) > 10 || status.Run.Attempt < 0 {
			t.Errorf("%+v", status)
		}
		for _, c := range status.Conditions {
			if c.Reason == "" || len(c.Reason) > 1024 || strings.ContainsAny(c.Reason, " \n\x00") || len(c.Message) > 32<<10 {
				t.Errorf("condition %+v", c)
			}
		}
	})
}
