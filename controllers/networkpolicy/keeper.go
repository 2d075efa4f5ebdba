// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package networkpolicy

import (
	"context"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/owned"
)

// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete

// Keeper writes NetworkPolicies. It is safe for concurrent use; nil writes none.
type Keeper struct {
	// Client reads from the manager's cache and writes; Reader reads past the cache.
	Client client.Client
	Reader client.Reader
	// OperatorNamespace is where manager and gateway run; empty: the policies are switched off, and those that there
	// are go.
	OperatorNamespace string
	// Shares: agents may draw shares of accelerators from node agents.
	Shares bool
}

// Ensure makes the policy of an owner to be what the spec says, which is asked for with the namespace of the operator.
// It is idempotent, and writes nothing when there is nothing to change. The problem is what the API server, or
// somebody else's object, has against it.
func (k *Keeper) Ensure(
	ctx context.Context, kind string, owner client.Object, labels map[string]string,
	spec func(operatorNamespace string) networkingv1.NetworkPolicySpec,
) (*agentpod.Problem, error) {
	if k == nil {
		return nil, nil
	}
	if k.OperatorNamespace == "" {
		return nil, k.remove(ctx, owner, Of(kind, owner, labels, networkingv1.NetworkPolicySpec{}))
	}
	rules := spec(k.OperatorNamespace)
	if k.Shares && slices.Contains(sharingKinds, kind) {
		rules = Shares(k.OperatorNamespace, rules)
	}
	wanted := Of(kind, owner, labels, rules)
	_, problem, err := owned.Writer{Client: k.Client, Reader: k.Reader, Kind: kind}.Ensure(ctx, owner, wanted)
	return problem, err
}

// remove is idempotent. What the cache does not have yet is removed another time.
func (k *Keeper) remove(ctx context.Context, owner client.Object, policy *networkingv1.NetworkPolicy) error {
	err := k.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(policy, owner) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading NetworkPolicy %s: %w", client.ObjectKeyFromObject(policy), err)
	}
	if err := k.Client.Delete(ctx, policy); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting NetworkPolicy %s: %w", client.ObjectKeyFromObject(policy), err)
	}
	return nil
}
