// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package statement_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/statement"
)

var november = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// TestBooked: figures are booked at most once a minute, and a second look writes nothing.
func TestBooked(t *testing.T) {
	namespace, k, clock := cluster.Namespace(t), &killer{}, clocktesting.NewFakePassiveClock(november)
	b := newBooks(k, clock)
	on := transfer(t, namespace, "ledger")
	look := func(b *statement.Books) time.Duration {
		t.Helper()
		result, err := book(t.Context(), b, namespace)
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	if look(b); k.writes.Load() != 0 {
		t.Errorf("%d writes for a namespace without figures", k.writes.Load())
	}
	report(t, on, 1, 100)
	if wait := look(b); wait != time.Minute {
		t.Errorf("looked at again after %s", wait)
	}
	clock.SetTime(november.Add(time.Minute))
	look(b)
	if wire, cpu := sums(t, namespace); wire != 100 || !slices.Equal(cpu, []string{"100.000000001"}) {
		t.Errorf("%d bytes and %v s are booked", wire, cpu)
	}
	before := k.writes.Load()
	for i := range 3 {
		clock.SetTime(november.Add(time.Duration(2+i) * time.Minute))
		look(b)
		look(newBooks(k, clock))
	}
	if k.writes.Load() != before {
		t.Errorf("%d writes without news", k.writes.Load()-before)
	}
}

// TestDeletion: an object that is being deleted goes after its figures are booked, and not before.
func TestDeletion(t *testing.T) {
	namespace, k, clock := cluster.Namespace(t), &killer{}, clocktesting.NewFakePassiveClock(november)
	b := newBooks(k, clock)
	on := transfer(t, namespace, "ledger")
	report(t, on, 1, 100)
	if _, err := book(t.Context(), b, namespace); err != nil {
		t.Fatal(err)
	}
	report(t, on, 1, 150)
	if err := cluster.Client.Delete(t.Context(), on); err != nil {
		t.Fatal(err)
	}
	read := func() *v1alpha1.Transfer {
		t.Helper()
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(on), on); err != nil {
			t.Fatal(err)
		}
		return on
	}
	clock.SetTime(november.Add(2 * time.Second))
	deleting := read()
	deleting.DeletionTimestamp = &metav1.Time{Time: clock.Now()} // the API server has another clock
	if b.Settled(deleting) {
		t.Fatal("the Transfer may go before it is booked")
	}
	if _, err := book(t.Context(), b, namespace); err != nil {
		t.Fatal(err)
	}
	if !b.Settled(deleting) {
		t.Error("the Transfer may not go although it is booked")
	}
	if wire, _ := sums(t, namespace); wire != 150 {
		t.Errorf("%d bytes are booked", wire)
	}
	if newBooks(k, clock).Settled(deleting) {
		t.Error("a manager that was started again has not looked")
	}
	// One that cannot be booked does not stay for ever.
	clock.SetTime(clock.Now().Add(time.Hour))
	deleting.ResourceVersion = "0"
	if !b.Settled(deleting) {
		t.Error("the Transfer waits for longer than two minutes")
	}
	var none *statement.Books
	if !none.Settled(deleting) {
		t.Error("without Statements there is nothing to wait for")
	}
}

// TestNamespaceDeleted: what is in a namespace that is being deleted waits for nobody.
func TestNamespaceDeleted(t *testing.T) {
	namespace, k, clock := cluster.Namespace(t), &killer{}, clocktesting.NewFakePassiveClock(november)
	b := newBooks(k, clock)
	on := transfer(t, namespace, "ledger")
	report(t, on, 1, 100)
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, on} {
		if err := cluster.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(on), on); err != nil {
		t.Fatal(err)
	}
	on.DeletionTimestamp = &metav1.Time{Time: clock.Now()}
	if b.Settled(on) {
		t.Fatal("nobody has looked")
	}
	if _, err := book(t.Context(), b, namespace); err != nil {
		t.Fatal(err)
	}
	if !b.Settled(on) {
		t.Error("the Transfer waits for a Statement that cannot be made")
	}
}

// TestKills: two managers alternate and are killed at every call to the API server, before it and after it, in the
// middle of months and at their ends, while agents report and attempts follow each other. The sum of Statements is what
// agents reported.
func TestKills(t *testing.T) {
	const wanted = 200
	namespace, clock := cluster.Namespace(t), clocktesting.NewFakePassiveClock(november)
	random := rand.New(rand.NewPCG(1, 2))
	type state struct {
		object  *v1alpha1.Transfer
		attempt int32
		wire    int64
	}
	var all []*state
	var reported int64
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, &state{object: transfer(t, namespace, name), attempt: 1})
	}
	work := func() {
		s := all[random.IntN(len(all))]
		if random.IntN(4) == 0 {
			s.attempt, s.wire = s.attempt+1, 0
		}
		more := random.Int64N(1000)
		s.wire += more
		reported += more
		report(t, s.object, s.attempt, s.wire)
	}
	killers := []*killer{{}, {}}
	managers := []*statement.Books{newBooks(killers[0], clock), newBooks(killers[1], clock)}
	kills, at := 0, [2]int64{1, 1}
	for step := 0; kills < wanted; step++ {
		if step > 20*wanted {
			t.Fatalf("only %d kills", kills)
		}
		work()
		clock.SetTime(clock.Now().Add(time.Duration(1+random.IntN(600)) * time.Minute))
		if random.IntN(10) == 0 {
			clock.SetTime(clock.Now().Add(-24 * time.Hour))
		}
		i := random.IntN(2)
		k, before := killers[i], random.IntN(2)
		k.calls.Store(0)
		k.kill.Store(at[before])
		k.after.Store(before == 1)
		if _, err := book(t.Context(), managers[i], namespace); err == nil {
			at[before] = 1 // it came to its end: begin at the first call again
			k.kill.Store(0)
		} else {
			kills++
			at[before]++
			k.kill.Store(0)
			managers[i] = newBooks(k, clock)
		}
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	for range 3 {
		if _, err := book(t.Context(), newBooks(&killer{}, clock), namespace); err != nil {
			t.Fatal(err)
		}
	}
	if wire, _ := sums(t, namespace); wire != reported {
		t.Errorf("Statements have %d of %d bytes after %d kills", wire, reported, kills)
	}
	list := &v1alpha1.StatementList{}
	if err := cluster.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		for _, c := range s.Status.Conditions {
			if c.Type == v1alpha1.ConditionComplete && c.Status != metav1.ConditionTrue {
				t.Errorf("%s: %+v", s.Name, c)
			}
		}
	}
	t.Logf("%d kills, %d Statements, %d bytes", kills, len(list.Items), reported)
}
