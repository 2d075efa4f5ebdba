// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// builtInHTTPSoftwareMinSize is the size below which a compressed response saves no packet worth its header fields.
const builtInHTTPSoftwareMinSize = 1024

// ResolveHTTP applies the inheritance for an HTTPEndpoint, of policies as Resolve does. Codecs are empty: HTTP
// negotiates codings. Only who asks for the objective Cost by itself needs prices: where the policy does and there are
// none, replicas minimise Elapsed. The error is a *NotFoundError or an *InvalidError.
func ResolveHTTP(
	uid types.UID, inline *v1alpha1.HTTPCompression, policies []v1alpha1.CompressionPolicy, tariffs []v1alpha1.Tariff,
) (Resolved, error) {
	if inline == nil {
		inline = &v1alpha1.HTTPCompression{}
	}
	common := &v1alpha1.Compression{
		PolicyName: inline.PolicyName, Objective: inline.Objective, Mode: inline.Mode, Level: inline.Level,
		Placement: inline.Placement, Software: inline.Software,
	}
	return withCanary(uid, common, policies, func(policies []v1alpha1.CompressionPolicy) (Resolved, error) {
		return resolveHTTP(inline, common, policies, tariffs)
	})
}

func resolveHTTP(
	inline *v1alpha1.HTTPCompression, common *v1alpha1.Compression, policies []v1alpha1.CompressionPolicy,
	tariffs []v1alpha1.Tariff,
) (Resolved, error) {
	resolved, err := inherit(common, policies)
	if err == nil && inline.Objective != "" {
		err = resolved.checkPrices(tariffs)
	}
	if err != nil {
		return resolved, err
	}
	resolved.Codecs = nil
	if chosen, _, err := choose(common, policies); err == nil && !setsSoftwareMinSize(chosen) {
		resolved.SoftwareMinSize = builtInHTTPSoftwareMinSize
	}
	for _, size := range []struct {
		field string
		value *resource.Quantity
		into  *int64
	}{
		{"spec.compression.hardwareMinSize", inline.HardwareMinSize, &resolved.HardwareMinSize},
		{"spec.compression.softwareMinSize", inline.SoftwareMinSize, &resolved.SoftwareMinSize},
	} {
		if err := validateMinSize(size.field, size.value); err != nil {
			return resolved, err
		}
		if size.value != nil {
			*size.into = size.value.Value()
		}
	}
	return resolved, nil
}

func setsSoftwareMinSize(policy *v1alpha1.CompressionPolicy) bool {
	return policy != nil && policy.Spec.Software != nil && policy.Spec.Software.MinSize != nil
}
