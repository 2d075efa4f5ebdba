// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

const lifetime = 4 * time.Hour

// M1: a run that lasts a day never has less than half of a certificate's life left, and none is issued that is not due.
func TestCertificateIsRenewedWhileTheAgentRuns(t *testing.T) {
	transfer, facts := running(1)
	facts.CertificateLifetime = lifetime
	facts.Pod = runningPod()
	expiry, renewals := facts.Now, 0
	for end := facts.Now.Add(24 * time.Hour); facts.Now.Before(end); {
		decision := plan.DecideTransfer(transfer, facts, image)
		transfer.Status = decision.Status
		if decision.Renew {
			renewals++
			expiry = facts.Now.Add(lifetime)
		}
		if left := expiry.Sub(facts.Now); left <= lifetime/2 {
			t.Fatalf("%s are left and nothing is renewed", left)
		}
		if ends := transfer.Status.Run.CertificateExpirationTime; ends == nil || !ends.Time.Equal(expiry) {
			t.Fatalf("the status says %v, and the certificate ends at %s", ends, expiry)
		}
		if decision.RequeueAfter <= 0 {
			t.Fatal("nobody looks again")
		}
		facts.Now = facts.Now.Add(decision.RequeueAfter)
	}
	if renewals != 12 {
		t.Errorf("%d certificates in 24 hours, want 12", renewals)
	}
}

func runningPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "pod", CreationTimestamp: metav1.NewTime(now)},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{
			{Name: agentpod.ContainerName, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}
}

func TestWhenACertificateIsDue(t *testing.T) {
	for name, c := range map[string]struct {
		ends time.Duration // from now
		due  bool
	}{
		"just issued":                            {lifetime, false},
		"a little more than half is left":        {lifetime/2 + time.Minute, false},
		"half is left":                           {lifetime / 2, true},
		"expired":                                {-time.Hour, true},
		"issued by a clock that was a day ahead": {lifetime + 24*time.Hour, true},
		"issued with a lifetime that was longer": {10 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := running(1)
			facts.CertificateLifetime, facts.Pod = lifetime, runningPod()
			ends := metav1.NewTime(now.Add(c.ends))
			transfer.Status.Run.CertificateExpirationTime = &ends
			if got := plan.DecideTransfer(transfer, facts, image).Renew; got != c.due {
				t.Errorf("the Transfer's is due: %v", got)
			}
			facts.Peer = nil
			if plan.DecideTransfer(transfer, facts, image).Renew {
				t.Error("a certificate for a Peer that is gone is renewed")
			}
			delivery, received := newDelivery("d", 1), goodDeliveryFacts()
			delivery.Status = v1alpha1.DeliveryStatus{
				Phase: v1alpha1.DeliveryReceiving,
				Run:   &v1alpha1.RunStatus{ID: "abcde", Attempt: 1, CertificateExpirationTime: &ends},
			}
			received.CertificateLifetime, received.Job, received.Pod = lifetime, facts.Job, runningPod()
			if got := plan.DecideDelivery(delivery, received, image).Renew; got != c.due {
				t.Errorf("the Delivery's is due: %v", got)
			}
			received.Peer = nil
			if plan.DecideDelivery(delivery, received, image).Renew {
				t.Error("a certificate for a sender whose Peer is gone is renewed")
			}
		})
	}
}

// M1: what a certificate claims is what the agent's configuration asks for.
func TestRunClaims(t *testing.T) {
	transfer, _ := running(1)
	transfer.Spec.Delete = true
	transfer.Spec.Destination.PersistentVolumeClaim.Path = "books//of/"
	claims := plan.RunClaims(transfer)
	claims.Audience = []string{"0000000000000000000000000000000000000000000000000000000000000000"}
	if _, err := claims.URI(); err != nil {
		t.Fatal(err)
	}
	if claims.Run != "abcde" || claims.Namespace != "bank" || claims.Claim != "copy" || claims.Path != "/books/of" ||
		!claims.Delete || claims.Privileged {
		t.Errorf("claims %+v", claims)
	}
}
