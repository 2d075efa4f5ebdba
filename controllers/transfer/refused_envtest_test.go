// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

func TestRefusedByTheAPIServer(t *testing.T) {
	f := prepare(t)
	f.transfer.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{Resources: &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}}
	f.create()
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionStalled, v1alpha1.ReasonAgentNotStarted)
	message := meta.FindStatusCondition(f.transfer.Status.Conditions, v1alpha1.ConditionReady).Message
	for _, part := range []string{"spec.podTemplate", "memory limit of 512Mi"} {
		if !strings.Contains(message, part) {
			t.Errorf("%q is not in %q", part, message)
		}
	}
	name := attempt.Name(f.transfer.Name, f.transfer.Status.Run.ID, 1)
	controllertest.Eventually(t, func() error { // while a start is tried there is one
		if f.secretExists(name) {
			return errors.New("the key of an agent that does not exist is left behind")
		}
		return nil
	})
	// It is not tried again at once, and when it is the status does not flicker.
	version, run := f.transfer.ResourceVersion, f.transfer.Status.Run.ID
	time.Sleep(4 * time.Second)
	if err := f.refresh(); err != nil {
		t.Fatal(err)
	}
	if f.transfer.ResourceVersion != version {
		t.Errorf("version %s became %s: %+v", version, f.transfer.ResourceVersion, f.transfer.Status.Conditions)
	}
	f.change(func(transfer *v1alpha1.Transfer) { transfer.Spec.PodTemplate.Resources = nil })
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	if f.transfer.Status.Run.ID == run || f.transfer.Status.Run.Attempt != 1 {
		t.Errorf("%+v", f.transfer.Status.Run)
	}
	f.job(1)
}

// TestRefusedUntilTheQuotaAllowsIt: nothing of the Transfer changes, so only its own patience takes it on.
func TestRefusedUntilTheQuotaAllowsIt(t *testing.T) {
	f := prepare(t)
	quota := cluster.NoJobs(t, f.namespace)
	f.create()
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionStalled, v1alpha1.ReasonAgentNotStarted)
	if err := cluster.Client.Delete(context.Background(), quota); err != nil {
		t.Fatal(err)
	}
	f.job(1)
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	if f.transfer.Status.Run.Attempt != 1 || f.transfer.Status.Run.Failures != 0 {
		t.Errorf("the refusals were counted: %+v", f.transfer.Status.Run)
	}
}

// TestWebhookThatFails: status says what keeps the agent from being made, and the attempt goes on by itself and costs
// nothing.
func TestWebhookThatFails(t *testing.T) {
	f := prepare(t)
	end := cluster.FailingWebhook(t, "batch", "jobs", controllertest.AnyJob(f.namespace))
	f.create()
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonRefused)
	// Status does not flicker when it is tried again.
	version := f.transfer.ResourceVersion
	time.Sleep(3 * time.Second)
	if err := f.refresh(); err != nil {
		t.Fatal(err)
	}
	if f.transfer.ResourceVersion != version {
		t.Errorf("version %s became %s: %+v", version, f.transfer.ResourceVersion, f.transfer.Status.Conditions)
	}
	end()
	f.job(1)
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	if f.transfer.Status.Run.Attempt != 1 || f.transfer.Status.Run.Failures != 0 {
		t.Errorf("what the webhook did was counted: %+v", f.transfer.Status.Run)
	}
}

func TestQuotaOfSecrets(t *testing.T) {
	f := prepare(t)
	cluster.NoneOf(t, "count/secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "any"}})
	f.create()
	f.wait(v1alpha1.TransferStarting, v1alpha1.ConditionStalled, v1alpha1.ReasonAgentNotStarted)
}
