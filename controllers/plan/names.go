// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"regexp"
	"strings"
)

// attemptSuffix is a run's identifier and the attempt's number.
var attemptSuffix = regexp.MustCompile(`^-[a-z2-7]{5}-[1-9][0-9]*$`)

// AttemptName is the name of the Job and the Secret of an attempt of a Transfer.
func AttemptName(transfer, run string, number int32) string {
	return fmt.Sprintf("%s-%s-%d", attemptPrefix(transfer), run, number)
}

func attemptPrefix(transfer string) string {
	if len(transfer) > 40 {
		transfer = strings.TrimRight(transfer[:40], "-.")
	}
	return transfer
}

// IsAttemptName reports whether a Job's name can be that of an attempt of the Transfer or Delivery of that name.
func IsAttemptName(owner, name string) bool {
	if name == owner {
		return true // a Delivery is of one attempt and gives it its own name
	}
	suffix, ok := strings.CutPrefix(name, attemptPrefix(owner))
	return ok && attemptSuffix.MatchString(suffix)
}
