// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// maxReplicas are as many as the API allows. Of more the rest is not counted until others are gone.
const maxReplicas = 1024

// Replica is one that exists.
type Replica struct {
	// UID of its pod, and the node that it is on.
	UID, Node string
	// Since when its agent counts. It has not reported where this is zero.
	Since time.Time
	// Usage since then.
	Usage Usage
}

// Count adds to what replicas used so far what they report now, and returns the new sum and what is to be known of each
// replica next time. A replica that is silent keeps its mark, one that is gone loses it, and its part of the sum stays.
// The arguments are not changed.
func Count(
	before *v1alpha1.UsageStatus, marks []v1alpha1.ReplicaUsage, replicas []Replica,
) (*v1alpha1.UsageStatus, []v1alpha1.ReplicaUsage) {
	known := make(map[string]v1alpha1.ReplicaUsage, len(marks))
	for _, mark := range marks {
		known[mark.UID] = mark
	}
	free := maxReplicas
	for _, replica := range replicas {
		if _, marked := known[replica.UID]; marked {
			free--
		}
	}
	all := FromStatus(before)
	var next []v1alpha1.ReplicaUsage
	for _, replica := range replicas {
		mark, marked := known[replica.UID]
		switch {
		case replica.Since.IsZero() && marked:
			next = append(next, *mark.DeepCopy())
			continue
		case replica.Since.IsZero():
			continue
		case !marked && free == 0:
			continue
		}
		if !marked {
			free--
		}
		since := metav1.NewTime(replica.Since.Truncate(time.Second))
		had := FromStatus(&mark.Usage)
		switch {
		case marked && mark.StartTime == nil: // from Begin
			had = replica.Usage
		case !marked || !mark.StartTime.Equal(&since):
			had = Usage{}
		default:
			had = replica.Usage.base(had)
		}
		has := replica.Usage.Reached(had)
		all = all.Plus(has.Since(had))
		next = append(next, v1alpha1.ReplicaUsage{
			UID: replica.UID, Node: replica.Node, StartTime: &since, Usage: *has.Status(),
		})
	}
	return all.Status(), next
}

// Begin is Count for an object that an earlier version of the manager wrote, which did not count: what its replicas
// have used until now is not of the time that is counted. Those that are silent get marks without a start, and nothing
// is counted of what they report first.
func Begin(replicas []Replica) (*v1alpha1.UsageStatus, []v1alpha1.ReplicaUsage) {
	var marks []v1alpha1.ReplicaUsage
	for _, replica := range replicas[:min(len(replicas), maxReplicas)] {
		marks = append(marks, v1alpha1.ReplicaUsage{UID: replica.UID, Node: replica.Node})
	}
	return Count(nil, marks, replicas)
}
