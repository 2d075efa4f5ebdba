// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package staging_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

const beforeHook, afterHook = "lighterage-before", "lighterage-after"

// hooks are the CronJobs of a namespace, and what their Jobs did.
type hooks struct {
	// fails is how many before-hooks fail before one succeeds.
	fails int
	// idle: before-hooks go on without end.
	idle bool
	// order has a letter for each thing that was seen first: a before-hook that was made (B), one that ended (b), a
	// snapshot (S), an agent that reads the source itself (M), an after-hook that was made (A).
	order []string
	seen  map[types.UID]bool
}

// inOrder: every before-hook is followed by its after-hook, and what is read lies between them.
var inOrder = regexp.MustCompile(`^(Bb?S?M*A)*$`)

// hook makes the CronJobs and has the Transfer use them.
func (s *storage) hook() {
	s.Helper()
	for _, name := range []string{beforeHook, afterHook} {
		cluster.Create(s, &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
			Spec: batchv1.CronJobSpec{
				Schedule: "0 0 1 1 *", Suspend: ptr.To(true),
				JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
					Spec: corev1.PodSpec{
						RestartPolicy: corev1.RestartPolicyNever,
						Containers:    []corev1.Container{{Name: "hook", Image: "db.example/tools"}},
					},
				}}},
			},
		})
	}
	s.hooks.seen = map[types.UID]bool{}
	s.transfer.Spec.Source.Hooks = &v1alpha1.SourceHooks{
		Before: &v1alpha1.BeforeHook{Hook: v1alpha1.Hook{CronJob: beforeHook}},
		After:  &v1alpha1.Hook{CronJob: afterHook},
	}
}

func (s *storage) first(uid types.UID, letter string) bool {
	if s.hooks.seen[uid] {
		return false
	}
	s.hooks.seen[uid] = true
	s.hooks.order = append(s.hooks.order, letter)
	return true
}

// runHooks has the Jobs of hooks do their work, each a look after it was seen first.
func (s *storage) runHooks(snapshots []unstructured.Unstructured) {
	s.Helper()
	if s.hooks.seen == nil {
		return
	}
	for i := range snapshots {
		s.first(snapshots[i].GetUID(), "S")
	}
	jobs := &batchv1.JobList{}
	if err := cluster.Client.List(context.Background(), jobs, client.InNamespace(s.namespace),
		client.HasLabels{v1alpha1.HookLabel}); err != nil {
		s.Fatal(err)
	}
	for i := range jobs.Items {
		s.runHook(&jobs.Items[i])
	}
}

func (s *storage) runHook(job *batchv1.Job) {
	s.Helper()
	isBefore := job.Labels[v1alpha1.HookLabel] == beforeHook
	switch {
	case job.DeletionTimestamp != nil:
		job.Finalizers = nil
		s.ignoreGone(cluster.Client.Update(context.Background(), job))
		return
	case s.first(job.UID, map[bool]string{true: "B", false: "A"}[isBefore]), len(job.Status.Conditions) > 0,
		isBefore && s.hooks.idle:
		return
	}
	now := metav1.Now()
	job.Status.StartTime = &now
	kinds := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if isBefore && s.hooks.fails > 0 {
		s.hooks.fails--
		kinds = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
	} else {
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
		if isBefore {
			s.hooks.order = append(s.hooks.order, "b")
		}
	}
	for _, kind := range kinds {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now, Reason: "Test",
		})
	}
	if err := cluster.Client.Status().Update(context.Background(), job); err != nil {
		s.Fatal(err)
	}
}

// ordered checks what hooks have seen.
func (s *storage) ordered() {
	s.Helper()
	if order := strings.Join(s.hooks.order, ""); !inOrder.MatchString(order) {
		s.Errorf("the order is %s", order)
	}
	for i, letter := range s.hooks.order {
		if letter == "S" && s.hooks.order[i-1] != "b" {
			s.Errorf("a snapshot without a before-hook that succeeded: %v", s.hooks.order)
		}
	}
}

func (s *storage) hooksEnded() bool {
	h := s.transfer.Status.Hooks
	return s.ended() && h != nil && h.After.Ended()
}

func hooksAroundASnapshot(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	s.hook()
	cluster.Create(t, s.transfer)
	s.until("end", r, s.hooksEnded)
	s.ordered()
	if got := strings.Join(s.hooks.order, ""); got != "BbSA" {
		t.Errorf("the order is %s", got)
	}
	for range 2 {
		if err := s.step(r); err != nil {
			t.Fatal(err)
		}
	}
	before := s.transfer.ResourceVersion
	for range 3 {
		if err := s.step(r); err != nil {
			t.Fatal(err)
		}
	}
	if s.refresh(); s.transfer.ResourceVersion != before {
		t.Error("it goes on writing")
	}
	if h := s.transfer.Status.Hooks; h.Before.State != v1alpha1.HookComplete || h.After.State != v1alpha1.HookComplete {
		t.Errorf("%+v", h)
	}
}

// refusing is a client whose API server answers some writes with an error.
type refusing struct {
	client.Client
	create, delete func(client.Object) error
}

func (c *refusing) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if c.create != nil {
		if err := c.create(o); err != nil {
			return err
		}
	}
	return c.Client.Create(ctx, o, options...)
}

func (c *refusing) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	if c.delete != nil {
		if err := c.delete(o); err != nil {
			return err
		}
	}
	return c.Client.Delete(ctx, o, options...)
}

// hooksAndAgents: an agent that dies without a report takes no hook with it.
func hooksAndAgents(t *testing.T) {
	for method, want := range map[v1alpha1.CopyMethod]string{
		v1alpha1.CopySnapshot: "BbSA", v1alpha1.CopyDirect: "BbMMMA",
	} {
		t.Run(string(method), func(t *testing.T) {
			s, r := prepare(t), reconciler(manager.GetClient())
			s.hook()
			s.dies = 2
			s.transfer.Spec.Source.CopyMethod = method
			cluster.Create(t, s.transfer)
			s.until("end", r, func() bool {
				s.hurry()
				return s.hooksEnded()
			})
			s.nothingLeft()
			if got := strings.Join(s.hooks.order, ""); got != want || s.dies > 0 {
				t.Errorf("the order is %s, want %s", got, want)
			}
		})
	}
}

// beforeHookDeleted: a before-hook whose Job somebody deletes half-way has failed, and its after-hook runs.
func beforeHookDeleted(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	s.hook()
	s.hooks.idle = true
	cluster.Create(t, s.transfer)
	s.until("before", r, func() bool {
		h := s.transfer.Status.Hooks
		return h != nil && h.Before.State == v1alpha1.HookRunning
	})
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.transfer.Status.Hooks.Before.Job}}
	if err := cluster.Client.Delete(
		context.Background(), job, client.PropagationPolicy(metav1.DeletePropagationBackground),
	); err != nil {
		t.Fatal(err)
	}
	s.until("failure", r, s.stuck(v1alpha1.ReasonBeforeHookFailed))
	s.hooks.idle = false
	s.until("end", r, func() bool {
		s.hurry()
		return s.hooksEnded()
	})
	s.nothingLeft()
	if got := strings.Join(s.hooks.order, ""); got != "BABbSA" {
		t.Errorf("the order is %s", got)
	}
}

// legsStay: the after-hook of a Transfer that is being deleted waits for none of its legs.
func legsStay(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	s.hook()
	s.hooks.idle = true
	s.transfer.Spec.Destination = v1alpha1.TransferDestination{}
	for _, name := range []string{"one", "two"} {
		s.transfer.Spec.Destinations = append(s.transfer.Spec.Destinations, v1alpha1.NamedDestination{
			Name: name, PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: name},
		})
	}
	cluster.Create(t, s.transfer)
	s.until("before", r, func() bool {
		h := s.transfer.Status.Hooks
		return h != nil && h.Before.State == v1alpha1.HookRunning
	})
	leg := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: plan.LegName(s.transfer.Name, "one"), Finalizers: []string{"test.example/stays"},
		OwnerReferences: []metav1.OwnerReference{agentpod.OwnerReference("Transfer", s.transfer)},
	}}
	leg.Spec.Source.PersistentVolumeClaim.ClaimName = "ledger"
	leg.Spec.Destination.PersistentVolumeClaim.ClaimName = "one"
	cluster.Create(t, leg)
	if err := cluster.Client.Delete(context.Background(), s.transfer); err != nil {
		t.Fatal(err)
	}
	s.until("after", r, func() bool { return strings.HasSuffix(strings.Join(s.hooks.order, ""), "A") })
	if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(leg), leg); err != nil {
		t.Fatal(err)
	}
	leg.Finalizers = nil
	if err := cluster.Client.Update(context.Background(), leg); err != nil || leg.DeletionTimestamp == nil {
		t.Fatalf("the leg is not being deleted: %v", err)
	}
	s.until("gone", r, func() bool { return !s.refresh() })
}

// managerAway: the after-hook runs when the manager was away for longer than its time-out.
func managerAway(t *testing.T) {
	s, r := prepare(t), reconciler(&refusing{Client: manager.GetClient(), create: func(o client.Object) error {
		if o.GetLabels()[v1alpha1.HookLabel] == afterHook {
			return errKilled
		}
		return nil
	}})
	s.hook()
	cluster.Create(t, s.transfer)
	s.until("after", r, func() bool {
		h := s.transfer.Status.Hooks
		return h != nil && h.After.State == v1alpha1.HookStarting
	})
	r = reconcilerAt(manager.GetClient(), testclock.NewFakePassiveClock(time.Now().Add(time.Hour)))
	s.until("end", r, func() bool { return s.transfer.Status.Hooks.After.Ended() })
	s.ordered()
	if h := s.transfer.Status.Hooks; h.After.State != v1alpha1.HookComplete {
		t.Errorf("%+v", h)
	}
}

// keepsCopies is a client that may not delete copies any more.
func keepsCopies(o client.Object) error {
	if o.GetLabels()[agentpod.ComponentLabel] == plan.StagedComponent {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "copies"}, o.GetName(), errors.New("no role"))
	}
	return nil
}

// copiesStay: who may not delete copies any more runs the after-hook, and lets a Transfer go.
func copiesStay(t *testing.T) {
	for name, broken := range map[string]bool{"Deleted": false, "Broken": true} {
		t.Run(name, func(t *testing.T) {
			s, r := prepare(t), reconciler(&refusing{Client: manager.GetClient(), delete: keepsCopies})
			s.hook()
			if broken {
				s.failure = "out of space"
				s.transfer.Spec.Source.StagingDeadline = &metav1.Duration{Duration: 10 * time.Second}
			}
			cluster.Create(t, s.transfer)
			s.until("snapshot", r, func() bool { return len(s.snapshots()) == 1 })
			if broken {
				s.until("after", r, func() bool { return s.transfer.Status.Hooks.After.State == v1alpha1.HookComplete })
			}
			if err := cluster.Client.Delete(context.Background(), s.transfer); err != nil {
				t.Fatal(err)
			}
			s.until("deletion", r, func() bool { return !s.refresh() })
			s.work()
			s.ordered()
			if got := strings.Join(s.hooks.order, ""); got != "BbSA" {
				t.Errorf("the order is %s", got)
			}
		})
	}
}

// hookChangedMeanwhile: the Job that runs is of the template as it was; the next one is of the other.
func hookChangedMeanwhile(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	s.hook()
	cluster.Create(t, s.transfer)
	s.until("before", r, func() bool { return len(s.hooks.order) > 0 })
	after := &batchv1.CronJob{}
	key := client.ObjectKey{Namespace: s.namespace, Name: afterHook}
	if err := cluster.Client.Get(context.Background(), key, after); err != nil {
		t.Fatal(err)
	}
	after.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "db.example/tools:2"
	if err := cluster.Client.Update(context.Background(), after); err != nil {
		t.Fatal(err)
	}
	s.until("end", r, s.hooksEnded)
	s.ordered()
	job := &batchv1.Job{}
	key.Name = s.transfer.Status.Hooks.After.Job
	if err := cluster.Client.Get(context.Background(), key, job); err != nil {
		t.Fatal(err)
	}
	if got := job.Spec.Template.Spec.Containers[0].Image; got != "db.example/tools:2" {
		t.Errorf("the after-hook runs %s", got)
	}
}

// hugeHook: what is too much for the API server ends the attempt, or is run; it never stops the controller.
func hugeHook(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	s.hook()
	cronJob := &batchv1.CronJob{}
	key := client.ObjectKey{Namespace: s.namespace, Name: beforeHook}
	if err := cluster.Client.Get(context.Background(), key, cronJob); err != nil {
		t.Fatal(err)
	}
	cronJob.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args = []string{strings.Repeat("x", 1<<20)}
	if err := cluster.Client.Update(context.Background(), cronJob); err != nil {
		t.Fatal(err)
	}
	cluster.Create(t, s.transfer)
	s.until("end", r, s.hooksEnded)
	s.ordered()
}

// killedWithHooks kills managers at writes of a run with hooks, in each story at others.
func killedWithHooks(t *testing.T) {
	every := killedEvery()
	for number, story := range []struct {
		name    string
		method  v1alpha1.CopyMethod
		fails   int
		deleted bool
		broken  bool
	}{
		{name: "Succeeds", method: v1alpha1.CopySnapshot},
		{name: "Deleted", method: v1alpha1.CopySnapshot, deleted: true},
		{name: "BeforeFails", method: v1alpha1.CopySnapshot, fails: 1},
		{name: "Broken", method: v1alpha1.CopySnapshot, broken: true},
		{name: "DirectDeleted", method: v1alpha1.CopyDirect, deleted: true},
	} {
		for writes := number % every; writes < killedWrites; writes += every {
			for _, answered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", story.name, writes, answered), func(t *testing.T) {
					t.Parallel()
					s := prepare(t)
					s.hook()
					s.hooks.fails = story.fails
					s.transfer.Spec.Source.CopyMethod = story.method
					if story.broken {
						s.failure = "out of space"
					}
					cluster.Create(t, s.transfer)
					s.killed(writes, answered)
					s.surviveWithHooks(story.deleted)
				})
			}
		}
	}
}

// surviveWithHooks has another manager take over, and checks that hooks ran in order and nothing is left behind.
func (s *storage) surviveWithHooks(deleted bool) {
	s.Helper()
	s.failure = ""
	r := reconciler(manager.GetClient())
	if deleted {
		if err := cluster.Client.Delete(context.Background(), s.transfer); client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
		s.until("deletion", r, func() bool { return !s.refresh() })
		s.work()
	} else {
		s.until("end", r, func() bool {
			s.hurry()
			return s.hooksEnded()
		})
		if h := s.transfer.Status.Hooks; h.After.State != v1alpha1.HookComplete {
			s.Errorf("%+v", h)
		}
	}
	s.nothingLeft()
	s.ordered()
}
