// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package argocd_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt/attempttest"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/drillplan"
	"github.com/lighterage/lighterage/controllers/objectstoreplan"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/transfersetplan"
	"github.com/lighterage/lighterage/controllers/trialplan"
)

var now, image = attempttest.Now, attempttest.Image

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "bank", Name: name, UID: "uid-1", Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
	}
}

// job is that of an attempt; its pod is given where it counts.
func job() *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", CreationTimestamp: metav1.NewTime(now)}}
}

// succeeded is the pod of an agent that ended with this report.
func succeeded(t *testing.T, report *wirev1.Report) *corev1.Pod {
	t.Helper()
	report.State = wirev1.AgentState_AGENT_STATE_SUCCEEDED
	message, err := protojson.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	return attempttest.Ended(0, "Completed", string(message))
}

func transfers(t *testing.T) []sample {
	facts := func() plan.TransferFacts {
		return plan.TransferFacts{
			Now: now, NewRunID: "abcde", Claim: &corev1.PersistentVolumeClaim{},
			Peer: &v1alpha1.Peer{
				ObjectMeta: metav1.ObjectMeta{Name: "west", Generation: 1},
				Spec:       v1alpha1.PeerSpec{Endpoint: "gateway.west.example:8443", CABundle: []byte("pem")},
			},
		}
	}
	decided := func(transfer *v1alpha1.Transfer, f plan.TransferFacts) *v1alpha1.Transfer {
		transfer.Status = plan.DecideTransfer(transfer, f, image).Status
		return transfer
	}
	fresh := func() *v1alpha1.Transfer {
		return &v1alpha1.Transfer{ObjectMeta: named("ledger"), Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger", Path: "/"},
			},
			Destination: v1alpha1.TransferDestination{
				Peer: "west", PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"},
				},
			},
			MaxAttempts: 1,
		}}
	}
	// ended is a Transfer whose agent has ended.
	ended := func(pod *corev1.Pod) *v1alpha1.Transfer {
		transfer, f := decided(fresh(), facts()), facts()
		f.Job, f.Pod = job(), pod
		return decided(transfer, f)
	}
	suspended := func(transfer *v1alpha1.Transfer, f plan.TransferFacts) *v1alpha1.Transfer {
		transfer.Spec.Suspend = true
		transfer.Generation++
		return decided(transfer, f)
	}
	paused := func(transfer *v1alpha1.Transfer, all ...plan.TransferFacts) *v1alpha1.Transfer {
		transfer.Spec.Pause = true
		transfer.Generation++
		for _, f := range all {
			transfer = decided(transfer, f)
		}
		return transfer
	}
	closed := fresh()
	closed.Spec.Schedule = &v1alpha1.TransferSchedule{Windows: []v1alpha1.ScheduleWindow{{
		Start: now.Add(time.Hour).UTC().Format("15:04"), End: now.Add(2 * time.Hour).UTC().Format("15:04"),
	}}}
	failure := attempttest.Failed(t, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL, "no space")
	scheduled, orphan, moving := fresh(), facts(), facts()
	scheduled.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: "0 2 * * *"}
	orphan.Claim = nil
	moving.Job, moving.Pod = job(), attempttest.Pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	moving.Report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Progress: &wirev1.Progress{}}
	return []sample{
		{"starting", decided(fresh(), facts()), "Progressing"},
		{"moving", decided(decided(fresh(), facts()), moving), "Progressing"},
		{"complete", ended(succeeded(t, &wirev1.Report{Progress: &wirev1.Progress{}})), "Healthy"},
		{"scheduled", decided(scheduled, facts()), "Healthy"},
		{"no claim", decided(fresh(), orphan), "Degraded"},
		{"failed", ended(failure), "Degraded"},
		{"suspended", suspended(fresh(), facts()), "Suspended"},
		{"suspended while it moves", suspended(decided(fresh(), facts()), moving), "Progressing"},
		{"suspended when complete", suspended(ended(succeeded(t, &wirev1.Report{})), facts()), "Suspended"},
		{"pausing", paused(decided(fresh(), facts()), moving), "Progressing"},
		{"paused", paused(decided(fresh(), facts()), moving, facts()), "Suspended"},
		{"paused when failed", paused(ended(failure), facts()), "Degraded"},
		{"outside of its window", decided(closed, facts()), "Suspended"},
		{"suspended when failed", suspended(ended(failure), facts()), "Degraded"},
	}
}

func sets(t *testing.T) []sample {
	decided := func(suspend bool, claim string, rejected bool) *v1alpha1.TransferSet {
		set := &v1alpha1.TransferSet{ObjectMeta: named("move"), Spec: v1alpha1.TransferSetSpec{
			Selector: &metav1.LabelSelector{}, MaxConcurrent: 1, Suspend: suspend,
			Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "west"}},
		}}
		claims := []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: claim}}}
		facts := transfersetplan.Facts{Now: now}
		if claim == "" {
			claims = nil
		}
		selection := transfersetplan.Select(set, claims, nil)
		decide := func() *transfersetplan.Decision {
			decision, err := transfersetplan.Decide(set, selection, facts)
			if err != nil {
				t.Fatal(err)
			}
			return decision
		}
		decision := decide()
		if claim == "done" {
			done := *decision.Create[0]
			done.Status.Phase = v1alpha1.TransferComplete
			facts.Transfers = []v1alpha1.Transfer{done}
			decision = decide()
		}
		if rejected {
			decision.Reject(decision.Create[0], "exceeded quota")
		}
		set.Status = decision.Status()
		return set
	}
	return []sample{
		{"complete", decided(false, "done", false), "Healthy"},
		{"running", decided(false, "ledger", false), "Progressing"},
		{"without claims", decided(false, "", false), "Progressing"},
		{"rejected", decided(false, "ledger", true), "Degraded"},
		{"suspended", decided(true, "ledger", false), "Suspended"},
	}
}

func deliveries(t *testing.T) []sample {
	facts := func() plan.DeliveryFacts {
		return plan.DeliveryFacts{Now: now, Peer: &v1alpha1.Peer{}, Claim: &corev1.PersistentVolumeClaim{}}
	}
	fresh := func() *v1alpha1.Delivery {
		delivery := plan.NewDelivery("bank", v1alpha1.DeliverySpec{
			Peer:     "east",
			Transfer: v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "abcde", Attempt: 1},
			Destination: v1alpha1.DeliveryDestination{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"},
			},
		})
		delivery.UID, delivery.Generation, delivery.CreationTimestamp = "uid-1", 1, metav1.NewTime(now)
		return delivery
	}
	decided := func(delivery *v1alpha1.Delivery, f plan.DeliveryFacts) *v1alpha1.Delivery {
		delivery.Status = plan.DecideDelivery(delivery, f, image).Status
		return delivery
	}
	orphan, received := facts(), facts()
	orphan.Claim = nil
	received.Job, received.Pod = job(), succeeded(t, &wirev1.Report{Progress: &wirev1.Progress{}})
	return []sample{
		{"starting", decided(fresh(), facts()), "Progressing"},
		{"complete", decided(decided(fresh(), facts()), received), "Healthy"},
		{"no claim", decided(fresh(), orphan), "Degraded"},
	}
}

func trials(t *testing.T) []sample {
	facts := func() trialplan.Facts {
		return trialplan.Facts{Now: now, NewRunID: "abcde", Claim: &corev1.PersistentVolumeClaim{}}
	}
	fresh := func() *v1alpha1.CompressionTrial {
		return &v1alpha1.CompressionTrial{ObjectMeta: named("ledger"), Spec: v1alpha1.CompressionTrialSpec{
			Source: v1alpha1.TrialSource{
				PersistentVolumeClaim: &v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger", Path: "/"},
			},
			Links: []v1alpha1.TrialLink{{Name: "wan", BytesPerSecond: resource.MustParse("12500k")}},
		}}
	}
	decided := func(trial *v1alpha1.CompressionTrial, f trialplan.Facts) *v1alpha1.CompressionTrial {
		trial.Status = trialplan.Decide(trial, f, image).Status
		return trial
	}
	result, err := proto.Marshal(&wirev1.TrialResult{
		Sample: &wirev1.TrialSample{Bytes: 1 << 20, Files: 1, BytesTotal: 1 << 20, FilesTotal: 1}, Cores: 2,
		Rows: []*wirev1.TrialRow{{
			Codec: "none", Engine: "none", WireBytes: 1 << 20, CpuNanos: 3e9, ElapsedNanos: []uint64{86e9},
		}},
		Best: []uint32{0}, WaitCpuNanos: []uint64{8e9}, WaitCostNanos: []uint64{0},
	})
	if err != nil {
		t.Fatal(err)
	}
	orphan, measured := facts(), facts()
	orphan.Claim = nil
	measured.Job, measured.Pod = job(), succeeded(t, &wirev1.Report{Architecture: "amd64", Trial: result})
	return []sample{
		{"starting", decided(fresh(), facts()), "Progressing"},
		{"complete", decided(decided(fresh(), facts()), measured), "Healthy"},
		{"no claim", decided(fresh(), orphan), "Degraded"},
	}
}

func drills(*testing.T) []sample {
	fresh := func() *v1alpha1.Drill {
		return &v1alpha1.Drill{ObjectMeta: named("ledger"), Spec: v1alpha1.DrillSpec{
			Source: v1alpha1.DrillSource{ObjectStore: v1alpha1.ObjectStorePath{Name: "vault"}},
			Volume: v1alpha1.EphemeralVolume{Size: resource.NewQuantity(1<<30, resource.BinarySI)},
		}}
	}
	decided := func(drill *v1alpha1.Drill, transfer *v1alpha1.Transfer) *v1alpha1.Drill {
		drill.Status = drillplan.Decide(drill, drillplan.Facts{Now: now, NewID: "abcde", Transfer: transfer}).Status
		return drill
	}
	// ended is a drill whose Transfer says this.
	ended := func(said []metav1.Condition) *v1alpha1.Drill {
		drill := decided(fresh(), nil)
		transfer := drillplan.Transfer(drill)
		transfer.Status.Conditions = conditions.Merge(nil, append(said, conditions.New(v1alpha1.ConditionComplete,
			said[0].Status == metav1.ConditionTrue, said[0].Reason, "")), 0, now)
		transfer.Status.Progress = &v1alpha1.Progress{Files: 1}
		return decided(drill, transfer)
	}
	suspended, scheduled := fresh(), fresh()
	suspended.Spec.Suspend = true
	scheduled.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: "@daily"}
	return []sample{
		{"drilling", decided(fresh(), nil), "Progressing"},
		{"recoverable", ended(conditions.Ready(v1alpha1.ReasonSucceeded, "done")), "Healthy"},
		{"not recoverable", ended(conditions.Stalled(v1alpha1.ReasonStoreDenied, "denied")), "Degraded"},
		{"suspended", decided(suspended, nil), "Suspended"},
		{"scheduled", decided(scheduled, nil), "Healthy"},
	}
}

func stores(t *testing.T) []sample {
	facts := objectstoreplan.Facts{Now: now, NewID: "abcde", Dial: &wirev1.DialPolicy{}}
	fresh := func() *v1alpha1.ObjectStore {
		return &v1alpha1.ObjectStore{
			ObjectMeta: named("vault"), Spec: v1alpha1.ObjectStoreSpec{Endpoint: "https://s3.example", Bucket: "cargo"},
		}
	}
	decided := func(store *v1alpha1.ObjectStore, f objectstoreplan.Facts) *v1alpha1.ObjectStore {
		store.Status = objectstoreplan.Decide(store, f, image).Status
		return store
	}
	// found is a store of which a probe found that it keeps all promises but this one.
	found := func(broken v1alpha1.StorePromiseType) *v1alpha1.ObjectStore {
		report := &wirev1.Report{}
		for _, promise := range []v1alpha1.StorePromiseType{
			v1alpha1.StoreReadAfterWrite, v1alpha1.StoreRangedGet, v1alpha1.StoreList, v1alpha1.StoreMultipart,
			v1alpha1.StoreConditionalPut, v1alpha1.StoreConditionalComplete, v1alpha1.StoreAbort, v1alpha1.StoreDelete,
		} {
			report.Promises = append(report.Promises, &wirev1.StorePromise{Type: string(promise), Kept: promise != broken})
		}
		probed := facts
		probed.Job, probed.Pod = job(), succeeded(t, report)
		return decided(decided(fresh(), facts), probed)
	}
	return []sample{
		{"probing", decided(fresh(), facts), "Progressing"},
		{"fit", found(""), "Healthy"},
		{"unfit", found(v1alpha1.StoreList), "Degraded"},
	}
}
