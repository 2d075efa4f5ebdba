// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

// M1: no flag makes the certificates of runs live longer than 4 hours.
func TestCertificateLifetimes(t *testing.T) {
	required := []string{"--namespace", "lighterage-system", "--agent-image", "registry.example/agent:test"}
	s, err := parse(required)
	if err != nil || s.runLifetime != 4*time.Hour || s.servingLifetime != 7*24*time.Hour {
		t.Errorf("defaults %s and %s: %v", s.runLifetime, s.servingLifetime, err)
	}
	for lifetime, ok := range map[string]bool{"30s": false, "1m": true, "2h": true, "4h": true, "4h1s": false, "48h": false} {
		if _, err := parse(append(required, "--run-certificate-lifetime", lifetime)); (err == nil) != ok {
			t.Errorf("%s: %v", lifetime, err)
		}
	}
}
