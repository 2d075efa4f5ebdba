// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/drillplan"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/quota"
)

// team limits everything.
var team = []v1alpha1.DataQuota{{
	ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "team"},
	Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{
		RunningTransfers: ptr.To[int32](2), RunningDeliveries: ptr.To[int32](2),
		Bandwidth: ptr.To(resource.MustParse("100Mi")),
	}},
}}

var full = &quota.Answer{Exceeded: &quota.Exceeded{
	Kind: "DataQuota", Name: "team", Resource: quota.RunningTransfers, Limit: 2, Used: 2, Wanted: 1,
}}

func granted(bandwidth int64) *quota.Answer { return &quota.Answer{Bandwidth: bandwidth} }

// sentLimit is the bandwidth limit that the agent is told; nil: none.
func sentLimit(t *testing.T, start *attempt.Attempt) any {
	t.Helper()
	if start == nil {
		t.Fatal("no attempt begins")
	}
	b, err := start.Config()
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(b, &config); err != nil {
		t.Fatal(err)
	}
	return config["bandwidthLimit"]
}

func TestNothingStartsUnasked(t *testing.T) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	facts.Quota.Quotas = team
	d := plan.DecideTransfer(transfer, facts, image)
	if d.Ask == nil || d.Start != nil || d.Ask.ID != string(transfer.UID) || d.Ask.Amounts[quota.RunningTransfers] != 1 ||
		*d.Ask.Bandwidth != quota.Unlimited {
		t.Fatalf("%+v", d)
	}
	// What cannot begin anyway asks for nothing.
	without := facts
	without.Claim = nil
	if d := plan.DecideTransfer(transfer, without, image); d.Ask != nil {
		t.Errorf("without a source: %+v", d.Ask)
	}
	suspended := newTransfer("ledger", time.Hour)
	suspended.Spec.Suspend = true
	if d := plan.DecideTransfer(suspended, facts, image); d.Ask != nil {
		t.Errorf("suspended: %+v", d.Ask)
	}

	facts.Quota.Answer = granted(50 << 20)
	d = plan.DecideTransfer(transfer, facts, image)
	if got := sentLimit(t, d.Start); got != "52428800" || d.Status.Run.BandwidthLimit.String() != "50Mi" {
		t.Errorf("the agent may send %v, and status says %s", got, d.Status.Run.BandwidthLimit)
	}
}

func TestQueued(t *testing.T) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	facts.Quota = plan.QuotaFacts{Quotas: team, Answer: full}
	d := plan.DecideTransfer(transfer, facts, image)
	kind, reason, message := verdict(t, d.Status.Conditions)
	if d.Start != nil || d.Status.Run != nil || d.Status.Phase != v1alpha1.TransferQueued ||
		kind != v1alpha1.ConditionReconciling ||
		reason != v1alpha1.ReasonQuotaExceeded || !strings.Contains(message, `"team"`) ||
		!strings.Contains(message, "runningTransfers") {
		t.Fatalf("%s %s %s: %+v", kind, reason, message, d.Status)
	}
	if queued := d.Status.Queued; queued == nil || !queued.Time.Time.Equal(now) || queued.Route != v1alpha1.RouteGateway {
		t.Fatalf("%+v", queued)
	}
	// It keeps its place however often it is looked at, and loses it when it is suspended.
	transfer.Status = d.Status
	facts.Now = now.Add(time.Hour)
	d = plan.DecideTransfer(transfer, facts, image)
	if queued := d.Status.Queued; queued == nil || !queued.Time.Time.Equal(now) {
		t.Errorf("an hour later: %+v", queued)
	}
	suspended := transfer.DeepCopy()
	suspended.Spec.Suspend = true
	if d := plan.DecideTransfer(suspended, facts, image); d.Status.Queued != nil ||
		d.Status.Phase != v1alpha1.TransferSuspended {
		t.Errorf("suspended: %s %+v", d.Status.Phase, d.Status.Queued)
	}
	// When it is its turn, the wait has cost nothing.
	facts.Quota.Answer = granted(quota.Unlimited)
	d = plan.DecideTransfer(transfer, facts, image)
	if d.Start == nil || d.Status.Queued != nil || d.Status.Run.Attempt != 1 || d.Status.Run.Failures != 0 {
		t.Errorf("%+v %+v", d.Status.Queued, d.Status.Run)
	}
	// A quota that allows none waits for somebody.
	facts.Quota.Answer = &quota.Answer{
		Exceeded: &quota.Exceeded{Kind: "DataQuota", Name: "team", Resource: quota.RunningTransfers, Wanted: 1},
	}
	d = plan.DecideTransfer(newTransfer("ledger", time.Hour), facts, image)
	if kind, reason, _ := verdict(t, d.Status.Conditions); kind != v1alpha1.ConditionStalled ||
		reason != v1alpha1.ReasonQuotaExceeded || d.Status.Queued == nil {
		t.Errorf("none are allowed: %s %s %+v", kind, reason, d.Status.Queued)
	}
}

// TestDrillQueued: the Transfer of a drill asks for a run, and for bandwidth to the store, as every other.
func TestDrillQueued(t *testing.T) {
	drill := &v1alpha1.Drill{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "nightly", UID: "d"},
		Spec: v1alpha1.DrillSpec{
			Source: v1alpha1.DrillSource{ObjectStore: *storePath("vault", "/ledger")},
			Volume: v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("3Gi"))},
		},
		Status: v1alpha1.DrillStatus{Run: &v1alpha1.DrillRecord{ID: "abcde"}},
	}
	transfer, facts := storeTransfer(storePath("vault", "/ledger"), nil)
	transfer.Spec, facts.Local.Claim = drillplan.Transfer(drill).Spec, nil
	facts.Quota.Quotas = team
	d := plan.DecideTransfer(transfer, facts, image)
	if d.Ask == nil || d.Start != nil || d.Ask.Amounts[quota.RunningTransfers] != 1 || d.Ask.Bandwidth == nil {
		t.Fatalf("%+v", d)
	}
	facts.Quota.Answer = full
	d = plan.DecideTransfer(transfer, facts, image)
	if d.Start != nil || d.Status.Phase != v1alpha1.TransferQueued {
		t.Fatalf("%s %+v", d.Status.Phase, d.Status.Conditions)
	}
	transfer.Status, facts.Quota.Answer = d.Status, granted(10<<20)
	d = plan.DecideTransfer(transfer, facts, image)
	if d.Start == nil || d.Status.Run.BandwidthLimit.String() != "10Mi" {
		t.Errorf("%s %+v", d.Status.Phase, d.Status.Run)
	}
}

// TestAttemptsKeepTheSlot: a run that retries by itself goes on without asking, within the bandwidth that it was
// granted; one that waited for somebody, or was suspended, asks again.
func TestAttemptsKeepTheSlot(t *testing.T) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	facts.Quota = plan.QuotaFacts{Quotas: team, Answer: granted(10 << 20)}
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	facts.Quota.Answer = nil
	end := func(reason wirev1.FailureReason) (*v1alpha1.Transfer, plan.TransferFacts) {
		after, seen := transfer.DeepCopy(), facts
		_, at := running(1)
		seen.Job, seen.Pod = at.Job, failed(t, reason, "it broke")
		after.Status = plan.DecideTransfer(after, seen, image).Status
		seen.Job, seen.Pod, seen.Now = nil, nil, now.Add(time.Hour)
		return after, seen
	}

	after, seen := end(wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST)
	if _, holds := quota.TransferHolds(after); !holds {
		t.Errorf("a back-off gives the slot away: %+v", after.Status.Conditions)
	}
	after.Spec.BandwidthLimit = ptr.To(resource.MustParse("1Gi")) // what a tenant may try
	d := plan.DecideTransfer(after, seen, image)
	if got := sentLimit(t, d.Start); d.Ask != nil || d.Status.Run.Attempt != 2 || got != "10485760" {
		t.Errorf("the next attempt may send %v: %+v", got, d.Ask)
	}
	after.Spec.BandwidthLimit = ptr.To(resource.MustParse("1Mi"))
	if got := sentLimit(t, plan.DecideTransfer(after, seen, image).Start); got != "1048576" {
		t.Errorf("with a smaller limit the next attempt may send %v", got)
	}

	suspended := after.DeepCopy()
	suspended.Spec.Suspend = true
	suspended.Status = plan.DecideTransfer(suspended, seen, image).Status
	if _, holds := quota.TransferHolds(suspended); holds {
		t.Errorf("a Transfer that is suspended between attempts keeps its slot: %+v", suspended.Status.Conditions)
	}
	suspended.Spec.Suspend = false
	if _, holds := quota.TransferHolds(suspended); holds {
		t.Error("writing the spec takes a slot")
	}
	if d := plan.DecideTransfer(suspended, seen, image); d.Ask == nil || d.Start != nil {
		t.Errorf("it goes on without asking: %+v", d.Status)
	}

	after, seen = end(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED)
	if _, holds := quota.TransferHolds(after); holds {
		t.Error("a run that waits for somebody keeps its slot")
	}
	if d := plan.DecideTransfer(after, seen, image); d.Ask == nil || d.Start != nil {
		t.Errorf("it goes on without asking: %+v", d.Status)
	}
	seen.Quota.Answer = full
	d = plan.DecideTransfer(after, seen, image)
	if _, reason, _ := verdict(t, d.Status.Conditions); reason != v1alpha1.ReasonQuotaExceeded ||
		d.Status.Phase != v1alpha1.TransferQueued ||
		d.Status.Run.Attempt != 1 || d.Status.Queued == nil {
		t.Errorf("%s %s %+v", reason, d.Status.Phase, d.Status.Run)
	}
}

// ofWest are limits of the Peer.
var ofWest = []quota.Limits{{
	Kind: quota.KindPeer, Name: "west", Shared: true, Peer: "west", Hard: quota.Amounts{quota.Share: 100 << 20},
}}

// TestQueuedForAPeer: nothing is made before a Peer's limits admit a run, which then has its share of the bandwidth.
func TestQueuedForAPeer(t *testing.T) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	facts.Quota = plan.QuotaFacts{Shared: ofWest, Priority: 7}
	d := plan.DecideTransfer(transfer, facts, image)
	if d.Ask == nil || d.Ask.Priority != 7 || d.Ask.Peer != "west" || d.Start != nil || d.Stage != nil {
		t.Fatalf("%+v", d)
	}
	facts.Quota.Answer = &quota.Answer{Exceeded: &quota.Exceeded{
		Kind: quota.KindPeer, Name: "west", Resource: quota.Share, Limit: 100 << 20, Used: 100 << 20, Wanted: 1, Place: 3,
		Waiting: 5,
	}}
	d = plan.DecideTransfer(transfer, facts, image)
	want := v1alpha1.QueuedStatus{
		Time: metav1.NewTime(now), Route: v1alpha1.RouteGateway, Priority: 7, Place: 3, Waiting: 5,
	}
	if d.Start != nil || d.Stage != nil || d.Status.Phase != v1alpha1.TransferQueued || *d.Status.Queued != want {
		t.Fatalf("%s %+v", d.Status.Phase, d.Status.Queued)
	}
	transfer.Status = d.Status
	if again := plan.DecideTransfer(transfer, facts, image); !equality.Semantic.DeepEqual(again.Status, d.Status) {
		t.Errorf("a second look changes the status: %+v", again.Status)
	}
	facts.Quota.Answer = &quota.Answer{Bandwidth: quota.Unlimited, Share: 25 << 20}
	d = plan.DecideTransfer(transfer, facts, image)
	if got := sentLimit(t, d.Start); got != "26214400" || d.Status.Run.BandwidthLimit != nil ||
		d.Status.Run.BandwidthShare.String() != "25Mi" {
		t.Errorf("the agent may send %v, and status says %+v", got, d.Status.Run)
	}
}

// TestNoCopyWhileQueued: a run that waits for a quota or for a Peer has no copy of its source made.
func TestNoCopyWhileQueued(t *testing.T) {
	for what, limits := range map[string]plan.QuotaFacts{
		"not asked": {Quotas: team},
		"DataQuota": {Quotas: team, Answer: full},
		"Peer": {Shared: ofWest, Answer: &quota.Answer{Exceeded: &quota.Exceeded{
			Kind: quota.KindPeer, Name: "west", Resource: quota.Share, Limit: 100 << 20, Used: 100 << 20, Wanted: 1,
		}}},
	} {
		for _, method := range []v1alpha1.CopyMethod{v1alpha1.CopySnapshot, v1alpha1.CopyClone} {
			w := newWorld(t, method)
			w.facts.Quota = limits
			for range 5 {
				w.at = w.at.Add(time.Minute)
				if w.look(); w.last.Stage != nil || w.transfer.Status.Staged != nil {
					t.Fatalf("%s, %s: %+v, %+v", what, method, w.last.Stage, w.transfer.Status.Staged)
				}
			}
			w.facts.Quota.Answer = granted(quota.Unlimited)
			w.look()
			if staged := w.transfer.Status.Staged; staged == nil || !staged.StartTime.Time.Equal(w.at) {
				t.Errorf("%s, %s: when it is its turn: %+v", what, method, staged)
			}
		}
	}
}

// TestShareEndsWithTheAttempt: between two attempts, and until the next agent answers, a run has the least.
func TestShareEndsWithTheAttempt(t *testing.T) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	facts.Quota = plan.QuotaFacts{Shared: ofWest, Answer: &quota.Answer{
		Bandwidth: quota.Unlimited, Share: quota.LeastBandwidth,
	}}
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	transfer.Status.Run.BandwidthShare = ptr.To(resource.MustParse("80Mi"))
	facts.Quota.Answer = nil
	_, at := running(1)
	facts.Job, facts.Pod = at.Job, failed(t, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "it broke")
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if held, holds := quota.TransferHolds(transfer); !holds || held.Amounts[quota.Share] != quota.LeastBandwidth {
		t.Errorf("between attempts: %t %v", holds, held.Amounts)
	}
	facts.Job, facts.Pod, facts.Now = nil, nil, now.Add(time.Hour)
	if got := sentLimit(t, plan.DecideTransfer(transfer, facts, image).Start); got != "262144" {
		t.Errorf("the next attempt may send %v", got)
	}
}

// TestShareChanges: the agent that runs is told when its share changes, and what it is told is the smaller one of the
// share and the limit. More is given only by somebody who sees that nobody else gets it.
func TestShareChanges(t *testing.T) {
	for name, c := range map[string]struct {
		limit, share string // that the run has; "": none
		target       int64
		bandwidth    string // that the agent has then
		told, raised bool
	}{
		"stays":             {share: "10Mi", target: 10 << 20, bandwidth: "10Mi"},
		"becomes less":      {share: "10Mi", target: 5 << 20, bandwidth: "5Mi", told: true},
		"becomes more":      {share: "10Mi", target: 20 << 20, bandwidth: "20Mi", told: true, raised: true},
		"is limited now":    {target: 5 << 20, bandwidth: "5Mi", told: true},
		"is limited itself": {limit: "3Mi", share: "10Mi", target: 5 << 20, bandwidth: "3Mi", told: true},
		"has no limit now":  {share: "10Mi", told: true},
	} {
		transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
		transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
		if c.limit != "" {
			transfer.Spec.BandwidthLimit = ptr.To(resource.MustParse(c.limit))
			transfer.Status.Run.BandwidthLimit = ptr.To(resource.MustParse(c.limit))
		}
		if c.share != "" {
			transfer.Status.Run.BandwidthShare = ptr.To(resource.MustParse(c.share))
		}
		facts.Job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Name: "ledger-abcde-1", CreationTimestamp: metav1.NewTime(now),
		}}
		facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
		facts.Report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_TRANSFERRING}
		facts.Quota = plan.QuotaFacts{Share: c.target}
		if c.target > 0 {
			facts.Quota.Shared = ofWest
		}
		d := plan.DecideTransfer(transfer, facts, image)
		got := ""
		if b := plan.Bandwidth(d.Status.Run); b != nil {
			got = b.String()
		}
		if got != c.bandwidth || d.Limit != c.told || d.Raised(transfer) != c.raised {
			t.Errorf("%s: %q, told %t, raised %t", name, got, d.Limit, d.Raised(transfer))
		}
	}
}

// TestNoNetworkNeedsNoBandwidth: both claims in one pod; and when that cannot be, the run asks again for what it needs
// then.
func TestNoNetworkNeedsNoBandwidth(t *testing.T) {
	transfer, facts := localTransfer("")
	facts.Quota.Quotas = team
	d := plan.DecideTransfer(transfer, facts, image)
	if d.Ask == nil || d.Ask.Bandwidth != nil || d.Ask.Amounts[quota.RunningTransfers] != 1 {
		t.Fatalf("%+v", d.Ask)
	}
	facts.Quota.Answer = granted(quota.Unlimited)
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if held, holds := quota.TransferHolds(transfer); !holds || held.Amounts[quota.Bandwidth] != 0 {
		t.Errorf("%t %v", holds, held.Amounts)
	}

	facts.Quota.Answer = nil
	facts.Job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "ledger-abcde-1", CreationTimestamp: metav1.NewTime(now)}}
	facts.Pod = pod(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})
	facts.Pod.Status.Phase, facts.Pod.Status.Conditions = corev1.PodPending, []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "volume node affinity conflict"},
	}
	facts.Now = now.Add(2 * time.Minute)
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if transfer.Status.Run.Route != v1alpha1.RouteDirect {
		t.Fatalf("%+v", transfer.Status.Run)
	}
	if _, holds := quota.TransferHolds(transfer); holds {
		t.Error("it holds bandwidth that nobody granted")
	}
	facts.Job, facts.Pod, facts.Now = nil, nil, now.Add(time.Hour)
	if d := plan.DecideTransfer(transfer, facts, image); d.Ask == nil || d.Ask.Bandwidth == nil || d.Deliver != nil {
		t.Errorf("%+v %+v", d.Ask, d.Status)
	}
}

func TestDeliveryQueued(t *testing.T) {
	delivery, facts := newDelivery("d", 1), goodDeliveryFacts()
	facts.Quota.Quotas = team
	d := plan.DecideDelivery(delivery, facts, image)
	if d.Ask == nil || d.Start != nil || d.Ask.Amounts[quota.RunningDeliveries] != 1 {
		t.Fatalf("%+v", d)
	}
	facts.Quota.Answer = &quota.Answer{
		Exceeded: &quota.Exceeded{
			Kind: "DataQuota", Name: "team", Resource: quota.RunningDeliveries, Limit: 2, Used: 2, Wanted: 1,
		},
	}
	d = plan.DecideDelivery(delivery, facts, image)
	kind, reason, message := verdict(t, d.Status.Conditions)
	if d.Start != nil || d.Status.Run != nil || d.Status.Phase != v1alpha1.DeliveryPending ||
		kind != v1alpha1.ConditionReconciling || reason != v1alpha1.ReasonQuotaExceeded {
		t.Fatalf("%s %s: %+v", kind, reason, d.Status)
	}
	// The sender reads the message.
	for _, secret := range []string{"team", delivery.Namespace, "2"} {
		if strings.Contains(message, secret) {
			t.Errorf("the message tells the sender %q: %s", secret, message)
		}
	}
	if !strings.Contains(message, "runningDeliveries") || !strings.Contains(d.Detail, `"team"`) {
		t.Errorf("%s; %s", message, d.Detail)
	}
	delivery.Status = d.Status
	facts.Quota.Answer = granted(quota.Unlimited)
	if d := plan.DecideDelivery(delivery, facts, image); d.Start == nil || d.Status.Run == nil {
		t.Errorf("%+v", d.Status)
	}
}
