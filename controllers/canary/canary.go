// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package canary decides which objects have the settings of a CompressionPolicy's canary, compares what they take with
// what the others take, and says what becomes of the canary. It is pure.
package canary

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// What is built in.
const (
	builtInShare    = 10
	builtInDuration = 24 * time.Hour
	builtInIncrease = 5
)

// Revision tells policies and their specs apart: what was measured with one says nothing of another, nor of one of the
// same name that was deleted.
func Revision(policy *v1alpha1.CompressionPolicy) string {
	// Nothing in a spec has no JSON.
	text, _ := json.Marshal(policy.Spec)
	sum := sha256.Sum256(append([]byte(policy.UID+"/"), text...))
	return hex.EncodeToString(sum[:8])
}

// Of is what the canary of a policy is to the object with a UID; nil where it is not measured and was not promoted, and
// of no object, whose UID is empty. It depends on nothing but the UIDs and the spec, so that every replica of the
// manager, and the next one, says the same.
func Of(policy *v1alpha1.CompressionPolicy, object types.UID) *v1alpha1.PolicyCanary {
	if policy.Spec.Canary == nil || policy.Status.Canary == nil || object == "" {
		return nil
	}
	made := &v1alpha1.PolicyCanary{Revision: Revision(policy)}
	switch status := policy.Status.Canary; {
	case status.Revision != made.Revision:
		return nil
	case status.State == v1alpha1.CanaryPromoted:
		made.Applies = true
	case status.State == v1alpha1.CanaryMeasuring:
		made.Applies = drawn(policy.UID, made.Revision, object) < uint64(share(policy.Spec.Canary))
	default:
		return nil
	}
	return made
}

// drawn is a number below 100.
func drawn(policy types.UID, revision string, object types.UID) uint64 {
	sum := sha256.Sum256([]byte(string(policy) + "/" + revision + "/" + string(object)))
	return binary.BigEndian.Uint64(sum[:]) % 100
}

// Applied is a spec with the settings of its canary, which it must have.
func Applied(spec v1alpha1.CompressionPolicySpec) v1alpha1.CompressionPolicySpec {
	settings := spec.Canary.Settings
	spec.Canary = nil
	if settings.Objective != "" {
		spec.Objective = settings.Objective
	}
	if settings.Mode != "" {
		spec.Mode = settings.Mode
	}
	if len(settings.Codecs) > 0 {
		spec.Codecs = settings.Codecs
	}
	if settings.Level != "" {
		spec.Level = settings.Level
	}
	return spec
}

// Baseline is what an object that serves shows of its usage when a canary began for it, given what it showed before,
// the policy in force and its usage now. Counters go on from there, whatever agents restart.
func Baseline(
	before *v1alpha1.CanaryBaseline, policy *v1alpha1.PolicyStatus, used *v1alpha1.UsageStatus,
) *v1alpha1.CanaryBaseline {
	if policy == nil || policy.Canary == nil {
		return nil
	}
	if before != nil && before.Revision == policy.Canary.Revision {
		return before
	}
	begun := &v1alpha1.CanaryBaseline{Revision: policy.Canary.Revision}
	if used != nil {
		begun.Usage = *used.DeepCopy()
	}
	return begun
}

func share(c *v1alpha1.CompressionCanary) int32 {
	if c.SharePercent == 0 {
		return builtInShare
	}
	return c.SharePercent
}

func duration(c *v1alpha1.CompressionCanary) time.Duration {
	if c.Duration == nil {
		return builtInDuration
	}
	return c.Duration.Duration
}

// increase is the bound in percent.
func increase(c *v1alpha1.CompressionCanary) float64 {
	if c.MaxCostIncreasePercent == nil {
		return builtInIncrease
	}
	return float64(*c.MaxCostIncreasePercent)
}

// Turn is how far figures are apart.
func Turn(c *v1alpha1.CompressionCanary) time.Duration {
	return min(max(duration(c)/20, 30*time.Second), 5*time.Minute)
}
