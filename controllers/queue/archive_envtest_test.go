// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// TestArchiving: a claim that comes later is noticed, and what members say of the archive is in status.
func TestArchiving(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	q := create(t, namespace, func(s *v1alpha1.QueueSpec) {
		s.Archive = &v1alpha1.QueueArchive{PersistentVolumeClaim: v1alpha1.QueueArchiveClaim{ClaimName: "archives"}}
	})
	if q.Spec.Archive.Interval == nil || q.Spec.Archive.Interval.Duration != time.Minute ||
		q.Spec.Archive.MaxRangeSize == nil || q.Spec.Archive.Retention != nil {
		t.Errorf("defaults %+v", q.Spec.Archive)
	}
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationNotFound)
	cluster.Create(t, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "archives"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	})
	s := set(t, q)
	address := member(t, s)
	config, _ := secret(t, s)
	if config.GetArchive().GetInterval().AsDuration() != time.Minute {
		t.Errorf("members are told %v", config.GetArchive())
	}
	failing := &wirev1.Failure{
		Reason: wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL, Message: "make the claim larger",
	}
	writing := func(failure *wirev1.Failure) func(*wirev1.QueueReport) {
		return func(r *wirev1.QueueReport) {
			r.Archive = &wirev1.QueueArchiveStatus{
				Path: "orders.1", Messages: 5, LastTime: timestamppb.New(now), LastError: failure,
			}
		}
	}
	say(address, s, config.GetRevision(), writing(failing))
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationFull)
	say(address, s, config.GetRevision(), writing(nil))
	expect(t, q, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	if c := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionArchived); c == nil ||
		c.Reason != v1alpha1.ReasonArchiveFollows {
		t.Errorf("%s is %+v", v1alpha1.ConditionArchived, c)
	}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		if a := q.Status.Archive; a == nil || a.Messages != 5 || a.Path != "orders.1" || a.LastError != nil {
			return fmt.Errorf("archive %+v", a)
		}
		return nil
	})

	for name, test := range map[string]struct{ patch, says string }{
		"a restore of later": {
			`{"restore": {"persistentVolumeClaim": {"claimName": "archives"}, "queue": "orders"}}`, "cannot be added or changed",
		},
		"a claim without name": {`{"archive": {"persistentVolumeClaim": {"claimName": null}}}`, "claimName"},
		"nowhere":              {`{"archive": {"persistentVolumeClaim": null}}`, "persistentVolumeClaim, objectStore or both"},
		"at once":              {`{"archive": {"interval": "1ms"}}`, "interval must be"},
		"tiny files":           {`{"archive": {"maxRangeSize": "1Ki"}}`, "maxRangeSize must be"},
		"kept for nothing":     {`{"archive": {"retention": "1ms"}}`, "retention must be"},
	} {
		t.Run(name, func(t *testing.T) {
			err := cluster.Client.Patch(
				ctx, q.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec": `+test.patch+`}`)),
			)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("refused with %v", err)
			}
		})
	}
}

// TestArchivingToStore: an ObjectStore that comes later, and its probe, are noticed; the archive of the store has a
// status of its own.
func TestArchivingToStore(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	q := create(t, namespace, stored)
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationNotFound)
	store := vault(v1alpha1.ReasonPromisesKept)
	store.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "vault"}
	store.Spec.Endpoint = "https://192.0.2.7:9000"
	ready := store.Status.Conditions
	cluster.Create(t, &store)
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonProbing)
	ready[0].ObservedGeneration = store.Generation
	store.Status.Conditions = ready
	if err := cluster.Client.Status().Update(ctx, &store); err != nil {
		t.Fatal(err)
	}
	s := set(t, q)
	address := member(t, s)
	config, _ := secret(t, s)
	if config.GetArchive().GetStore().GetPrefix() != "east/queues" || config.GetDialPolicy() == nil {
		t.Errorf("members are told %v", config)
	}
	writing := func(failure *wirev1.Failure) func(*wirev1.QueueReport) {
		return func(r *wirev1.QueueReport) {
			r.StoreArchive = &wirev1.QueueArchiveStatus{
				Path: "orders.1", Messages: 5, Bytes: 700, LastTime: timestamppb.New(now), LastError: failure,
			}
		}
	}
	say(address, s, config.GetRevision(), writing(&wirev1.Failure{
		Reason: wirev1.FailureReason_FAILURE_REASON_STORE_FULL, Message: "free space or raise the quota",
	}))
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonStoreFull)
	say(address, s, config.GetRevision(), writing(nil))
	expect(t, q, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		if a := q.Status.StoreArchive; a == nil || a.Messages != 5 || a.RangeBytes != 700 || q.Status.Archive != nil {
			return fmt.Errorf("archives %+v, %+v", q.Status.Archive, a)
		}
		return nil
	})
	for name, test := range map[string]struct{ patch, says string }{
		"nowhere":        {`{"archive": {"objectStore": null}}`, "persistentVolumeClaim, objectStore or both"},
		"a path out":     {`{"archive": {"objectStore": {"path": "/../others"}}}`, "path must not contain"},
		"a store's name": {`{"archive": {"objectStore": {"name": ""}}}`, "name"},
	} {
		err := cluster.Client.Patch(
			ctx, q.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec": `+test.patch+`}`)),
		)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: refused with %v", name, err)
		}
	}
	two := newQueue(func(s *v1alpha1.QueueSpec) {
		refilled(s)
		s.Restore.PersistentVolumeClaim.ClaimName = "archives"
	})
	two.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "two"}
	if err := cluster.Client.Create(ctx, two); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "exactly one of persistentVolumeClaim and objectStore") {
		t.Errorf("refused with %v", err)
	}
	// Another spec of the store is followed when it has been probed.
	store.Spec.Bucket = "others"
	if err := cluster.Client.Update(ctx, &store); err != nil {
		t.Fatal(err)
	}
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonProbing)
}

// TestRestoring: what is restored is fixed, and can be taken away.
func TestRestoring(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	both := newQueue(func(s *v1alpha1.QueueSpec) {
		s.Restore = &v1alpha1.QueueRestore{
			PersistentVolumeClaim: v1alpha1.QueueArchiveClaim{ClaimName: "archives"}, Queue: "orders", Path: "orders.1",
		}
	})
	both.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "both"}
	if err := cluster.Client.Create(ctx, both); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "either queue or path") {
		t.Errorf("refused with %v", err)
	}
	q := create(t, namespace, func(s *v1alpha1.QueueSpec) {
		s.Restore = &v1alpha1.QueueRestore{
			PersistentVolumeClaim: v1alpha1.QueueArchiveClaim{ClaimName: "archives"}, Queue: "orders",
		}
	})
	if q.Spec.Restore.Messages != v1alpha1.QueueRestoreRemaining {
		t.Errorf("restored are %q", q.Spec.Restore.Messages)
	}
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonSourceNotFound)
	err := cluster.Client.Patch(
		ctx, q.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec": {"restore": {"queue": "others"}}}`)),
	)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot be added or changed") {
		t.Errorf("refused with %v", err)
	}
	update(t, q, func() { q.Spec.Restore = nil })
	set(t, q)
}
