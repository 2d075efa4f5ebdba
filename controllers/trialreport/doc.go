// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trialreport makes pages of CompressionTrials: a picture as SVG, a page as HTML that holds it and needs
// nothing else, and a table as text. It is pure; what it is given is shown as text, whatever it holds.
package trialreport

import (
	"errors"
	"fmt"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Check says why there is nothing to report of a trial yet; nil if there is.
func Check(trial *v1alpha1.CompressionTrial) error {
	if len(trial.Status.Results) > 0 && trial.Status.Recommendation != nil {
		return nil
	}
	why := "it has no status; is the operator running?"
	for _, condition := range trial.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			why = fmt.Sprintf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return errors.New("CompressionTrial " + trial.Namespace + "/" + trial.Name + " has no results: " + why)
}
