// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/topology"
)

// inputs are what a decision needs of the cluster.
type inputs struct {
	policies         []v1alpha1.CompressionPolicy
	tariffs          []v1alpha1.Tariff
	privilegeAllowed bool
	backend          *corev1.Service
	deployment       *appsv1.Deployment
	cluster          *topology.Cluster
	// permission is what replicas may dial of the backend that the spec names.
	permission egress.Permission
	replicas   replicas.Heard[*wirev1.HTTPReport]
}

func (r *Reconciler) gather(ctx context.Context, endpoint *v1alpha1.HTTPEndpoint) (inputs, error) {
	var in inputs
	var err error
	in.policies, err = lookup.Policies(ctx, r.Client, endpoint.Namespace, endpoint.Spec.Compression.Policy())
	if err != nil {
		return in, err
	}
	tariffs := &v1alpha1.TariffList{}
	if err := r.Client.List(ctx, tariffs, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("listing Tariffs: %w", err)
	}
	in.tariffs = tariffs.Items

	namespace, err := lookup.Namespace(ctx, r.Client, endpoint.Namespace)
	if err != nil {
		return in, err
	}
	in.privilegeAllowed = agentpod.AllowsPrivilege(namespace)

	if named := endpoint.Spec.Backend.Service; named != nil {
		service := &corev1.Service{}
		found, err := lookup.Get(
			ctx, r.Client, client.ObjectKey{Namespace: endpoint.Namespace, Name: named.Name}, service,
		)
		if err != nil {
			return in, err
		}
		if found {
			in.backend = service
		}
	}
	deployment := &appsv1.Deployment{}
	found, err := lookup.Get(
		ctx, r.Client, client.ObjectKey{Namespace: endpoint.Namespace, Name: objectName(endpoint)}, deployment,
	)
	if err != nil {
		return in, err
	}
	if found && metav1.IsControlledBy(deployment, endpoint) {
		in.deployment = deployment
	}
	if endpoint.Spec.Backend.Service != nil || endpoint.Spec.Backend.Host != nil {
		in.permission, err = r.Egress.Permission(ctx, endpoint.Namespace, []egress.Use{backendUse(endpoint)})
		if err != nil {
			return in, err
		}
	}
	if in.cluster, err = r.Topology.Cluster(ctx); err != nil {
		return in, err
	}
	pods, err := replicas.Pods(
		ctx, r.Client, endpoint, selector(endpoint.UID), func(owner *metav1.OwnerReference) bool {
			return owner.Kind == "ReplicaSet" && strings.HasPrefix(owner.Name, objectName(endpoint)+"-")
		},
	)
	if err != nil {
		return in, err
	}
	in.replicas = replicas.Listen(
		r.Reports, client.ObjectKeyFromObject(endpoint), pods, controlPort, pki.HTTPServerName(string(endpoint.UID)),
		in.cluster,
	)
	return in, nil
}
