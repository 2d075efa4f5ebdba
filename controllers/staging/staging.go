// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package staging sees, makes and removes the copies of sources that Transfers read: VolumeSnapshots, and claims from
// them or cloned; and the VolumeSnapshots of destinations. It watches no VolumeSnapshots, so that it needs no CRD of
// them to be there.
package staging

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/refusal"
)

const (
	defaultClass = "snapshot.storage.kubernetes.io/is-default-class"
	// maxFailure bounds what is read of a driver's words.
	maxFailure = 4096
	// maxQuantity bounds what is read of a size.
	maxQuantity = 64
)

var version = schema.GroupVersion{Group: plan.SnapshotGroup, Version: "v1"}

// Cluster is the API server. Client writes; Reader reads past the cache, which does not have what is looked at here,
// and is late.
type Cluster struct {
	Client client.Client
	Reader client.Reader
}

// errNotInstalled: the API server has no VolumeSnapshots.
var errNotInstalled = errors.New("the API server has no VolumeSnapshots")

// Look sees what a decision about the copies of a Transfer needs.
func (c *Cluster) Look(ctx context.Context, transfer *v1alpha1.Transfer) (plan.StagingFacts, error) {
	facts := plan.StagingFacts{Seen: true}
	for _, step := range []func(context.Context, *v1alpha1.Transfer, *plan.StagingFacts) error{
		c.lookAtClaims, c.lookAtSnapshots, c.lookAtSource, c.lookAtClasses,
	} {
		err := step(ctx, transfer, &facts)
		if problem := problemOf(err); problem != nil {
			facts.Problem = problem
			return facts, nil
		}
		if err != nil {
			return facts, err
		}
	}
	return facts, nil
}

// problemOf is what an error means for a user; nil if it is one to try again.
func problemOf(err error) *agentpod.Problem {
	switch {
	case errors.Is(err, errNotInstalled):
		return &agentpod.Problem{Reason: v1alpha1.ReasonSnapshotsNotInstalled, Message: "this cluster has no " +
			"VolumeSnapshots; install the CRDs and the snapshot-controller of kubernetes-csi/external-snapshotter, or set " +
			"spec.source.copyMethod to Clone or Direct"}
	case apierrors.IsForbidden(err):
		words, _ := refusal.Final(err)
		return &agentpod.Problem{Reason: v1alpha1.ReasonStagingNotAllowed, Message: fmt.Sprintf(
			"the manager may not make copies of claims in this cluster; ask the platform team to install the chart with "+
				"pointInTime.enabled, or set spec.source.copyMethod to Direct: %s", conditions.Shorten(words))}
	}
	return nil
}

func (c *Cluster) lookAtClaims(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.StagingFacts) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := c.Reader.List(ctx, claims, client.InNamespace(transfer.Namespace), copiesOf(transfer)); err != nil {
		return fmt.Errorf("listing staged claims of Transfer %s: %w", client.ObjectKeyFromObject(transfer), err)
	}
	for i := range claims.Items {
		if metav1.IsControlledBy(&claims.Items[i], transfer) {
			facts.Claims = append(facts.Claims, claims.Items[i])
		}
	}
	return nil
}

func copiesOf(transfer *v1alpha1.Transfer) client.MatchingLabels {
	return client.MatchingLabels{
		v1alpha1.TransferLabel: string(transfer.UID), agentpod.ComponentLabel: plan.StagedComponent,
	}
}

func (c *Cluster) lookAtSnapshots(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.StagingFacts) error {
	if staged := transfer.Status.Staged; staged == nil || staged.Method != v1alpha1.CopySnapshot {
		return nil
	}
	snapshots, err := c.snapshots(ctx, client.InNamespace(transfer.Namespace), copiesOf(transfer))
	for i := range snapshots {
		if metav1.IsControlledBy(&snapshots[i], transfer) {
			facts.Snapshots = append(facts.Snapshots, read(&snapshots[i]))
		}
	}
	if err == nil {
		facts.Grouped, err = c.grouped(ctx, transfer)
	}
	return err
}

func (c *Cluster) snapshots(ctx context.Context, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(version.WithKind("VolumeSnapshotList"))
	if err := c.Reader.List(ctx, list, options...); err != nil {
		return nil, installed(fmt.Errorf("listing VolumeSnapshots: %w", err))
	}
	return list.Items, nil
}

// installed marks an error that says that a kind of external-snapshotter does not exist.
func installed(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return errors.Join(errNotInstalled, err)
	}
	return err
}

// read takes from a VolumeSnapshot what matters. Whatever is not as the CRD has it counts as absent.
func read(o *unstructured.Unstructured) plan.Snapshot {
	seen := plan.Snapshot{
		Name: o.GetName(), Deleting: o.GetDeletionTimestamp() != nil, RunID: o.GetLabels()[v1alpha1.RunLabel],
		Made: o.GetCreationTimestamp(),
	}
	if at, err := time.Parse(time.RFC3339, o.GetAnnotations()[v1alpha1.HistoryTimeAnnotation]); err == nil {
		seen.Completed = metav1.NewTime(at)
	}
	seen.Ready, _, _ = unstructured.NestedBool(o.Object, "status", "readyToUse")
	if text, _, _ := unstructured.NestedString(o.Object, "status", "creationTime"); text != "" {
		if taken, err := time.Parse(time.RFC3339, text); err == nil {
			seen.Created = taken
		}
	}
	if text, _, _ := unstructured.NestedString(o.Object, "status", "restoreSize"); len(text) <= maxQuantity {
		if size, err := resource.ParseQuantity(text); err == nil && size.Sign() > 0 {
			seen.RestoreSize = &size
		}
	}
	if failure, found, _ := unstructured.NestedMap(o.Object, "status", "error"); found {
		seen.Failure = "the driver gives no reason"
		if words, _ := failure["message"].(string); words != "" {
			seen.Failure = words[:min(len(words), maxFailure)]
		}
	}
	return seen
}

func (c *Cluster) lookAtSource(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.StagingFacts) error {
	var err error
	facts.Source, facts.Driver, err = c.claim(ctx, client.ObjectKey{
		Namespace: transfer.Namespace, Name: transfer.Spec.Source.PersistentVolumeClaim.ClaimName,
	})
	return err
}

// claim returns a claim, nil if it does not exist, and the CSI driver of its volume, empty if there is none.
func (c *Cluster) claim(ctx context.Context, key client.ObjectKey) (*corev1.PersistentVolumeClaim, string, error) {
	claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	found, err := lookup.Get(ctx, c.Reader, key, claim)
	switch {
	case err != nil || !found:
		return nil, "", err
	case claim.Spec.VolumeName == "":
		return claim, "", nil
	}
	if _, err = lookup.Get(ctx, c.Reader, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return claim, "", err
	}
	if volume.Spec.CSI == nil {
		return claim, "", nil
	}
	return claim, volume.Spec.CSI.Driver, nil
}

func (c *Cluster) lookAtClasses(ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.StagingFacts) error {
	if name := plan.StagedClass(transfer, facts.Source); name != "" {
		class := &storagev1.StorageClass{}
		found, err := lookup.Get(ctx, c.Reader, client.ObjectKey{Name: name}, class)
		if err != nil {
			return err
		}
		if found {
			facts.StorageClass = class
		}
	}
	staged := transfer.Status.Staged
	if staged == nil || staged.Method != v1alpha1.CopySnapshot || staged.VolumeGroupSnapshotName != "" {
		return nil
	}
	var err error
	facts.SnapshotClass, err = c.class(ctx, transfer.Spec.Source.SnapshotClassName, facts.Driver)
	return err
}

// class is the VolumeSnapshotClass of that name, or the default one of a driver; nil if there is none.
func (c *Cluster) class(ctx context.Context, name, driver string) (*plan.SnapshotClass, error) {
	classes := &unstructured.UnstructuredList{}
	classes.SetGroupVersionKind(version.WithKind("VolumeSnapshotClassList"))
	if err := c.Reader.List(ctx, classes); err != nil {
		return nil, installed(fmt.Errorf("listing VolumeSnapshotClasses: %w", err))
	}
	return choose(classes.Items, name, driver), nil
}

// choose finds the class of that name, or the default one of a driver, the first by name of several.
func choose(classes []unstructured.Unstructured, name, driver string) *plan.SnapshotClass {
	var chosen *plan.SnapshotClass
	for i := range classes {
		class := plan.SnapshotClass{Name: classes[i].GetName()}
		class.Driver, _, _ = unstructured.NestedString(classes[i].Object, "driver")
		policy, _, _ := unstructured.NestedString(classes[i].Object, "deletionPolicy")
		class.Retains = policy != "Delete"
		switch {
		case name != "" && class.Name == name:
			return &class
		case name == "" && class.Driver == driver && classes[i].GetAnnotations()[defaultClass] == "true" &&
			(chosen == nil || class.Name < chosen.Name):
			chosen = &class
		}
	}
	return chosen
}

// Make makes what is to be made of a copy. What exists already is left. The problem is what the API server has against
// it.
func (c *Cluster) Make(ctx context.Context, transfer *v1alpha1.Transfer, stage *plan.Stage) (*agentpod.Problem, error) {
	if stage.Try != nil {
		if problem, err := c.create(ctx, stage.Try, client.DryRunAll); problem != nil || err != nil {
			return problem, err
		}
	}
	if stage.Snapshot != "" {
		if problem, err := c.create(ctx, snapshotOf(transfer, stage)); problem != nil || err != nil {
			return problem, err
		}
	}
	if stage.Claim != nil {
		return c.create(ctx, stage.Claim)
	}
	return nil, nil
}

func snapshotOf(transfer *v1alpha1.Transfer, stage *plan.Stage) *unstructured.Unstructured {
	o := newSnapshot(transfer.Namespace, stage.Snapshot, stage.SnapshotClass,
		transfer.Spec.Source.PersistentVolumeClaim.ClaimName)
	o.SetLabels(plan.StagedLabels(transfer, transfer.Status.Staged.RunID))
	o.SetOwnerReferences([]metav1.OwnerReference{agentpod.OwnerReference("Transfer", transfer)})
	return o
}

func newSnapshot(namespace, name, class, claim string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"volumeSnapshotClassName": class, "source": map[string]any{"persistentVolumeClaimName": claim},
	}}}
	o.SetGroupVersionKind(version.WithKind("VolumeSnapshot"))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func (c *Cluster) create(
	ctx context.Context, object client.Object, options ...client.CreateOption,
) (*agentpod.Problem, error) {
	kind := "PersistentVolumeClaim"
	if _, isClaim := object.(*corev1.PersistentVolumeClaim); !isClaim {
		kind = "VolumeSnapshot"
	}
	err := c.Client.Create(ctx, object, append(options, client.FieldOwner(conditions.FieldOwner))...)
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil, nil
	}
	err = fmt.Errorf("creating %s %s: %w", kind, client.ObjectKeyFromObject(object), err)
	if problem := problemOf(installed(err)); problem != nil && problem.Reason == v1alpha1.ReasonSnapshotsNotInstalled {
		return problem, nil
	}
	words, final := refusal.Final(err)
	if !final {
		return nil, err
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonStagingRejected, Message: fmt.Sprintf(
		"the API server rejects %s %q of the copy; change what it names, such as a ResourceQuota of the namespace or the "+
			"roles of the manager, or set spec.source.copyMethod to Direct: %s", kind, object.GetName(),
		conditions.Shorten(words))}, nil
}

// Remove deletes the copies of a Transfer but that named keep. They are gone when their finalizers are.
func (c *Cluster) Remove(ctx context.Context, transfer *v1alpha1.Transfer, keep string) error {
	facts := plan.StagingFacts{}
	if err := c.lookAtClaims(ctx, transfer, &facts); err != nil {
		return err
	}
	var objects []client.Object
	for i := range facts.Claims {
		objects = append(objects, &facts.Claims[i])
	}
	snapshots, err := c.snapshots(ctx, client.InNamespace(transfer.Namespace), copiesOf(transfer))
	switch {
	case problemOf(err) != nil:
		// There are none, or nobody here may see them: the Transfer owns them, and the garbage collector deletes them.
	case err != nil:
		return err
	}
	for i := range snapshots {
		if metav1.IsControlledBy(&snapshots[i], transfer) {
			objects = append(objects, &snapshots[i])
		}
	}
	for _, object := range objects {
		if object.GetName() == keep || object.GetDeletionTimestamp() != nil {
			continue
		}
		if err := c.delete(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) delete(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := c.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the copy %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	return nil
}
