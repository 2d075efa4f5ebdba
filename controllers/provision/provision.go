// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provision reads, creates and enlarges the claims that templates of Transfers ask for. It never deletes one.
package provision

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/refusal"
)

// Cluster is the API server. Client writes; Reader reads past the cache, which lacks most of a claim, and is late.
type Cluster struct {
	Client client.Client
	Reader client.Reader
}

// Claim is a claim as the API server has it; nil if there is none.
func (c *Cluster) Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	claim := &corev1.PersistentVolumeClaim{}
	found, err := lookup.Get(ctx, c.Reader, client.ObjectKey{Namespace: namespace, Name: name}, claim)
	if !found || err != nil {
		return nil, err
	}
	return claim, nil
}

// Create creates a claim. One that exists is left as it is. The words are the API server's if it rejects the claim and
// would do so again; empty otherwise.
func (c *Cluster) Create(ctx context.Context, claim *corev1.PersistentVolumeClaim) (words string, err error) {
	err = c.Client.Create(ctx, claim, client.FieldOwner(conditions.FieldOwner))
	if err == nil || apierrors.IsAlreadyExists(err) {
		return "", nil
	}
	if words, final := refusal.Final(err); final {
		return words, nil
	}
	return "", fmt.Errorf("creating PersistentVolumeClaim %s: %w", client.ObjectKeyFromObject(claim), err)
}

// Enlarge has the request of a claim become larger. The words are as those of Create.
func (c *Cluster) Enlarge(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity,
) (words string, err error) {
	larger := claim.DeepCopy()
	if larger.Spec.Resources.Requests == nil {
		larger.Spec.Resources.Requests = corev1.ResourceList{}
	}
	larger.Spec.Resources.Requests[corev1.ResourceStorage] = size
	// Somebody may just have made it still larger.
	patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
	err = c.Client.Patch(ctx, larger, patch, client.FieldOwner(conditions.FieldOwner))
	if err == nil {
		return "", nil
	}
	if words, final := refusal.Final(err); final {
		return words, nil
	}
	return "", fmt.Errorf("enlarging PersistentVolumeClaim %s: %w", client.ObjectKeyFromObject(claim), err)
}
