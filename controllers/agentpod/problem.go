// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpod

import (
	"errors"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/policy"
)

// Problem is why an attempt cannot begin. It costs no attempt.
type Problem struct {
	Reason  string
	Message string
}

// SpecProblem is what an error of reading a spec, or of resolving its policy, means; nil if there is none.
func SpecProblem(err error) *Problem {
	var notFound *policy.NotFoundError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &notFound):
		return &Problem{v1alpha1.ReasonPolicyNotFound, err.Error()}
	}
	return &Problem{v1alpha1.ReasonInvalidSpec, err.Error()}
}
