// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package staging_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// quiescer is the application of a claim that gives a trigger whenever it is asked for one.
type quiescer struct {
	given int
	seen  map[types.UID]bool
}

func (s *storage) source() *corev1.PersistentVolumeClaim {
	s.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: s.namespace, Name: "ledger"}
	if err := cluster.Client.Get(context.Background(), key, claim); err != nil {
		s.Fatal(err)
	}
	return claim
}

func (s *storage) annotate(key, value string) {
	s.Helper()
	claim := s.source()
	before := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, key, value)
	if err := cluster.Client.Patch(context.Background(), claim, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// trigger has copies of the source wait for triggers. It has one of earlier, which does not count.
func (s *storage) trigger() {
	s.Helper()
	s.quiescer = &quiescer{seen: map[types.UID]bool{}}
	s.annotate(v1alpha1.CopyTriggerAnnotation, "0")
	s.annotate(v1alpha1.UseCopyTriggerAnnotation, "")
}

// quiesce answers the claim, and checks that snapshots are taken while it says so.
func (s *storage) quiesce(snapshots []unstructured.Unstructured) {
	s.Helper()
	q := s.quiescer
	if q == nil {
		return
	}
	state := s.source().Annotations[v1alpha1.LatestCopyStatusAnnotation]
	for i := range snapshots {
		uid := snapshots[i].GetUID()
		if !q.seen[uid] && state != string(v1alpha1.CopyInProgress) {
			s.Errorf("a snapshot while the claim says %q", state)
		}
		q.seen[uid] = true
	}
	if state == string(v1alpha1.CopyWaitingForTrigger) {
		q.given++
		s.annotate(v1alpha1.CopyTriggerAnnotation, strconv.Itoa(q.given))
	}
}

// answered checks what the claim says at the end.
func (s *storage) answered() {
	s.Helper()
	claim, c := s.source(), s.transfer.Status.CopyTrigger
	if c == nil || c.State != v1alpha1.CopyCompleted || c.Told != c.State || c.Trigger == "0" || c.Trigger == "" ||
		claim.Annotations[v1alpha1.LatestCopyStatusAnnotation] != string(c.State) ||
		claim.Annotations[v1alpha1.LatestCopyTriggerAnnotation] != c.Trigger {
		s.Errorf("%+v, the claim has %v", c, claim.Annotations)
	}
}

func (s *storage) triggered() bool {
	c := s.transfer.Status.CopyTrigger
	return s.ended() && c != nil && c.Told == c.State && (s.hooks.seen == nil || s.hooksEnded())
}

func triggerBetweenHooks(t *testing.T) {
	s, r := prepare(t), reconciler(manager.GetClient())
	s.hook()
	s.trigger()
	cluster.Create(t, s.transfer)
	s.until("end", r, s.triggered)
	s.ordered()
	s.answered()
	for range 2 {
		if err := s.step(r); err != nil {
			t.Fatal(err)
		}
	}
	before, claim := s.transfer.ResourceVersion, s.source().ResourceVersion
	for range 3 {
		if err := s.step(r); err != nil {
			t.Fatal(err)
		}
	}
	if s.refresh(); s.transfer.ResourceVersion != before || s.source().ResourceVersion != claim {
		t.Error("it goes on writing")
	}
}

// cloneThatNobodyMade is of a class that waits for the first consumer, whose pod is evicted before the driver makes the
// clone, in one story, and after that, in the other. What is read was cut while the claim said so, and it says how that
// ended.
func cloneThatNobodyMade(t *testing.T) {
	for _, made := range []bool{false, true} {
		s, r := prepare(t), reconciler(manager.GetClient())
		s.hook()
		s.trigger()
		s.transfer.Spec.Source.CopyMethod = v1alpha1.CopyClone
		s.transfer.Spec.Source.StagedStorageClassName = "waits"
		s.consumer, s.fails = !made, 1
		cluster.Create(t, s.transfer)
		s.until("end of the attempt", r, s.stuck(v1alpha1.ReasonEvicted))
		s.consumer = false
		cut := s.cut
		if len(cut) != map[bool]int{true: 1}[made] {
			t.Fatalf("made %v: clones %v", made, cut)
		}
		s.until("end", r, func() bool {
			s.hurry()
			return s.triggered()
		})
		s.nothingLeft()
		if len(s.cut) != 1 || s.cut[0] != string(v1alpha1.CopyInProgress) {
			t.Errorf("made %v: clones were cut while the claim said %q", made, s.cut)
		}
		if s.answered(); s.quiescer.given != map[bool]int{false: 2, true: 1}[made] {
			t.Errorf("made %v: %d triggers", made, s.quiescer.given)
		}
		if hooks := strings.Join(s.hooks.order, ""); hooks != map[bool]string{false: "BbABbA", true: "BbA"}[made] {
			t.Errorf("made %v: hooks %q", made, hooks)
		}
	}
}

// killedWithTriggers kills managers at writes of a run whose copy waits for a trigger, in each story at others.
func killedWithTriggers(t *testing.T) {
	every := killedEvery()
	for number, story := range []struct {
		name                   string
		hooks, deleted, broken bool
	}{{name: "Succeeds"}, {name: "Hooks", hooks: true}, {name: "Deleted", deleted: true}, {name: "Broken", broken: true}} {
		for writes := number % every; writes < killedWrites; writes += every {
			for _, answered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", story.name, writes, answered), func(t *testing.T) {
					t.Parallel()
					s := prepare(t)
					if story.hooks {
						s.hook()
					}
					s.trigger()
					if story.broken {
						s.failure = "out of space"
					}
					cluster.Create(t, s.transfer)
					s.killed(writes, answered)
					s.surviveWithTriggers(story.deleted)
				})
			}
		}
	}
}

// surviveWithTriggers has another manager take over, and checks that the claim says how it ended.
func (s *storage) surviveWithTriggers(deleted bool) {
	s.Helper()
	s.failure = ""
	r := reconciler(manager.GetClient())
	if deleted {
		if err := cluster.Client.Delete(context.Background(), s.transfer); client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
		s.until("deletion", r, func() bool { return !s.refresh() })
		s.work()
		switch state := s.source().Annotations[v1alpha1.LatestCopyStatusAnnotation]; v1alpha1.CopyTriggerState(state) {
		case v1alpha1.CopyWaitingForTrigger, v1alpha1.CopyInProgress:
			s.Errorf("nobody copies, and the claim says %s", state)
		}
	} else {
		s.until("end", r, func() bool {
			s.hurry()
			return s.triggered()
		})
		s.answered()
		if s.hooks.seen != nil {
			s.ordered()
		}
	}
	s.nothingLeft()
}
