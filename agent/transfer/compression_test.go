// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
)

func TestCompressionIsReported(t *testing.T) {
	compressible, incompressible := t.TempDir(), t.TempDir()
	file(t, compressible, "a", text(1, 3<<20), 0o600)
	file(t, incompressible, "a", noise(1, 3<<20), 0o600)
	tests := map[string]struct {
		source   string
		settings policy.Settings
		refuse   bool
		codec    string
		reason   policy.Reason
		skipped  uint64
	}{
		"Never": {
			source: compressible, settings: policy.Settings{Mode: policy.Never, Level: codec.Fast}, codec: "none",
			reason: policy.PolicyNever, skipped: 3,
		},
		"Always": {
			source: compressible, settings: policy.Settings{Mode: policy.Always, Level: codec.High}, codec: "deflate",
			reason: policy.SoftwareUsed,
		},
		"NoAccelerator": {
			source: compressible, settings: policy.Settings{Mode: policy.Auto, Level: codec.Fast, PreferHardware: true},
			codec: "deflate", reason: policy.NoAccelerator,
		},
		"Incompressible": {
			source: incompressible, settings: policy.Settings{Mode: policy.Auto, Level: codec.Fast}, codec: "none",
			reason: policy.Incompressible, skipped: 3,
		},
		"DidNotShrink": {
			source: incompressible, settings: policy.Settings{Mode: policy.Always, Level: codec.Fast}, codec: "none",
			reason: policy.DidNotShrink, skipped: 3,
		},
		"BelowMinimum": {
			source: compressible, settings: policy.Settings{Mode: policy.Auto, Level: codec.Fast, SoftwareMinSize: 2 << 20},
			codec: "none", reason: policy.BelowMinimum, skipped: 3,
		},
		"PeerRefused": {
			source: compressible, settings: policy.Settings{Mode: policy.Auto, Level: codec.Fast}, refuse: true, codec: "none",
			reason: policy.PeerRefused, skipped: 3,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			destination := t.TempDir()
			p := startReceiver(t, destination, func(o *receive.Options) {
				if test.refuse {
					o.Engines = codec.NewRegistry(identity.New())
				}
			})
			sent, err := p.send(t.Context(), t, test.source, func(o *send.Options) { o.Policy = test.settings })
			if err != nil {
				t.Fatal(err)
			}
			same(t, test.source, destination)
			c := sent.Compression
			if c.Codec != test.codec || c.Reason != string(test.reason) || c.Skipped[string(test.reason)] != test.skipped ||
				c.Stored.Operations != test.skipped || (c.Engine == "none") != (test.codec == "none") {
				t.Errorf("compression is %v", c)
			}
			e := c.GetEstimate()
			switch name {
			case "NoAccelerator":
				// Only the first of the like blocks is predicted badly.
				if e.GetBlocks() != 3 || e.GetBytes() != 3<<20 || e.GetErrorBytes() == 0 || e.GetErrorBytes() > 3<<20/10 ||
					e.GetNanos() == 0 {
					t.Errorf("the estimate is %v", e)
				}
			case "Incompressible":
				if e.GetBlocks() != 0 || e.GetNanos() == 0 {
					t.Errorf("the estimate is %v", e)
				}
			default:
				if e != nil {
					t.Errorf("the estimate is %v although no sample was taken", e)
				}
			}
			if c.CompressedBytes > c.UncompressedBytes+3*64 {
				t.Errorf("%d bytes became %d", c.UncompressedBytes, c.CompressedBytes)
			}
		})
	}
}
