// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tariffstatus says in the status of Tariffs whether they can be used, which is the default, and which
// CompressionPolicies use them.
package tariffstatus

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/wake"
)

// maxPolicies are shown by name, which is what the API allows.
const maxPolicies = 32

// Options of the controller.
type Options struct {
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=lighterage.dev,resources=tariffs;compressionpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=tariffs/status,verbs=patch

// Setup registers the controller with a manager.
func Setup(mgr ctrl.Manager, o Options) error {
	r := NewReconciler(mgr.GetClient(), o)
	changed := builder.WithPredicates(
		wake.Later(), predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}),
	)
	return ctrl.NewControllerManagedBy(mgr).Named("tariff").
		For(&v1alpha1.Tariff{}).
		// Which of several is the default, and who uses it, depends on the others.
		Watches(&v1alpha1.Tariff{}, handler.EnqueueRequestsFromMapFunc(r.all), changed).
		Watches(&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(r.all), changed).
		WithOptions(refusal.ControllerOptions(1)).
		Complete(wake.Again(r))
}

// Reconciler reconciles Tariffs.
type Reconciler struct {
	client  client.Client
	options Options
}

// NewReconciler returns a Reconciler; Setup is what registers one with a manager.
func NewReconciler(c client.Client, o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{client: c, options: o}
}

// all are the Tariffs that something else than themselves may have changed.
func (r *Reconciler) all(ctx context.Context, changed client.Object) []reconcile.Request {
	other := func(t *v1alpha1.Tariff) bool {
		_, same := changed.(*v1alpha1.Tariff)
		return !same || t.Name != changed.GetName()
	}
	return wake.Requests(ctx, r.client, &v1alpha1.TariffList{}, other)
}

// Reconcile writes the status of one Tariff.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var subject v1alpha1.Tariff
	if err := r.client.Get(ctx, request.NamespacedName, &subject); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var tariffs v1alpha1.TariffList
	if err := r.client.List(ctx, &tariffs, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing Tariffs: %w", err)
	}
	var policies v1alpha1.CompressionPolicyList
	if err := r.client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing CompressionPolicies: %w", err)
	}
	before := subject.DeepCopy()
	status := &subject.Status
	wanted := Judge(&subject, tariffs.Items)
	status.Conditions = conditions.Merge(status.Conditions, wanted, subject.Generation, r.options.Clock.Now())
	status.ObservedGeneration = subject.Generation
	users := Users(&subject, tariffs.Items, policies.Items)
	status.PolicyCount, status.Policies = int32(len(users)), users[:min(len(users), maxPolicies)]
	wrote, err := conditions.WriteStatus(ctx, r.client, before, &subject)
	if wrote {
		log.FromContext(ctx).Info("Tariff changed", "reason", wanted[0].Reason, "message", wanted[0].Message)
	}
	return ctrl.Result{}, err
}

// Judge returns the conditions of a Tariff among all. It is pure.
func Judge(subject *v1alpha1.Tariff, tariffs []v1alpha1.Tariff) []metav1.Condition {
	if err := tariff.Validate(subject); err != nil {
		return conditions.Stalled(v1alpha1.ReasonInvalidSpec, err.Error())
	}
	message := "The prices apply where a CompressionPolicy names the Tariff"
	if tariff.IsDefault(subject) {
		chosen, several := tariff.FindDefault(tariffs)
		if chosen != nil && chosen.Name != subject.Name {
			return conditions.Stalled(v1alpha1.ReasonMultipleDefaults, fmt.Sprintf("Tariff %q is the default because it is "+
				"older; this one applies only where it is named. Remove the annotation %s from one of them",
				chosen.Name, v1alpha1.DefaultTariffAnnotation))
		}
		message += " and where one names none"
		if several {
			message += "; it is the oldest of several that are annotated as the default"
		}
	}
	if unreachable := tariff.Unreachable(subject); unreachable != "" {
		message += "; " + unreachable
	}
	return conditions.Ready(v1alpha1.ReasonAccepted, message)
}

// Users are the names of the CompressionPolicies that name a Tariff or inherit it, sorted. Those that state prices
// inherit none. It is pure.
func Users(subject *v1alpha1.Tariff, tariffs []v1alpha1.Tariff, policies []v1alpha1.CompressionPolicy) []string {
	chosen, _ := tariff.FindDefault(tariffs)
	inherited := chosen != nil && chosen.Name == subject.Name
	var users []string
	for _, p := range policies {
		if p.Spec.TariffName == subject.Name || inherited && p.Spec.TariffName == "" && p.Spec.Prices == nil {
			users = append(users, p.Name)
		}
	}
	slices.Sort(users)
	return users
}
