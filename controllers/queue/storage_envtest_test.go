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
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
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
