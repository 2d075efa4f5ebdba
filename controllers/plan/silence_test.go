// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/plan"
)

// silences: one question that is missed is none.
var silences = map[string]bool{"one question missed": false, "silent": true}

func moving() *wirev1.Report {
	return &wirev1.Report{
		State:    wirev1.AgentState_AGENT_STATE_TRANSFERRING,
		Progress: &wirev1.Progress{Bytes: 100, BytesTotal: 1000, Scanned: true},
	}
}

func checkSilence(t *testing.T, told bool, progress *v1alpha1.Progress, conditionType, reason, message string) {
	t.Helper()
	if conditionType != "Reconciling" || reason != "Transferring" || progress.Bytes != 100 {
		t.Fatalf("%s %s %+v", conditionType, reason, progress)
	}
	if strings.Contains(message, "does not answer") != told || (progress.BytesPerSecond == 0) != told ||
		(progress.ETA == nil) != told {
		t.Errorf("%q %+v", message, progress)
	}
}

var samples = agentreport.Samples{{Time: now, Bytes: 0}, {Time: now.Add(time.Second), Bytes: 100}}

func TestSilentSender(t *testing.T) {
	for name, told := range silences {
		t.Run(name, func(t *testing.T) {
			transfer, facts := running(1)
			facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			facts.Report, facts.Samples = moving(), samples
			transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
			facts.Report, facts.Samples, facts.Silent = nil, nil, told
			decision := plan.DecideTransfer(transfer, facts, image)
			conditionType, reason, message := verdict(t, decision.Status.Conditions)
			checkSilence(t, told, decision.Status.Progress, conditionType, reason, message)
			if transfer.Status.Progress.BytesPerSecond == 0 {
				t.Errorf("%+v", transfer.Status.Progress)
			}
			// It answers again.
			transfer.Status = decision.Status
			facts.Report, facts.Silent = moving(), false
			if _, _, message := verdict(
				t, plan.DecideTransfer(transfer, facts, image).Status.Conditions,
			); strings.Contains(message, "does not answer") {
				t.Error(message)
			}
		})
	}
}

func TestSilentReceiver(t *testing.T) {
	for name, told := range silences {
		t.Run(name, func(t *testing.T) {
			delivery, facts := newDelivery("mine", 1), goodDeliveryFacts()
			delivery.Status = plan.DecideDelivery(delivery, facts, image).Status
			facts.Job, facts.Pod = &batchv1.Job{}, pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			facts.Report, facts.Samples = moving(), samples
			delivery.Status = plan.DecideDelivery(delivery, facts, image).Status
			facts.Report, facts.Samples, facts.Silent = nil, nil, told
			status := plan.DecideDelivery(delivery, facts, image).Status
			conditionType, reason, message := verdict(t, status.Conditions)
			checkSilence(t, told, status.Progress, conditionType, reason, message)
		})
	}
}

// TestPlaceInUseNamesNobody: the gateway passes the conditions' message on to the sender.
func TestPlaceInUseNamesNobody(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Delivery){
		"in use":      func(*v1alpha1.Delivery) {},
		"being ended": func(d *v1alpha1.Delivery) { d.DeletionTimestamp = &d.CreationTimestamp },
	} {
		t.Run(name, func(t *testing.T) {
			facts := goodDeliveryFacts()
			other := newDelivery("secret-name", 1)
			other.Name = "secret-name"
			other.Spec.Peer, other.Spec.Transfer.Name, other.Status.Run = "secret-peer", "other", &v1alpha1.RunStatus{}
			change(other)
			facts.Others = []v1alpha1.Delivery{*other}
			decision := plan.DecideDelivery(newDelivery("mine", 1), facts, image)
			_, _, message := verdict(t, decision.Status.Conditions)
			if strings.Contains(message, "secret") ||
				strings.Contains(message, other.Spec.Destination.PersistentVolumeClaim.Path) {
				t.Error(message)
			}
			if name == "in use" && !(strings.Contains(decision.Detail, "secret-name") &&
				strings.Contains(decision.Detail, "secret-peer")) {
				t.Errorf("the event would say %q", decision.Detail)
			}
		})
	}
}
