// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstoreplan

import (
	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/placement"
)

// ProbeName is the name of the Job of the probe that the store's status names; empty if there is none.
func ProbeName(store *v1alpha1.ObjectStore) string {
	if store.Status.Probe == nil {
		return ""
	}
	return attempt.Name(store.Name, store.Status.Probe.ID, 1)
}

// Attempt is the probe that the store's status names.
func Attempt(
	store *v1alpha1.ObjectStore, dial *wirev1.DialPolicy, service *corev1.Service, image agentpod.Image,
) *attempt.Attempt {
	name := ProbeName(store)
	a := attempt.Spec{
		Name: name, SecretName: attempt.SecretName(name, store),
		Namespace: store.Namespace,
		Mode:      "probe",
		Labels:    attempt.Labels("probe", v1alpha1.ObjectStoreLabel, store, store.Status.Probe.ID),
		Owner:     agentpod.OwnerReference("ObjectStore", store),
		Where: placement.Decide(placement.Request{
			Placement: v1alpha1.PlacementAnyNode, Architectures: image.Architectures,
		}, placement.Facts{}),
		Image: image,
	}
	a.Config = &wirev1.ProbeConfig{Store: a.AddStore(store.Spec, "", service), DialPolicy: dial}
	return attempt.New(a)
}
