// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// family is a Transfer with several destinations, its legs and its pod, in a cluster where all that is decided is done
// at once.
type family struct {
	*testing.T
	whole      *v1alpha1.Transfer
	legs       map[string]*v1alpha1.Transfer
	deliveries []v1alpha1.Delivery
	now        time.Time
	// job and config of the present pod; nil: there is none.
	job    *batchv1.Job
	config *wirev1.SendConfig
	pod    *corev1.Pod
	jobs   int
	// reports of receivers by destination.
	reports map[string]*wirev1.Report
	peer    bool // the Peer exists
	noStore bool // ObjectStores do not
	staging *plan.StagingFacts
	hooks   *hooked // nil: there are none
	// apart are the pods of legs to object stores, by destination, and made how many there were of each.
	apart map[string]*apart
	made  map[string]int
	runs  int
	// refused: the API server makes no Jobs for legs. tried are the claims that those were to mount.
	refused bool
	tried   []string
}

// newFamily is of one destination in the cluster of the Peer west, and of others in this one.
func newFamily(t *testing.T, here ...string) *family {
	t.Helper()
	f := &family{
		T: t, whole: newTransfer("ledger", time.Hour), legs: map[string]*v1alpha1.Transfer{}, now: now, peer: true,
		reports: map[string]*wirev1.Report{}, apart: map[string]*apart{}, made: map[string]int{},
	}
	f.whole.Spec.Destination = v1alpha1.TransferDestination{}
	f.whole.Spec.Destinations = []v1alpha1.NamedDestination{{
		Name: "west", Peer: "west", PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"},
	}}
	for _, name := range here {
		f.whole.Spec.Destinations = append(f.whole.Spec.Destinations, v1alpha1.NamedDestination{
			Name: name, PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: name, Path: "/"},
		})
	}
	return f
}

func (f *family) facts(of *v1alpha1.Transfer) plan.TransferFacts {
	facts := goodFacts()
	f.runs++
	facts.Now, facts.NewRunID = f.now, fmt.Sprintf("run%02d", f.runs)
	if at := of.Spec.Destination.ObjectStore; at != nil {
		facts.Peer, facts.Stores.Dial = nil, &wirev1.DialPolicy{}
		if !f.noStore {
			facts.Stores.Destination = readyStore(at.Name, at.Name+"-keys")
		}
	} else if of.Spec.Destination.Peer == "" {
		facts.Peer, facts.Local.Claim = nil, &corev1.PersistentVolumeClaim{}
		facts.Local.Deliveries = f.deliveries
	} else if !f.peer {
		facts.Peer = nil
	}
	return facts
}

// look has the whole decided about, and then every leg.
func (f *family) look() {
	f.Helper()
	facts := f.facts(f.whole)
	facts.Legs = map[string]plan.LegFacts{}
	for name, leg := range f.legs {
		one := plan.LegFacts{Transfer: leg}
		if leg.Spec.Destination.Peer != "" && f.peer {
			one.Peer = goodFacts().Peer
		}
		if leg.Status.Run != nil && leg.Spec.Destination.Peer == "" {
			wanted := plan.LocalDelivery(leg).Name
			if i := slices.IndexFunc(f.deliveries, func(d v1alpha1.Delivery) bool { return d.Name == wanted }); i >= 0 {
				one.Delivery = &f.deliveries[i]
			}
		}
		facts.Legs[name] = one
	}
	if f.job != nil && f.job.Name == jobOf(f.whole) {
		facts.Job, facts.Pod = f.job, f.pod
	}
	if f.staging != nil && plan.NeedsStaging(f.whole) {
		facts.Staging = *f.staging
		facts.Staging.Seen = true
	}
	if f.hooks != nil {
		facts.Hooks = f.hooks.seen(f.whole)
	}
	decision := plan.DecideTransfer(f.whole, facts, image)
	f.whole.Status = decision.Status
	if decision.Tell != nil {
		f.whole.Status = plan.Told(f.whole, decision.Tell).Status
	}
	f.stage(decision)
	if f.hooks != nil {
		f.hooks.do(decision.Hook)
	}
	for _, wanted := range decision.Legs {
		f.keep(wanted)
	}
	for _, leg := range decision.Dismiss {
		for name := range f.legs {
			if f.legs[name].Name == leg.Name {
				delete(f.legs, name)
			}
		}
	}
	if decision.Clear || decision.Start != nil && f.job == nil || decision.Retire && f.job != nil && f.job.Name != jobOf(f.whole) {
		f.job, f.pod, f.config = nil, nil, nil
	}
	if decision.Start != nil {
		f.start(decision)
	}
	for _, to := range f.whole.Spec.Destinations {
		if f.legs[to.Name] != nil {
			f.lookAt(to.Name)
		}
	}
}

// stage makes a copy at once.
func (f *family) stage(decision plan.TransferDecision) {
	if stage := decision.Stage; stage != nil && stage.Snapshot != "" {
		f.staging.Snapshots = append(f.staging.Snapshots, plan.Snapshot{Name: stage.Snapshot, Ready: true, Created: f.now})
	}
	if stage := decision.Stage; stage != nil && stage.Claim != nil {
		claim := stage.Claim.DeepCopy()
		claim.CreationTimestamp, claim.Status.Phase = metav1.NewTime(f.now), corev1.ClaimBound
		f.staging.Claims = append(f.staging.Claims, *claim)
	}
	if decision.Unstage {
		f.staging.Snapshots, f.staging.Claims = nil, nil
	}
}

func jobOf(whole *v1alpha1.Transfer) string {
	return fmt.Sprintf("%s-%s-%d", whole.Name, whole.Status.Run.ID, whole.Status.Run.Attempt)
}

func (f *family) keep(wanted v1alpha1.Transfer) {
	for _, to := range f.whole.Spec.Destinations {
		if plan.LegName(f.whole.Name, to.Name) != wanted.Name {
			continue
		}
		leg := f.legs[to.Name]
		if leg == nil {
			leg = &v1alpha1.Transfer{ObjectMeta: wanted.ObjectMeta}
			leg.UID = types.UID("uid-of-" + to.Name)
			f.legs[to.Name] = leg
		} else if leg.Spec.Destination.PersistentVolumeClaim != wanted.Spec.Destination.PersistentVolumeClaim {
			f.Fatalf("the destination of %s is to be changed, which the API server rejects", leg.Name)
		}
		leg.Spec, leg.Annotations = wanted.Spec, wanted.Annotations
	}
}

func (f *family) start(decision plan.TransferDecision) {
	f.Helper()
	if f.job != nil {
		f.Fatalf("a second pod beside %s", f.job.Name)
	}
	f.job, f.pod = decision.Start.Job(), nil
	f.job.CreationTimestamp = metav1.NewTime(f.now)
	f.jobs++
	text, err := decision.Start.Config()
	if err != nil {
		f.Fatal(err)
	}
	f.config = &wirev1.SendConfig{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, f.config); err != nil {
		f.Fatal(err)
	}
}

func (f *family) lookAt(name string) {
	f.Helper()
	leg := f.legs[name]
	facts := f.facts(leg)
	facts.Whole = f.whole
	if plan.HasPod(leg) {
		f.lookAtApart(name, facts)
		return
	}
	if plan.Sends(f.whole, leg) && f.job != nil && f.job.Name == jobOf(f.whole) {
		facts.Job, facts.Pod, facts.Report = f.job, f.pod, f.reports[name]
		if f.pod != nil && f.pod.Status.ContainerStatuses[0].State.Running == nil {
			facts.Report = nil
		}
	}
	decision := plan.DecideTransfer(leg, facts, image)
	if decision.Start != nil || decision.Clear || decision.Retire || decision.Renew {
		f.Errorf("leg %s is to have something of a pod: %+v", name, decision)
	}
	leg.Status = decision.Status
	for _, gone := range decision.Withdraw {
		f.deliveries = slices.DeleteFunc(f.deliveries, func(d v1alpha1.Delivery) bool { return d.Name == gone.Name })
	}
	if decision.Deliver != nil {
		made := *decision.Deliver
		made.Status.Endpoint, made.Status.ServerName = "10.0.0.9:8443", made.Name+".receive"
		f.deliveries = append(f.deliveries, made)
	}
}

// settle looks until nothing changes any more.
func (f *family) settle() {
	f.Helper()
	for range 12 {
		f.look()
	}
}

// run has the agent of the present pod run, with a report of each receiver.
func (f *family) run(reports map[string]*wirev1.Report) {
	f.Helper()
	if f.job == nil {
		f.Fatal("there is no pod")
	}
	f.pod, f.reports = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), reports
	f.settle()
}

// end has the agent end, and leave these reports.
func (f *family) end(reports map[string]*wirev1.Report) {
	f.Helper()
	final := &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Version: "test", Receivers: map[string][]byte{},
	}
	for name, report := range reports {
		if report.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED {
			final.State, final.Failure = report.GetState(), report.GetFailure()
		}
		encoded, err := proto.Marshal(report)
		if err != nil {
			f.Fatal(err)
		}
		final.Receivers[name] = encoded
	}
	text, err := protojson.Marshal(final)
	if err != nil {
		f.Fatal(err)
	}
	f.pod, f.reports = ended(0, "Completed", string(text)), nil
	f.settle()
}

func report(state wirev1.AgentState, bytes uint64) *wirev1.Report {
	return &wirev1.Report{
		State: state, Progress: &wirev1.Progress{Files: 1, FilesTotal: 1, Bytes: bytes, BytesTotal: 100},
		Compression: &wirev1.Compression{UncompressedBytes: bytes, CompressedBytes: bytes / 2},
	}
}

func succeeded() *wirev1.Report { return report(wirev1.AgentState_AGENT_STATE_SUCCEEDED, 100) }

func broken() *wirev1.Report {
	failed := report(wirev1.AgentState_AGENT_STATE_FAILED, 10)
	failed.Failure = &wirev1.Failure{
		Reason: wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, Message: "the connection broke",
	}
	return failed
}

func onTheWay() *wirev1.Report { return report(wirev1.AgentState_AGENT_STATE_TRANSFERRING, 50) }

func (f *family) receivers() []string {
	var names []string
	for _, r := range f.config.GetReceivers() {
		names = append(names, r.GetName())
	}
	return names
}

func (f *family) expect(whole v1alpha1.TransferPhase, legs ...v1alpha1.TransferPhase) {
	f.Helper()
	if f.whole.Status.Phase != whole {
		f.Errorf("the Transfer is %s, want %s: %+v", f.whole.Status.Phase, whole, f.whole.Status.Conditions)
	}
	for i, want := range legs {
		shown := f.whole.Status.Destinations[i]
		if got := f.legs[shown.Name].Status.Phase; got != want || shown.Phase != want {
			f.Errorf("destination %s is %s, shown as %s, want %s: %+v", shown.Name, got, shown.Phase, want,
				f.legs[shown.Name].Status.Conditions)
		}
	}
}

// One pod sends to all; each has an attempt, a history and figures of its own.
func TestOnePodSendsToAll(t *testing.T) {
	f := newFamily(t, "here")
	f.settle()
	if f.jobs != 1 || !slices.Equal(f.receivers(), []string{"west", "here"}) {
		t.Fatalf("%d pods, for %v: %+v", f.jobs, f.receivers(), f.whole.Status)
	}
	restricted(t, f.job.Spec.Template.Spec)
	west, here := f.config.GetReceivers()[0], f.config.GetReceivers()[1]
	if west.GetGatewayEndpoint() != "gateway.west.example:8443" || west.GetRunId() != f.legs["west"].Status.Run.ID ||
		here.GetReceiverEndpoint() != "10.0.0.9:8443" || here.GetDestination().GetClaimName() != "here" ||
		here.GetRunId() == west.GetRunId() || f.config.GetVolume() != "/volume" || f.config.GetCompression() == nil {
		t.Errorf("%v", f.config)
	}
	if memory := f.job.Spec.Template.Spec.Containers[0].Resources.Requests.Memory(); memory.Value() < (128+64)<<20 {
		t.Errorf("the pod asks for %v of memory; blocks that wait have no space", memory)
	}
	f.run(map[string]*wirev1.Report{"west": onTheWay(), "here": onTheWay()})
	f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferTransferring, v1alpha1.TransferTransferring)
	if p := f.whole.Status.Progress; p == nil || p.Percent != 50 || p.BytesTotal != 200 {
		t.Errorf("%+v", p)
	}
	f.end(map[string]*wirev1.Report{"west": succeeded(), "here": succeeded()})
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
	for name, leg := range f.legs {
		if h := leg.Status.History; len(h) != 1 || h[0].Bytes != 100 || h[0].Reason != v1alpha1.ReasonSucceeded {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if f.jobs != 1 || f.whole.Status.GatheringTime != nil || len(f.whole.Status.History) != 0 {
		t.Errorf("%d pods, %+v", f.jobs, f.whole.Status)
	}
}

// Each claim has its own form, in one pod.
func TestFormsOfSeveralDestinations(t *testing.T) {
	f := newFamily(t, "here")
	f.whole.Spec.Destinations[0].Form = v1alpha1.RestingGzip
	f.settle()
	forms := []wirev1.Form{f.config.GetReceivers()[0].GetForm(), f.config.GetReceivers()[1].GetForm()}
	if f.jobs != 1 || f.config.GetForm() != 0 || !slices.Equal(forms, []wirev1.Form{wirev1.Form_FORM_GZIP, 0}) {
		t.Errorf("%d pods, %v", f.jobs, f.config)
	}
}

// Who fails is reported at once and tried again when the others have ended, without them.
func TestOneDestinationFails(t *testing.T) {
	f := newFamily(t, "here")
	f.settle()
	f.run(map[string]*wirev1.Report{"west": broken(), "here": onTheWay()})
	f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferRetrying, v1alpha1.TransferTransferring)
	f.now = f.now.Add(time.Hour)
	f.settle()
	f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferRetrying, v1alpha1.TransferTransferring)
	if f.jobs != 1 {
		t.Fatalf("%d pods while one sends", f.jobs)
	}
	f.end(map[string]*wirev1.Report{"west": broken(), "here": succeeded()})
	if f.jobs != 2 || !slices.Equal(f.receivers(), []string{"west"}) || f.config.GetReceivers()[0].GetAttempt() != 2 {
		t.Fatalf("%d pods, the last one for %v: %+v", f.jobs, f.receivers(), f.whole.Status)
	}
	f.run(map[string]*wirev1.Report{"west": succeeded()})
	f.end(map[string]*wirev1.Report{"west": succeeded()})
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
}

// One whose grant is taken away, or whose CA has changed, says so and waits for somebody; one whose volume is full
// tries again as others do. The others complete, and it goes on alone.
func TestOneDestinationNeedsSomebody(t *testing.T) {
	for reason, want := range map[wirev1.FailureReason]string{
		wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED:      v1alpha1.ReasonNotGranted,
		wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED:   v1alpha1.ReasonPeerUntrusted,
		wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL: v1alpha1.ReasonDestinationFull,
	} {
		f := newFamily(t, "here")
		f.settle()
		failed := broken()
		failed.Failure.Reason = reason
		f.run(map[string]*wirev1.Report{"west": failed, "here": onTheWay()})
		f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferRetrying, v1alpha1.TransferTransferring)
		leg := f.legs["west"].Status
		kind, got, _ := verdict(t, leg.Conditions)
		if leg.History[0].Reason != want {
			t.Errorf("%s: %+v", want, leg.History)
		}
		if waits := want != v1alpha1.ReasonDestinationFull; waits != (leg.Run.Failures == 0) ||
			waits && (kind != v1alpha1.ConditionStalled || got != want) {
			t.Errorf("%s: %s %s, %+v", want, kind, got, leg.Run)
		}
		f.end(map[string]*wirev1.Report{"west": failed, "here": succeeded()})
		if f.jobs != 1 || f.legs["here"].Status.Phase != v1alpha1.TransferComplete {
			t.Errorf("%s: %d pods, the other one is %s", want, f.jobs, f.legs["here"].Status.Phase)
		}
		f.now = f.now.Add(time.Hour)
		f.settle()
		f.end(map[string]*wirev1.Report{"west": succeeded()})
		f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
		if f.jobs != 2 {
			t.Errorf("%s: %d pods", want, f.jobs)
		}
	}
}

// A destination whose attempts are used up makes the run fail, and the others have what they have.
func TestOneDestinationFailsForGood(t *testing.T) {
	f := newFamily(t, "here")
	f.whole.Spec.MaxAttempts = 1
	f.settle()
	f.end(map[string]*wirev1.Report{"west": broken(), "here": succeeded()})
	f.expect(v1alpha1.TransferFailed, v1alpha1.TransferFailed, v1alpha1.TransferComplete)
	if kind, reason, _ := verdict(t, f.whole.Status.Conditions); kind != v1alpha1.ConditionStalled ||
		reason != v1alpha1.ReasonDestinationsFailed {
		t.Errorf("%s %s", kind, reason)
	}
	// Another run is for all.
	f.whole.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	f.settle()
	if f.jobs != 2 || len(f.receivers()) != 2 {
		t.Errorf("%d pods, the last one for %v", f.jobs, f.receivers())
	}
}

// One that cannot begin keeps the others from nothing, and joins when it can.
func TestOneDestinationIsBlocked(t *testing.T) {
	f := newFamily(t, "here")
	f.peer = false
	f.settle()
	f.now = f.now.Add(10 * time.Second)
	f.settle()
	if f.jobs != 1 || !slices.Equal(f.receivers(), []string{"here"}) {
		t.Fatalf("%d pods, for %v: %+v", f.jobs, f.receivers(), f.whole.Status)
	}
	f.run(map[string]*wirev1.Report{"here": onTheWay()})
	f.expect(v1alpha1.TransferTransferring, v1alpha1.TransferPending, v1alpha1.TransferTransferring)
	f.end(map[string]*wirev1.Report{"here": succeeded()})
	f.now = f.now.Add(10 * time.Second)
	f.settle()
	if kind, _, message := verdict(t, f.whole.Status.Conditions); kind != v1alpha1.ConditionStalled || f.jobs != 1 {
		t.Errorf("%s %s, %d pods", kind, message, f.jobs)
	}
	f.peer = true
	f.settle()
	if f.jobs != 2 || !slices.Equal(f.receivers(), []string{"west"}) {
		t.Fatalf("%d pods, the last one for %v: %+v", f.jobs, f.receivers(), f.whole.Status)
	}
	f.end(map[string]*wirev1.Report{"west": succeeded()})
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
}

// Those that a pod which is gone sent to go on together.
func TestPodOfSeveralIsLost(t *testing.T) {
	f := newFamily(t, "a", "b")
	f.settle()
	f.run(map[string]*wirev1.Report{"west": onTheWay(), "a": onTheWay(), "b": succeeded()})
	f.pod, f.reports = ended(137, "Error", ""), nil
	f.settle()
	f.expect(v1alpha1.TransferStarting, v1alpha1.TransferRetrying, v1alpha1.TransferRetrying, v1alpha1.TransferComplete)
	// They come back one after the other, by their own delays.
	for range 30 {
		f.now = f.now.Add(time.Second)
		f.settle()
	}
	if f.jobs != 2 || !slices.Equal(f.receivers(), []string{"west", "a"}) {
		t.Fatalf("%d pods, the last one for %v: %+v", f.jobs, f.receivers(), f.whole.Status)
	}
}

// Kueue takes the pod of all away, which is nobody's failure.
func TestPodOfSeveralIsPreempted(t *testing.T) {
	for name, left := range map[string]*corev1.Pod{"it is gone": nil, "it was killed": ended(137, "Error", "")} {
		f := newFamily(t, "a")
		f.settle()
		f.run(map[string]*wirev1.Report{"west": onTheWay(), "a": onTheWay()})
		f.job.Spec.Suspend = ptr.To(true)
		f.pod, f.reports = left, nil
		f.settle()
		for leg := range f.legs {
			if run := f.legs[leg].Status.Run; run.Failures != 0 || f.legs[leg].Status.History[0].Reason != v1alpha1.ReasonEvicted {
				t.Errorf("%s, %s: %+v, %+v", name, leg, run, f.legs[leg].Status.History)
			}
		}
		for range 30 {
			f.now = f.now.Add(time.Second)
			f.settle()
		}
		if f.jobs != 2 || len(f.receivers()) != 2 {
			t.Errorf("%s: %d pods, the last one for %v: %+v", name, f.jobs, f.receivers(), f.whole.Status)
		}
	}
}

// A leg begins nothing by itself: neither when its whole has ended nor when somebody asks it to.
func TestLegWaitsForItsWhole(t *testing.T) {
	f := newFamily(t, "here")
	f.settle()
	f.end(map[string]*wirev1.Report{"west": succeeded(), "here": succeeded()})
	f.legs["here"].Annotations[v1alpha1.RunAnnotation] = "by hand"
	f.settle()
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
	facts := f.facts(f.legs["west"])
	leg := f.legs["west"].DeepCopy()
	leg.Status = v1alpha1.TransferStatus{}
	decision := plan.DecideTransfer(leg, facts, image) // its whole is gone
	if decision.Status.Run != nil || decision.Start != nil || decision.Status.Phase != v1alpha1.TransferPending {
		t.Errorf("%+v", decision.Status)
	}
}

// A leg that somebody pauses by hand goes on: its pod is of others, too.
func TestLegIsNotPaused(t *testing.T) {
	f := newFamily(t, "here")
	f.settle()
	f.run(map[string]*wirev1.Report{"west": onTheWay(), "here": onTheWay()})
	leg := f.legs["here"]
	leg.Spec.Pause = true
	f.lookAt("here")
	ready := meta.FindStatusCondition(leg.Status.Conditions, v1alpha1.ConditionReady)
	if leg.Status.Phase != v1alpha1.TransferTransferring || ready.Reason != v1alpha1.ReasonTransferring {
		t.Errorf("%s, %+v", leg.Status.Phase, ready)
	}
	f.end(map[string]*wirev1.Report{"west": broken(), "here": succeeded()})
	if leg = f.legs["here"]; leg.Status.Phase != v1alpha1.TransferComplete {
		t.Errorf("%s, %+v", leg.Status.Phase, leg.Status.Conditions)
	}
}

// A Transfer of somebody else with the name of a leg is left alone.
func TestNameOfALegIsTaken(t *testing.T) {
	f := newFamily(t)
	facts := f.facts(f.whole)
	facts.Legs = map[string]plan.LegFacts{"west": {Foreign: true}}
	decision := plan.DecideTransfer(f.whole, facts, image)
	stalled := meta.FindStatusCondition(decision.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Reason != v1alpha1.ReasonInvalidSpec || len(decision.Legs) > 0 || decision.Start != nil {
		t.Errorf("%+v", decision)
	}
}

func TestDestinationsAreValidated(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.TransferSpec){
		"Twice": func(s *v1alpha1.TransferSpec) { s.Destinations = append(s.Destinations, s.Destinations[0]) },
		"Place": func(s *v1alpha1.TransferSpec) {
			s.Destinations = append(s.Destinations, s.Destinations[0])
			s.Destinations[1].Name = "another"
		},
		"Both":             func(s *v1alpha1.TransferSpec) { s.Destination.Peer = "west" },
		"Hooks around all": func(s *v1alpha1.TransferSpec) { s.Source.Hooks = &v1alpha1.SourceHooks{} },
		"Path":             func(s *v1alpha1.TransferSpec) { s.Destinations[0].PersistentVolumeClaim.Path = "/../x" },
		"Claim":            func(s *v1alpha1.TransferSpec) { s.Destinations[0].PersistentVolumeClaim.ClaimName = "" },
		"Claim and store": func(s *v1alpha1.TransferSpec) {
			s.Destinations[0].Peer, s.Destinations[0].ObjectStore = "", storePath("vault", "/")
		},
		"Store of a peer": func(s *v1alpha1.TransferSpec) {
			s.Destinations[0] = v1alpha1.NamedDestination{Name: "a", Peer: "west", ObjectStore: storePath("vault", "/")}
		},
		"Store twice": func(s *v1alpha1.TransferSpec) {
			for _, name := range []string{"a", "b"} {
				at := storePath("vault", "/x")
				s.Destinations = append(s.Destinations, v1alpha1.NamedDestination{Name: name, ObjectStore: at})
			}
		},
		"Archives in a claim": func(s *v1alpha1.TransferSpec) { s.Destinations[0].Form = v1alpha1.RestingArchive },
		"Receipt of a form": func(s *v1alpha1.TransferSpec) {
			s.Receipt, s.Destinations[0].Form = true, v1alpha1.RestingGzip
		},
		"Encryption of files": func(s *v1alpha1.TransferSpec) {
			s.Destinations[0] = v1alpha1.NamedDestination{
				Name: "a", ObjectStore: storePath("vault", "/"), Encryption: &v1alpha1.ArchiveEncryption{},
			}
		},
	} {
		f := newFamily(t)
		if err := plan.ValidateTransfer(f.whole.Spec); err != nil {
			t.Fatal(err)
		}
		change(&f.whole.Spec)
		if err := plan.ValidateTransfer(f.whole.Spec); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
