// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package populate fills claims whose dataSourceRef names a Transfer: it makes another claim, has a Transfer fill that,
// and gives its volume to the claim. Package populateplan decides.
package populate

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/populateplan"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/staging"
	"github.com/lighterage/lighterage/controllers/wake"
)

// What makes and deletes claims and gives volumes to them is in config/populator, which is opted in to.
// +kubebuilder:rbac:groups=lighterage.dev,resources=transfers,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Reader reads past the cache, which has little of claims and no classes.
	Reader   client.Reader
	Recorder events.EventRecorder
	Metrics  *metrics.Populating
	// Concurrency is how many claims are looked after at once.
	Concurrency int
}

// Reconciler fills claims.
type Reconciler struct{ Options }

// Setup registers the controller.
func Setup(mgr ctrl.Manager, o Options) error {
	wanted := predicate.NewPredicateFuncs(func(object client.Object) bool {
		claim, ok := object.(*corev1.PersistentVolumeClaim)
		return ok && populateplan.Wanted(claim)
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("populate").
		For(&corev1.PersistentVolumeClaim{}, builder.WithPredicates(wanted)).
		Owns(&v1alpha1.Transfer{}, builder.WithPredicates(judged())).
		Owns(&corev1.PersistentVolumeClaim{}, builder.WithPredicates(wake.Later())).
		Watches(&v1alpha1.Transfer{}, handler.EnqueueRequestsFromMapFunc(claimsOf(o.Client)), wake.LaterIf(appears())).
		WithOptions(refusal.ControllerOptions(o.Concurrency)).
		Complete(wake.Again(&Reconciler{o}))
	if err != nil {
		return fmt.Errorf("registering the controller of populated claims: %w", err)
	}
	return nil
}

// judged lets pass what changes the conditions of a Transfer, and not how far a run has come.
func judged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isBefore := e.ObjectOld.(*v1alpha1.Transfer)
		after, isAfter := e.ObjectNew.(*v1alpha1.Transfer)
		return isBefore && isAfter && reasonOf(before) != reasonOf(after)
	}}
}

// reasonOf is why a Transfer is Ready or not.
func reasonOf(t *v1alpha1.Transfer) string {
	if ready := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}

// appears lets pass Transfers that claims may have waited for.
func appears() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// claimsOf finds the claims that name a Transfer.
func claimsOf(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, transfer client.Object) []reconcile.Request {
		return wake.Requests(ctx, reader, &corev1.PersistentVolumeClaimList{},
			func(claim *corev1.PersistentVolumeClaim) bool {
				return populateplan.Wanted(claim) && claim.Spec.DataSourceRef.Name == transfer.GetName()
			}, client.InNamespace(transfer.GetNamespace()))
	}
}

// Reconcile looks after one claim.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	facts, found, err := r.look(ctx, request.NamespacedName)
	if facts.Claim == nil || err == nil && !found {
		if err == nil {
			r.Metrics.Observe(request.NamespacedName, "")
		}
		return ctrl.Result{}, err
	}
	decision := populateplan.Decision{}
	if err == nil {
		decision = populateplan.Decide(facts)
		err = r.act(ctx, facts, decision)
	}
	if words, final := refusal.Final(err); final {
		decision, err = populateplan.Rejected(conditions.Shorten(words)), nil
	}
	if e := decision.Event; e != nil && err == nil {
		r.Recorder.Eventf(facts.Claim, nil, e.Type, e.Reason, "Populate", "%s", e.Message)
	}
	if err == nil {
		r.Metrics.Observe(request.NamespacedName, populateplan.StateOf(facts, decision))
	}
	return ctrl.Result{RequeueAfter: decision.RequeueAfter}, err
}

// look sees what a decision needs. found is false if there is nothing to decide.
func (r *Reconciler) look(ctx context.Context, key client.ObjectKey) (f populateplan.Facts, found bool, err error) {
	claim := &corev1.PersistentVolumeClaim{}
	if found, err = lookup.Get(ctx, r.Reader, key, claim); err != nil || !found || !populateplan.Wanted(claim) {
		return f, false, err
	}
	f.Claim = claim
	own := client.ObjectKey{Namespace: key.Namespace, Name: populateplan.Name(claim)}
	if f.Fill, err = get(ctx, r.Client, own, &v1alpha1.Transfer{}); err != nil {
		return f, false, err
	}
	if f.Prime, err = get(ctx, r.Reader, own, &corev1.PersistentVolumeClaim{}); err != nil {
		return f, false, err
	}
	if claim.Status.Phase == corev1.ClaimBound {
		return f, true, nil
	}
	if f.Prime != nil && f.Prime.Spec.VolumeName != "" {
		volume := client.ObjectKey{Name: f.Prime.Spec.VolumeName}
		f.Volume, err = get(ctx, r.Client, volume, &corev1.PersistentVolume{})
		if err != nil || f.Fill != nil || f.Prime.Spec.DataSource != nil {
			return f, err == nil, err
		}
	}
	source := client.ObjectKey{Namespace: key.Namespace, Name: claim.Spec.DataSourceRef.Name}
	if f.Source, err = get(ctx, r.Client, source, &v1alpha1.Transfer{}); err != nil {
		return f, false, err
	}
	if class := claim.Spec.StorageClassName; class != nil && *class != "" {
		f.Class, err = get(ctx, r.Reader, client.ObjectKey{Name: *class}, &storagev1.StorageClass{})
	}
	snapshots := staging.Cluster{Client: r.Client, Reader: r.Reader}
	if err == nil && f.NeedsHistory() {
		f.History, err = snapshots.LookAtHistory(ctx, plan.TransferHistory(f.Source))
	}
	if name := f.ReadsSnapshot(); err == nil && name != "" {
		f.SnapshotGone, err = snapshots.SnapshotGone(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name})
	}
	return f, err == nil, err
}

// get reads an object; nil if there is none.
func get[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, object T) (T, error) {
	found, err := lookup.Get(ctx, reader, key, object)
	if err != nil || !found {
		var none T
		return none, err
	}
	return object, nil
}

func (r *Reconciler) act(ctx context.Context, f populateplan.Facts, d populateplan.Decision) error {
	if d.CreatePrime != nil {
		if err := r.create(ctx, d.CreatePrime); err != nil {
			return err
		}
	}
	if d.CreateFill != nil {
		if err := r.create(ctx, d.CreateFill); err != nil {
			return err
		}
	}
	if d.Bind {
		return r.bind(ctx, f)
	}
	if d.Remove && f.Fill != nil && metav1.IsControlledBy(f.Fill, f.Claim) {
		if err := r.remove(ctx, f.Fill); err != nil {
			return err
		}
	}
	if d.Remove && f.Prime != nil && metav1.IsControlledBy(f.Prime, f.Claim) {
		return r.remove(ctx, f.Prime)
	}
	return nil
}

func (r *Reconciler) create(ctx context.Context, object client.Object) error {
	err := r.Client.Create(ctx, object, client.FieldOwner(conditions.FieldOwner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// remove deletes what was looked at, and none of its name that was made since.
func (r *Reconciler) remove(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// bind writes into the volume whose it is. Kubernetes' own controller binds the claim to it, and marks the prime as
// Lost. The write fails if the volume has changed since it was looked at.
func (r *Reconciler) bind(ctx context.Context, f populateplan.Facts) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": f.Volume.ResourceVersion},
		"spec": map[string]any{"claimRef": map[string]any{
			"name": f.Claim.Name, "uid": f.Claim.UID, "resourceVersion": nil,
		}},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	volume := &corev1.PersistentVolume{}
	volume.Name = f.Volume.Name
	owner := client.FieldOwner(conditions.FieldOwner)
	err = r.Client.Patch(ctx, volume, client.RawPatch(types.MergePatchType, patch), owner)
	if err != nil {
		return fmt.Errorf("binding volume %s to claim %s: %w", volume.Name, client.ObjectKeyFromObject(f.Claim), err)
	}
	return nil
}
