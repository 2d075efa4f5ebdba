// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

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

// TestSpillingMembers: they have a volume on the node's disk that is larger than what their files may take, memory for
// what stays there, and ask for both. Restricted pods may have such volumes.
func TestSpillingMembers(t *testing.T) {
	disk := resource.MustParse("9Gi")
	set := statefulSet(t, want(t, newQueue(spilling("8Gi"))), nil)
	pod := set.Spec.Template.Spec
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
	if i < 0 || pod.Volumes[i].EmptyDir.Medium != corev1.StorageMediumDefault ||
		!pod.Volumes[i].EmptyDir.SizeLimit.Equal(disk) || len(set.Spec.VolumeClaimTemplates) != 0 {
		t.Fatalf("volumes %+v", pod.Volumes)
	}
	asked := pod.Containers[0].Resources
	if limit := asked.Limits[corev1.ResourceMemory]; !asked.Requests.StorageEphemeral().Equal(disk) ||
		!limit.Equal(*asked.Requests.Memory()) || limit.Cmp(resource.MustParse("1536Mi")) < 0 {
		t.Errorf("for 1Gi of memory and 8Gi of disk it asks for %+v", asked)
	}
	plain := statefulSet(t, want(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.Storage.Type = v1alpha1.QueueStorageMemory
	})), nil)
	if asked := plain.Spec.Template.Spec.Containers[0].Resources; !asked.Requests.StorageEphemeral().IsZero() {
		t.Errorf("without spill it asks for %+v", asked)
	}
	// Somebody's own requests count, and are not changed.
	for given, size := range map[string]string{"": "9Gi", "2Gi": "2Gi"} {
		own := &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3Gi")}}
		if given != "" {
			own.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse(given)
		}
		before := own.DeepCopy()
		q := newQueue(spilling("8Gi"))
		q.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{Resources: own}
		asked := statefulSet(t, want(t, q), nil).Spec.Template.Spec.Containers[0].Resources
		if !asked.Requests.StorageEphemeral().Equal(resource.MustParse(size)) ||
			!asked.Requests.Memory().Equal(resource.MustParse("3Gi")) || !equality.Semantic.DeepEqual(own, before) {
			t.Errorf("given %q it asks for %+v", given, asked)
		}
	}
}

// TestGreatestSpill: what is nearly the greatest quantity does not become a limit below 0.
func TestGreatestSpill(t *testing.T) {
	for _, size := range []string{"7Ei", "7400Pi", "8191Pi"} {
		q := newQueue(spilling(size))
		q.Spec.Storage.Size = resource.MustParse(size)
		pod := statefulSet(t, want(t, q), nil).Spec.Template.Spec
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
		asked := pod.Containers[0].Resources
		for _, limit := range []*resource.Quantity{
			pod.Volumes[i].EmptyDir.SizeLimit, asked.Requests.StorageEphemeral(), asked.Limits.Memory(),
		} {
			if limit.Cmp(resource.MustParse(size)) < 0 {
				t.Errorf("%s for %s", limit, size)
			}
		}
	}
}

// TestSpillStart: what stays in memory counts at the start of members, and other Queues' members start as ever.
func TestSpillStart(t *testing.T) {
	digest := func(change func(*v1alpha1.QueueSpec)) string {
		for key, value := range statefulSet(t, want(t, newQueue(change)), nil).Spec.Template.Annotations {
			if strings.HasSuffix(key, "/start-digest") {
				return value
			}
		}
		t.Fatal("there is no digest")
		return ""
	}
	larger := func(s *v1alpha1.QueueSpec) {
		spilling("8Gi")(s)
		s.Storage.Size = resource.MustParse("2Gi")
	}
	if digest(spilling("8Gi")) == digest(larger) {
		t.Error("members go on with what they had of memory")
	}
}

// TestSpillIsStored: members are told how much stays in memory, and have of the disk what a volume of that size has.
func TestSpillIsStored(t *testing.T) {
	storage := want(t, newQueue(spilling("8Gi"))).Config.GetStorage()
	large := newQueue(func(s *v1alpha1.QueueSpec) { s.Storage.Size = resource.MustParse("8Gi") })
	volume := want(t, large).Config.GetStorage()
	if !storage.GetMemory() || storage.GetCapacity() != volume.GetCapacity() ||
		storage.GetSpill().GetMemoryBytes() != 1<<30 || storage.GetSpill().GetVolumeBytes() != 8<<30 {
		t.Errorf("%+v", storage)
	}
	q := newQueue(spilling("128Mi"))
	q.Spec.Limits.MaxMessageSize = ptr.To(resource.MustParse("32Mi"))
	if _, problem := queue.Want(q, nil, nil, queue.Neighbours{}, false, now); problem == nil ||
		!strings.Contains(problem.Message, "spec.storage.spill.size must be at least") {
		t.Errorf("messages that never fit: %v", problem)
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
