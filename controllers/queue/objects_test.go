// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/queue"
)

func statefulSet(t *testing.T, wanted queue.Wanted, present *appsv1.StatefulSet) *appsv1.StatefulSet {
	t.Helper()
	for _, object := range wanted.Objects(present, nil, image) {
		if set, ok := object.(*appsv1.StatefulSet); ok {
			return set
		}
	}
	t.Fatal("there is no StatefulSet")
	return nil
}

// Claims outlive everything but the decision that the Queue may go.
func TestClaimsAreOwnedByNothing(t *testing.T) {
	set := statefulSet(t, want(t, newQueue(nil)), nil)
	if len(set.Spec.VolumeClaimTemplates) != 1 || len(set.Spec.VolumeClaimTemplates[0].OwnerReferences) != 0 {
		t.Errorf("claims %v", set.Spec.VolumeClaimTemplates)
	}
	if policy := set.Spec.PersistentVolumeClaimRetentionPolicy; policy.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
		t.Errorf("when the StatefulSet is deleted, claims are: %s", policy.WhenDeleted)
	}
}

// The API server refuses to change templates of claims.
func TestTemplateOfClaimsStays(t *testing.T) {
	present := statefulSet(t, want(t, newQueue(nil)), nil)
	grown := want(t, newQueue(func(s *v1alpha1.QueueSpec) { s.Storage.Size = resource.MustParse("5Gi") }))
	got := statefulSet(t, grown, present).Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage()
	if !got.Equal(resource.MustParse("1Gi")) {
		t.Errorf("the template asks for %s", got)
	}
}

func TestMemoryNeedsNoClaim(t *testing.T) {
	set := statefulSet(t, want(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.Storage.Type = v1alpha1.QueueStorageMemory
	})), nil)
	if len(set.Spec.VolumeClaimTemplates) != 0 {
		t.Error("there are claims")
	}
	limit := set.Spec.Template.Spec.Containers[0].Resources.Limits.Memory()
	if limit.Cmp(resource.MustParse("1536Mi")) < 0 {
		t.Errorf("%s of memory for 1Gi of messages", limit)
	}
}

// Each member is dialled by the others by a name that its certificate holds, and resolves before it is ready.
func TestMembersFindEachOther(t *testing.T) {
	wanted := want(t, newQueue(func(s *v1alpha1.QueueSpec) { s.Replicas = 3 }))
	set := statefulSet(t, wanted, nil)
	if *set.Spec.Replicas != 3 || set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Errorf("%d members, one after the other: %s", *set.Spec.Replicas, set.Spec.PodManagementPolicy)
	}
	var headless *corev1.Service
	for _, object := range wanted.Objects(nil, nil, image) {
		if service, ok := object.(*corev1.Service); ok && service.Name == set.Spec.ServiceName {
			headless = service
		}
	}
	if headless == nil || headless.Spec.ClusterIP != corev1.ClusterIPNone || !headless.Spec.PublishNotReadyAddresses {
		t.Fatalf("Service of the members: %v", headless)
	}
	for i, member := range wanted.Config.GetMembers() {
		if want := set.Name + "-" + string(rune('0'+i)); member.GetName() != want {
			t.Errorf("member %q in place of %q", member.GetName(), want)
		}
		if host := member.GetName() + "." + headless.Name + ".bank.svc:6222"; member.GetRouteAddress() != host {
			t.Errorf("member at %q in place of %q", member.GetRouteAddress(), host)
		}
	}
}

func TestSecretsOfUsersMayBeMissing(t *testing.T) {
	set := statefulSet(t, want(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.TLS = &v1alpha1.QueueTLS{SecretName: "orders-tls"}
	})), nil)
	found := 0
	for _, volume := range set.Spec.Template.Spec.Volumes {
		if volume.Secret != nil && strings.HasPrefix(volume.Secret.SecretName, "orders-t") {
			found++
			if volume.Secret.Optional == nil || !*volume.Secret.Optional {
				t.Errorf("members wait for Secret %s in place of saying that it is missing", volume.Secret.SecretName)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d of two Secrets are mounted", found)
	}
}
