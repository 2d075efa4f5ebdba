// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/queue"
)

var (
	now   = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	image = agentpod.Image{
		Name: "agent:test", PullPolicy: corev1.PullIfNotPresent, Architectures: []string{"amd64", "s390x"},
	}
)

// newQueue admits clients with a token.
func newQueue(change func(*v1alpha1.QueueSpec)) *v1alpha1.Queue {
	q := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "orders", UID: "uid-1", Generation: 3},
		Spec: v1alpha1.QueueSpec{
			Storage:        v1alpha1.QueueStorage{Type: v1alpha1.QueueStorageFile, Size: resource.MustParse("1Gi")},
			Replicas:       1,
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "orders-tokens"}},
		},
	}
	if change != nil {
		change(&q.Spec)
	}
	return q
}

// spilling is what a Queue in memory has that spills to so much of disks.
func spilling(size string) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) {
		s.Storage.Type, s.Storage.Spill = v1alpha1.QueueStorageMemory, &v1alpha1.QueueSpill{Size: resource.MustParse(size)}
	}
}

func want(t *testing.T, q *v1alpha1.Queue, policies ...v1alpha1.CompressionPolicy) queue.Wanted {
	t.Helper()
	wanted, problem := queue.Want(q, policies, nil, queue.Neighbours{}, false, now)
	if problem != nil {
		t.Fatal(problem.Message)
	}
	return wanted
}

// serving is the report of a member that does what is wanted.
func serving(wanted queue.Wanted, member int) *wirev1.QueueReport {
	return &wirev1.QueueReport{
		State: wirev1.QueueState_QUEUE_STATE_SERVING, Architecture: "s390x", Revision: wanted.Config.GetRevision(),
		Member: wanted.Config.GetMembers()[member].GetName(),
		Certificate: &wirev1.HTTPCertificate{
			State: wirev1.CertificateState_CERTIFICATE_STATE_LOADED, NotAfter: timestamppb.New(now.Add(24 * time.Hour)),
		},
		Content:    &wirev1.QueueContent{Leader: wanted.Config.GetMembers()[0].GetName()},
		Statistics: &wirev1.QueueStatistics{Since: timestamppb.New(now.Add(-time.Hour))},
	}
}

func pod(wanted queue.Wanted, member int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: wanted.Config.GetMembers()[member].GetName(), UID: types.UID("uid-" + strconv.Itoa(member)),
			CreationTimestamp: metav1.NewTime(now.Add(-10 * time.Minute)),
		},
		Spec: corev1.PodSpec{NodeName: "z15-" + strconv.Itoa(member)},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
}

// well are the facts of a queue that has nothing wrong.
func well(wanted queue.Wanted) queue.Facts {
	count := int32(len(wanted.Config.GetMembers()))
	facts := queue.Facts{
		Now: now,
		Set: &appsv1.StatefulSet{
			Spec:   appsv1.StatefulSetSpec{Replicas: ptr.To(count)},
			Status: appsv1.StatefulSetStatus{Replicas: count, ReadyReplicas: count, UpdatedReplicas: count},
		},
		RefreshStatistics: true,
	}
	for i := range wanted.Config.GetMembers() {
		facts.Members = append(facts.Members, queue.Member{Pod: pod(wanted, i), Asked: true, Report: serving(wanted, i)})
	}
	return facts
}
