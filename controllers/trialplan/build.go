// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trialplan

import (
	"fmt"
	"slices"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
)

// Bounds of a trial's sample in bytes, and of its links in bytes per second and number.
const (
	minSample, maxSample, defaultSample = 1 << 20, 128 << 20, 64 << 20
	minLink, maxLink                    = 1000, 1_000_000_000_000
	maxLinks                            = 6
)

// Attempt is the attempt that the trial's status names.
func Attempt(
	trial *v1alpha1.CompressionTrial, resolved policy.Resolved, where placement.Plan, sampled *Sampled,
	image agentpod.Image,
) *attempt.Attempt {
	spec, run := trial.Spec, trial.Status.Run
	name := attempt.Name(trial.Name, run.ID, run.Attempt)
	a := attempt.Spec{
		Name: name, SecretName: attempt.SecretName(name, trial),
		Namespace: trial.Namespace,
		Mode:      "trial",
		Labels:    attempt.Labels("trial", v1alpha1.TrialLabel, trial, run.ID),
		Owner:     agentpod.OwnerReference("CompressionTrial", trial),
		Where:     where,
		Image:     image,
	}
	if spec.PodTemplate != nil {
		a.Template = *spec.PodTemplate
	}
	config := &wirev1.TrialConfig{
		Include:        spec.Include,
		Exclude:        spec.Exclude,
		SampleBytes:    defaultSample,
		Compression:    resolved.Wire(),
		ControlAddress: fmt.Sprintf(":%d", agentpod.ControlPort),
	}
	if claim := spec.Source.PersistentVolumeClaim; claim != nil {
		a.Mounts = []attempt.Mount{{Claim: claim.ClaimName, Path: attempt.VolumePath, ReadOnly: true}}
		config.Volume, config.Path = attempt.VolumePath, attempt.RelativePath(claim.Path)
		if agentpod.AsksPrivilege(spec.PodTemplate) {
			a.Capabilities = agentpod.ReadCapabilities
		}
	} else {
		config.Agents = agents(spec.Source, sampled)
	}
	if spec.Sample != nil {
		config.Seed = uint64(spec.Sample.Seed)
		if spec.Sample.Size != nil {
			config.SampleBytes = uint64(spec.Sample.Size.Value())
		}
	}
	for _, link := range trial.Status.Links {
		config.LinkBytesPerSecond = append(config.LinkBytesPerSecond, uint64(link.BytesPerSecond.Value()))
	}
	a.Config = config
	return attempt.New(a)
}

// placement is what is wanted for the trial's agent.
func (d *decision) placement() placement.Request {
	request := placement.Request{
		Placement: v1alpha1.PlacementAnyNode, Level: v1alpha1.CompressionFast, Architectures: d.image.Architectures,
	}
	if d.trial.Spec.PodTemplate != nil {
		request.Tolerations = d.trial.Spec.PodTemplate.Tolerations
	}
	class := d.trial.Spec.NodeClass
	if class == nil {
		return request
	}
	request.Selector = class.NodeSelector
	if class.Architecture != "" {
		request.Architectures = []string{class.Architecture}
	}
	switch class.Class {
	case v1alpha1.TrialClassHardware:
		request.Placement = v1alpha1.PlacementRequireHardware
		request.Asker, request.WayOut = "spec.nodeClass.class Hardware", "choose Any or Software to measure without one"
	case v1alpha1.TrialClassSoftware:
		request.AvoidHardware = true
	}
	return request
}

// describe puts into words what a placement that does not look for accelerators means for a trial.
func describe(r placement.Request, status v1alpha1.PlacementStatus) v1alpha1.PlacementStatus {
	if r.Placement != v1alpha1.PlacementAnyNode {
		return status
	}
	status.Message = "spec.nodeClass does not ask for an accelerator"
	if r.AvoidHardware {
		status.Message = "spec.nodeClass asks for a node that is not known to have an accelerator"
	}
	return status
}

// check looks for what would make an attempt fail before it costs a pod. The policy is resolved on the way, unless
// the run has begun with one, kept, that it goes on with.
func check(
	trial *v1alpha1.CompressionTrial, kept *v1alpha1.PolicyStatus, facts Facts,
) (policy.Resolved, *agentpod.Problem) {
	if problem := agentpod.SpecProblem(Validate(trial.Spec)); problem != nil {
		return policy.Resolved{}, problem
	}
	resolved, err := policy.Kept(kept), error(nil)
	if kept == nil {
		inline := &v1alpha1.Compression{}
		if c := trial.Spec.Compression; c != nil {
			inline.PolicyName, inline.Objective = c.PolicyName, c.Objective
		}
		resolved, err = policy.Resolve("", inline, facts.Policies, facts.Tariffs)
	}
	if problem := agentpod.SpecProblem(err); problem != nil {
		return resolved, problem
	}
	if problem := checkSource(trial, facts); problem != nil {
		return resolved, problem
	}
	return resolved, agentpod.CheckPrivilege(trial.Spec.PodTemplate, trial.Namespace, facts.PrivilegeAllowed)
}

// Validate checks again what the API server checks. The error is a *policy.InvalidError.
func Validate(spec v1alpha1.CompressionTrialSpec) error {
	if err := validateSource(spec); err != nil {
		return err
	}
	switch {
	case len(spec.Include) > attempt.MaxPatterns || len(spec.Exclude) > attempt.MaxPatterns:
		return &policy.InvalidError{
			Field: "spec.include and spec.exclude",
			Fix:   fmt.Sprintf("must have at most %d patterns each; put some together with * or **", attempt.MaxPatterns),
		}
	case len(spec.Links) == 0 || len(spec.Links) > maxLinks:
		return &policy.InvalidError{
			Field: "spec.links",
			Fix: fmt.Sprintf(
				"must have 1 to %d links, not %d; write for example [{name: wan, bytesPerSecond: 125M}]", maxLinks, len(spec.Links),
			),
		}
	}
	for i, link := range spec.Links {
		switch {
		case link.Name == "" || slices.ContainsFunc(spec.Links[:i], func(l v1alpha1.TrialLink) bool {
			return l.Name == link.Name
		}):
			return &policy.InvalidError{
				Field: "spec.links", Fix: fmt.Sprintf("must have a name each, and no name twice; %q is not one", link.Name),
			}
		case link.BytesPerSecond.Value() < minLink || link.BytesPerSecond.Value() > maxLink:
			return &policy.InvalidError{
				Field: "spec.links",
				Fix: fmt.Sprintf(
					"must carry between 1k and 1T bytes per second, not %s; write for example 125M for 1 Gbit/s", &link.BytesPerSecond,
				),
			}
		}
	}
	if s := spec.Sample; s != nil && s.Size != nil && (s.Size.Value() < minSample || s.Size.Value() > maxSample) {
		return &policy.InvalidError{
			Field: "spec.sample.size", Fix: fmt.Sprintf("must be between 1Mi and 128Mi, not %s", s.Size),
		}
	}
	if spec.Sample != nil && spec.Sample.Seed < 0 {
		return &policy.InvalidError{
			Field: "spec.sample.seed", Fix: fmt.Sprintf("must be 0 or more, not %d", spec.Sample.Seed),
		}
	}
	if c := spec.NodeClass; c != nil &&
		!slices.Contains(
			[]v1alpha1.TrialClass{"", v1alpha1.TrialClassAny, v1alpha1.TrialClassHardware, v1alpha1.TrialClassSoftware}, c.Class,
		) {
		return &policy.InvalidError{
			Field: "spec.nodeClass.class", Fix: fmt.Sprintf("must be Any, Hardware or Software, not %q", c.Class),
		}
	}
	return nil
}
