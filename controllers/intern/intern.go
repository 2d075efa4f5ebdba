// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package intern has objects in a cache share what many of them say alike: keys of labels, texts of conditions, the
// policy that applies to them, sizes of claims and nodes of volumes.
package intern

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

const (
	// These are as many of each as are remembered. What comes then is remembered in place of all others: tenants can
	// make as many as they like.
	maxTexts, maxPolicies, maxSizes, maxAffinities = 8192, 256, 256, 4096
	// maxText is the length in bytes of texts that are looked at.
	maxText = 256
)

// Pool is what is shared. It is safe for concurrent use. Objects that went through it must not be changed in place.
type Pool struct {
	mu       sync.Mutex
	texts    map[string]string
	policies map[string]*v1alpha1.PolicyStatus
	sizes    map[string]corev1.ResourceList
	// affinities by the value that they select nodes by.
	affinities map[string]*corev1.VolumeNodeAffinity
}

// New returns an empty Pool.
func New() *Pool {
	return &Pool{
		texts: map[string]string{}, policies: map[string]*v1alpha1.PolicyStatus{}, sizes: map[string]corev1.ResourceList{},
		affinities: map[string]*corev1.VolumeNodeAffinity{},
	}
}

// After is a transform for a cache that shares what another one leaves.
func (p *Pool) After(transform toolscache.TransformFunc) toolscache.TransformFunc {
	return func(object any) (any, error) {
		object, err := transform(object)
		if err == nil {
			p.share(object)
		}
		return object, err
	}
}

func (p *Pool) share(object any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o, is := object.(metav1.Object); is {
		p.metadata(o)
	}
	switch o := object.(type) {
	case *v1alpha1.Transfer:
		s := &o.Status
		s.Conditions, s.Policy = p.conditions(s.Conditions), p.policy(s.Policy)
		p.figures(s.Compression, s.Run, &s.Usage, &s.Cost)
	case *v1alpha1.Delivery:
		s := &o.Status
		s.Conditions = p.conditions(s.Conditions)
		p.figures(s.Compression, s.Run, &s.Usage, &s.Cost)
	case *v1alpha1.Queue:
		o.Status.Conditions, o.Status.Policy = p.conditions(o.Status.Conditions), p.policy(o.Status.Policy)
	case *v1alpha1.HTTPEndpoint:
		o.Status.Conditions, o.Status.Policy = p.conditions(o.Status.Conditions), p.policy(o.Status.Policy)
	case *v1alpha1.NodeProfile:
		o.Status.Conditions = p.conditions(o.Status.Conditions)
	case *corev1.PersistentVolumeClaim:
		o.Spec.Resources.Requests = p.requests(o.Spec.Resources.Requests)
	case *corev1.PersistentVolume:
		o.Spec.NodeAffinity = p.affinity(o.Spec.NodeAffinity)
	}
}

// metadata: a map that is given a key it has holds the key's new text from then on.
func (p *Pool) metadata(o metav1.Object) {
	o.SetNamespace(p.text(o.GetNamespace()))
	labels := o.GetLabels()
	for key, value := range labels {
		if key == agentpod.AppLabel || key == agentpod.ComponentLabel || key == agentpod.ManagedByLabel {
			value = p.text(value) // those of others may be unique
		}
		labels[p.text(key)] = value
	}
	finalizers := o.GetFinalizers()
	for i := range finalizers {
		finalizers[i] = p.text(finalizers[i])
	}
	owners := o.GetOwnerReferences()
	for i := range owners {
		owners[i].APIVersion, owners[i].Kind = p.text(owners[i].APIVersion), p.text(owners[i].Kind)
	}
}

func (p *Pool) conditions(list []metav1.Condition) []metav1.Condition {
	for i := range list {
		c := &list[i]
		c.Type, c.Reason, c.Message = p.text(c.Type), p.text(c.Reason), p.text(c.Message)
		c.Status = metav1.ConditionStatus(p.text(string(c.Status)))
	}
	if cap(list) == len(list) {
		return list
	}
	return append(make([]metav1.Condition, 0, len(list)), list...)
}

// figures of a first run are those of the object.
func (p *Pool) figures(
	compression *v1alpha1.CompressionStatus, run *v1alpha1.RunStatus, used **v1alpha1.UsageStatus,
	cost **v1alpha1.CostStatus,
) {
	if c := compression; c != nil {
		c.Codec, c.Level, c.Engine, c.Reason = p.text(c.Codec), p.text(c.Level), p.text(c.Engine), p.text(c.Reason)
	}
	if run == nil {
		return
	}
	run.Node, run.Architecture = p.text(run.Node), p.text(run.Architecture)
	if equality.Semantic.DeepEqual(run.Usage, *used) {
		*used = run.Usage
	}
	if equality.Semantic.DeepEqual(run.Cost, *cost) {
		*cost = run.Cost
	}
}

func (p *Pool) text(text string) string {
	if len(text) > maxText {
		return text
	}
	if known, found := p.texts[text]; found {
		return known
	}
	if len(p.texts) >= maxTexts {
		clear(p.texts)
	}
	p.texts[text] = text
	return text
}

func (p *Pool) policy(policy *v1alpha1.PolicyStatus) *v1alpha1.PolicyStatus {
	if policy == nil {
		return nil
	}
	key := policy.Kind + policy.Name
	if policy.Canary != nil && policy.Canary.Applies { // both sides have many
		key += "/canary"
	}
	if known := p.policies[key]; equality.Semantic.DeepEqual(known, policy) {
		return known
	}
	if len(p.policies) >= maxPolicies {
		clear(p.policies)
	}
	p.policies[key] = policy
	return policy
}

// affinity of a volume to one node, which has many volumes.
func (p *Pool) affinity(a *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if a == nil || a.Required == nil || len(a.Required.NodeSelectorTerms) != 1 {
		return a
	}
	term := a.Required.NodeSelectorTerms[0]
	if len(term.MatchFields) != 0 || len(term.MatchExpressions) != 1 || len(term.MatchExpressions[0].Values) != 1 {
		return a
	}
	node := term.MatchExpressions[0].Values[0]
	if known := p.affinities[node]; equality.Semantic.DeepEqual(known, a) {
		return known
	}
	if len(p.affinities) >= maxAffinities {
		clear(p.affinities)
	}
	p.affinities[node] = a
	return a
}

// requests of claims that ask for storage alone, as all do.
func (p *Pool) requests(list corev1.ResourceList) corev1.ResourceList {
	size, found := list[corev1.ResourceStorage]
	if !found || len(list) != 1 {
		return list
	}
	text := size.String()
	if known, found := p.sizes[text]; found {
		return known
	}
	if len(p.sizes) >= maxSizes {
		clear(p.sizes)
	}
	p.sizes[text] = list
	return list
}
