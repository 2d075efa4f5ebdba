// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// withoutRate is the progress without what was true only while the agent answered.
func withoutRate(progress *v1alpha1.Progress) *v1alpha1.Progress {
	if progress == nil {
		return nil
	}
	stopped := *progress
	stopped.BytesPerSecond, stopped.ETA = 0, nil
	return &stopped
}
