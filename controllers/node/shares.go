// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/quota"
)

const (
	// sharesService leads each pod to the node agent of its own node.
	sharesService = "lighterage-node-agent"
	// maxWeights is of how many namespaces a node agent is told the weight: requests to those of an earlier release may
	// have 64 KiB.
	maxWeights = 800
)

// ErrNoShares says that agents find no node agent, so that they use accelerators without shares.
var ErrNoShares = errors.New("agents use accelerators without shares")

// SharesAddress returns where agents find the node agent of their node, by IP address: their NetworkPolicies may admit
// no DNS. An error is an ErrNoShares where the Service is missing or has no address.
func SharesAddress(ctx context.Context, reader client.Reader, namespace string) (string, error) {
	var service corev1.Service
	key := types.NamespacedName{Namespace: namespace, Name: sharesService}
	if err := reader.Get(ctx, key, &service); apierrors.IsNotFound(err) {
		return "", fmt.Errorf("%w: Service %s is missing: create it and restart the manager, or set "+
			"accelerator.shares.enabled to false", ErrNoShares, key)
	} else if err != nil {
		return "", fmt.Errorf("reading Service %s, by which agents find shares of accelerators: %w", key, err)
	}
	if net.ParseIP(service.Spec.ClusterIP) == nil {
		return "", fmt.Errorf("%w: Service %s has no address in the cluster: make it one of type ClusterIP, which is "+
			"not headless, and restart the manager", ErrNoShares, key)
	}
	return net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(agentpod.SharesPort)), nil
}

// Weights returns a function that reads the weights by which namespaces share accelerators, for node agents. They are
// those by which namespaces share other limits; see package quota.
func Weights(reader client.Reader) agentclient.Weights {
	return func(ctx context.Context) (*wirev1.AcceleratorWeights, error) {
		var quotas v1alpha1.DataQuotaList
		if err := reader.List(ctx, &quotas, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing DataQuotas for the weights of namespaces: %w", err)
		}
		return weightsOf(quotas.Items), nil
	}
}

func weightsOf(quotas []v1alpha1.DataQuota) *wirev1.AcceleratorWeights {
	weights := quota.Weights(quotas)
	var namespaces []string
	for namespace, weight := range weights {
		if weight != quota.Weight {
			namespaces = append(namespaces, namespace)
		}
	}
	slices.Sort(namespaces)
	w := &wirev1.AcceleratorWeights{Namespaces: map[string]uint32{}}
	for _, namespace := range namespaces[:min(len(namespaces), maxWeights)] {
		w.Namespaces[namespace] = uint32(weights[namespace])
	}
	return w
}

// sharing shows what a node agent granted, and that it grants nothing any more. One that does not answer changes nothing.
func (r *Reconciler) sharing(node string, said *wirev1.AcceleratorUse) {
	shares := said.GetShares()
	if shares == nil {
		if said != nil {
			r.options.Metrics.Unshared(node)
		}
		return
	}
	for _, kind := range shares.GetKinds() {
		r.options.Metrics.Shared(node, kind.GetKind(), metrics.Shares{
			GrantedNanos: kind.GetGrantedNanos(), UsedNanos: kind.GetUsedNanos(),
			RefusedShare: kind.GetRefusedShare(), RefusedBusy: kind.GetRefusedBusy(),
		})
	}
	r.options.Metrics.Sharing(node, shares.GetAgents(), shares.GetContended())
}
