// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// fixture is one Transfer in a namespace of its own.
type fixture struct {
	*testing.T
	namespace string
	transfer  *v1alpha1.Transfer
}

// prepare makes a namespace, a claim, a Peer named after the namespace, and a Transfer that is not created yet.
func prepare(t *testing.T) *fixture {
	t.Parallel()
	return prepareSerially(t)
}

// prepareSerially is for tests during which no others may run.
func prepareSerially(t *testing.T) *fixture {
	namespace := cluster.Namespace(t)
	cluster.Claim(t, namespace, "ledger")
	cluster.Peer(t, namespace)
	f := &fixture{T: t, namespace: namespace}
	f.transfer = f.make("ledger")
	return f
}

func (f *fixture) make(name string) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
			Destination: v1alpha1.TransferDestination{
				Peer: f.namespace, PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/" + name},
				},
			},
		},
	}
}

func (f *fixture) create() { f.Helper(); cluster.Create(f, f.transfer) }

// refresh reads the Transfer.
func (f *fixture) refresh() error {
	return cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(f.transfer), f.transfer)
}

// wait waits for the phase and for the conditions to say one thing.
func (f *fixture) wait(phase v1alpha1.TransferPhase, conditionType, reason string) {
	f.Helper()
	controllertest.Eventually(f, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		if f.transfer.Status.Phase != phase {
			return fmt.Errorf("phase %q, want %q: %+v", f.transfer.Status.Phase, phase, f.transfer.Status.Conditions)
		}
		return controllertest.Expect(f.transfer.Status.Conditions, conditionType, reason)
	})
}

// retries does something and waits for the Transfer to say that it will try again, which it does for a few seconds
// only.
func (f *fixture) retries(conditionType, reason string, do func()) {
	f.Helper()
	cluster.See(f, &v1alpha1.TransferList{}, f.namespace, do, func(object client.Object) error {
		seen, ok := object.(*v1alpha1.Transfer)
		if !ok || seen.Name != f.transfer.Name || seen.Status.Phase != v1alpha1.TransferRetrying {
			return fmt.Errorf("%s is not retrying: %+v", f.transfer.Name, object)
		}
		seen.DeepCopyInto(f.transfer)
		return controllertest.Expect(seen.Status.Conditions, conditionType, reason)
	})
}

// change changes the Transfer as a user would who does not mind what the controller writes meanwhile.
func (f *fixture) change(change func(*v1alpha1.Transfer)) {
	f.Helper()
	patch := client.MergeFrom(f.transfer.DeepCopy())
	change(f.transfer)
	if err := cluster.Client.Patch(context.Background(), f.transfer, patch); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) jobs() []batchv1.Job {
	f.Helper()
	return cluster.Jobs(f, f.namespace, v1alpha1.TransferLabel, string(f.transfer.UID))
}

// job waits for the Job of the attempt.
func (f *fixture) job(attempt int32) *batchv1.Job {
	f.Helper()
	var found *batchv1.Job
	controllertest.Eventually(f, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		run := f.transfer.Status.Run
		if run == nil || run.Attempt != attempt {
			return fmt.Errorf("attempt %d is not there yet: %+v", attempt, f.transfer.Status)
		}
		for _, job := range f.jobs() {
			if job.Name == fmt.Sprintf("%s-%s-%d", f.transfer.Name, run.ID, attempt) {
				found = &job
				return nil
			}
		}
		return fmt.Errorf("no Job for attempt %d", attempt)
	})
	return found
}

func (f *fixture) serverName() string { return pki.SendServerName(string(f.transfer.UID)) }

// secretExists says whether the Secret of a Job of the Transfer's is there.
func (f *fixture) secretExists(job string) bool {
	f.Helper()
	key := client.ObjectKey{Namespace: f.namespace, Name: attempt.SecretName(job, f.transfer)}
	err := cluster.Client.Get(context.Background(), key, &corev1.Secret{})
	if client.IgnoreNotFound(err) != nil {
		f.Fatal(err)
	}
	return err == nil
}

// fail runs the attempt's pod and ends it with a failure.
func (f *fixture) fail(attempt int32, reason wirev1.FailureReason, message string) {
	f.Helper()
	pod := cluster.RunPod(f, f.job(attempt), "node-1")
	cluster.EndPod(f, pod, 1, encode(f, &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{Reason: reason, Message: message},
	}))
}

func encode(t testing.TB, report *wirev1.Report) string {
	t.Helper()
	text, err := protojson.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var start = time.Now().Add(-time.Minute)

// transferring is a report half way.
func transferring() *wirev1.Report {
	return &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Version: "test", Architecture: "s390x",
		StartTime: timestamppb.New(start),
		Progress: &wirev1.Progress{
			Files: 120, FilesTotal: 4000, Bytes: 4 << 30, BytesTotal: 8 << 30, Scanned: true, UnchangedFiles: 3,
			UnchangedBytes: 7,
		},
		Compression: &wirev1.Compression{
			Codec: "deflate", Engine: "dfltcc", Reason: v1alpha1.CompressionHardwareUsed, UncompressedBytes: 4 << 30,
			CompressedBytes: 1 << 30,
			Hardware:        &wirev1.Operations{Operations: 4096, Bytes: 4 << 30},
			Skipped:         map[string]uint64{v1alpha1.CompressionBelowMinimum: 12},
		},
		Decompression: &wirev1.Decompression{
			Software: &wirev1.Operations{Operations: 4096, Bytes: 4 << 30},
			Fallback: &wirev1.Operations{Operations: 4096, Bytes: 4 << 30},
		},
		Cpu:       &wirev1.CPU{SendNanos: 6.6e9, ReceiveNanos: 5.4e9, CompressNanos: 1.9e9, DecompressNanos: 1.2e9},
		WireBytes: 1 << 30,
	}
}

func succeeded() *wirev1.Report {
	report := transferring()
	report.State = wirev1.AgentState_AGENT_STATE_SUCCEEDED
	report.Progress = &wirev1.Progress{
		Files: 4000, FilesTotal: 4000, Bytes: 8 << 30, BytesTotal: 8 << 30, Scanned: true, UnchangedFiles: 3,
	}
	report.Compression.UncompressedBytes, report.Compression.CompressedBytes = 8<<30, 2<<30
	report.Cpu = &wirev1.CPU{SendNanos: 12e9, ReceiveNanos: 10e9, CompressNanos: 3.6e9, DecompressNanos: 3.6e9}
	report.WireBytes = 2 << 30
	report.EndTime = timestamppb.New(start.Add(40 * time.Second))
	report.Omissions = []*wirev1.Omission{{What: "Socket", Count: 2, Examples: []string{"run/a.sock"}}}
	return report
}

func TestRunsToCompletion(t *testing.T) {
	f := prepare(t)
	cluster.Create(t, &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: f.namespace},
		Spec: v1alpha1.CompressionPolicySpec{
			Prices: &v1alpha1.Prices{Currency: "USD", CPUHour: "36", NetworkGiB: "0.5"},
		},
	})
	profile := &v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	cluster.Create(t, profile)
	profile.Status.NetworkCPUSecondsPerGiB = "1.5"
	profile.Status.MeasuredTime = ptr.To(metav1.Now())
	profile.Status.DataPaths = []v1alpha1.PathProfile{{
		Type: v1alpha1.DataPathMPTCP, CPUSecondsPerGiB: "0.8125", Runs: 3, MeasuredTime: metav1.Now(),
	}}
	if err := cluster.Client.Status().Update(context.Background(), profile); err != nil {
		t.Fatal(err)
	}
	f.transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: f.namespace}
	f.create()
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	job := f.job(1)
	if !f.secretExists(job.Name) {
		t.Error("the attempt has no Secret")
	}
	agents.Say(
		f.serverName(), &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_OPENING, Detail: "the peer starts its agent"},
	)
	pod := cluster.RunPod(t, job, f.namespace)
	f.wait(v1alpha1.TransferOpening, v1alpha1.ConditionReconciling, v1alpha1.ReasonOpening)
	agents.Say(f.serverName(), transferring())
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	final := succeeded()
	final.Progress.FilesTotal, final.DataPath = 2000, &wirev1.DataPath{Type: "MPTCP", Reason: "Negotiated"}
	cluster.EndPod(t, pod, 0, encode(t, final))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	controllertest.Eventually(t, func() error {
		if left := f.jobs(); len(left) > 0 {
			return fmt.Errorf("%d Jobs are left of a run that is complete", len(left))
		}
		return measured.once(f.namespace, v1alpha1.DataPathMPTCP, 2<<30)
	})

	status := f.transfer.Status
	want := v1alpha1.CPUStatus{
		SendSeconds: "12.00", ReceiveSeconds: "10.00", CompressSeconds: "3.60", DecompressSeconds: "3.60",
		NetworkSeconds: "3.00", SecondsPerGiB: "3.12",
	}
	if *status.CPU != want {
		t.Errorf("cpu %+v", *status.CPU)
	}
	// 25 s of CPU at 36 an hour, 2 GiB at 0.5, 6 GiB saved less 7.2 s.
	if cost := status.Cost; cost.Currency != "USD" || cost.CPU != "0.1500" || cost.Network != "1.0000" ||
		cost.Saved != "2.9640" || len(cost.Periods) != 1 || cost.Periods[0].Prices.Name != f.namespace {
		t.Errorf("cost %+v", *status.Cost)
	}
	if used := status.Run.Usage; used == nil || used.Send.ProcessSeconds != "12" || used.Send.NetworkSeconds != "3" ||
		used.Receive.ProcessSeconds != "10" || used.WireBytes != 2<<30 || status.Run.Cost.CPU != "0.1500" {
		t.Errorf("the run used %+v", used)
	}
	c := status.Compression
	if c.Ratio != "4.00" || c.SavedPercent != 75 || c.Engine != "dfltcc" || c.Codec != "deflate" ||
		c.Hardware.Operations != 4096 || c.Skipped["BelowMinimum"] != 12 {
		t.Errorf("compression %+v", c)
	}
	p := status.Progress
	if p.Percent != 100 || p.Files != 4000 || p.BytesPerSecond != 8<<30/40 || p.ETA != nil || p.UnchangedFiles != 3 {
		t.Errorf("progress %+v", p)
	}
	if d := status.Decompression; d == nil || d.Fallback.Operations != 4096 {
		t.Errorf("decompression %+v", d)
	}
	if run := status.Run; run.Node != f.namespace || run.Architecture != "s390x" || run.StartTime == nil ||
		run.CompletionTime == nil {
		t.Errorf("run %+v", run)
	}
	if status.Policy == nil || status.Policy.Name != f.namespace || status.Policy.Source != "Named" {
		t.Errorf("policy %+v", status.Policy)
	}
	if len(status.Omissions) != 1 || len(status.History) != 1 || status.History[0].Reason != v1alpha1.ReasonSucceeded {
		t.Errorf("omissions %+v, history %+v", status.Omissions, status.History)
	}
	for conditionType, want := range map[string]bool{
		v1alpha1.ConditionComplete: true, v1alpha1.ConditionFailed: false, v1alpha1.ConditionHardwareCompression: true,
	} {
		if meta.IsStatusConditionTrue(status.Conditions, conditionType) != want {
			t.Errorf("%s is not %v: %+v", conditionType, want, status.Conditions)
		}
	}
	controllertest.Eventually(t, func() error {
		if f.secretExists(job.Name) {
			return errors.New("the Secret outlives the attempt")
		}
		return nil
	})
	f.expectEvents("Starting", "Opening", "Transferring", "Succeeded")
}

// expectEvents checks that each reason was told of once.
func (f *fixture) expectEvents(reasons ...string) {
	f.Helper()
	controllertest.Eventually(f, func() error {
		list := &eventsv1.EventList{}
		if err := cluster.Client.List(context.Background(), list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		count := map[string]int{}
		for _, event := range list.Items {
			if event.Regarding.UID == f.transfer.UID {
				count[event.Reason]++
				if event.Series != nil {
					return fmt.Errorf("%s was told of more than once", event.Reason)
				}
			}
		}
		for _, reason := range reasons {
			if count[reason] != 1 {
				return fmt.Errorf("%d events with reason %s: %v", count[reason], reason, count)
			}
		}
		return nil
	})
}

func TestUnchangedStatusIsNotWritten(t *testing.T) {
	f := prepare(t)
	f.create()
	job := f.job(1)
	agents.Say(f.serverName(), transferring())
	cluster.RunPod(t, job, "node-1")
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	asked := agents.Asked(f.serverName())
	// The one before the second has been written by now.
	controllertest.Eventually(t, func() error { return f.askedSince(asked, 2) })
	if err := f.refresh(); err != nil {
		t.Fatal(err)
	}
	version := f.transfer.ResourceVersion
	controllertest.Eventually(t, func() error { return f.askedSince(asked, 5) })
	if err := f.refresh(); err != nil {
		t.Fatal(err)
	}
	if f.transfer.ResourceVersion != version {
		t.Errorf("the same report was written again")
	}
}

func (f *fixture) askedSince(before, times int) error {
	if now := agents.Asked(f.serverName()); now < before+times {
		return fmt.Errorf("asked %d times, then %d", before, now)
	}
	return nil
}

func TestRetriesAndGivesUp(t *testing.T) {
	f := prepare(t)
	f.transfer.Spec.MaxAttempts = 2
	f.create()
	f.retries(v1alpha1.ConditionReconciling, v1alpha1.ReasonRetrying, func() {
		f.fail(1, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the sender was disconnected")
	})
	if next := f.transfer.Status.Run.NextAttemptTime; next == nil || f.transfer.Status.Run.Failures != 1 {
		t.Fatalf("%+v", f.transfer.Status.Run)
	}
	f.fail(2, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL, "no space left on the volume; enlarge it")
	f.wait(v1alpha1.TransferFailed, v1alpha1.ConditionStalled, v1alpha1.ReasonMaxAttemptsReached)
	status := f.transfer.Status
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionFailed) || status.Run.CompletionTime == nil ||
		len(status.History) != 2 {
		t.Fatalf("%+v", status)
	}
	if status.History[0].Reason != v1alpha1.ReasonDestinationFull ||
		status.History[1].Reason != v1alpha1.ReasonConnectionLost {
		t.Fatalf("history %+v", status.History)
	}
	if jobs := f.jobs(); len(jobs) != 1 {
		t.Fatalf("%d Jobs are left of two attempts, want the last one", len(jobs))
	}
	// A changed spec after a failure starts a new run.
	run := status.Run.ID
	f.change(func(transfer *v1alpha1.Transfer) { transfer.Spec.MaxAttempts = 3 })
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	if f.transfer.Status.Run.ID == run || f.transfer.Status.Run.Attempt != 1 {
		t.Fatalf("%+v", f.transfer.Status.Run)
	}
}

func TestNotGrantedWaitsForSomebody(t *testing.T) {
	f := prepare(t)
	f.create()
	f.fail(1, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, "create a PeerGrant in namespace bank")
	f.wait(v1alpha1.TransferRetrying, v1alpha1.ConditionStalled, v1alpha1.ReasonNotGranted)
	run := f.transfer.Status.Run
	stalled := meta.FindStatusCondition(f.transfer.Status.Conditions, v1alpha1.ConditionStalled)
	if wait := run.NextAttemptTime.Sub(stalled.LastTransitionTime.Time); wait < 50*time.Second || run.Failures != 0 {
		t.Fatalf("next attempt in %s, %d failures", wait, run.Failures)
	}
	version := f.transfer.ResourceVersion
	time.Sleep(6 * time.Second)
	if err := f.refresh(); err != nil {
		t.Fatal(err)
	}
	if jobs := f.jobs(); len(jobs) != 1 || f.transfer.ResourceVersion != version {
		t.Fatalf("%d Jobs, version %s then %s", len(jobs), version, f.transfer.ResourceVersion)
	}
	// The annotation is how somebody says that it is fixed.
	f.change(func(transfer *v1alpha1.Transfer) {
		transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "granted"}
	})
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
}

func TestWaitsForWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		prepare func(*fixture)
		fix     func(*fixture)
	}{
		"claim": {
			v1alpha1.ReasonSourceNotFound,
			func(f *fixture) { f.transfer.Spec.Source.PersistentVolumeClaim.ClaimName = "late" },
			func(f *fixture) { cluster.Claim(f, f.namespace, "late") },
		},
		"peer": {
			v1alpha1.ReasonPeerNotFound,
			func(f *fixture) { f.transfer.Spec.Destination.Peer = f.namespace + "-late" },
			func(f *fixture) { cluster.Peer(f, f.namespace+"-late") },
		},
		"policy": {
			v1alpha1.ReasonPolicyNotFound,
			func(f *fixture) {
				f.transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: f.namespace + "-late"}
			},
			func(f *fixture) {
				cluster.Create(f, &v1alpha1.CompressionPolicy{
					ObjectMeta: metav1.ObjectMeta{Name: f.namespace + "-late"},
					Spec:       v1alpha1.CompressionPolicySpec{Mode: v1alpha1.CompressionAuto},
				})
			},
		},
		"privilege": {
			v1alpha1.ReasonPrivilegeNotAllowed,
			func(f *fixture) {
				f.transfer.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{
					SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64)},
				}
			},
			func(f *fixture) {
				namespace := &corev1.Namespace{}
				if err := cluster.Client.Get(context.Background(), client.ObjectKey{Name: f.namespace}, namespace); err != nil {
					f.Fatal(err)
				}
				namespace.Annotations = map[string]string{v1alpha1.AllowPrivilegedAnnotation: "true"}
				if err := cluster.Client.Update(context.Background(), namespace); err != nil {
					f.Fatal(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := prepare(t)
			test.prepare(f)
			f.create()
			f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, test.reason)
			if len(f.jobs()) != 0 || f.transfer.Status.Run != nil {
				t.Fatalf("something was started: %+v", f.transfer.Status.Run)
			}
			test.fix(f)
			f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
		})
	}
}

func TestOlderTransferHasTheDestination(t *testing.T) {
	f := prepare(t)
	older := f.transfer
	older.Spec.Destination.PersistentVolumeClaim.Path = "/books"
	f.create()
	f.job(1)
	time.Sleep(1100 * time.Millisecond) // creation times are in seconds
	f.transfer = f.make("younger")
	f.transfer.Spec.Destination.PersistentVolumeClaim.Path = "/"
	f.create()
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationInUse)
	if err := cluster.Client.Delete(context.Background(), older); err != nil {
		t.Fatal(err)
	}
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
}

func TestDeletingInTheMiddle(t *testing.T) {
	f := prepare(t)
	f.create()
	job := f.job(1)
	agents.Say(f.serverName(), transferring())
	pod := cluster.RunPod(t, job, "node-1")
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	if err := cluster.Client.Delete(context.Background(), f.transfer); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		if len(f.jobs()) != 0 || f.secretExists(job.Name) {
			return errors.New("Job or Secret is still there")
		}
		return nil
	})
	if gateways.Withdrawn(f.namespace, f.transfer.Name) {
		t.Fatal("withdrawn while the agent could still open the run again")
	}
	// Nothing collects pods here.
	if err := cluster.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		if err := f.refresh(); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Transfer is still there: %v", err)
		}
		return nil
	})
	if !gateways.Withdrawn(f.namespace, f.transfer.Name) {
		t.Fatal("the peer was not told")
	}
}

func TestRunAnnotationStartsAnotherRun(t *testing.T) {
	f := prepare(t)
	f.create()
	cluster.EndPod(t, cluster.RunPod(t, f.job(1), "node-1"), 0, encode(t, succeeded()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	first := f.transfer.Status.Run.ID
	// A changed spec starts none.
	f.change(func(transfer *v1alpha1.Transfer) { transfer.Spec.MaxAttempts = 7 })
	controllertest.Eventually(t, func() error {
		if err := f.refresh(); err != nil || f.transfer.Status.ObservedGeneration != f.transfer.Generation {
			return fmt.Errorf("generation %d, observed %d, %v", f.transfer.Generation, f.transfer.Status.ObservedGeneration, err)
		}
		return nil
	})
	if f.transfer.Status.Phase != v1alpha1.TransferComplete {
		t.Fatal(f.transfer.Status.Phase)
	}
	f.change(func(transfer *v1alpha1.Transfer) {
		transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	})
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	status := f.transfer.Status
	if status.Run.ID == first || status.Run.Attempt != 1 || status.LastRunRequest != "again" || status.Progress != nil ||
		len(status.History) != 1 {
		t.Fatalf("%+v", status)
	}
}

func TestPodThatCannotStart(t *testing.T) {
	f := prepare(t)
	f.create()
	pod := cluster.PendingPod(t, f.job(1))
	cluster.SetPod(t, pod, func(status *corev1.PodStatus) {
		status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/2 nodes are available: 2 Insufficient cpu.",
		}}
	})
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonUnschedulable)
	message := meta.FindStatusCondition(f.transfer.Status.Conditions, v1alpha1.ConditionReady).Message
	if message != "the agent's pod cannot be placed: 0/2 nodes are available: 2 Insufficient cpu." {
		t.Fatal(message)
	}
}

// TestReportSurvivesTheManager stops the manager for all, so no other test runs at the same time.
func TestReportSurvivesTheManager(t *testing.T) {
	f := prepareSerially(t)
	f.create()
	job := f.job(1)
	stopManager()
	cluster.EndPod(t, cluster.RunPod(t, job, "node-1"), 0, encode(t, succeeded()))
	if err := startManager(); err != nil {
		t.Fatal(err)
	}
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	if status := f.transfer.Status; status.Progress.Percent != 100 || status.Compression.Ratio != "4.00" ||
		status.CPU == nil {
		t.Fatalf("%+v", status)
	}
}
