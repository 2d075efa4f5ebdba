// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// Silent are the conditions of an agent that runs and has stopped answering. It may work on, so nothing is ended; the
// reason stays.
func Silent(present []metav1.Condition) []metav1.Condition {
	reason := v1alpha1.ReasonTransferring
	if ready := meta.FindStatusCondition(present, v1alpha1.ConditionReady); ready != nil {
		reason = ready.Reason
	}
	return conditions.Reconciling(reason, "the agent runs and does not answer the manager any more, so this status is "+
		"what it said last; check that its node is Ready, and that a NetworkPolicy lets the manager reach its port 9443")
}
