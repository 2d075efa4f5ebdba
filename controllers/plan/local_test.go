// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
)

// localTransfer is one within the cluster, into a namespace; and the facts under which it can begin.
func localTransfer(namespace string) (*v1alpha1.Transfer, plan.TransferFacts) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	transfer.Spec.Destination.Peer, transfer.Spec.Destination.Namespace = "", namespace
	facts.Peer = nil
	facts.Local.Claim = &corev1.PersistentVolumeClaim{}
	return transfer, facts
}

// begun is a local Transfer with what its first decision wrote.
func begun(t *testing.T, namespace string) (*v1alpha1.Transfer, plan.TransferFacts, plan.TransferDecision) {
	t.Helper()
	transfer, facts := localTransfer(namespace)
	decision := plan.DecideTransfer(transfer, facts, image)
	transfer.Status = decision.Status
	if transfer.Status.Run == nil {
		t.Fatalf("nothing has begun: %+v", transfer.Status)
	}
	return transfer, facts, decision
}

func TestOnePodMountsBothClaims(t *testing.T) {
	transfer, _, decision := begun(t, "")
	if run := transfer.Status.Run; run.Route != v1alpha1.RoutePod || transfer.Status.Peer != v1alpha1.ThisCluster ||
		decision.Deliver != nil {
		t.Errorf("%+v, %q, %+v", run, transfer.Status.Peer, decision.Deliver)
	}
	job := decision.Start.Job()
	pod := job.Spec.Template.Spec
	restricted(t, pod)
	container := pod.Containers[0]
	if container.Args[0] != "local" || job.Labels[agentpod.ComponentLabel] != "local" || container.StartupProbe != nil ||
		len(container.Ports) != 1 {
		t.Errorf("%+v", container)
	}
	source, destination := pod.Volumes[1].PersistentVolumeClaim, pod.Volumes[2].PersistentVolumeClaim
	if source.ClaimName != "ledger" || !source.ReadOnly || destination.ClaimName != "copy" || destination.ReadOnly {
		t.Errorf("%+v %+v", source, destination)
	}
	if mounts := container.VolumeMounts; len(mounts) != 3 || mounts[1].MountPath != "/volume" || !mounts[1].ReadOnly ||
		mounts[2].MountPath != "/destination" || mounts[2].ReadOnly {
		t.Errorf("%+v", mounts)
	}
	text, err := decision.Start.Config()
	if err != nil {
		t.Fatal(err)
	}
	config := &wirev1.LocalConfig{}
	if err := protojson.Unmarshal(text, config); err != nil {
		t.Fatal(err)
	}
	if to := config.GetReceive(); to.GetVolume() != "/destination" || to.GetPath() != "books" ||
		to.GetSenderName() != "ledger" || to.GetSenderNamespace() != "bank" ||
		to.GetRunId() != "abcde" || config.GetSend().GetVolume() != "/volume" ||
		config.GetSend().GetControlAddress() != ":9443" {
		t.Errorf("%s", text)
	}
}

func TestOneClaimIsOneVolume(t *testing.T) {
	transfer, facts := localTransfer("")
	transfer.Spec.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/drafts"}
	pod := plan.DecideTransfer(transfer, facts, image).Start.Job().Spec.Template.Spec
	if len(pod.Volumes) != 2 || pod.Volumes[1].PersistentVolumeClaim.ReadOnly {
		t.Errorf("%+v", pod.Volumes)
	}
	mounts := pod.Containers[0].VolumeMounts
	if len(mounts) != 3 || mounts[1].Name != mounts[2].Name || !mounts[1].ReadOnly || mounts[2].ReadOnly {
		t.Errorf("%+v", mounts)
	}
}

func TestPrivilegeOfOnePod(t *testing.T) {
	for name, test := range map[string]struct {
		given corev1.SecurityContext
		added []corev1.Capability
		group bool
	}{
		"all": {corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}, keepsOwners, false},
		"only reading": {
			corev1.SecurityContext{Capabilities: capabilities("DAC_READ_SEARCH")}, []corev1.Capability{"DAC_READ_SEARCH"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := localTransfer("")
			facts.PrivilegeAllowed = true
			transfer.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{SecurityContext: &test.given}
			pod := plan.DecideTransfer(transfer, facts, image).Start.Job().Spec.Template.Spec
			if got := pod.Containers[0].SecurityContext.Capabilities.Add; !slices.Equal(got, test.added) ||
				(pod.SecurityContext.FSGroup != nil) != test.group {
				t.Errorf("%v, %v", got, pod.SecurityContext.FSGroup)
			}
		})
	}
}

func TestLocalRefusals(t *testing.T) {
	inTheWay := func(change func(*v1alpha1.Delivery)) func(*v1alpha1.Transfer, *plan.TransferFacts) {
		return func(_ *v1alpha1.Transfer, facts *plan.TransferFacts) {
			delivery := newDelivery("other", 1)
			delivery.Name, delivery.Spec.Transfer.Name = "other", "other"
			change(delivery)
			facts.Local.Deliveries = []v1alpha1.Delivery{*delivery}
		}
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Transfer, *plan.TransferFacts)
		reason string // empty: it starts
		says   string
	}{
		"nothing wrong": {func(*v1alpha1.Transfer, *plan.TransferFacts) {}, "", ""},
		"same directory": {func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/books/"}
		}, v1alpha1.ReasonInvalidSpec, "path beside the source"},
		"destination inside the source": {func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.Source.PersistentVolumeClaim.ClaimName = "copy"
		}, v1alpha1.ReasonInvalidSpec, "path beside the source"},
		"the same claim elsewhere": {func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/bookshop"}
		}, "", ""},
		"a claim of that name in another namespace": {func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/books"}
			transfer.Spec.Destination.Namespace = "vault"
		}, "", ""},
		"no destination": {
			func(_ *v1alpha1.Transfer, facts *plan.TransferFacts) { facts.Local.Claim = nil },
			v1alpha1.ReasonDestinationNotFound, "create it there",
		},
		"not granted": {func(_ *v1alpha1.Transfer, facts *plan.TransferFacts) {
			facts.Local.Claim, facts.Local.Refusal = nil, "no PeerGrant"
		},
			v1alpha1.ReasonNotGranted, "no PeerGrant"},
		"a Delivery writes there": {
			inTheWay(func(*v1alpha1.Delivery) {}), v1alpha1.ReasonDestinationInUse, `Delivery "other" from east`,
		},
		"a Delivery writes there, in another namespace": {func(transfer *v1alpha1.Transfer, facts *plan.TransferFacts) {
			transfer.Spec.Destination.Namespace = "vault"
			inTheWay(func(*v1alpha1.Delivery) {})(transfer, facts)
		}, v1alpha1.ReasonDestinationInUse, "a Delivery in namespace \"vault\" writes into the same place of claim"},
		"a Delivery beside it": {
			inTheWay(func(d *v1alpha1.Delivery) { d.Spec.Destination.PersistentVolumeClaim.Path = "/bookshop" }), "", "",
		},
		"a Delivery that has ended": {inTheWay(func(d *v1alpha1.Delivery) { d.Status.Phase = v1alpha1.DeliveryComplete }),
			"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := localTransfer("")
			test.change(transfer, &facts)
			decision := plan.DecideTransfer(transfer, facts, image)
			kind, reason, message := verdict(t, decision.Status.Conditions)
			if test.reason == "" {
				if decision.Start == nil && decision.Deliver == nil {
					t.Fatalf("%s %s: %s", kind, reason, message)
				}
				return
			}
			if decision.Start != nil || decision.Deliver != nil || kind != "Stalled" || reason != test.reason ||
				!strings.Contains(message, test.says) {
				t.Errorf("%s %s: %s", kind, reason, message)
			}
		})
	}
}

// reached is a volume that one node can reach.
func reached(node string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
	}}}}
}

func TestRoute(t *testing.T) {
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	for name, test := range map[string]struct {
		namespace           string
		source, destination *corev1.NodeSelector
		want                v1alpha1.Route
	}{
		"one namespace":       {"", nil, nil, v1alpha1.RoutePod},
		"named":               {"bank", nil, nil, v1alpha1.RoutePod},
		"another namespace":   {"vault", nil, nil, v1alpha1.RouteDirect},
		"volumes of one node": {"", reached("a"), reached("a"), v1alpha1.RoutePod},
		"one of them":         {"", nil, reached("b"), v1alpha1.RoutePod},
		"of two nodes":        {"", reached("a"), reached("b"), v1alpha1.RouteDirect},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := localTransfer(test.namespace)
			facts.Placement.Nodes, facts.Placement.Volume, facts.Local.Volume = nodes, test.source, test.destination
			decision := plan.DecideTransfer(transfer, facts, image)
			if got := decision.Status.Run.Route; got != test.want ||
				(decision.Deliver != nil) != (test.want == v1alpha1.RouteDirect) {
				t.Errorf("%s, %+v", got, decision.Deliver)
			}
		})
	}
}

func TestDirectAttempt(t *testing.T) {
	transfer, facts, decision := begun(t, "vault")
	delivery := decision.Deliver
	if delivery == nil || decision.Start != nil || delivery.Namespace != "vault" || delivery.Spec.Peer != "" ||
		delivery.Labels[plan.PeerLabel] != "" ||
		delivery.Spec.Transfer != (v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "abcde", Attempt: 1}) ||
		delivery.Spec.Destination.PersistentVolumeClaim.Path != "/books" ||
		delivery.Spec.Privilege != v1alpha1.AgentPrivilegeNone {
		t.Fatalf("%+v", decision)
	}
	next := func(change func(*v1alpha1.Delivery)) plan.TransferDecision {
		seen := delivery.DeepCopy()
		change(seen)
		facts.Local.Deliveries = []v1alpha1.Delivery{*seen}
		return plan.DecideTransfer(transfer, facts, image)
	}
	waits := next(func(d *v1alpha1.Delivery) {
		d.Status.Conditions = conditions.Reconciling(v1alpha1.ReasonUnschedulable, "no node has free resources")
	})
	if _, reason, message := verdict(t, waits.Status.Conditions); waits.Start != nil || waits.Deliver != nil ||
		reason != v1alpha1.ReasonOpening ||
		!strings.Contains(message, "no node has free resources") || waits.RequeueAfter == 0 {
		t.Errorf("%s %s %+v", reason, message, waits)
	}
	starts := next(func(d *v1alpha1.Delivery) { d.Status.Endpoint, d.Status.ServerName = "10.0.0.7:8443", "name" })
	if starts.Start == nil {
		t.Fatalf("%+v", starts.Status.Conditions)
	}
	text, err := starts.Start.Config()
	if err != nil {
		t.Fatal(err)
	}
	config := &wirev1.SendConfig{}
	if err := protojson.Unmarshal(text, config); err != nil {
		t.Fatal(err)
	}
	if config.GetReceiverEndpoint() != "10.0.0.7:8443" || config.GetReceiverServerName() != "name" ||
		config.GetGatewayEndpoint() != "" {
		t.Errorf("%s", text)
	}
	failed := next(func(d *v1alpha1.Delivery) {
		d.Status.Phase = v1alpha1.DeliveryFailed
		d.Status.Conditions = conditions.Stalled(v1alpha1.ReasonDestinationInUse, "another writes there")
	})
	if kind, reason, message := verdict(t, failed.Status.Conditions); kind != "Stalled" ||
		reason != v1alpha1.ReasonDestinationInUse || message != "another writes there" ||
		failed.Start != nil || failed.Status.Run.NextAttemptTime == nil || len(failed.Status.History) != 1 {
		t.Errorf("%s %s %s %+v", kind, reason, message, failed.Status)
	}
	deleted := next(func(d *v1alpha1.Delivery) { d.DeletionTimestamp = ptr.To(metav1.NewTime(now)) })
	if deleted.Start != nil || deleted.Status.Phase != v1alpha1.TransferRetrying ||
		deleted.Status.History[0].Reason != v1alpha1.ReasonAborted {
		t.Errorf("%+v", deleted.Status)
	}
}

// The next attempt waits until nothing of an earlier one may write, and takes its Delivery away.
func TestOneWriterAtATime(t *testing.T) {
	transfer, facts, first := begun(t, "vault")
	transfer.Status.Run.NextAttemptTime = ptr.To(metav1.NewTime(now))
	old := first.Deliver.DeepCopy()
	old.Status.Phase = v1alpha1.DeliveryReceiving
	facts.Local.Deliveries = []v1alpha1.Delivery{*old}
	decision := plan.DecideTransfer(transfer, facts, image)
	if len(decision.Withdraw) != 1 || decision.Deliver != nil || decision.Start != nil || !decision.Retire ||
		decision.RequeueAfter == 0 {
		t.Errorf("%+v", decision)
	}
	transfer.Status = decision.Status
	old.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	facts.Local.Deliveries = []v1alpha1.Delivery{*old}
	if decision = plan.DecideTransfer(transfer, facts, image); len(decision.Withdraw) != 0 || decision.Deliver != nil {
		t.Errorf("%+v", decision)
	}
	facts.Local.Deliveries = nil
	if decision = plan.DecideTransfer(transfer, facts, image); decision.Deliver == nil ||
		decision.Deliver.Spec.Transfer.Attempt != 2 {
		t.Errorf("%+v", decision)
	}

	transfer, facts, _ = begun(t, "")
	transfer.Status.Run.NextAttemptTime = ptr.To(metav1.NewTime(now))
	facts.Local.Writers = []string{"ledger-abcde-1"}
	decision = plan.DecideTransfer(transfer, facts, image)
	if _, _, message := verdict(t, decision.Status.Conditions); decision.Start != nil || !decision.Retire ||
		!strings.Contains(message, `"ledger-abcde-1"`) {
		t.Errorf("%s", message)
	}
	transfer.Status = decision.Status
	facts.Local.Writers = nil
	if decision = plan.DecideTransfer(transfer, facts, image); decision.Start == nil ||
		decision.Start.Name() != "ledger-abcde-2" {
		t.Errorf("%+v", decision)
	}
}

func TestTakenApart(t *testing.T) {
	unschedulable := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "volume node affinity conflict",
	}
	unmounted := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}
	pulling := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	for name, test := range map[string]struct {
		condition corev1.PodCondition
		waited    time.Duration
		apart     bool
	}{
		"no node has both": {unschedulable, time.Minute, true},
		"not for long yet": {unschedulable, 59 * time.Second, false},
		"not mounted":      {unmounted, time.Minute, true},
		"pulling an image": {pulling, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts, first := begun(t, "")
			facts.Job = &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Name: first.Start.Name(), CreationTimestamp: metav1.NewTime(now)},
			}
			facts.Pod = pod(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})
			facts.Pod.Status.Phase, facts.Pod.Status.Conditions = corev1.PodPending, []corev1.PodCondition{test.condition}
			facts.Now = now.Add(test.waited)
			decision := plan.DecideTransfer(transfer, facts, image)
			run := decision.Status.Run
			if !test.apart {
				if run.Route != v1alpha1.RoutePod || run.NextAttemptTime != nil {
					t.Errorf("%+v", run)
				}
				return
			}
			if run.Route != v1alpha1.RouteDirect || run.NextAttemptTime == nil || run.Failures != 0 ||
				len(decision.Status.History) != 1 || decision.Finished == nil {
				t.Fatalf("%+v %+v", run, decision.Status.History)
			}
			transfer.Status = decision.Status
			facts.Now, facts.Job, facts.Pod = run.NextAttemptTime.Time, nil, nil
			if decision = plan.DecideTransfer(transfer, facts, image); decision.Deliver == nil ||
				decision.Deliver.Spec.Transfer.Attempt != 2 {
				t.Errorf("%+v", decision)
			}
		})
	}
}

func TestDeliveryWithinTheCluster(t *testing.T) {
	_, _, first := begun(t, "vault")
	facts := goodDeliveryFacts()
	facts.Peer = nil
	if decision := plan.DecideDelivery(first.Deliver, facts, image); decision.Start == nil ||
		decision.Status.Peer != v1alpha1.ThisCluster {
		t.Errorf("%+v", decision)
	}
	// A Transfer within the namespace has no Delivery and writes all the same.
	transfer, _, _ := begun(t, "")
	transfer.Namespace = "vault"
	facts.Transfers = []v1alpha1.Transfer{*transfer}
	decision := plan.DecideDelivery(first.Deliver, facts, image)
	if _, reason, _ := verdict(t, decision.Status.Conditions); decision.Start != nil ||
		reason != v1alpha1.ReasonDestinationInUse || !strings.Contains(decision.Detail, `Transfer "ledger"`) {
		t.Errorf("%s %+v", reason, decision)
	}
	transfer.Status.Run.CompletionTime = ptr.To(metav1.NewTime(now))
	facts.Transfers = []v1alpha1.Transfer{*transfer}
	if decision := plan.DecideDelivery(first.Deliver, facts, image); decision.Start == nil {
		t.Errorf("%+v", decision.Status.Conditions)
	}
}
