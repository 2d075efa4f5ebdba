// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transferset_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

func newGroupObject(kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "groupsnapshot.storage.k8s.io", Version: "v1", Kind: kind,
	})
	return o
}

// grouped makes bound claims with a label.
func (f *fixture) grouped(names ...string) {
	f.Helper()
	for _, name := range names {
		cluster.Claim(f, f.namespace, name)
		claim, key := &corev1.PersistentVolumeClaim{}, client.ObjectKey{Namespace: f.namespace, Name: name}
		if err := cluster.Client.Get(context.Background(), key, claim); err != nil {
			f.Fatal(err)
		}
		f.patch(claim, `{"metadata":{"labels":{"app":"bank"}}}`)
		claim.Status.Phase = corev1.ClaimBound
		if err := cluster.Client.Status().Update(context.Background(), claim); err != nil {
			f.Fatal(err)
		}
	}
}

// groups are the VolumeGroupSnapshots of the namespace.
func (f *fixture) groups() []unstructured.Unstructured {
	f.Helper()
	found := &unstructured.UnstructuredList{Object: newGroupObject("VolumeGroupSnapshotList").Object}
	if err := cluster.Client.List(context.Background(), found, client.InNamespace(f.namespace)); err != nil {
		f.Fatal(err)
	}
	return found.Items
}

// take waits for one VolumeGroupSnapshot and does what the snapshot-controller would.
func (f *fixture) take(not string) string {
	f.Helper()
	var group *unstructured.Unstructured
	controllertest.Eventually(f, func() error {
		found := f.groups()
		if len(found) != 1 || found[0].GetName() == not {
			return fmt.Errorf("%d VolumeGroupSnapshots", len(found))
		}
		group = &found[0]
		return nil
	})
	group.Object["status"] = map[string]any{
		"readyToUse": true, "creationTime": time.Now().UTC().Format(time.RFC3339),
	}
	if err := cluster.Client.Status().Update(context.Background(), group); err != nil {
		f.Fatal(err)
	}
	return group.GetName()
}

// ran has members end the runs that they were asked for, which read a group.
func (f *fixture) ran(group string, names ...string) {
	f.Helper()
	for _, name := range names {
		controllertest.Eventually(f, func() error {
			t := f.transfer(name)
			if t.Spec.Source.VolumeGroupSnapshotName != group || t.Annotations[v1alpha1.RunAnnotation] != group {
				return fmt.Errorf("%s reads %q, asked for by %v", name, t.Spec.Source.VolumeGroupSnapshotName, t.Annotations)
			}
			now := metav1.Now().Rfc3339Copy()
			t.Status.Run = &v1alpha1.RunStatus{ID: "abcde", Attempt: 1, StartTime: &now, CompletionTime: &now}
			t.Status.LastRunRequest = group
			return cluster.Client.Status().Update(context.Background(), t)
		})
		f.end(v1alpha1.TransferComplete, name)
	}
}

func (f *fixture) ask(set *v1alpha1.TransferSet, value string) {
	f.Helper()
	f.patch(set, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.RunAnnotation, value))
}

// snapshotsInstalled: the test has run before, as with -count=2. Kinds that were seen once stay known.
var snapshotsInstalled bool

// TestGroup: members exist when the VolumeGroupSnapshot of all is taken, read it, a few at a time, and it is removed
// when all have. Claims that come later join with the next one, and one that would have other claims is not made.
func TestGroup(t *testing.T) {
	f := newFixture(t)
	f.grouped("a", "b")
	set := f.set("move", func(s *v1alpha1.TransferSetSpec) {
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bank"}}
		s.MaxConcurrent = 1
		s.Group = &v1alpha1.TransferSetGroup{VolumeGroupSnapshotClassName: "fast"}
		s.Template.Source = &v1alpha1.TransferSetSource{
			Path: "/", SourceCopy: v1alpha1.SourceCopy{CopyMethod: v1alpha1.CopySnapshot},
		}
	})
	if !snapshotsInstalled {
		f.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonGroupSnapshotsNotInstalled)
		if err := cluster.InstallSnapshots(context.Background()); err != nil {
			t.Fatal(err)
		}
		snapshotsInstalled = true
	}
	f.ask(set, "1")
	f.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonGroupSnapshotClassNotFound)
	class := newGroupObject("VolumeGroupSnapshotClass")
	class.SetName("fast")
	class.Object["driver"], class.Object["deletionPolicy"] = "csi.example", "Delete"
	cluster.Create(t, class)
	t.Cleanup(func() { f.remove(class) })
	f.ask(set, "2")
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonTakingGroupSnapshot)
	first := f.take("")
	made := f.groups()[0]
	labels, _, _ := unstructured.NestedStringMap(made.Object, "spec", "source", "selector", "matchLabels")
	if owner := metav1.GetControllerOf(&made); owner == nil || owner.UID != set.UID || labels["app"] != "bank" {
		t.Errorf("owner %+v, labels %v", owner, labels)
	}
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a")
	f.ran(first, "move-a")
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a", "move-b")
	if len(f.groups()) != 1 {
		t.Error("removed before all have read it")
	}
	f.ran(first, "move-b")
	f.expect(set, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete, "move-a", "move-b")
	f.completes(set)

	time.Sleep(1100 * time.Millisecond) // times of the API server have seconds
	f.grouped("c")
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a", "move-b")
	f.ask(set, "3")
	second := f.take(first)
	f.ran(second, "move-a", "move-b")
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a", "move-b", "move-c")
	f.ran(second, "move-c")
	f.completes(set)
	f.quiet(set)

	// None is made while one is left that something keeps from going.
	f.ask(set, "4")
	third := f.take(second)
	held := f.groups()[0]
	f.patch(&held, `{"metadata":{"finalizers":["lighterage.dev/test"]}}`)
	f.ran(third, "move-a", "move-b", "move-c")
	f.expect(set, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete, "move-a", "move-b", "move-c")
	f.ask(set, "5")
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonTakingGroupSnapshot, "move-a", "move-b", "move-c")
	time.Sleep(3 * time.Second)
	if left := f.groups(); len(left) != 1 || left[0].GetName() != third || left[0].GetDeletionTimestamp() == nil {
		t.Errorf("a pile: %d VolumeGroupSnapshots", len(left))
	}
	f.patch(&held, `{"metadata":{"finalizers":null}}`)
	fourth := f.take(third)
	f.ran(fourth, "move-a", "move-b", "move-c")
	f.completes(set)

	// A claim that another Transfer has the member's name of would be in the group.
	taken := f.transfer("move-c")
	taken.ObjectMeta = metav1.ObjectMeta{Namespace: f.namespace, Name: "move-d"}
	cluster.Create(t, taken)
	f.grouped("d")
	f.ask(set, "6")
	f.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonGroupNotPossible, "move-a", "move-b", "move-c")
	if len(f.groups()) > 0 {
		t.Error("a group of a claim that has no member")
	}
}

// completes waits until the VolumeGroupSnapshot that members have read is removed, and status says so.
func (f *fixture) completes(set *v1alpha1.TransferSet) {
	f.Helper()
	controllertest.Eventually(f, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if g := set.Status.Group; g == nil || g.State != v1alpha1.GroupComplete || g.PointInTime == nil ||
			len(f.groups()) > 0 {
			return fmt.Errorf("%d VolumeGroupSnapshots, status %+v", len(f.groups()), g)
		}
		return nil
	})
}

// TestGroupOfSpecs: what a group cannot be combined with is rejected.
func TestGroupOfSpecs(t *testing.T) {
	f := newFixture(t)
	for what, change := range map[string]func(*v1alpha1.TransferSetSpec){
		"Direct":           func(s *v1alpha1.TransferSetSpec) { s.Template.Source.CopyMethod = v1alpha1.CopyDirect },
		"Clone":            func(s *v1alpha1.TransferSetSpec) { s.Template.Source.CopyMethod = v1alpha1.CopyClone },
		"no source":        func(s *v1alpha1.TransferSetSpec) { s.Template.Source = nil },
		"class of members": func(s *v1alpha1.TransferSetSpec) { s.Template.Source.SnapshotClassName = "fast" },
		"hooks": func(s *v1alpha1.TransferSetSpec) {
			s.Template.Source.Hooks = &v1alpha1.SourceHooks{After: &v1alpha1.Hook{CronJob: "lighterage-after"}}
		},
		"matchExpressions": func(s *v1alpha1.TransferSetSpec) {
			s.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpExists},
			}}
		},
	} {
		set := &v1alpha1.TransferSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "move"},
			Spec: v1alpha1.TransferSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bank"}},
				Group:    &v1alpha1.TransferSetGroup{VolumeGroupSnapshotClassName: "fast"},
				Template: v1alpha1.TransferSetTemplate{
					Source: &v1alpha1.TransferSetSource{
						Path: "/", SourceCopy: v1alpha1.SourceCopy{CopyMethod: v1alpha1.CopySnapshot},
					},
					Destination: v1alpha1.TransferSetDestination{Peer: "west"},
				},
			},
		}
		change(&set.Spec)
		if err := cluster.Client.Create(context.Background(), set, client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
