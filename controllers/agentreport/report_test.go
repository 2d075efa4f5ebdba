// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentreport_test

import (
	"testing"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt/attempttest"
)

// TestHardwareUsed: an accelerator that has done little beside software is not what compresses.
func TestHardwareUsed(t *testing.T) {
	for name, test := range map[string]struct {
		reason             string
		hardware, software v1alpha1.Operations
		want               bool
	}{
		"alone": {
			v1alpha1.CompressionHardwareUsed, v1alpha1.Operations{Operations: 9, Bytes: 9000}, v1alpha1.Operations{}, true,
		},
		"most is stored": {
			v1alpha1.CompressionIncompressible, v1alpha1.Operations{Operations: 3, Bytes: 3000}, v1alpha1.Operations{}, true,
		},
		"busy since the third": {
			v1alpha1.CompressionAcceleratorBusy, v1alpha1.Operations{Operations: 3, Bytes: 3000},
			v1alpha1.Operations{Operations: 1000, Bytes: 1e6}, false,
		},
		"busy since a moment": {
			v1alpha1.CompressionAcceleratorBusy, v1alpha1.Operations{Operations: 3, Bytes: 3000}, v1alpha1.Operations{}, false,
		},
		"a few, and then software": {
			v1alpha1.CompressionSoftwareUsed, v1alpha1.Operations{Operations: 3, Bytes: 3000},
			v1alpha1.Operations{Operations: 1000, Bytes: 1e6}, false,
		},
		"more than software, a mix": {
			v1alpha1.CompressionDidNotShrink, v1alpha1.Operations{Operations: 9, Bytes: 9000},
			v1alpha1.Operations{Operations: 10, Bytes: 1000}, true,
		},
		"nothing": {v1alpha1.CompressionNothingToSend, v1alpha1.Operations{}, v1alpha1.Operations{}, false},
	} {
		if got := agentreport.HardwareUsed(
			&v1alpha1.CompressionStatus{Reason: test.reason, Hardware: test.hardware, Software: test.software},
		); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSamples(t *testing.T) {
	var samples agentreport.Samples
	if samples.Rate() != 0 {
		t.Error("a rate of nothing")
	}
	for i := range 20 {
		samples = samples.Add(agentreport.Sample{Time: attempttest.Now.Add(time.Duration(i) * 2 * time.Second),
			Bytes: uint64(i) * 200})
	}
	if len(samples) > 7 || samples.Rate() != 100 {
		t.Errorf("%d samples, rate %d", len(samples), samples.Rate())
	}
	last := samples[len(samples)-1]
	for i := range 10 {
		samples = samples.Add(agentreport.Sample{Time: last.Time.Add(time.Duration(i+1) * 2 * time.Second),
			Bytes: last.Bytes})
	}
	if samples.Rate() != 0 {
		t.Errorf("rate %d although nothing moves", samples.Rate())
	}
	if samples = samples.Add(agentreport.Sample{Time: last.Time.Add(time.Minute), Bytes: 0}); samples.Rate() != 0 {
		t.Errorf("rate %d backwards", samples.Rate())
	}
}
