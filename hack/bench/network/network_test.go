// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"slices"
	"testing"

	"github.com/lighterage/lighterage/hack/bench/network"
)

func TestCommand(t *testing.T) {
	got := network.Command(t.Context(), "ltg-x", "program", "-a", "b c").Args
	if want := []string{"ip", "netns", "exec", "ltg-x", "program", "-a", "b c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := network.ReceiverAddress("10.0.0."); got != "10.0.0.2" {
		t.Error(got)
	}
}
