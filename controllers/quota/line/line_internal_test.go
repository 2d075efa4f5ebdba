// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package line

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/quota"
)

// objects are all that an API server has.
type objects struct {
	client.Client
	transfers []v1alpha1.Transfer
}

func (o *objects) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	into, is := list.(*v1alpha1.TransferList)
	if !is {
		return nil
	}
	of := (&client.ListOptions{}).ApplyOptions(options)
	for _, transfer := range o.transfers {
		if of.Namespace == "" || of.Namespace == transfer.Namespace {
			into.Items = append(into.Items, transfer)
		}
	}
	return nil
}

func newLine(o *objects) *Line[*v1alpha1.Transfer] {
	return &Line[*v1alpha1.Transfer]{
		Client: o, Reader: o, List: func() client.ObjectList { return &v1alpha1.TransferList{} },
		Holds: quota.TransferHolds, Waits: quota.TransferWaits,
	}
}

func newQueue(t *testing.T) queue {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

// drain returns the names of what a queue has.
func drain(q queue) (names []string) {
	for q.Len() > 0 {
		request, _ := q.Get()
		q.Done(request)
		names = append(names, request.Name)
	}
	slices.Sort(names)
	return names
}

func named(name string) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: name, UID: types.UID(name), ResourceVersion: "1",
	}}
}

func waits(name string) *v1alpha1.Transfer {
	transfer := named(name)
	transfer.Status.Queued = &v1alpha1.QueuedStatus{}
	return transfer
}

// runs has one of ten slots, and a bandwidth.
func runs(name, bandwidth string) *v1alpha1.Transfer {
	transfer := named(name)
	limit := resource.MustParse(bandwidth)
	transfer.Status.Run = &v1alpha1.RunStatus{ID: "bbbbb", BandwidthLimit: &limit}
	return transfer
}

// tenSlots are a limit of ten runs.
func tenSlots(ctx context.Context) ([]quota.Limits, error) {
	return []quota.Limits{quota.OfCluster(quota.Amounts{quota.RunningTransfers: 10})}, ctx.Err()
}

// TestWoken: others are woken by what frees something, and the object itself when it begins to wait.
func TestWoken(t *testing.T) {
	done := runs("own", "1M")
	done.Status.Run.CompletionTime = &metav1.Time{}
	another := named("own")
	another.UID = "another"
	for name, test := range map[string]struct {
		before, after *v1alpha1.Transfer
		woken         []string
	}{
		"goes on":              {before: runs("own", "1M"), after: runs("own", "1M")},
		"takes more":           {before: runs("own", "1M"), after: runs("own", "2M")},
		"gives back a part":    {before: runs("own", "2M"), after: runs("own", "1M"), woken: []string{"other"}},
		"ends":                 {before: runs("own", "1M"), after: done, woken: []string{"other"}},
		"begins to wait":       {before: named("own"), after: waits("own"), woken: []string{"own"}},
		"goes on waiting":      {before: waits("own"), after: waits("own")},
		"is admitted":          {before: waits("own"), after: runs("own", "1M")},
		"waits no more":        {before: waits("own"), after: named("own"), woken: []string{"other"}},
		"waits after it held":  {before: runs("own", "1M"), after: waits("own"), woken: []string{"other", "own"}},
		"has never had a turn": {before: named("own"), after: named("own")},
		"that ran is gone":     {before: runs("own", "1M"), woken: []string{"other"}},
		"that waited is gone":  {before: waits("own"), woken: []string{"other"}},
		"that was done leaves": {before: done},
		"has another its name": {before: runs("own", "1M"), after: another, woken: []string{"other"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, q := newLine(&objects{}), newQueue(t)
				l.Shared = tenSlots
				// The context of a handler ends when it returns.
				ctx, cancel := context.WithCancel(t.Context())
				events := l.events()
				events.Create(ctx, event.CreateEvent{Object: waits("other")}, q)
				events.Create(ctx, event.CreateEvent{Object: test.before}, q)
				if woken := drain(q); woken != nil {
					t.Errorf("created: %v were woken", woken)
				}
				if test.after != nil {
					events.Update(ctx, event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}, q)
				} else {
					events.Delete(ctx, event.DeleteEvent{Object: test.before}, q)
				}
				cancel()
				synctest.Wait()
				if woken := drain(q); !slices.Equal(woken, test.woken) {
					t.Errorf("%v were woken, want %v", woken, test.woken)
				}
			})
		})
	}
}

// TestWokenTogether: while somebody looks whose turn it is, others that give something back cause one more look.
func TestWokenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, q := newLine(&objects{}), newQueue(t)
		looks, proceed := atomic.Int32{}, make(chan struct{})
		l.Shared = func(ctx context.Context) ([]quota.Limits, error) {
			looks.Add(1)
			<-proceed
			return tenSlots(ctx)
		}
		events := l.events()
		events.Create(t.Context(), event.CreateEvent{Object: waits("other")}, q)
		for i := range 100 {
			before := runs(fmt.Sprint("own-", i), "1M")
			before.Namespace = fmt.Sprint("bank-", i%10)
			events.Create(t.Context(), event.CreateEvent{Object: before}, q)
		}
		for i := range 100 {
			after := named(fmt.Sprint("own-", i))
			after.Namespace = fmt.Sprint("bank-", i%10)
			events.Update(t.Context(), event.UpdateEvent{ObjectOld: after, ObjectNew: after}, q)
			synctest.Wait()
		}
		close(proceed)
		synctest.Wait()
		if n := looks.Load(); n != 2 {
			t.Errorf("100 that gave back caused %d looks, want 2", n)
		}
		if woken := drain(q); !slices.Equal(woken, []string{"other"}) {
			t.Errorf("%v were woken", woken)
		}
	})
}

// TestToldAsListed: what events have told is what a list shows, whatever has happened.
func TestToldAsListed(t *testing.T) {
	o := &objects{}
	l, q := newLine(o), newQueue(t)
	l.Pods = &Pods[*v1alpha1.Transfer]{
		Label: v1alpha1.TransferLabel, Abandoned: func(pod types.UID) bool { return pod == "of-own-1" },
		Job: func(transfer *v1alpha1.Transfer) string {
			if transfer.Status.Run == nil {
				return ""
			}
			return "of-" + transfer.Name
		},
		Stray: func(pod client.ObjectKey) quota.Held { return quota.Held{ID: pod.String()} },
	}
	events, seen := l.events(), 0
	another := named("another")
	another.Namespace = "bank-1"
	limited := []v1alpha1.DataQuota{{ObjectMeta: metav1.ObjectMeta{Namespace: "bank-1", Name: "slots"},
		Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{RunningTransfers: new(int32)}}}}
	for step := range 400 {
		name := fmt.Sprint("own-", rand.IntN(20))
		now := []*v1alpha1.Transfer{named(name), waits(name), runs(name, fmt.Sprint(1+rand.IntN(3), "M")), nil}[rand.IntN(4)]
		at := slices.IndexFunc(o.transfers, func(was v1alpha1.Transfer) bool { return was.Name == name })
		switch {
		case now == nil && at >= 0:
			events.Delete(t.Context(), event.DeleteEvent{Object: o.transfers[at].DeepCopy()}, q)
			o.transfers = slices.Delete(o.transfers, at, at+1)
		case now == nil:
		case rand.IntN(10) == 0: // another of that name
			now.UID = types.UID(fmt.Sprint(name, "-", step))
			fallthrough
		default:
			now.Namespace, now.ResourceVersion = "bank-"+name[len(name)-1:], strconv.Itoa(step+1)
			if at < 0 {
				events.Create(t.Context(), event.CreateEvent{Object: now}, q)
				o.transfers = append(o.transfers, *now)
			} else {
				events.Update(t.Context(), event.UpdateEvent{ObjectOld: o.transfers[at].DeepCopy(), ObjectNew: now}, q)
				o.transfers[at] = *now
			}
		}
		l.Shared = nil
		if step%2 == 0 {
			l.Shared = tenSlots
		}
		told, err := l.Told(t.Context(), "bank-1", limited)
		if err != nil {
			t.Fatal(err)
		}
		listed, done, err := l.Current(t.Context(), another, limited)
		if err != nil {
			t.Fatal(err)
		}
		done(nil)
		for _, view := range []*quota.View{&told, &listed} {
			slices.SortFunc(view.Held, func(a, b quota.Held) int { return cmp.Compare(a.ID, b.ID) })
			slices.SortFunc(view.Waiting, func(a, b quota.Request) int { return cmp.Compare(a.ID, b.ID) })
		}
		if !reflect.DeepEqual(told, listed) {
			t.Fatalf("step %d: told %+v, listed %+v", step, told, listed)
		}
		seen += len(told.Held) * len(told.Waiting)
	}
	if seen == 0 {
		t.Error("nobody held anything while others waited")
	}
}

// TestPods: a pod whose run is over holds something until it ends, loses its label, is gone, or is given up; others are
// woken then.
func TestPods(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "own-1-x", UID: "pod",
			Labels: map[string]string{"of": "own-1", batchv1.JobNameLabel: "own-1"},
		}}
		if change != nil {
			change(pod)
		}
		return pod
	}
	for name, end := range map[string]func(*corev1.Pod){
		"succeeds":        func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded },
		"fails":           func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed },
		"loses its label": func(pod *corev1.Pod) { delete(pod.Labels, "of") },
		"is gone":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, q, ctx, abandoned := newLine(&objects{}), newQueue(t), t.Context(), false
				l.Shared = tenSlots
				l.Pods = &Pods[*v1alpha1.Transfer]{
					Label: "of", Abandoned: func(types.UID) bool { return abandoned },
					Stray: func(pod client.ObjectKey) quota.Held { return quota.Held{ID: pod.Name} },
					Job: func(transfer *v1alpha1.Transfer) string {
						if transfer.Status.Run == nil {
							return ""
						}
						return transfer.Name
					},
				}
				held := func() (ids []string) {
					view, err := l.Told(ctx, "bank", nil)
					if err != nil {
						t.Fatal(err)
					}
					for _, h := range view.Held {
						ids = append(ids, h.ID)
					}
					return ids
				}
				events, podEvents := l.events(), l.podEvents()
				events.Create(ctx, event.CreateEvent{Object: waits("other")}, q)
				events.Create(ctx, event.CreateEvent{Object: runs("own-1", "1M")}, q)
				podEvents.Create(ctx, event.CreateEvent{Object: pod(nil)}, q)
				podEvents.Create(ctx, event.CreateEvent{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: "bank", Name: "another", UID: "another",
				}}}, q)
				if got := held(); !slices.Equal(got, []string{"own-1"}) {
					t.Errorf("while it runs: held by %v", got)
				}
				events.Delete(ctx, event.DeleteEvent{Object: runs("own-1", "1M")}, q)
				synctest.Wait()
				drain(q)
				leaving := pod(func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} })
				podEvents.Update(ctx, event.UpdateEvent{ObjectOld: pod(nil), ObjectNew: leaving}, q)
				if got := held(); !slices.Equal(got, []string{"own-1-x"}) {
					t.Errorf("when its run is over: held by %v", got)
				}
				if abandoned = true; held() != nil {
					t.Errorf("one that is given up: held by %v", held())
				}
				abandoned = false
				synctest.Wait()
				if woken := drain(q); woken != nil {
					t.Errorf("before it ended %v were woken", woken)
				}
				if end == nil {
					podEvents.Delete(ctx, event.DeleteEvent{Object: leaving}, q)
				} else {
					podEvents.Update(ctx, event.UpdateEvent{ObjectOld: leaving, ObjectNew: pod(end)}, q)
				}
				synctest.Wait()
				if got := held(); got != nil {
					t.Errorf("afterwards: held by %v", got)
				}
				if woken := drain(q); !slices.Equal(woken, []string{"other"}) {
					t.Errorf("%v were woken", woken)
				}
			})
		})
	}
}

// TestGrantsTold: a grant is told of when an event has the version that was written, or a later one, whether it comes
// before the answer to the write or after it.
func TestGrantsTold(t *testing.T) {
	key := client.ObjectKey{Namespace: "bank", Name: "own"}
	told := func(version string) func(*standings) {
		return func(s *standings) { s.set(version, standing{key: key, uid: "own", holds: true}) }
	}
	wrote := func(version string) func(*standings) { return func(s *standings) { s.wrote(key, version) } }
	expect := func(s *standings) { s.expect(key, "own") }
	gone := func(s *standings) { s.remove("own", key) }
	former := func(s *standings) { s.remove("former", key) }
	type steps = []func(*standings)
	for name, test := range map[string]struct {
		steps   steps
		current bool
	}{
		"told after the answer":         {steps: steps{expect, wrote("9"), told("9")}, current: true},
		"told before the answer":        {steps: steps{expect, told("9"), wrote("9")}, current: true},
		"told of a later one":           {steps: steps{expect, wrote("9"), told("10")}, current: true},
		"told of an earlier one":        {steps: steps{expect, wrote("10"), told("9")}},
		"not told":                      {steps: steps{expect, wrote("9")}},
		"told before it was to be":      {steps: steps{told("8"), expect, wrote("9")}},
		"not written":                   {steps: steps{expect, wrote("")}, current: true},
		"again in vain, not told":       {steps: steps{expect, wrote("9"), expect, wrote("")}},
		"again in vain, told meanwhile": {steps: steps{expect, wrote("9"), expect, told("9"), wrote("")}, current: true},
		"again, told of the first":      {steps: steps{expect, wrote("9"), expect, told("9"), wrote("10")}},
		"again, told of both": {
			steps: steps{expect, wrote("9"), expect, wrote("10"), told("10")}, current: true,
		},
		"gone before the answer":           {steps: steps{expect, gone, wrote("9")}, current: true},
		"gone after the answer":            {steps: steps{expect, wrote("9"), gone}, current: true},
		"a former one of its name is gone": {steps: steps{expect, wrote("9"), former}},
		"written by nobody who was asked":  {steps: steps{wrote("9")}, current: true},
	} {
		s := &standings{}
		for _, step := range test.steps {
			step(s)
		}
		if got := s.current("bank"); got != test.current {
			t.Errorf("%s: current %t", name, got)
		}
		if got := s.current(""); got != test.current {
			t.Errorf("%s: current in all namespaces %t", name, got)
		}
		if !s.current("another") {
			t.Errorf("%s: not current in another namespace", name)
		}
		if test.current && len(s.grants) > 0 {
			t.Errorf("%s: %d grants are kept", name, len(s.grants))
		}
	}
}
