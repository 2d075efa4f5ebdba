// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package statement

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/ledger"
	"github.com/lighterage/lighterage/controllers/metrics"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=statements,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=lighterage.dev,resources=statements/status,verbs=patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=transfers;deliveries;queues;httpendpoints,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=tariffs;nodeprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces;nodes,verbs=get;list;watch

// maxSteps of a booking: a month is closed and the next one created, opened, noted and tidied up after. What is left
// then is an error, and done when it is tried again.
const maxSteps = 32

// Reconcile books a namespace, which the request names.
func (b *Books) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	name := request.Name
	if wait := b.due(name); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	namespace := &corev1.Namespace{}
	if err := b.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			b.forget(name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	accounts, err := b.accounts(ctx, name)
	if err != nil {
		return ctrl.Result{}, err
	}
	in := ledger.Booking{
		Accounts: accounts.all, NamespaceUID: namespace.UID, Now: b.Clock.Now().UTC().Truncate(time.Second),
	}
	open, err := b.book(ctx, name, in)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// Nothing can be created any more, and what there is goes.
		b.Metrics.Refused(metrics.StatementTerminating)
	case err != nil:
		b.Metrics.Booked(metrics.StatementFailed)
		return ctrl.Result{}, err
	}
	b.done(name, open, accounts.all)
	if accounts.stored {
		return ctrl.Result{RequeueAfter: storedInterval}, nil
	}
	return ctrl.Result{}, nil
}

// accounts of the objects of a namespace.
type accounts struct {
	all []ledger.Account
	// stored: some have bytes at rest.
	stored bool
}

func (b *Books) accounts(ctx context.Context, name string) (accounts, error) {
	facts, err := b.facts(ctx)
	if err != nil {
		return accounts{}, err
	}
	var found accounts
	add := func(a ledger.Account) {
		found.all = append(found.all, a)
		found.stored = found.stored || a.StoredBytes > 0
	}
	present := map[types.UID]bool{}
	for _, kind := range ledger.Kinds {
		list := kind.List()
		if err := b.Client.List(ctx, list, client.InNamespace(name), client.UnsafeDisableDeepCopy); err != nil {
			return accounts{}, fmt.Errorf("listing objects of kind %s in %s: %w", kind.Name, name, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("an item of %T is a %T", list, item)
			}
			present[object.GetUID()] = true
			add(kind.Account(object, facts))
			return nil
		})
		if err != nil {
			return accounts{}, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid, was := range b.of(name).deleted {
		if !present[uid] {
			a := was.kind.Account(was.object, facts)
			a.Deleting = true
			add(a)
		}
	}
	return found, nil
}

func (b *Books) facts(ctx context.Context) (ledger.Facts, error) {
	var tariffs v1alpha1.TariffList
	if err := b.Client.List(ctx, &tariffs, client.UnsafeDisableDeepCopy); err != nil {
		return ledger.Facts{}, fmt.Errorf("listing Tariffs: %w", err)
	}
	cluster, err := b.Topology.Cluster(ctx)
	if err != nil {
		return ledger.Facts{}, fmt.Errorf("reading nodes: %w", err)
	}
	return ledger.Facts{
		Now: b.Clock.Now(), Tariffs: tariffs.Items,
		Node: func(name string) ledger.Node {
			if name == "" {
				return ledger.Node{}
			}
			return ledger.Node{Labels: cluster.Labels(name), Class: ledger.NodeClass(cluster.Profiles()[name])}
		},
	}, nil
}

// book takes steps until the only thing left is to wait for more figures. It returns the Statement that is open, nil if
// there is none.
func (b *Books) book(ctx context.Context, name string, in ledger.Booking) (*v1alpha1.Statement, error) {
	for range maxSteps {
		statements, err := b.read(ctx, name, &in)
		if err != nil {
			return nil, err
		}
		if len(statements) == 0 && !used(in.Accounts) {
			return nil, nil
		}
		step := ledger.Next(statements, in, b.Months)
		if step.Booked != nil {
			b.remember(name, step.Booked.Name, in.First)
			return step.Booked, nil
		}
		if err := b.take(ctx, name, statements, step); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("bringing the Statements of %s in order takes more than %d writes", name, maxSteps)
}

// read the Statements of a namespace: the open one if nothing but booking is to be done, or all.
func (b *Books) read(ctx context.Context, name string, in *ledger.Booking) ([]v1alpha1.Statement, error) {
	b.mu.Lock()
	month, first := b.of(name).month, b.of(name).first
	b.mu.Unlock()
	in.First, in.OnlyNewest = first, false
	if month != "" && month == ledger.MonthOf(in.Now) {
		one := v1alpha1.Statement{}
		err := b.Reader.Get(ctx, client.ObjectKey{Namespace: name, Name: month}, &one)
		switch {
		case err == nil && one.Status.State == v1alpha1.StatementOpen:
			in.OnlyNewest = true
			return []v1alpha1.Statement{one}, nil
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("reading Statement %s/%s: %w", name, month, err)
		}
	}
	b.remember(name, "", false)
	list := &v1alpha1.StatementList{}
	if err := b.Reader.List(ctx, list, client.InNamespace(name)); err != nil {
		return nil, fmt.Errorf("listing Statements of %s: %w", name, err)
	}
	in.First = len(list.Items) <= 1
	return list.Items, nil
}

func (b *Books) take(ctx context.Context, name string, before []v1alpha1.Statement, step ledger.Step) error {
	switch {
	case step.Create != "":
		s := &v1alpha1.Statement{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: step.Create},
			Spec:       v1alpha1.StatementSpec{Month: step.Create},
		}
		err := b.Client.Create(ctx, s, client.FieldOwner(conditions.FieldOwner))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating Statement %s/%s: %w", name, step.Create, err)
		}
	case step.Delete != nil:
		err := b.Client.Delete(ctx, step.Delete, client.Preconditions{UID: &step.Delete.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Statement %s/%s, which is older than is kept: %w", name, step.Delete.Name, err)
		}
	case step.Write != nil:
		for i := range before {
			if before[i].Name != step.Write.Name {
				continue
			}
			if _, err := conditions.WriteStatus(ctx, b.Client, &before[i], step.Write); err != nil {
				return err
			}
			b.Metrics.Booked(metrics.StatementWritten)
		}
	}
	return nil
}

// used reports whether there is something to book at all.
func used(all []ledger.Account) bool {
	for _, a := range all {
		if a.Used() {
			return true
		}
	}
	return false
}

func (b *Books) remember(name, month string, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.of(name)
	n.month, n.first = month, first
}

// done notes what is booked. Without a Statement there is nothing to wait for.
func (b *Books) done(name string, open *v1alpha1.Statement, all []ledger.Account) {
	now := b.Clock.Now()
	var waiting []ledger.Account
	b.mu.Lock()
	n := b.of(name)
	n.booked, n.urgent, n.ended = now, false, nil
	for _, a := range all {
		if settled, known := n.settled[a.UID]; a.Deleting && !(known && settled == a.ResourceVersion) {
			waiting = append(waiting, a)
		}
	}
	b.mu.Unlock()
	// This takes long when many wait, and finalizers ask meanwhile.
	waiting = slices.DeleteFunc(waiting, func(a ledger.Account) bool {
		if open == nil || !ledger.Pending(open, a, now.UTC().Truncate(time.Second)) {
			return false
		}
		b.Metrics.Refused(metrics.StatementNoSpace)
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	n = b.of(name)
	for _, a := range waiting {
		switch was, gone := n.deleted[a.UID]; {
		case !gone:
			n.settled[a.UID] = a.ResourceVersion
		case was.object.GetResourceVersion() == a.ResourceVersion:
			delete(n.deleted, a.UID)
		}
	}
}
