// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package argocd_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt/attempttest"
	"github.com/lighterage/lighterage/controllers/httpendpoint"
	"github.com/lighterage/lighterage/controllers/queue"
)

func running() *corev1.Pod {
	return attempttest.Pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
}

// loaded is a certificate that an agent serves with.
func loaded() *wirev1.HTTPCertificate {
	return &wirev1.HTTPCertificate{
		State: wirev1.CertificateState_CERTIFICATE_STATE_LOADED, NotAfter: timestamppb.New(now.Add(24 * time.Hour)),
	}
}

func endpoints(t *testing.T) []sample {
	fresh := func() *v1alpha1.HTTPEndpoint {
		return &v1alpha1.HTTPEndpoint{ObjectMeta: named("front"), Spec: v1alpha1.HTTPEndpointSpec{
			Backend:  v1alpha1.HTTPBackend{Service: &v1alpha1.HTTPService{Name: "api", Port: 8080}},
			Replicas: ptr.To[int32](1),
		}}
	}
	wanted, problem := httpendpoint.Want(fresh(), nil, nil, false, time.Now())
	if problem != nil {
		t.Fatal(problem.Message)
	}
	well := func() httpendpoint.Facts {
		return httpendpoint.Facts{
			Now:     now,
			Backend: &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8080}}}},
			Deployment: &appsv1.Deployment{
				Spec:   appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)},
				Status: appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1},
			},
			Replicas: []httpendpoint.Replica{{Pod: running(), Asked: true, Report: &wirev1.HTTPReport{
				State: wirev1.HTTPState_HTTP_STATE_SERVING, Revision: wanted.Config.GetRevision(), Certificate: loaded(),
				Statistics: &wirev1.HTTPStatistics{Since: timestamppb.New(now)},
			}}},
			RefreshStatistics: true,
		}
	}
	observed := func(wanted *httpendpoint.Wanted, facts httpendpoint.Facts) *v1alpha1.HTTPEndpoint {
		endpoint := fresh()
		endpoint.Status = httpendpoint.Observe(endpoint, wanted, facts)
		return endpoint
	}
	orphan := well()
	orphan.Backend = nil
	return []sample{
		{"pending", observed(nil, httpendpoint.Facts{Now: now}), "Progressing"},
		{"serving", observed(&wanted, well()), "Healthy"},
		{"no backend", observed(&wanted, orphan), "Degraded"},
	}
}

func queues(t *testing.T) []sample {
	fresh := func() *v1alpha1.Queue {
		return &v1alpha1.Queue{ObjectMeta: named("orders"), Spec: v1alpha1.QueueSpec{
			Storage:        v1alpha1.QueueStorage{Type: v1alpha1.QueueStorageFile, Size: resource.MustParse("1Gi")},
			Replicas:       1,
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "orders-tokens"}},
		}}
	}
	wanted, problem := queue.Want(fresh(), nil, nil, queue.Neighbours{}, false, time.Now())
	if problem != nil {
		t.Fatal(problem.Message)
	}
	well := func() queue.Facts {
		member := wanted.Config.GetMembers()[0].GetName()
		pod := running()
		pod.Name = member
		return queue.Facts{
			Now: now,
			Set: &appsv1.StatefulSet{
				Spec:   appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1)},
				Status: appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1},
			},
			Members: []queue.Member{{Pod: pod, Asked: true, Report: &wirev1.QueueReport{
				State: wirev1.QueueState_QUEUE_STATE_SERVING, Revision: wanted.Config.GetRevision(), Member: member,
				Certificate: loaded(), Content: &wirev1.QueueContent{Leader: member},
				Statistics: &wirev1.QueueStatistics{Since: timestamppb.New(now)},
			}}},
			RefreshStatistics: true,
		}
	}
	observed := func(wanted *queue.Wanted, facts queue.Facts) *v1alpha1.Queue {
		q := fresh()
		q.Status = queue.Observe(q, wanted, facts)
		return q
	}
	return []sample{
		{"pending", observed(nil, queue.Facts{Now: now}), "Progressing"},
		{"serving", observed(&wanted, well()), "Healthy"},
		{"unusable", observed(nil, queue.Facts{Now: now, Problem: &agentpod.Problem{
			Reason: v1alpha1.ReasonPolicyNotFound, Message: "no policy",
		}}), "Degraded"},
	}
}
