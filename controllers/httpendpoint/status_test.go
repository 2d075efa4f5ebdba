// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/httpendpoint"
)

// TestConditions says for each situation which of Ready, Reconciling and Stalled is True, with which reason and what
// words.
func TestConditions(t *testing.T) {
	certificate := func(state wirev1.CertificateState, notAfter time.Time) func(*httpendpoint.Facts) {
		return func(f *httpendpoint.Facts) {
			f.Replicas[1].Report.Certificate = &wirev1.HTTPCertificate{State: state, Message: "no PEM in tls.crt"}
			if !notAfter.IsZero() {
				f.Replicas[1].Report.Certificate.NotAfter = timestamppb.New(notAfter)
			}
		}
	}
	waiting := func(age time.Duration) func(*httpendpoint.Facts) {
		return func(f *httpendpoint.Facts) {
			f.Deployment.Status.ReadyReplicas = 1
			f.Replicas[0].Report = nil
			f.Replicas[0].Pod.CreationTimestamp = metav1.NewTime(now.Add(-age))
			f.Replicas[0].Pod.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"},
			}}
		}
	}
	later := now.Add(time.Hour)
	for name, c := range map[string]struct {
		change          func(*httpendpoint.Facts)
		condition, want string
		reason          string
	}{
		"well": {
			func(*httpendpoint.Facts) {}, v1alpha1.ConditionReady,
			`2 replicas serve api.bank.svc:8080 at Service "front", port 443`, v1alpha1.ReasonServing,
		},
		"nothing": {
			func(f *httpendpoint.Facts) { f.Deployment = nil }, v1alpha1.ConditionReconciling, "Nothing is running yet",
			v1alpha1.ReasonPending,
		},
		"no backend": {
			func(f *httpendpoint.Facts) { f.Backend = nil }, v1alpha1.ConditionStalled,
			`there is no Service "api" in namespace "bank"`, v1alpha1.ReasonBackendNotFound,
		},
		"no such port": {func(f *httpendpoint.Facts) { f.Backend.Spec.Ports[1].Port = 9090 }, v1alpha1.ConditionStalled,
			`Service "api" has no port 8080, so requests get 503; it has 80, 9090`, v1alpha1.ReasonBackendNotFound},
		"refused": {func(f *httpendpoint.Facts) {
			f.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonRefused, Message: "exceeded quota"}
		}, v1alpha1.ConditionStalled, "exceeded quota; meanwhile 2 replicas serve what the spec said before",
			v1alpha1.ReasonRefused},
		"no certificate": {certificate(
			wirev1.CertificateState_CERTIFICATE_STATE_MISSING, time.Time{},
		), v1alpha1.ConditionStalled,
			`Secret "api-tls" in namespace "bank" does not exist or lacks tls.crt or tls.key`,
			v1alpha1.ReasonCertificateNotFound},
		"broken certificate, none before": {certificate(
			wirev1.CertificateState_CERTIFICATE_STATE_INVALID, time.Time{},
		), v1alpha1.ConditionStalled,
			"no PEM in tls.crt; correct tls.crt and tls.key; no client is served until then", v1alpha1.ReasonCertificateInvalid},
		"broken certificate, good one before": {certificate(
			wirev1.CertificateState_CERTIFICATE_STATE_INVALID, later,
		), v1alpha1.ConditionStalled,
			"serve it until then, at most until 2026-03-04T06:06:07Z", v1alpha1.ReasonCertificateInvalid},
		"expired certificate": {certificate(wirev1.CertificateState_CERTIFICATE_STATE_LOADED, now), v1alpha1.ConditionStalled,
			"expired on 2026-03-04T05:06:07Z", v1alpha1.ReasonCertificateExpired},
		"configuration not understood": {func(f *httpendpoint.Facts) {
			f.Replicas[0].Report.Revision, f.Replicas[0].Report.ConfigError = "old", "unknown coding"
		}, v1alpha1.ConditionStalled, "replica front-2 does not accept what the spec says and goes on with what it said " +
			"before: unknown coding", v1alpha1.ReasonInvalidSpec},
		"starting": {
			waiting(10 * time.Second), v1alpha1.ConditionReconciling, "1 of 2 replicas are ready; front-2: ",
			v1alpha1.ReasonRollingOut,
		},
		"starting for long": {
			waiting(2 * time.Minute), v1alpha1.ConditionStalled, "0/3 nodes are available", v1alpha1.ReasonUnschedulable,
		},
		"rolling out": {
			func(f *httpendpoint.Facts) { f.Deployment.Status.UpdatedReplicas = 1 }, v1alpha1.ConditionReconciling,
			"1 run the present pod template", v1alpha1.ReasonRollingOut,
		},
		"one replica too many": {
			func(f *httpendpoint.Facts) { f.Deployment.Status.Replicas = 3 }, v1alpha1.ConditionReconciling,
			"2 of 2 replicas are ready", v1alpha1.ReasonRollingOut,
		},
		"Deployment not seen yet": {
			func(f *httpendpoint.Facts) { f.Deployment.Generation = 1 }, v1alpha1.ConditionReconciling,
			"2 of 2 replicas are ready", v1alpha1.ReasonRollingOut,
		},
		"no pod may be made": {func(f *httpendpoint.Facts) {
			f.Deployment.Status.ReadyReplicas = 0
			f.Deployment.Status.Conditions = []appsv1.DeploymentCondition{
				{
					Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "pods are forbidden: exceeded quota",
				},
			}
		}, v1alpha1.ConditionStalled, "exceeded quota", v1alpha1.ReasonAgentNotStarted},
		"agent says what it waits for": {func(f *httpendpoint.Facts) {
			f.Deployment.Status.ReadyReplicas = 1
			f.Replicas[0].Report.State, f.Replicas[0].Report.Detail = wirev1.HTTPState_HTTP_STATE_STARTING,
				"measuring the engines"
		}, v1alpha1.ConditionReconciling, "front-2: measuring the engines", v1alpha1.ReasonRollingOut},
		"silent": {func(f *httpendpoint.Facts) {
			f.Replicas[0].Report = nil
		}, v1alpha1.ConditionReconciling, "1 of them do not answer the manager (front-2)",
			v1alpha1.ReasonAgentUnreachable},
		"old configuration": {func(f *httpendpoint.Facts) {
			f.Replicas[1].Report.Revision = "old"
		}, v1alpha1.ConditionReconciling,
			"1 of 2 replicas have not taken the present spec yet (front-1)", v1alpha1.ReasonRollingOut},
		"ill backend": {func(f *httpendpoint.Facts) {
			f.Replicas[1].Report.BackendFailure = wirev1.BackendFailure_BACKEND_FAILURE_REFUSED
		}, v1alpha1.ConditionReconciling,
			"1 of 2 replicas answer 503 because backend api.bank.svc:8080 fails its health check: nothing listens at its port",
			v1alpha1.ReasonBackendUnhealthy},
		"backend that must not be dialled": {func(f *httpendpoint.Facts) {
			f.NotAllowed = &agentpod.Problem{Reason: v1alpha1.ReasonAddressNotAllowed, Message: "it is elsewhere"}
		}, v1alpha1.ConditionStalled, "it is elsewhere; until then requests get 503", v1alpha1.ReasonAddressNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := newEndpoint(nil)
			wanted := want(t, endpoint)
			facts := well(wanted)
			c.change(&facts)
			status := httpendpoint.Observe(endpoint, &wanted, facts)
			if err := controllertest.Expect(status.Conditions, c.condition, c.reason); err != nil {
				t.Fatal(err)
			}
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			if !strings.Contains(ready.Message, c.want) {
				t.Errorf("want a message with %q, got %q", c.want, ready.Message)
			}
			if ready.ObservedGeneration != 3 || status.ObservedGeneration != 3 {
				t.Errorf("the status is about generation %d and %d, want 3", ready.ObservedGeneration, status.ObservedGeneration)
			}
		})
	}
}

func TestReplicas(t *testing.T) {
	endpoint := newEndpoint(nil)
	wanted := want(t, endpoint)
	facts := well(wanted)
	facts.Replicas[0].Report.Compression = &wirev1.Compression{Engine: "dfltcc"}
	facts.Replicas = append(
		facts.Replicas, httpendpoint.Replica{Pod: pod(3), Asked: true}, httpendpoint.Replica{Pod: pod(4)},
	)
	status := httpendpoint.Observe(endpoint, &wanted, facts)
	if status.Ready != "2/2" || status.Backend != "api.bank.svc:8080" || status.CertificateExpirationTime == nil {
		t.Errorf("unexpected status: %+v", status)
	}
	expected := []v1alpha1.HTTPReplica{
		{Name: "front-1", Node: "z15-1", Architecture: "s390x", State: "Serving", Current: true},
		{Name: "front-2", Node: "z15-2", Architecture: "s390x", Engine: "dfltcc", State: "Serving", Current: true},
		{Name: "front-3", Node: "z15-3", State: "Unreachable"},
		{Name: "front-4", Node: "z15-4", State: "Starting"},
	}
	for i, replica := range status.Replicas {
		if replica != expected[i] {
			t.Errorf("replica %d is %+v, want %+v", i, replica, expected[i])
		}
	}
}

// TestUnusableSpec: what runs goes on, is shown, and is not called what the spec says.
func TestUnusableSpec(t *testing.T) {
	endpoint := newEndpoint(nil)
	wanted := want(t, endpoint)
	facts := well(wanted)
	facts.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonPolicyNotFound, Message: "no such policy"}
	status := httpendpoint.Observe(endpoint, nil, facts)
	if err := controllertest.Expect(
		status.Conditions, v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound,
	); err != nil {
		t.Error(err)
	}
	if len(status.Replicas) != 2 || status.Replicas[0].Current || status.Statistics == nil {
		t.Errorf("unexpected status: %+v", status)
	}
}
