// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
)

// withCanary resolves with the settings of the canary for the objects that have them. An object that they change
// nothing for says nothing of them, and one that they would stall goes on without: neither is compared with others.
func withCanary(
	uid types.UID, inline *v1alpha1.Compression, policies []v1alpha1.CompressionPolicy,
	resolve func([]v1alpha1.CompressionPolicy) (Resolved, error),
) (Resolved, error) {
	resolved, err := resolve(policies)
	chosen, _, chooseErr := choose(inline, policies)
	if err != nil || chooseErr != nil || chosen == nil {
		return resolved, err
	}
	state := canary.Of(chosen, uid)
	if state == nil {
		return resolved, nil
	}
	changed := slices.Clone(policies)
	for i := range policies {
		if &policies[i] == chosen {
			changed[i].Spec = canary.Applied(chosen.Spec)
		}
	}
	other, err := resolve(changed)
	if err != nil || reflect.DeepEqual(resolved, other) {
		return resolved, nil //nolint:nilerr // The object is on neither side, and has what its policy says.
	}
	if state.Applies {
		resolved = other
	}
	resolved.Canary = state
	return resolved, nil
}
