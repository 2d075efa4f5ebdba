// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package compressionpolicy

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/usedby"
	"github.com/lighterage/lighterage/controllers/wake"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=localcompressionpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=lighterage.dev,resources=localcompressionpolicies/status,verbs=patch

func setupLocal(mgr ctrl.Manager, o Options) error {
	r := NewLocalReconciler(mgr.GetClient(), o)
	changed := wake.LaterIf(
		predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}),
	)
	return ctrl.NewControllerManagedBy(mgr).Named("localcompressionpolicy").
		For(&v1alpha1.LocalCompressionPolicy{}).
		// These have the prices.
		Watches(&v1alpha1.CompressionPolicy{}, handler.EnqueueRequestsFromMapFunc(r.priced), changed).
		Watches(&v1alpha1.Tariff{}, handler.EnqueueRequestsFromMapFunc(r.priced), changed).
		WithOptions(refusal.ControllerOptions(1)).
		Complete(wake.Again(r))
}

// LocalReconciler is made by NewLocalReconciler.
type LocalReconciler struct {
	client client.Client
	clock  clock.PassiveClock
}

// NewLocalReconciler returns the reconciler of LocalCompressionPolicies.
func NewLocalReconciler(c client.Client, o Options) *LocalReconciler {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &LocalReconciler{client: c, clock: o.Clock}
}

// Reconcile is of reconcile.Reconciler.
func (r *LocalReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var subject v1alpha1.LocalCompressionPolicy
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
	uses, err := uses(ctx, r.client, subject.Namespace, subject.Name, nil)
	if err != nil {
		return ctrl.Result{}, err
	}
	before, now := subject.DeepCopy(), r.clock.Now()
	subject.Status.Conditions = conditions.Merge(
		subject.Status.Conditions, JudgeLocal(&subject, policies.Items, tariffs.Items), subject.Generation, now,
	)
	subject.Status.ObservedGeneration = subject.Generation
	subject.Status.UsedBy = usedby.Sum(subject.Status.UsedBy, uses, now)
	_, err = conditions.WriteStatus(ctx, r.client, before, &subject)
	return ctrl.Result{RequeueAfter: usedby.Interval}, err
}

// JudgeLocal returns the conditions of a LocalCompressionPolicy, given the CompressionPolicies and Tariffs of the
// cluster.
func JudgeLocal(
	subject *v1alpha1.LocalCompressionPolicy, policies []v1alpha1.CompressionPolicy, tariffs []v1alpha1.Tariff,
) []metav1.Condition {
	local := policy.Local(subject)
	if err := policy.ValidateSpec(local.Spec); err != nil {
		return conditions.Stalled(v1alpha1.ReasonInvalidSpec, err.Error())
	}
	_, err := policy.Resolve(
		"", &v1alpha1.Compression{PolicyName: subject.Name}, append([]v1alpha1.CompressionPolicy{local}, policies...),
		tariffs,
	)
	if err != nil {
		return conditions.Stalled(v1alpha1.ReasonInvalidSpec, "An object that names the policy and sets nothing itself "+
			"cannot be served: "+err.Error())
	}
	return conditions.Ready(v1alpha1.ReasonAccepted, "The policy applies where an object of the namespace names it")
}

// priced are those that minimise money, or may: the others do not depend on prices.
func (r *LocalReconciler) priced(ctx context.Context, _ client.Object) []reconcile.Request {
	return wake.Requests(ctx, r.client, &v1alpha1.LocalCompressionPolicyList{},
		func(p *v1alpha1.LocalCompressionPolicy) bool {
			return p.Spec.Objective == "" || p.Spec.Objective == v1alpha1.ObjectiveCost
		})
}
