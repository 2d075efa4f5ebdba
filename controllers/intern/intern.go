// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package intern has objects in a cache share what many of them say alike: the texts of conditions, the policy that
// applies to them, and the sizes of claims. With 10,000 Transfers that is a tenth of what the cache takes.
package intern

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// maxTexts, maxPolicies and maxSizes are as many as are remembered. What comes then is remembered in place of all
	// others: tenants can make as many as they like.
	maxTexts, maxPolicies, maxSizes = 4096, 256, 256
	// maxText is the length in bytes of texts that are looked at.
	maxText = 256
)

// Pool is what is shared. It is safe for concurrent use. Objects that went through it must not be changed in place.
type Pool struct {
	mu       sync.Mutex
	texts    map[string]string
	policies map[string]*v1alpha1.PolicyStatus
	sizes    map[string]corev1.ResourceList
}

// New returns an empty Pool.
func New() *Pool {
	return &Pool{
		texts: map[string]string{}, policies: map[string]*v1alpha1.PolicyStatus{}, sizes: map[string]corev1.ResourceList{},
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
	switch o := object.(type) {
	case *v1alpha1.Transfer:
		p.conditions(o.Status.Conditions)
		o.Status.Policy = p.policy(o.Status.Policy)
	case *v1alpha1.Delivery:
		p.conditions(o.Status.Conditions)
	case *v1alpha1.Queue:
		p.conditions(o.Status.Conditions)
		o.Status.Policy = p.policy(o.Status.Policy)
	case *v1alpha1.HTTPEndpoint:
		p.conditions(o.Status.Conditions)
		o.Status.Policy = p.policy(o.Status.Policy)
	case *v1alpha1.NodeProfile:
		p.conditions(o.Status.Conditions)
	case *corev1.PersistentVolumeClaim:
		o.Spec.Resources.Requests = p.requests(o.Spec.Resources.Requests)
	}
}

func (p *Pool) conditions(list []metav1.Condition) {
	for i := range list {
		c := &list[i]
		c.Type, c.Reason, c.Message = p.text(c.Type), p.text(c.Reason), p.text(c.Message)
		c.Status = metav1.ConditionStatus(p.text(string(c.Status)))
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
	if known := p.policies[policy.Name]; equality.Semantic.DeepEqual(known, policy) {
		return known
	}
	if len(p.policies) >= maxPolicies {
		clear(p.policies)
	}
	p.policies[policy.Name] = policy
	return policy
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
