// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"testing"
	"time"

	"github.com/lighterage/lighterage/controllers/quota"
)

// M1: no flag makes the certificates of runs live longer than 4 hours.
func TestCertificateLifetimes(t *testing.T) {
	required := []string{"--namespace", "lighterage-system", "--agent-image", "registry.example/agent:test"}
	s, err := parse(required)
	if err != nil || s.runLifetime != 4*time.Hour || s.servingLifetime != 7*24*time.Hour {
		t.Errorf("defaults %s and %s: %v", s.runLifetime, s.servingLifetime, err)
	}
	for lifetime, ok := range map[string]bool{
		"30s": false, "1m": true, "2h": true, "4h": true, "4h1s": false, "48h": false,
	} {
		if _, err := parse(append(required, "--run-certificate-lifetime", lifetime)); (err == nil) != ok {
			t.Errorf("%s: %v", lifetime, err)
		}
	}
}

// A lease that is too short ends managers for nothing, one that is too long leaves a cluster without one.
func TestLeaseDuration(t *testing.T) {
	for duration, ok := range map[string]bool{"14s": false, "15s": true, "2m": true, "10m": true, "11m": false} {
		_, err := parse(
			[]string{"--namespace", "lighterage-system", "--agent-image", "a", "--leader-elect-lease-duration", duration},
		)
		if (err == nil) != ok {
			t.Errorf("%s: %v", duration, err)
		}
	}
}

func TestClusterLimits(t *testing.T) {
	for name, c := range map[string]struct {
		arguments []string
		want      quota.Amounts // nil: an error
	}{
		"none": {nil, quota.Amounts{}},
		"runs": {[]string{"--max-running-transfers=3"}, quota.Amounts{quota.RunningTransfers: 3}},
		"both": {
			[]string{"--max-running-transfers=3", "--max-bandwidth=1Mi"},
			quota.Amounts{quota.RunningTransfers: 3, quota.Share: 1 << 20},
		},
		"negative":           {[]string{"--max-running-transfers=-1"}, nil},
		"less than one run":  {[]string{"--max-bandwidth=255Ki"}, nil},
		"no quantity":        {[]string{"--max-bandwidth=fast"}, nil},
		"more than there is": {[]string{"--max-bandwidth=2Pi"}, nil},
	} {
		s, err := parse(append([]string{"--namespace", "lighterage-system", "--agent-image", "a"}, c.arguments...))
		if (err == nil) != (c.want != nil) || err == nil && !maps.Equal(s.limits, c.want) {
			t.Errorf("%s: %v: %v", name, s.limits, err)
		}
	}
}
