// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/refusal"
)

// tellOfCopy writes the annotations of a source, and then that they were written. The problem is what the API server
// has against the beginning of a handshake. Its end is given up when the claim is gone or asks for nothing any more.
func (r *Reconciler) tellOfCopy(
	ctx context.Context, transfer *v1alpha1.Transfer, told *plan.CopyTold,
) (*agentpod.Problem, error) {
	annotations := map[string]string{v1alpha1.LatestCopyStatusAnnotation: string(told.State)}
	if told.Trigger != "" {
		annotations[v1alpha1.LatestCopyTriggerAnnotation] = told.Trigger
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return nil, fmt.Errorf("encoding annotations: %w", err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: transfer.Namespace, Name: transfer.Spec.Source.PersistentVolumeClaim.ClaimName,
	}}
	err = r.Client.Patch(
		ctx, claim, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(conditions.FieldOwner))
	words, final := refusal.Final(err)
	switch ends := told.State == v1alpha1.CopyCompleted || told.State == v1alpha1.CopyFailed; {
	case err == nil, ends && (final || apierrors.IsNotFound(err)):
		return nil, r.writeStatus(ctx, transfer, plan.Told(transfer, told))
	case final:
		return &agentpod.Problem{Reason: v1alpha1.ReasonStagingNotAllowed, Message: fmt.Sprintf(
			"the manager may not annotate claim %q; ask the platform team to update the admission policies of the chart, or "+
				"remove the annotation %s from the claim: %s", claim.Name, v1alpha1.UseCopyTriggerAnnotation,
			conditions.Shorten(words))}, nil
	}
	return nil, fmt.Errorf("annotating claim %s: %w", client.ObjectKeyFromObject(claim), err)
}
