// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package line_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/quota/line"
)

const namespace = "bank"

// cluster is an API server, whose lists are counted, with events that tell of it later.
type cluster struct {
	store
	t       *testing.T
	version int
	lists   int
	told    []v1alpha1.Transfer
	line    *line.Line[*v1alpha1.Transfer]
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	slots   int32
}

// store has Transfers of one namespace.
type store struct {
	client.Client
	transfers []v1alpha1.Transfer
}

func (s *store) find(name string) int {
	return slices.IndexFunc(s.transfers, func(t v1alpha1.Transfer) bool { return t.Name == name })
}

func (s *store) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	at := s.find(key.Name)
	into, is := object.(*v1alpha1.Transfer)
	if at < 0 || !is {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("transfers").GroupResource(), key.Name)
	}
	s.transfers[at].DeepCopyInto(into)
	return nil
}

func (s *store) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if transfers, is := list.(*v1alpha1.TransferList); is {
		transfers.Items = s.transfers
	}
	return nil
}

// List is the API server's.
func (c *cluster) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.lists++
	return c.store.List(ctx, list, options...)
}

func prepare(t *testing.T, names ...string) *cluster {
	c := &cluster{t: t}
	for _, name := range names {
		c.transfers = append(c.transfers, v1alpha1.Transfer{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
		})
		c.write(&c.transfers[len(c.transfers)-1])
	}
	c.line = &line.Line[*v1alpha1.Transfer]{
		Client: &c.store, Reader: c, List: func() client.ObjectList { return &v1alpha1.TransferList{} },
		Holds: quota.TransferHolds, Waits: quota.TransferWaits,
	}
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	c.catchUp()
	return c
}

// write writes a Transfer, which gets a version above that of all others.
func (c *cluster) write(transfer *v1alpha1.Transfer) {
	c.version++
	transfer.ResourceVersion = strconv.Itoa(c.version)
	transfer.DeepCopyInto(&c.transfers[c.find(transfer.Name)])
}

// catchUp tells of what has changed.
func (c *cluster) catchUp() {
	events, ctx := c.line.Events(), c.t.Context()
	for i := range c.transfers {
		now := c.transfers[i].DeepCopy()
		at := slices.IndexFunc(c.told, func(was v1alpha1.Transfer) bool { return was.Name == now.Name })
		switch {
		case at < 0:
			events.Create(ctx, event.CreateEvent{Object: now}, c.queue)
		case c.told[at].ResourceVersion != now.ResourceVersion:
			events.Update(ctx, event.UpdateEvent{ObjectOld: &c.told[at], ObjectNew: now}, c.queue)
		}
	}
	for i := range c.told {
		if c.find(c.told[i].Name) < 0 {
			events.Delete(ctx, event.DeleteEvent{Object: &c.told[i]}, c.queue)
		}
	}
	c.told = slices.Clone(c.transfers)
}

// admit asks for a Transfer, and writes what was granted. said is what the manager is told of that.
func (c *cluster) admit(name string, written bool, said error) (granted bool) {
	c.t.Helper()
	transfer := &v1alpha1.Transfer{}
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, transfer); err != nil {
		c.t.Fatal(err)
	}
	quotas := []v1alpha1.DataQuota{{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "slots"},
		Spec:       v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{RunningTransfers: &c.slots}},
	}}
	request := quota.TransferRequest(transfer, v1alpha1.RouteGateway)
	answer, done, err := c.line.Admit(c.t.Context(), transfer, request, quotas)
	if err != nil {
		c.t.Fatal(err)
	}
	if answer.Exceeded != nil {
		done(nil)
		return false
	}
	after := transfer
	if said != nil {
		after = transfer.DeepCopy() // who has no answer does not know the version
	}
	if written {
		after.Status.Run = &v1alpha1.RunStatus{ID: "bbbbb", Attempt: 1}
		c.write(after)
	}
	done(said)
	return true
}

// expect checks how often the API server was asked for all Transfers.
func (c *cluster) expect(lists int, when string) {
	c.t.Helper()
	if c.lists != lists {
		c.t.Errorf("%s: all Transfers were listed %d times, want %d", when, c.lists, lists)
	}
}

// TestGrantsRestOnEvents: all Transfers are listed from the API server by the first grant of a manager alone, and
// where events may not have told of all grants.
func TestGrantsRestOnEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t, "a", "b", "c", "d", "e")
		c.slots = 2
		conflict := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("transfers").GroupResource(), "b", nil)
		if !c.admit("a", true, nil) {
			t.Error("a was not admitted")
		}
		c.expect(1, "first grant")
		c.catchUp()
		if !c.admit("b", false, conflict) || !c.admit("b", true, nil) {
			t.Error("b was not admitted")
		}
		c.expect(1, "events told of the first grant")
		if c.admit("c", true, nil) {
			t.Error("three have two slots")
		}
		c.expect(2, "events have not told of the second grant")
		c.catchUp()
		if c.admit("c", true, nil) {
			t.Error("three have two slots")
		}
		c.expect(2, "what events told exceeds")
		c.slots = 3
		if !c.admit("c", true, errors.New("no answer")) {
			t.Error("c was not admitted")
		}
		c.expect(2, "events told of the second grant")
		if c.admit("d", true, nil) {
			t.Error("four have three slots")
		}
		c.expect(3, "nobody knows whether the third was written")
		c.slots = 5
		c.catchUp()
		if !c.admit("d", true, nil) {
			t.Error("d was not admitted")
		}
		c.expect(4, "nobody has written since")
		at := c.find("d")
		c.transfers = slices.Delete(slices.Clone(c.transfers), at, at+1)
		c.catchUp()
		if !c.admit("e", true, nil) {
			t.Error("e was not admitted")
		}
		c.expect(4, "the last one that was granted something is gone")
		c.queue.ShutDown()
	})
}
