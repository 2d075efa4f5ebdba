// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/check"
	"github.com/lighterage/lighterage/controllers/conditions"
)

func job(name, label, owner string) batchv1.Job {
	j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{label: owner},
	}}
	j.Status.Active = 1
	return j
}

func pod(name, of, label, owner string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: name, Labels: map[string]string{label: owner}, OwnerReferences: []metav1.OwnerReference{
			{Kind: "Job", Name: of, UID: types.UID("uid-" + of), Controller: new(true)},
		},
	}}
	p.Spec.NodeName, p.Status.Phase = "worker-1", corev1.PodRunning
	return p
}

func delivery(peer, of, run string, attempt int32) v1alpha1.Delivery {
	d := v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: of + "-" + run, UID: "d1"}}
	d.Spec.Peer = peer
	d.Spec.Transfer = v1alpha1.TransferReference{Namespace: "bank", Name: of, Run: run, Attempt: attempt}
	d.Status.Phase = v1alpha1.DeliveryReceiving
	return d
}

// TestTree: both sides of a Transfer to another cluster, and nothing of other Transfers.
func TestTree(t *testing.T) {
	of := transfer(false, conditions.Reconciling("Transferring", "x")...)
	of.UID, of.Spec.Destination.Peer, of.Status.Run.Route = "t1", "west", v1alpha1.RouteGateway
	own := Side{
		Jobs: check.Fact[[]batchv1.Job]{Value: []batchv1.Job{
			job("send-2", v1alpha1.TransferLabel, "t1"), job("foreign", v1alpha1.TransferLabel, "t2"),
		}},
		Pods: check.Fact[[]corev1.Pod]{Value: []corev1.Pod{
			pod("send-2-x", "send-2", v1alpha1.TransferLabel, "t1"), pod("send-1-x", "send-1", v1alpha1.TransferLabel, "t1"),
			pod("foreign-x", "foreign", v1alpha1.TransferLabel, "t2"),
		}},
	}
	other := &Side{
		Jobs: check.Fact[[]batchv1.Job]{Value: []batchv1.Job{job("receive", v1alpha1.DeliveryLabel, "d1")}},
		Pods: check.Fact[[]corev1.Pod]{Err: errors.New("forbidden")},
		Deliveries: check.Fact[[]v1alpha1.Delivery]{Value: []v1alpha1.Delivery{
			delivery("east", "ledger", "7f3c", 2), delivery("east", "other", "7f3c", 1), delivery("east", "ledger", "aaaa", 1),
			delivery("", "ledger", "7f3c", 1),
		}},
	}
	got := strings.Join(TreeOf(of, own, "west-context", other).Lines(0), "\n")
	want := "Transfer bank/ledger  Transferring  run 7f3c attempt 2  60%  on worker-1\n" +
		"|- Job bank/send-2  Active\n" +
		"|  `- Pod bank/send-2-x  Running  on worker-1\n" +
		"|- Pod bank/send-1-x  Running  on worker-1\n" +
		"`- Delivery bank/ledger-7f3c  in west-context  from Peer east  Receiving\n" +
		"   |- in west-context  Pods cannot be read: forbidden\n" +
		"   `- Job bank/receive  in west-context  Active"
	if got != want {
		t.Errorf("%s", got)
	}
	for _, line := range TreeOf(of, own, "west-context", other).Lines(40) {
		if len(line) > 40 {
			t.Errorf("%q", line)
		}
	}
}

// TestTreeOfSeveral: the pod that sends to claims is of the whole, and an object store has one of its own.
func TestTreeOfSeveral(t *testing.T) {
	of := transfer(false)
	of.UID = "t1"
	of.Spec.Destinations = []v1alpha1.NamedDestination{
		{Name: "vault", ObjectStore: &v1alpha1.ObjectStorePath{Name: "archive"}}, {Name: "west", Peer: "west"},
	}
	of.Status.Destinations = []v1alpha1.DestinationStatus{
		{Name: "vault", Transfer: "ledger-vault", Peer: v1alpha1.ThisCluster, Phase: v1alpha1.TransferTransferring,
			RunID: "7f3c", Attempt: 1, Percent: 10},
		{Name: "west", Transfer: "ledger-west", Peer: "west", Phase: v1alpha1.TransferPending},
	}
	owned := job("vault-1", v1alpha1.TransferLabel, "t2")
	owned.OwnerReferences = []metav1.OwnerReference{
		{Kind: "Transfer", Name: "ledger-vault", UID: "t2", Controller: new(true)},
	}
	own := Side{
		Jobs: check.Fact[[]batchv1.Job]{Value: []batchv1.Job{job("send-1", v1alpha1.TransferLabel, "t1"), owned}},
		Pods: check.Fact[[]corev1.Pod]{Value: []corev1.Pod{
			pod("send-1-x", "send-1", v1alpha1.TransferLabel, "t1"), pod("vault-1-x", "vault-1", v1alpha1.TransferLabel, "t2"),
		}},
	}
	got := TreeOf(of, own, "", nil).Lines(0)[1:]
	want := []string{
		"|- Job bank/send-1  Active", "|  `- Pod bank/send-1-x  Running  on worker-1",
		"|- Transfer bank/ledger-vault  to vault of ObjectStore archive  Transferring  run 7f3c attempt 1  10%",
		"|  `- Job bank/vault-1  Active", "|     `- Pod bank/vault-1-x  Running  on worker-1",
		"`- Transfer bank/ledger-west  to west of west  Pending",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	own.Pods = check.Fact[[]corev1.Pod]{Err: errors.New("forbidden")}
	if text := strings.Join(TreeOf(of, own, "", nil).Lines(0), "\n"); strings.Count(text, "forbidden") != 1 {
		t.Error(text)
	}
}

// TestUnmet: what an object promises and does not keep is shown beside its state, once, and not while it starts.
func TestUnmet(t *testing.T) {
	ready := condition("Ready", "True", "Serving")
	for name, test := range map[string]struct {
		of   []metav1.Condition
		want string
	}{
		"archive":  {[]metav1.Condition{ready, condition("Archived", "False", "StoreFull")}, "ready StoreFull"},
		"starting": {[]metav1.Condition{ready, condition("Archived", "False", v1alpha1.ReasonArchivePending)}, ""},
		"kept":     {[]metav1.Condition{ready, condition("HistoryKept", "True", "SnapshotReady")}, ""},
		"unknown":  {[]metav1.Condition{ready, condition("Connected", "Unknown", "Connecting")}, ""},
		"software": {[]metav1.Condition{ready, condition("HardwareCompression", "False", "NoAccelerator")}, ""},
		"drill": {append(conditions.Stalled("RestoreFailed", "x"), condition("Recoverable", "False", "RestoreFailed")),
			"stalled RestoreFailed"},
		"two": {append(conditions.Stalled("Refused", "x"), condition("WithinObjective", "False", "TooOld")),
			"stalled Refused, stalled TooOld"},
	} {
		objects := check.Fact[[]Object]{Value: []Object{{Conditions: test.of}}}
		s := Summarise(&Facts{Kinds: []Kind{{Name: "Thing", Objects: objects}}})
		var got []string
		for _, p := range s.Problems {
			got = append(got, string(p.State)+" "+p.Reason)
		}
		if slices.Sort(got); strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTreeOfHistory(t *testing.T) {
	of := transfer(false)
	of.Status.Run.Route = v1alpha1.RoutePod
	point := metav1.NewTime(time.Date(2026, 1, 2, 2, 0, 0, 0, time.UTC))
	of.Status.Snapshots = []v1alpha1.SnapshotStatus{
		{Name: "e", RunID: "5", State: v1alpha1.SnapshotTaken, RecoveryPoint: &point},
		{Name: "d", RunID: "4", State: v1alpha1.SnapshotReady}, {Name: "c", RunID: "3", State: v1alpha1.SnapshotReady},
		{Name: "b", RunID: "2", State: v1alpha1.SnapshotFailed}, {Name: "a", RunID: "1", State: v1alpha1.SnapshotReady},
	}
	got := TreeOf(of, Side{}, "", nil).Lines(0)[1:]
	want := []string{
		"|- VolumeSnapshot bank/e  Taken  of run 5  state of 2026-01-02T02:00:00Z",
		"|- VolumeSnapshot bank/d  Ready  of run 4",
		"|- VolumeSnapshot bank/b  Failed  of run 2", "`- 2 earlier VolumeSnapshots of the destination are Ready",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestTreeWithoutOtherSide(t *testing.T) {
	remote := transfer(false)
	remote.Spec.Destination.Peer = "west"
	store := transfer(false)
	store.Spec.Destination.ObjectStore = &v1alpha1.ObjectStorePath{}
	one := transfer(false)
	one.Status.Run.Route = v1alpha1.RoutePod
	for name, test := range map[string]struct {
		of    *v1alpha1.Transfer
		other *Side
		says  string
		nodes int
	}{
		"context not named": {remote, nil, "--to-context", 1},
		"none there":        {remote, &Side{}, "no Delivery of run 7f3c", 1},
		"not readable": {remote, &Side{Deliveries: check.Fact[[]v1alpha1.Delivery]{Err: errors.New("forbidden")}},
			"Deliveries cannot be read: forbidden", 1},
		"object store": {store, &Side{}, "Transfer", 0},
		"one pod":      {one, &Side{}, "Transfer", 0},
		"never run":    {&v1alpha1.Transfer{}, &Side{}, "Transfer", 0},
	} {
		tree := TreeOf(test.of, Side{}, "west", test.other)
		if text := strings.Join(tree.Lines(0), "\n"); !strings.Contains(text, test.says) || len(tree.Children) != test.nodes {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestPodText(t *testing.T) {
	pending := corev1.Pod{}
	pending.Status.Phase = corev1.PodPending
	pending.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no node"},
	}
	pulling := corev1.Pod{}
	pulling.Status.Phase = corev1.PodPending
	pulling.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"},
	}}}
	killed := corev1.Pod{}
	killed.Status.Phase = corev1.PodFailed
	killed.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"},
	}}}
	going := corev1.Pod{}
	going.DeletionTimestamp = new(metav1.Now())
	for want, p := range map[string]*corev1.Pod{
		"Pending  Unschedulable: no node": &pending, "Pending  ErrImagePull: no such image": &pulling,
		"Failed  exit code 137, OOMKilled": &killed, "Terminating": &going,
	} {
		if got := podText(p); got != want {
			t.Errorf("%q", got)
		}
	}
	failed := batchv1.Job{}
	failed.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "x"},
	}
	if got := jobText(&failed); got != "Failed  BackoffLimitExceeded: x" {
		t.Errorf("%q", got)
	}
}

func TestStatus(t *testing.T) {
	none := errors.New("forbidden")
	profile := v1alpha1.NodeProfile{}
	profile.Status.Accelerator = &v1alpha1.NodeAccelerator{AcceleratorProfile: v1alpha1.AcceleratorProfile{
		State: v1alpha1.AcceleratorVerified,
	}}
	facts := &Facts{
		Check: &check.Facts{
			OperatorNamespace: "lighterage-system", Kubernetes: check.Fact[string]{Value: "v1.37.2"},
			NodeProfiles: check.Fact[[]v1alpha1.NodeProfile]{Value: []v1alpha1.NodeProfile{profile, {}}},
		},
		Kinds: []Kind{
			{Name: "Queue", Objects: check.Fact[[]Object]{Value: []Object{
				{Namespace: "bank", Name: "orders", Conditions: conditions.Stalled("NoLeader", "no member leads")},
				{Namespace: "bank", Name: "new"},
				{Namespace: "bank", Name: "good", Conditions: []metav1.Condition{condition("Ready", "True", "Serving")}},
			}}},
			{Name: "Transfer", Objects: check.Fact[[]Object]{Value: []Object{
				{Namespace: "bank", Name: "ledger", Conditions: []metav1.Condition{condition("Failed", "True", "PeerGone")}},
				{Namespace: "bank", Name: "later", Conditions: conditions.Resting("Suspended", "x")},
			}}, Cut: true},
			{Name: "Tariff", Objects: check.Fact[[]Object]{Err: none}},
			{Name: "DataQuota"},
		},
		Runs: []Run{
			{Namespace: "bank", Name: "old", State: Done}, {Namespace: "bank", Name: "now", State: Working},
			{Namespace: "bank", Name: "later", State: Waiting, Phase: string(v1alpha1.TransferSuspended)},
		},
	}
	s := Summarise(facts)
	if s.Nodes != 2 || s.Accelerators != 1 || s.Errors == 0 || len(s.Runs) != 1 || s.Runs[0].Name != "now" {
		t.Errorf("%+v", s)
	}
	var order []string
	for _, p := range s.Problems {
		order = append(order, p.Name)
	}
	if strings.Join(order, " ") != "ledger orders new" {
		t.Errorf("%q", order)
	}
	text := strings.Join(s.Lines(0, 0), "\n")
	for _, want := range []string{
		"Queue             1 stalled, 1 waiting, 1 ready", "Transfer          1 failed, 1 resting, the first 2 only",
		"Tariff            cannot be read: forbidden", "none: DataQuota",
		"Queue bank/orders stalled, NoLeader: no member leads",
		"Queue bank/new waiting: no controller has looked at it yet", "runs may be missing: Transfer: the first 2 only",
		"1 with a working accelerator", "bank/now",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if few := strings.Join(s.Lines(0, 1), "\n"); strings.Contains(few, "bank/orders") ||
		!strings.Contains(few, "... and 2 more") {
		t.Error(few)
	}
	for _, line := range s.Lines(40, 0) {
		for _, word := range strings.Fields(line) {
			if len(line) > 40 && len(word) < 30 {
				t.Errorf("%q", line)
				break
			}
		}
	}
	empty := Summarise(&Facts{Check: &check.Facts{}})
	if text := strings.Join(empty.Lines(80, 10), "\n"); !strings.Contains(text, "nothing") ||
		!strings.Contains(text, "no runs") {
		t.Error(text)
	}
}
