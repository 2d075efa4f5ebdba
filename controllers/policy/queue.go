// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// builtInQueueSoftwareMinSize is the size below which a compressed message saves about as much as the headers that
// describe it take.
const builtInQueueSoftwareMinSize = 1024

// ResolveQueue applies the inheritance for a Queue, of policies as Resolve does. A minSize of its own, 0 excepted, is
// that of hardware and software. Prices are needed as by ResolveHTTP. The error is a *NotFoundError or an
// *InvalidError.
func ResolveQueue(
	uid types.UID, inline *v1alpha1.QueueCompression, policies []v1alpha1.CompressionPolicy, tariffs []v1alpha1.Tariff,
) (Resolved, error) {
	if inline == nil {
		inline = &v1alpha1.QueueCompression{}
	}
	common := &v1alpha1.Compression{
		PolicyName: inline.PolicyName, Objective: inline.Objective, Mode: inline.Mode, Codecs: inline.Codecs,
		Level: inline.Level, Placement: inline.Placement, Software: inline.Software, MinSize: inline.MinSize,
	}
	return withCanary(uid, common, policies, func(policies []v1alpha1.CompressionPolicy) (Resolved, error) {
		resolved, err := inherit(common, policies)
		if err == nil {
			err = resolved.checkCodecs()
		}
		if err == nil && inline.Objective != "" {
			err = resolved.checkPrices(tariffs)
		}
		if err != nil {
			return Resolved{}, err
		}
		if chosen, _, err := choose(common, policies); inline.MinSize == nil && err == nil && !setsSoftwareMinSize(chosen) {
			resolved.SoftwareMinSize = builtInQueueSoftwareMinSize
		}
		return resolved, nil
	})
}
