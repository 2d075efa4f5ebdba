// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trialplan

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/policy"
)

const (
	// MaxSampled is how many replicas a trial asks at most.
	MaxSampled = 256

	minCollect, maxCollect, defaultCollect = time.Second, 10 * time.Minute, time.Minute
)

// Sampled are the agents of an HTTPEndpoint or of a Queue that a trial may ask.
type Sampled struct {
	// Deleting: it is about to go.
	Deleting bool
	// ServerName of all of them, and the Addresses, host and port, of those that are ready, at most MaxSampled.
	ServerName string
	Addresses  []string
}

// agents says whom the trial's agent asks.
func agents(source v1alpha1.TrialSource, sampled *Sampled) *wirev1.TrialAgents {
	agents := &wirev1.TrialAgents{Unit: wirev1.TrialUnit_TRIAL_UNIT_MESSAGE}
	if sampled != nil {
		agents.ServerName, agents.Addresses = sampled.ServerName, sampled.Addresses
	}
	if endpoint := source.HTTPEndpoint; endpoint != nil {
		agents.Unit, agents.Duration = wirev1.TrialUnit_TRIAL_UNIT_BODY, durationpb.New(collectFor(endpoint))
	}
	return agents
}

func collectFor(endpoint *v1alpha1.TrialHTTPEndpoint) time.Duration {
	if endpoint.Duration == nil {
		return defaultCollect
	}
	return endpoint.Duration.Duration
}

// checkSource looks whether the source is there and can be sampled.
func checkSource(trial *v1alpha1.CompressionTrial, facts Facts) *agentpod.Problem {
	source := trial.Spec.Source
	var kind, name, agents string
	switch {
	case source.HTTPEndpoint != nil:
		kind, name, agents = "HTTPEndpoint", source.HTTPEndpoint.Name, "replica"
	case source.Queue != nil:
		kind, name, agents = "Queue", source.Queue.Name, "member"
	default:
		return attempt.CheckSource(trial.Namespace, source.PersistentVolumeClaim.ClaimName, facts.Claim)
	}
	switch sampled := facts.Sampled; {
	case sampled == nil:
		return &agentpod.Problem{Reason: v1alpha1.ReasonSourceNotFound, Message: fmt.Sprintf(
			"there is no %s %q in namespace %q; create it there (those of the own namespace are sampled, and no others)", kind,
			name, trial.Namespace)}
	case sampled.Deleting:
		return &agentpod.Problem{
			Reason: v1alpha1.ReasonSourceNotFound, Message: fmt.Sprintf("%s %q is being deleted", kind, name),
		}
	case len(sampled.Addresses) == 0:
		return &agentpod.Problem{
			Reason: v1alpha1.ReasonSourceNotReady, Message: fmt.Sprintf(
				"no %s of %s %q is ready; its status says why", agents, kind, name,
			),
		}
	}
	return nil
}

// validateSource checks again what the API server checks.
func validateSource(spec v1alpha1.CompressionTrialSpec) error {
	source, given := spec.Source, 0
	for _, is := range []bool{source.PersistentVolumeClaim != nil, source.HTTPEndpoint != nil, source.Queue != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		return &policy.InvalidError{
			Field: "spec.source", Fix: "must have exactly one of persistentVolumeClaim, httpEndpoint and queue",
		}
	}
	if claim := source.PersistentVolumeClaim; claim != nil {
		if claim.ClaimName == "" {
			return &policy.InvalidError{Field: "spec.source.persistentVolumeClaim.claimName", Fix: "must name a claim"}
		}
		return attempt.ValidatePath("spec.source.persistentVolumeClaim.path", claim.Path)
	}
	if len(spec.Include)+len(spec.Exclude) > 0 {
		return &policy.InvalidError{
			Field: "spec.include and spec.exclude", Fix: "choose among files; remove them, or sample a persistentVolumeClaim",
		}
	}
	if queue := source.Queue; queue != nil {
		if queue.Name == "" {
			return &policy.InvalidError{Field: "spec.source.queue.name", Fix: "must name a Queue"}
		}
		return nil
	}
	if source.HTTPEndpoint.Name == "" {
		return &policy.InvalidError{Field: "spec.source.httpEndpoint.name", Fix: "must name an HTTPEndpoint"}
	}
	if d := collectFor(source.HTTPEndpoint); d < minCollect || d > maxCollect {
		return &policy.InvalidError{
			Field: "spec.source.httpEndpoint.duration",
			Fix:   fmt.Sprintf("must be between 1s and 10m, not %s; write for example 1m", d),
		}
	}
	return nil
}
