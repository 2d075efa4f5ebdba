// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package canary_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
)

// BenchmarkTurn collects what 10,000 objects of 100 namespaces took, with what it takes to make them here, and compares
// the sides.
func BenchmarkTurn(b *testing.B) {
	var namespaces []string
	for i := range 100 {
		namespaces = append(namespaces, fmt.Sprint("team-", i))
	}
	figures, measured := both(5000, 1.01, namespaces...), policyOf(v1alpha1.CanaryMeasuring)
	measured.Status.Canary.StartTime = &metav1.Time{Time: start}
	for b.Loop() {
		canary.Next(measured.Status.Canary, measured, meterOf(measured.Spec, figures), start.Add(time.Minute))
	}
}
