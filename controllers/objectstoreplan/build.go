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
	store *v1alpha1.ObjectStore, dial *wirev1.DialPolicy, service, gateway *corev1.Service, image agentpod.Image,
) *attempt.Attempt {
	a := jobSpec(store, "probe", ProbeName(store), store.Status.Probe.ID, image)
	a.Config = &wirev1.ProbeConfig{Store: a.AddStore(store.Spec, "", service), DialPolicy: dial}
	reachGateway(&a, store, gateway)
	return attempt.New(a)
}

func jobSpec(store *v1alpha1.ObjectStore, mode, name, id string, image agentpod.Image) attempt.Spec {
	return attempt.Spec{
		Name: name, SecretName: attempt.SecretName(name, store),
		Namespace: store.Namespace,
		Mode:      mode,
		Labels:    attempt.Labels(mode, v1alpha1.ObjectStoreLabel, store, id),
		Owner:     agentpod.OwnerReference("ObjectStore", store),
		Where: placement.Decide(placement.Request{
			Placement: v1alpha1.PlacementAnyNode, Architectures: image.Architectures,
		}, placement.Facts{}),
		Image: image,
	}
}
