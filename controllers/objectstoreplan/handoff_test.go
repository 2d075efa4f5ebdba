// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstoreplan_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/objectstoreplan"
)

var gatewayService = &corev1.Service{
	ObjectMeta: metav1.ObjectMeta{Namespace: "lighterage-system", Name: objectstoreplan.GatewayService},
	Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Name: "gateway", Port: 443, TargetPort: intstr.FromString("gateway")},
	}},
}

// receiving is a store that is Ready and is to receive, and the facts a short while after its probe.
func receiving(t *testing.T) (*v1alpha1.ObjectStore, objectstoreplan.Facts) {
	t.Helper()
	store := newStore()
	store.Spec.HandOff = v1alpha1.StoreHandOffReceive
	facts := storeFacts()
	facts.Gateway = gatewayService
	store.Status = objectstoreplan.Decide(store, facts, agentpod.Image{}).Status
	ended := probeEnded(t, found())
	ended.Gateway = gatewayService
	store.Status = objectstoreplan.Decide(store, ended, agentpod.Image{}).Status
	return store, facts
}

func handOffReason(status v1alpha1.ObjectStoreStatus) (ready bool, reason string) {
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHandOffReady)
	if condition == nil {
		return false, ""
	}
	return condition.Status == metav1.ConditionTrue, condition.Reason
}

func TestRelayStarts(t *testing.T) {
	store := newStore()
	store.Spec.HandOff = v1alpha1.StoreHandOffReceive
	facts := storeFacts()
	facts.Gateway = gatewayService
	d := objectstoreplan.Decide(store, facts, agentpod.Image{})
	if _, reason := handOffReason(d.Status); d.Relay != nil || reason != v1alpha1.ReasonStoreNotReady {
		t.Errorf("before the store is Ready: %s, %+v", reason, d)
	}
	// One NetworkPolicy is for both agents.
	if stores := d.Start.Traffic().Stores; len(stores) != 2 {
		t.Errorf("the probe's policy is for %+v", stores)
	}

	store, facts = receiving(t)
	d = objectstoreplan.Decide(store, facts, agentpod.Image{Name: "agent"})
	if _, reason := handOffReason(d.Status); d.Relay == nil || reason != v1alpha1.ReasonStarting {
		t.Fatalf("%s, %+v", reason, d)
	}
	name := d.Relay.Name()
	if !slices.Equal(d.Keep, []string{name}) ||
		name != objectstoreplan.RelayName(store, gatewayService, agentpod.Image{Name: "agent"}) {
		t.Errorf("%s; kept %v", name, d.Keep)
	}
	pod := d.Relay.Job().Spec.Template.Spec
	if pod.Containers[0].Args[0] != "relay" || len(pod.Volumes) != 2 || len(pod.Volumes[1].Secret.Items) != 3 {
		t.Errorf("%+v", pod)
	}
	b, err := d.Relay.Config()
	if err != nil {
		t.Fatal(err)
	}
	var config wirev1.RelayConfig
	if err := protojson.Unmarshal(b, &config); err != nil {
		t.Fatal(err)
	}
	if config.GetGatewayAddress() != "lighterage-gateway.lighterage-system.svc:443" ||
		config.GetStore().GetStore().GetPrefix() != "east" || config.GetStore().GetDialPolicy() == nil {
		t.Errorf("%s", b)
	}
	for _, other := range []string{
		objectstoreplan.RelayName(store, gatewayService, agentpod.Image{Name: "newer"}),
		objectstoreplan.RelayName(store, nil, agentpod.Image{Name: "agent"}),
	} {
		if other == name {
			t.Error("another image or gateway needs no other relay")
		}
	}
}

// TestRelayRuns: it goes on while the store is probed again, and not with another spec.
func TestRelayRuns(t *testing.T) {
	store, facts := receiving(t)
	image := agentpod.Image{Name: "agent"}
	store.Status = objectstoreplan.Decide(store, facts, image).Status
	name := objectstoreplan.RelayName(store, gatewayService, image)
	facts.RelayJob = &batchv1.Job{}
	facts.RelayPod = storePod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	d := objectstoreplan.Decide(store, facts, image)
	if ready, reason := handOffReason(d.Status); !ready || reason != v1alpha1.ReasonRelaying || d.Relay != nil ||
		!slices.Contains(d.Keep, name) {
		t.Fatalf("%s, %+v", reason, d)
	}
	store.Status = d.Status
	facts.Now, facts.NewID = storeNow.Add(48*time.Hour), "bcdef"
	d = objectstoreplan.Decide(store, facts, image)
	if ready, _ := handOffReason(d.Status); !ready || d.Start == nil || len(d.Keep) != 2 ||
		!slices.Contains(d.Keep, name) {
		t.Errorf("while it is probed again: %+v", d)
	}
	other := store.DeepCopy()
	other.Generation++
	d = objectstoreplan.Decide(other, facts, image)
	if ready, _ := handOffReason(d.Status); ready || slices.Contains(d.Keep, name) {
		t.Errorf("with another spec: %+v", d)
	}
	store.Spec.HandOff = v1alpha1.StoreHandOffNone
	d = objectstoreplan.Decide(store, facts, image)
	if _, reason := handOffReason(d.Status); reason != "" || slices.Contains(d.Keep, name) || d.Relay != nil {
		t.Errorf("when it is to receive no more: %s, %+v", reason, d)
	}
}

// TestRelayEnds: why is said, and it starts again after a pause.
func TestRelayEnds(t *testing.T) {
	store, facts := receiving(t)
	store.Status = objectstoreplan.Decide(store, facts, agentpod.Image{}).Status
	message, err := protojson.Marshal(storeFailure(wirev1.FailureReason_FAILURE_REASON_STORE_DENIED))
	if err != nil {
		t.Fatal(err)
	}
	facts.RelayJob = &batchv1.Job{}
	facts.RelayPod = storePod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Message: string(message), FinishedAt: metav1.NewTime(storeNow),
	}})
	d := objectstoreplan.Decide(store, facts, agentpod.Image{})
	if ready, reason := handOffReason(d.Status); ready || reason != v1alpha1.ReasonStoreDenied || len(d.Keep) != 1 ||
		d.RequeueAfter > time.Minute {
		t.Errorf("%s, %+v", reason, d)
	}
	store.Status, facts.Now = d.Status, storeNow.Add(2*time.Minute)
	d = objectstoreplan.Decide(store, facts, agentpod.Image{})
	if _, reason := handOffReason(d.Status); len(d.Keep) != 0 || d.Relay != nil || reason != v1alpha1.ReasonStoreDenied ||
		d.RelayEnded != reason {
		t.Errorf("after the pause its Job stays: %s, %+v", reason, d)
	}
	facts.RelayJob, facts.RelayPod = nil, nil
	d = objectstoreplan.Decide(store, facts, agentpod.Image{})
	if _, reason := handOffReason(d.Status); d.Relay == nil || reason != v1alpha1.ReasonStoreDenied {
		t.Errorf("it does not start again: %s, %+v", reason, d)
	}
	facts.RelayJob = &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
		Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonPodFailurePolicy,
		Message: "drained", LastTransitionTime: metav1.NewTime(facts.Now),
	}}}}
	if d = objectstoreplan.Decide(store, facts, agentpod.Image{}); len(d.Keep) != 0 {
		t.Errorf("one that was evicted waits: %+v", d)
	}
}

func TestRelayCannotStart(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*objectstoreplan.Facts)
		reason string
	}{
		"no gateway": {func(f *objectstoreplan.Facts) { f.Gateway = nil }, v1alpha1.ReasonGatewayNotFound},
		"another Service": {
			func(f *objectstoreplan.Facts) { f.Gateway = &corev1.Service{} }, v1alpha1.ReasonGatewayNotFound,
		},
		"an address": {func(f *objectstoreplan.Facts) {
			f.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonAddressNotAllowed, Message: "no"}
		}, v1alpha1.ReasonAddressNotAllowed},
		"a pod that waits": {func(f *objectstoreplan.Facts) {
			f.RelayJob = &batchv1.Job{}
			f.RelayPod = storePod(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}})
		}, v1alpha1.ReasonAgentNotStarted},
	} {
		store, facts := receiving(t)
		test.change(&facts)
		d := objectstoreplan.Decide(store, facts, agentpod.Image{})
		if ready, reason := handOffReason(d.Status); ready || d.Relay != nil || reason != test.reason || d.RequeueAfter <= 0 {
			t.Errorf("%s: %s, %+v", name, reason, d)
		}
	}
	store, facts := receiving(t)
	d := objectstoreplan.RefuseRelay(store, agentpod.Problem{Reason: v1alpha1.ReasonAgentNotStarted}, facts.Now)
	if ready, reason := handOffReason(d.Status); ready || reason != v1alpha1.ReasonAgentNotStarted ||
		d.RequeueAfter <= 0 || storeReason(d.Status, v1alpha1.ConditionReady) != v1alpha1.ReasonPromisesKept {
		t.Errorf("%s, %+v", reason, d)
	}
}
