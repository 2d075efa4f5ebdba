// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/owned"
)

// TestLossIsTold: a claim that came back empty is an Event and a condition, until somebody accepts it.
func TestLossIsTold(t *testing.T) {
	t.Parallel()
	q := create(t, cluster.Namespace(t), nil)
	s := set(t, q)
	address := member(t, s)
	config, _ := secret(t, s)
	has := func(created time.Time, messages uint64) {
		say(address, s, config.GetRevision(), func(r *wirev1.QueueReport) {
			r.Content.Created, r.Content.Messages = timestamppb.New(created), messages
		})
	}
	has(now, 42)
	expect(t, q, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	again := now.Add(time.Hour)
	has(again, 0)
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonMessagesLost)
	if q.Status.Loss == nil || q.Status.Loss.Messages.Count != 42 {
		t.Errorf("loss %+v", q.Status.Loss)
	}
	controllertest.Eventually(t, func() error {
		var all eventsv1.EventList
		if err := cluster.Client.List(ctx, &all, client.InNamespace(q.Namespace)); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Reason == v1alpha1.ReasonMessagesLost && e.Type == "Warning" && strings.Contains(e.Note, "42 messages") {
				return nil
			}
		}
		return errors.New("no Event tells of the loss")
	})
	annotate(t, q, v1alpha1.AcceptLossAnnotation, again.Format(time.RFC3339))
	expect(t, q, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
}

// TestSmallVolumes: those without space for messages are refused, and only volumes are.
func TestSmallVolumes(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	for name, test := range map[string]struct {
		change  func(*v1alpha1.QueueSpec)
		members int32
		size    string
		least   string // empty: it is taken
	}{
		"a volume":           {func(*v1alpha1.QueueSpec) {}, 1, "63Mi", "at least 64Mi"},
		"a volume of three":  {func(*v1alpha1.QueueSpec) {}, 3, "127Mi", "at least 128Mi"},
		"the least volume":   {func(*v1alpha1.QueueSpec) {}, 1, "64Mi", ""},
		"the least of three": {func(*v1alpha1.QueueSpec) {}, 3, "128Mi", ""},
		"memory": {
			func(s *v1alpha1.QueueSpec) { s.Storage.Type = v1alpha1.QueueStorageMemory }, 3, "63Mi", "",
		},
		"memory that spills less than it has": {spilling("1Gi"), 1, "1Gi", "spill.size must be more than size"},
		"memory that spills little":           {spilling("127Mi"), 1, "16Mi", "spill.size must be at least 128Mi"},
		"memory that spills":                  {spilling("128Mi"), 3, "16Mi", ""},
		"a volume that spills": {
			func(s *v1alpha1.QueueSpec) {
				spilling("10Gi")(s)
				s.Storage.Type = v1alpha1.QueueStorageFile
			}, 1, "1Gi", "spill is for type Memory",
		},
		"external servers that spill": {
			func(s *v1alpha1.QueueSpec) {
				inExternal([]byte("a bundle"))(s)
				spilling("10Gi")(s)
			}, 1, "1Gi", "storage.spill is for members' own storage",
		},
		"external servers":       {inExternal([]byte("a bundle")), 1, "63Mi", ""},
		"three external servers": {inExternal([]byte("a bundle")), 3, "63Mi", ""},
	} {
		q := newQueue(func(s *v1alpha1.QueueSpec) {
			test.change(s)
			s.Replicas, s.Storage.Size = test.members, resource.MustParse(test.size)
		})
		q.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "small"}
		err := cluster.Client.Create(ctx, q, client.DryRunAll)
		if test.least == "" && err != nil || test.least != "" && (!apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), test.least)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSpillStays: what a Queue spills to cannot be added, changed or taken away, since its stream would have to move.
func TestSpillStays(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	for name, test := range map[string]struct {
		begins func(*v1alpha1.QueueSpec)
		patch  string
		says   string // empty: it is taken
	}{
		"added": {
			func(s *v1alpha1.QueueSpec) { s.Storage.Type = v1alpha1.QueueStorageMemory },
			`{"spill": {"size": "10Gi"}}`, "spill cannot be added or taken away",
		},
		"taken away":     {spilling("10Gi"), `{"spill": null}`, "spill cannot be added or taken away"},
		"larger":         {spilling("10Gi"), `{"spill": {"size": "20Gi"}}`, "spill.size cannot be changed"},
		"in other words": {spilling("10Gi"), `{"spill": {"size": "10240Mi"}}`, ""},
		"more memory":    {spilling("10Gi"), `{"size": "2Gi"}`, ""},
	} {
		q := newQueue(test.begins)
		q.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: strings.ReplaceAll(name, " ", "-")}
		cluster.Create(t, q)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"storage": `+test.patch+`}}`))
		err := cluster.Client.Patch(ctx, q, patch)
		if test.says == "" && err != nil || test.says != "" && (!apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSpillingMembersSettle: the API server takes what members that spill are made from, and a second look at it writes
// nothing.
func TestSpillingMembersSettle(t *testing.T) {
	t.Parallel()
	q := newQueue(spilling("10Gi"))
	q.Namespace = cluster.Namespace(t)
	writer := owned.Writer{Client: cluster.Client, Reader: cluster.Client, Kind: "Queue"}
	var versions []string
	for range 2 {
		made, problem, err := writer.Ensure(ctx, q, statefulSet(t, want(t, q), nil))
		if err != nil || problem != nil {
			t.Fatal(problem, err)
		}
		versions = append(versions, made.GetResourceVersion())
	}
	if versions[0] == "" || versions[0] != versions[1] {
		t.Errorf("versions %q", versions)
	}
}
