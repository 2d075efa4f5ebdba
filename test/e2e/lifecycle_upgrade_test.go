// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && lifecycle

package e2e_test

import "testing"

// TestLifecycleUpgrade takes two clusters from the previous state to this one and back, one after the other, in the
// middle of a run, with a Queue of three and an HTTPEndpoint under load: no message is lost or doubled, no request
// fails, the run goes on, and clusters of the two states exchange Transfers both ways.
func TestLifecycleUpgrade(t *testing.T) {
	previous, current := releases(t)
	west.install(t, previous)
	east.install(t, previous)
	f := beginTraffic(t)
	for _, step := range []struct {
		cluster *cluster
		release installable
		when    string
	}{
		{west, current, "after the upgrade of west"},
		{east, current, "after the upgrade of both"},
		{west, previous, "after west was rolled back"},
		{east, previous, "after both were rolled back"},
	} {
		step.cluster.install(t, step.release)
		if step.cluster == east {
			f.rolled(step.release)
		}
		f.goesOn(step.when)
		exchange(t, step.when)
	}
	f.finish()
	west.install(t, current)
	east.install(t, current)
}
