// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compressionpolicy says in the status of CompressionPolicies and LocalCompressionPolicies whether they can be
// used, which is the default, and follows the canaries of CompressionPolicies.
package compressionpolicy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/usedby"
	"github.com/lighterage/lighterage/controllers/wake"
)

// Options of Setup.
type Options struct {
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=lighterage.dev,resources=compressionpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=compressionpolicies/status,verbs=patch

// Setup adds the controller to the manager.
func Setup(mgr ctrl.Manager, o Options) error {
	if err := setupLocal(mgr, o); err != nil {
		return err
	}
	r := NewReconciler(mgr.GetClient(), o)
	changed := wake.LaterIf(
		predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}),
	)
	return ctrl.NewControllerManagedBy(mgr).Named("compressionpolicy").
		For(&v1alpha1.CompressionPolicy{}). // own writes too: what followed from an older status is looked at again
		// Whether a policy is the default depends on the others that are said to be.
		Watches(
			&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(r.otherDefaults), changed,
		).
		Watches(&v1alpha1.Tariff{}, handler.EnqueueRequestsFromMapFunc(r.all), changed).
		WithOptions(refusal.ControllerOptions(1)).
		Complete(wake.Again(r))
}

// Reconciler is made by NewReconciler.
type Reconciler struct {
	client  client.Client
	options Options
}

// NewReconciler returns the reconciler of the controller.
func NewReconciler(c client.Client, o Options) *Reconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reconciler{client: c, options: o}
}

// Reconcile is of reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var subject v1alpha1.CompressionPolicy
	if err := r.client.Get(ctx, request.NamespacedName, &subject); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var policies v1alpha1.CompressionPolicyList
	if err := r.client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing CompressionPolicies: %w", err)
	}
	var tariffs v1alpha1.TariffList
	if err := r.client.List(ctx, &tariffs, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing Tariffs: %w", err)
	}
	now := r.options.Clock.Now()
	meter := meterOf(&subject, tariffs.Items, now)
	uses, err := uses(ctx, r.client, "", subject.Name, meter)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := subject.DeepCopy()
	wanted := Judge(&subject, policies.Items, tariffs.Items)
	subject.Status.Conditions = conditions.Merge(subject.Status.Conditions, wanted, subject.Generation, now)
	follow(&subject, meter, now)
	subject.Status.ObservedGeneration = subject.Generation
	subject.Status.UsedBy = usedby.Sum(subject.Status.UsedBy, uses, now)
	wrote, err := conditions.WriteStatus(ctx, r.client, before, &subject)
	if wrote {
		log.FromContext(ctx).Info("CompressionPolicy changed", "reason", wanted[0].Reason, "message", wanted[0].Message)
	}
	after := usedby.Interval
	if wait := canary.Wait(subject.Status.Canary, subject.Spec.Canary, now); wait > 0 {
		after = min(after, wait)
	}
	return ctrl.Result{RequeueAfter: after}, err
}

// meterOf is what the canary of a policy is measured by; nil where there is none, and as long as objects cannot use the
// policy or the settings of the canary: that is said by Ready, and the canary is left as it is.
func meterOf(
	subject *v1alpha1.CompressionPolicy, tariffs []v1alpha1.Tariff, now time.Time,
) *canary.Meter {
	if subject.Spec.Canary == nil {
		return nil
	}
	var resolved policy.Resolved
	with := subject.DeepCopy()
	with.Spec = canary.Applied(subject.Spec)
	for _, p := range []*v1alpha1.CompressionPolicy{with, subject} {
		var err error
		resolved, err = policy.Resolve(
			"", &v1alpha1.Compression{PolicyName: p.Name}, []v1alpha1.CompressionPolicy{*p}, tariffs,
		)
		if err != nil {
			return nil
		}
	}
	type link struct {
		direction v1alpha1.Direction
		peer      string
	}
	known := map[link]*v1alpha1.PricesStatus{} // thousands of objects ask for those of a few
	return canary.NewMeter(subject, resolved.Objective, func(
		direction v1alpha1.Direction, peer string,
	) *v1alpha1.PricesStatus {
		prices, found := known[link{direction, peer}]
		if !found {
			// A Tariff that cannot be used is no fault of the canary: nothing is priced, which Ready says.
			prices, _ = tariff.Resolve(tariff.Query{
				Tariffs: tariffs, Name: resolved.TariffName, Stated: resolved.Prices, Peer: peer, Direction: direction, Time: now,
			})
			known[link{direction, peer}] = prices
		}
		return prices
	})
}

// follow says what the canary has come to.
func follow(subject *v1alpha1.CompressionPolicy, meter *canary.Meter, now time.Time) {
	status := &subject.Status
	status.Canary = canary.Next(status.Canary, subject, meter, now)
	finished, ok := canary.Condition(status.Canary, subject.Spec.Canary)
	if !ok {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionCanaryFinished)
		return
	}
	status.Conditions = conditions.Merge(status.Conditions, []metav1.Condition{finished}, subject.Generation, now)
}

// Judge returns the conditions of a policy among all policies.
func Judge(
	subject *v1alpha1.CompressionPolicy, policies []v1alpha1.CompressionPolicy, tariffs []v1alpha1.Tariff,
) []metav1.Condition {
	if err := policy.ValidateSpec(subject.Spec); err != nil {
		return conditions.Stalled(v1alpha1.ReasonInvalidSpec, err.Error())
	}
	if problem := judgePrices(subject.Spec, tariffs); problem != nil {
		return problem
	}
	if !saidDefault(subject) {
		return conditions.Ready(v1alpha1.ReasonAccepted, "The policy applies where it is named")
	}
	chosen, several := policy.FindDefault(policies)
	switch {
	case chosen == nil || chosen.Name == subject.Name && !several:
		return conditions.Ready(v1alpha1.ReasonAccepted, "The policy applies where it is named and where none is")
	case chosen.Name == subject.Name:
		return conditions.Ready(v1alpha1.ReasonAccepted, "The policy applies where it is named and where none is; it is "+
			"the oldest of several that are annotated as the default")
	default:
		return conditions.Stalled(v1alpha1.ReasonMultipleDefaults, fmt.Sprintf("CompressionPolicy %q is the default "+
			"because it is older; this one applies only where it is named. Remove the annotation %s from one of them",
			chosen.Name, v1alpha1.DefaultPolicyAnnotation))
	}
}

// judgePrices returns the conditions of a policy whose prices cannot be used as they are meant; nil if they can. An
// unusable Tariff that is only inherited is no fault of the policy, unless it minimises money.
func judgePrices(spec v1alpha1.CompressionPolicySpec, tariffs []v1alpha1.Tariff) []metav1.Condition {
	needed := spec.Objective == v1alpha1.ObjectiveCost && spec.Prices == nil
	if c := spec.Canary; c != nil && c.Settings.Objective == v1alpha1.ObjectiveCost && spec.Prices == nil {
		needed = true
	}
	if spec.TariffName == "" && !needed {
		return nil
	}
	found, err := tariff.Find(tariffs, spec.TariffName)
	var notFound *tariff.NotFoundError
	switch {
	case errors.As(err, &notFound):
		return conditions.Stalled(v1alpha1.ReasonTariffNotFound, err.Error())
	case err != nil:
		return conditions.Stalled(v1alpha1.ReasonTariffInvalid, err.Error())
	case found == nil:
		return conditions.Stalled(v1alpha1.ReasonInvalidSpec, "spec.objective must not be Cost where there are no prices; "+
			"set spec.tariffName or spec.prices, annotate a Tariff with "+v1alpha1.DefaultTariffAnnotation+"=true, or choose "+
			"Elapsed, CPU or Bytes")
	case spec.Prices != nil && spec.Prices.Currency != found.Spec.Currency:
		return conditions.Stalled(v1alpha1.ReasonCurrencyMismatch, fmt.Sprintf("spec.prices is in %s and Tariff %q in %s; "+
			"state the prices in %s, or remove spec.tariffName",
			spec.Prices.Currency, found.Name, found.Spec.Currency, found.Spec.Currency))
	}
	return nil
}

func saidDefault(p *v1alpha1.CompressionPolicy) bool {
	return p.Annotations[v1alpha1.DefaultPolicyAnnotation] == "true"
}

// otherDefaults are the policies whose conditions may depend on the one that changed.
func (r *Reconciler) otherDefaults(ctx context.Context, changed client.Object) []reconcile.Request {
	var policies v1alpha1.CompressionPolicyList
	if err := r.client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "CompressionPolicies cannot be listed")
		return nil
	}
	var requests []reconcile.Request
	for i := range policies.Items {
		if other := &policies.Items[i]; saidDefault(other) && other.Name != changed.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)})
		}
	}
	return requests
}

// all are those whose prices a Tariff may have.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return wake.Requests[*v1alpha1.CompressionPolicy](ctx, r.client, &v1alpha1.CompressionPolicyList{}, nil)
}
