// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"testing"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

func TestHolds(t *testing.T) {
	var h holds
	begin := time.Unix(1000, 0)
	h.since("a", begin)
	if got := h.since("a", begin.Add(holdPatience)); got != holdPatience {
		t.Errorf("it is held for %s", got)
	}
	if got := h.since("b", begin.Add(holdPatience)); got != 0 {
		t.Errorf("another one is held for %s", got)
	}
	h.end("a")
	if got := h.since("a", begin.Add(2*holdPatience)); got != 0 {
		t.Errorf("one that went on is held for %s", got)
	}
}

// A PeerGrant that names Transfers may name those of this cluster.
func TestGrantRequestNamesItsTransfer(t *testing.T) {
	object := &v1alpha1.Transfer{}
	object.Name = "ledger"
	if got := grantRequest(object).Transfer; got != "ledger" {
		t.Errorf("it asks as Transfer %q", got)
	}
}
