// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/policy"
)

// external fills in what members are told of external servers, if these are to keep the messages.
func external(config *wirev1.QueueConfig, queue *v1alpha1.Queue, namespace types.UID) error {
	spec := queue.Spec.Engine.External
	if spec == nil {
		return nil
	}
	config.External = &wirev1.QueueExternal{
		Servers: spec.Servers, CaBundle: spec.CABundle,
		// A Queue that is recreated in the same namespace goes on with what is there; one of another cluster or
		// namespace, whatever these are called, does not.
		Owner: queue.Namespace + "/" + queue.Name + " in namespace " + string(namespace),
	}
	if len(spec.CABundle) > 0 {
		if _, err := pki.ParseBundle(spec.CABundle); err != nil {
			return &policy.InvalidError{
				Field: "spec.engine.external.caBundle", Fix: "must be CA certificates as PEM: " + err.Error(),
			}
		}
	}
	if spec.Credentials != nil {
		// An object may be older than the rule of its schema.
		if slices.ContainsFunc(spec.Servers, func(s string) bool { return !strings.HasPrefix(s, "tls://") }) {
			return &policy.InvalidError{
				Field: "spec.engine.external.servers",
				Fix: "must begin with tls:// where credentials are given, which would be readable on the way; or leave the " +
					"credentials out",
			}
		}
		config.External.CredentialsDirectory = externalDirectory
	}
	// Members have no volume, and nothing to say to each other.
	config.RouteAddress = ""
	for _, member := range config.GetMembers() {
		member.RouteAddress = ""
	}
	config.Storage = &wirev1.QueueStorage{
		Memory: config.GetStorage().GetMemory(), Capacity: uint64(max(queue.Spec.Storage.Size.Value(), 0)),
	}
	return nil
}
