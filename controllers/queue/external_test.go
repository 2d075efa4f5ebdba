// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/queue"
)

// inExternal is a spec of a queue in external servers.
func inExternal(ca []byte) func(*v1alpha1.QueueSpec) {
	return func(s *v1alpha1.QueueSpec) {
		s.Replicas = 3
		s.Engine.External = &v1alpha1.QueueExternal{
			Servers: []string{"tls://nats-0.example:4222", "tls://nats-1.example:4222"}, CABundle: ca,
			Credentials: &v1alpha1.QueueExternalCredentials{SecretName: "orders-nats"},
		}
	}
}

// TestExternalMembers: members of a queue in external servers know these, have no volume and are not told of each
// other.
func TestExternalMembers(t *testing.T) {
	ca := authority(t, "nats")
	wanted := wantWith(t, newQueue(inExternal(ca)), queue.Neighbours{NamespaceUID: "namespace-1"})
	c := wanted.Config
	x := c.GetExternal()
	if len(x.GetServers()) != 2 || string(x.GetCaBundle()) != string(ca) || x.GetOwner() == "" {
		t.Errorf("external servers %v", x)
	}
	if c.GetRouteAddress() != "" || len(c.GetMembers()) != 3 || c.GetMembers()[0].GetRouteAddress() != "" {
		t.Errorf("routes at %q to %v", c.GetRouteAddress(), c.GetMembers())
	}
	if c.GetStorage().GetCapacity() != 1<<30 || c.GetStorage().GetDirectory() != "" {
		t.Errorf("storage %v", c.GetStorage())
	}
	set := statefulSet(t, wanted, nil)
	if len(set.Spec.VolumeClaimTemplates) != 0 {
		t.Error("there are claims")
	}
	pod := set.Spec.Template.Spec
	at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == "orders-nats"
	})
	if at < 0 || pod.Volumes[at].Secret.Optional == nil || !*pod.Volumes[at].Secret.Optional {
		t.Fatalf("credentials are not mounted, or waited for: %v", pod.Volumes)
	}
	mounts := pod.Containers[0].VolumeMounts
	if !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool {
		return m.Name == pod.Volumes[at].Name && m.MountPath == x.GetCredentialsDirectory() && m.ReadOnly
	}) {
		t.Errorf("mounts %v, and credentials are looked for in %s", mounts, x.GetCredentialsDirectory())
	}
	for _, m := range mounts {
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("volume %s of a mount is missing", m.Name)
		}
	}
	for _, port := range pod.Containers[0].Ports {
		if port.ContainerPort == 6222 {
			t.Error("nobody listens to other members")
		}
	}
	// Other servers are dialled after a restart. Who owns streams is the same for a Queue that is recreated, and not
	// for that of another namespace.
	digest := func(change func(*v1alpha1.QueueSpec)) string {
		return statefulSet(t, wantWith(t, newQueue(func(s *v1alpha1.QueueSpec) {
			inExternal(ca)(s)
			change(s)
		}), queue.Neighbours{}), nil).Spec.Template.String()
	}
	if digest(func(*v1alpha1.QueueSpec) {}) == digest(func(s *v1alpha1.QueueSpec) {
		s.Engine.External.Servers = s.Engine.External.Servers[:1]
	}) {
		t.Error("members stay with servers that are not theirs any more")
	}
	again := newQueue(inExternal(ca))
	again.UID = "uid-2"
	if got := wantWith(
		t, again, queue.Neighbours{NamespaceUID: "namespace-1"},
	).Config.GetExternal().GetOwner(); got != x.GetOwner() {
		t.Errorf("recreated, the Queue is %q in place of %q", got, x.GetOwner())
	}
	if got := wantWith(
		t, newQueue(inExternal(ca)), queue.Neighbours{NamespaceUID: "namespace-2"},
	).Config.GetExternal().GetOwner(); got == x.GetOwner() {
		t.Error("a Queue of another cluster is the same")
	}
	_, problem := queue.Want(newQueue(inExternal([]byte("none"))), nil, nil, queue.Neighbours{}, false, now)
	if problem == nil || problem.Reason != v1alpha1.ReasonInvalidSpec ||
		!strings.Contains(problem.Message, "spec.engine.external.caBundle") {
		t.Errorf("a bundle without certificates: %+v", problem)
	}
}

// TestExternalStatus: what members say of external servers is what status says, before anything else that follows from
// it.
func TestExternalStatus(t *testing.T) {
	wanted := wantWith(t, newQueue(inExternal(authority(t, "nats"))), queue.Neighbours{NamespaceUID: "namespace-1"})
	status := queue.Observe(wanted.Queue, &wanted, well(wanted))
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != "True" || !strings.Contains(ready.Message, "external servers keep the messages") {
		t.Errorf("conditions %+v", status.Conditions)
	}
	if s := status.Statistics; s == nil || s.FileBlocks != nil || s.FileBytes != nil || s.MemoryBytes != nil {
		t.Errorf("statistics %+v", s)
	}
	for reason, want := range map[wirev1.FailureReason]string{
		wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNREACHABLE: v1alpha1.ReasonExternalUnreachable,
		wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNTRUSTED:   v1alpha1.ReasonExternalUntrusted,
		wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED:     v1alpha1.ReasonExternalRefused,
		wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT:       v1alpha1.ReasonExternalUnfit,
		wirev1.FailureReason_FAILURE_REASON_EXTERNAL_IN_USE:      v1alpha1.ReasonExternalInUse,
	} {
		facts := well(wanted)
		facts.Members[1].Report.ExternalFailure = &wirev1.Failure{Reason: reason, Message: "the servers, and what to do"}
		facts.Members[1].Report.State, facts.Set.Status.ReadyReplicas = wirev1.QueueState_QUEUE_STATE_STARTING, 2
		status := queue.Observe(wanted.Queue, &wanted, facts)
		stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
		if stalled == nil || stalled.Status != "True" || stalled.Reason != want ||
			!strings.Contains(stalled.Message, "what to do") {
			t.Errorf("%v: %+v", reason, status.Conditions)
		}
	}
	for what, test := range map[string]struct {
		change func(*wirev1.QueueContent)
		reason string
	}{
		"nobody leads":     {func(c *wirev1.QueueContent) { c.Leader = "" }, v1alpha1.ReasonNoLeader},
		"a server is away": {func(c *wirev1.QueueContent) { c.Unreachable = 1 }, v1alpha1.ReasonMembersUnreachable},
	} {
		facts := well(wanted)
		for _, member := range facts.Members {
			test.change(member.Report.Content)
		}
		status := queue.Observe(wanted.Queue, &wanted, facts)
		found := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReconciling)
		if found == nil || found.Status != "True" || found.Reason != test.reason ||
			!strings.Contains(found.Message, "external") || strings.Contains(found.Message, "6222") {
			t.Errorf("%s: %+v", what, status.Conditions)
		}
	}
}

// TestFilesAreSums: what members know of their volumes is added up.
func TestFilesAreSums(t *testing.T) {
	wanted := want(t, newQueue(func(s *v1alpha1.QueueSpec) { s.Replicas = 3 }))
	facts := well(wanted)
	for i, m := range facts.Members {
		m.Report.Statistics.FileBlocks, m.Report.Statistics.FileBytes, m.Report.Statistics.MemoryBytes = new(uint64(i)),
			new(uint64(10)), new(uint64(0))
	}
	s := queue.Observe(wanted.Queue, &wanted, facts).Statistics
	if s.FileBlocks == nil || *s.FileBlocks != 3 || s.FileBytes == nil || *s.FileBytes != 30 || s.MemoryBytes == nil ||
		*s.MemoryBytes != 0 {
		t.Errorf("%+v", s)
	}
	if set := statefulSet(t, wanted, (*appsv1.StatefulSet)(nil)); len(set.Spec.VolumeClaimTemplates) != 1 {
		t.Error("there are no claims")
	}
}

// H4: credentials are mounted by their own keys alone, and are not sent where the spec of an older object asks for no
// TLS.
func TestExternalCredentials(t *testing.T) {
	ca := authority(t, "nats")
	pod := statefulSet(t, wantWith(t, newQueue(inExternal(ca)), queue.Neighbours{}), nil).Spec.Template.Spec
	at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == "orders-nats"
	})
	var keys []string
	for _, item := range pod.Volumes[at].Secret.Items {
		if item.Key != item.Path {
			t.Errorf("key %s is mounted as %s", item.Key, item.Path)
		}
		keys = append(keys, item.Key)
	}
	if !slices.Equal(keys, wirev1.ExternalKeys()) {
		t.Errorf("keys %v are mounted", keys)
	}
	_, problem := queue.Want(newQueue(func(s *v1alpha1.QueueSpec) {
		inExternal(ca)(s)
		s.Engine.External.Servers = []string{"tls://a:1", "nats://b:2"}
	}), nil, nil, queue.Neighbours{}, false, now)
	if problem == nil || problem.Reason != v1alpha1.ReasonInvalidSpec ||
		!strings.Contains(problem.Message, "spec.engine.external.servers") {
		t.Errorf("servers without TLS: %+v", problem)
	}
	if _, problem := queue.Want(newQueue(func(s *v1alpha1.QueueSpec) {
		s.Engine.External = &v1alpha1.QueueExternal{Servers: []string{"nats://b:2"}}
	}), nil, nil, queue.Neighbours{}, false, now); problem != nil {
		t.Errorf("without credentials: %+v", problem)
	}
}
