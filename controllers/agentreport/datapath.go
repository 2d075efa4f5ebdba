// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentreport

import (
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// dataPathReasons are those that agents report, by type.
var dataPathReasons = map[v1alpha1.DataPathType][]v1alpha1.DataPathReason{
	v1alpha1.DataPathTCP: {
		v1alpha1.DataPathConfigured, v1alpha1.DataPathUnavailable, v1alpha1.DataPathFellBack,
	},
	v1alpha1.DataPathMPTCP: {v1alpha1.DataPathNegotiated},
	v1alpha1.DataPathSMC:   {v1alpha1.DataPathNegotiated},
}

// maxRoundTrip is the longest that is shown.
const maxRoundTrip = time.Minute

// congestionControl matches the names that the kernel gives: it has less than 16 bytes for one.
var congestionControl = regexp.MustCompile(`^[a-z0-9_]{1,15}$`)

// DataPath is what status shows of the path of an agent's connections; nil where it is absent, or such that no agent
// reports it.
func DataPath(reported *wirev1.DataPath) *v1alpha1.DataPath {
	path := &v1alpha1.DataPath{
		Type: v1alpha1.DataPathType(reported.GetType()), Reason: v1alpha1.DataPathReason(reported.GetReason()),
	}
	if !slices.Contains(dataPathReasons[path.Type], path.Reason) {
		return nil // an agent's pod may be its namespace's own
	}
	roundTrip := time.Duration(min(reported.GetRoundTripNanos(), uint64(maxRoundTrip))).Round(time.Millisecond)
	if roundTrip > 0 {
		path.RoundTripTime = &metav1.Duration{Duration: roundTrip}
	}
	if name := reported.GetCongestionControl(); congestionControl.MatchString(name) {
		path.CongestionControl = name
	}
	return path
}
