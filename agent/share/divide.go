// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package share divides the time of a node's accelerator among the agents on the node. The node agent's Broker grants
// each of them a rate; an Account keeps an agent to its own, and Engine asks it.
package share

import (
	"cmp"
	"math"
	"slices"
)

// Claim is what one agent wants of an accelerator.
type Claim struct {
	Namespace string
	// Wants is how much it has use for, in the unit of the capacity; +Inf for as much as it can get.
	Wants float64
}

// Divide shares a capacity among namespaces by weight, and what a namespace has evenly among its agents. Who wants less
// than its part leaves the rest to the others (weighted max-min fairness). What nobody wants is divided likewise, so
// that who comes to want more has something at once. The shares sum up to the capacity.
func Divide(capacity float64, claims []Claim, weight func(namespace string) float64) []float64 {
	var namespaces []string
	members := map[string][]int{}
	for i, c := range claims {
		if members[c.Namespace] == nil {
			namespaces = append(namespaces, c.Namespace)
		}
		members[c.Namespace] = append(members[c.Namespace], i)
	}
	wants, weights := make([]float64, len(namespaces)), make([]float64, len(namespaces))
	for n, namespace := range namespaces {
		weights[n] = weight(namespace)
		for _, i := range members[namespace] {
			wants[n] += claims[i].Wants
		}
	}
	shares := make([]float64, len(claims))
	for n, part := range fill(capacity, wants, weights) {
		own := members[namespaces[n]]
		inner, even := make([]float64, len(own)), make([]float64, len(own))
		for k, i := range own {
			inner[k], even[k] = claims[i].Wants, 1
		}
		for k, share := range fill(part, inner, even) {
			shares[own[k]] = share
		}
	}
	return shares
}

// fill divides a capacity by weight among those who want so much, and then by weight what is left.
func fill(capacity float64, wants, weights []float64) []float64 {
	order := make([]int, len(wants))
	left := 0.0
	for i := range order {
		order[i] = i
		left += weights[i]
	}
	all := left
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(wants[a]/weights[a], wants[b]/weights[b]) })
	shares := make([]float64, len(wants))
	for _, i := range order {
		shares[i] = min(wants[i], capacity*weights[i]/left)
		capacity = math.Max(0, capacity-shares[i])
		left -= weights[i]
	}
	for i := range shares {
		shares[i] += capacity * weights[i] / all
	}
	return shares
}
