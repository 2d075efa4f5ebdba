// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// TestExternalLife: a Queue in external servers says what members say of these, and is let go with messages in it,
// which stay there.
func TestExternalLife(t *testing.T) {
	t.Parallel()
	q := create(t, cluster.Namespace(t), func(s *v1alpha1.QueueSpec) {
		inExternal(authority(t, "nats"))(s)
		s.Replicas = 1
	})
	s := set(t, q)
	if len(s.Spec.VolumeClaimTemplates) != 0 {
		t.Fatalf("claims %v", s.Spec.VolumeClaimTemplates)
	}
	config, _ := secret(t, s)
	if config.GetExternal().GetServers()[0] != "tls://nats-0.example:4222" ||
		!strings.HasPrefix(config.GetExternal().GetOwner(), q.Namespace+"/orders ") {
		t.Errorf("configuration %v", config)
	}
	address := member(t, s)
	say(address, s, config.GetRevision(), func(r *wirev1.QueueReport) {
		r.State = wirev1.QueueState_QUEUE_STATE_STARTING
		r.ExternalFailure = &wirev1.Failure{
			Reason: wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNREACHABLE, Message: "the servers are away",
		}
	})
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonExternalUnreachable)
	say(address, s, config.GetRevision(), func(r *wirev1.QueueReport) { r.Content.Messages = 7 })
	expect(t, q, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	if err := cluster.Client.Delete(ctx, q); err != nil {
		t.Fatal(err)
	}
	gone(t, q)
}

// TestExternalValidation: what external servers are told of is sound, and no Queue changes where its messages are.
func TestExternalValidation(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	refused := func(what, says string, err error) {
		t.Helper()
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: refused with %v", what, err)
		}
	}
	for what, test := range map[string]struct {
		change func(*v1alpha1.QueueSpec)
		says   string
	}{
		"mixed servers": {
			func(s *v1alpha1.QueueSpec) { s.Engine.External.Servers = []string{"tls://a:1", "nats://b:2"} },
			"all begin with tls://",
		},
		"no servers": {func(s *v1alpha1.QueueSpec) { s.Engine.External.Servers = nil }, "spec.engine.external.servers"},
		"a user": {
			func(s *v1alpha1.QueueSpec) { s.Engine.External.Servers = []string{"tls://queue:word@a:1"} },
			"spec.engine.external.servers",
		},
		"another scheme": {
			func(s *v1alpha1.QueueSpec) { s.Engine.External.Servers = []string{"wss://a:1"} }, "spec.engine.external.servers",
		},
		"sent in clear": {
			func(s *v1alpha1.QueueSpec) { s.Engine.External.Servers = []string{"nats://a:1"} },
			"must begin with tls:// where credentials are given",
		},
		"no CA": {func(s *v1alpha1.QueueSpec) { s.Engine.External.CABundle = nil }, "caBundle must say who vouches"},
		"a class": {
			func(s *v1alpha1.QueueSpec) { s.Storage.StorageClassName = new("fast") }, "leave it out with engine.external",
		},
		"an archive": {func(s *v1alpha1.QueueSpec) {
			s.Archive = &v1alpha1.QueueArchive{PersistentVolumeClaim: v1alpha1.QueueArchiveClaim{ClaimName: "archives"}}
		}, "archive and restore are for the members' own storage"},
		"a restore": {func(s *v1alpha1.QueueSpec) {
			s.Restore = &v1alpha1.QueueRestore{
				PersistentVolumeClaim: v1alpha1.QueueArchiveClaim{ClaimName: "archives"}, Queue: "orders",
			}
		}, "archive and restore are for the members' own storage"},
	} {
		q := newQueue(inExternal(authority(t, "nats")))
		q.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "orders"}
		test.change(&q.Spec)
		refused(what, test.says, cluster.Client.Create(ctx, q))
	}
	own := create(t, namespace, nil)
	patch := func(q *v1alpha1.Queue, text string) error {
		return cluster.Client.Patch(ctx, q.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	refused(
		"an engine that comes", "create another Queue and move the messages",
		patch(own, `{"spec": {"engine": {"external": {"servers": ["nats://a:1"]}}}}`),
	)
	external := create(t, cluster.Namespace(t), inExternal(authority(t, "nats")))
	refused("an archive that comes", "archive and restore are for the members' own storage",
		patch(external, `{"spec": {"archive": {"persistentVolumeClaim": {"claimName": "archives"}}}}`))
	refused(
		"an engine that goes", "create another Queue and move the messages", patch(external, `{"spec": {"engine": null}}`),
	)
	if err := patch(
		external, `{"spec": {"engine": {"external": {"servers": ["tls://[2001:db8::1]:4222", "tls://nats.example"]}}}}`,
	); err != nil {
		t.Errorf("other servers: %v", err)
	}
}
