// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/httpendpoint"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// newEndpoint is served with TLS by two replicas.
func newEndpoint(change func(*v1alpha1.HTTPEndpointSpec)) *v1alpha1.HTTPEndpoint {
	endpoint := &v1alpha1.HTTPEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "front", UID: "uid-1", Generation: 3},
		Spec: v1alpha1.HTTPEndpointSpec{
			Backend:  v1alpha1.HTTPBackend{Service: &v1alpha1.HTTPService{Name: "api", Port: 8080}},
			Listener: v1alpha1.HTTPListener{TLS: &v1alpha1.HTTPListenerTLS{SecretName: "api-tls"}},
		},
	}
	if change != nil {
		change(&endpoint.Spec)
	}
	return endpoint
}

func want(t *testing.T, endpoint *v1alpha1.HTTPEndpoint, policies ...v1alpha1.CompressionPolicy) httpendpoint.Wanted {
	t.Helper()
	wanted, problem := httpendpoint.Want(endpoint, policies, nil, false, now)
	if problem != nil {
		t.Fatal(problem.Message)
	}
	return wanted
}

// serving is the report of a replica that serves what is wanted, with the certificate that it should.
func serving(wanted httpendpoint.Wanted) *wirev1.HTTPReport {
	return &wirev1.HTTPReport{
		State: wirev1.HTTPState_HTTP_STATE_SERVING, Architecture: "s390x", Revision: wanted.Config.GetRevision(),
		Certificate: &wirev1.HTTPCertificate{
			State: wirev1.CertificateState_CERTIFICATE_STATE_LOADED, NotAfter: timestamppb.New(now.Add(24 * time.Hour)),
		},
		Statistics: &wirev1.HTTPStatistics{Since: timestamppb.New(now.Add(-time.Hour))},
	}
}

func pod(n int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("front-%d", n), UID: types.UID(fmt.Sprintf("uid-%d", n)),
			CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Minute)),
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("z15-%d", n)},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
}

// well are the facts of an endpoint that has nothing wrong.
func well(wanted httpendpoint.Wanted) httpendpoint.Facts {
	return httpendpoint.Facts{
		Now:     now,
		Backend: &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}, {Port: 8080}}}},
		Deployment: &appsv1.Deployment{
			Spec:   appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
			Status: appsv1.DeploymentStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2},
		},
		Replicas: []httpendpoint.Replica{
			{Pod: pod(2), Asked: true, Report: serving(wanted)}, {Pod: pod(1), Asked: true, Report: serving(wanted)},
		},
		RefreshStatistics: true,
	}
}
