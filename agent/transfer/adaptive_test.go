// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
)

// TestAdaptive: mode Auto chooses among the ways that the receiver reads, by the objective, and says so. What it
// chooses here does not depend on how fast the machine is: bytes are counted, or CPU time costs next to nothing.
func TestAdaptive(t *testing.T) {
	t.Parallel()
	engines := codec.NewRegistry(gozstd.New(), goflate.New(), identity.New())
	option := func(id codec.ID, level codec.Level) policy.Option {
		return policy.Option{Codec: id, Class: codec.Software, Level: level}
	}
	ways := map[policy.Option]codec.Engine{
		option(codec.Deflate, codec.Fast): goflate.New(), option(codec.Zstd, codec.Fast): gozstd.New(),
		option(codec.Zstd, codec.High): gozstd.New(),
	}
	source := t.TempDir()
	file(t, source, "a", text(1, 24<<20), 0o600)
	file(t, source, "b", noise(1, 4<<20), 0o600)
	for name, test := range map[string]struct {
		objective  policy.Objective
		prices     policy.Prices
		receiver   *codec.Registry
		codec      string
		compressed uint64
		reason     policy.Reason // of text
	}{
		"bytes": {policy.Bytes, policy.Prices{}, engines, "zstd", 24, policy.SoftwareUsed},
		"an old receiver": {
			policy.Bytes, policy.Prices{}, codec.NewRegistry(goflate.New(), identity.New()), "deflate", 24, policy.SoftwareUsed,
		},
		"a dear network": {
			policy.Cost, policy.Prices{CPUHour: 1e-9, NetworkGiB: 1}, engines, "zstd", 24, policy.SoftwareUsed,
		},
		"nothing in common": {
			policy.Bytes, policy.Prices{}, codec.NewRegistry(identity.New()), "none", 0, policy.PeerRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			destination := t.TempDir()
			p := startReceiver(t, destination, func(o *receive.Options) {
				o.Engines, o.InflateRates = test.receiver, map[codec.ID]float64{codec.Deflate: 3e8, codec.Zstd: 1e9}
			})
			sent, err := p.send(t.Context(), t, source, func(o *send.Options) {
				o.Policy = policy.Settings{Mode: policy.Auto, Level: codec.High, Objective: test.objective, Prices: test.prices}
				o.Engines, o.Codecs, o.WayEngines = engines, []codec.ID{codec.Zstd, codec.Deflate}, ways
				for w := range ways {
					o.Ways = append(o.Ways, policy.Way{Option: w})
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.wait(t); err != nil {
				t.Fatal(err)
			}
			same(t, source, destination)
			c := sent.GetCompression()
			// A few blocks are tries.
			if n := c.GetSoftware().GetOperations(); n > test.compressed+6 || n < test.compressed {
				t.Errorf("%d blocks were compressed: %v", n, c)
			}
			if test.codec != "" && c.GetCodec() != test.codec {
				t.Errorf("most are %s", c.GetCodec())
			}
			if test.compressed > 0 && (c.GetLevel() == "" || c.GetReasons()[string(test.reason)] < test.compressed) ||
				test.compressed == 0 && c.GetSkipped()[string(test.reason)] != 28 {
				t.Errorf("compression is %v", c)
			}
			if test.compressed > 0 && c.GetSkipped()[string(policy.Incompressible)]+
				c.GetSkipped()[string(policy.DidNotShrink)] < 4 {
				t.Errorf("noise: %v", c.GetSkipped())
			}
			if sent.GetCompression().GetSoftware().GetBytes() != sent.GetDecompression().GetSoftware().GetBytes() {
				t.Errorf("%v were compressed and %v inflated", c.GetSoftware(), sent.GetDecompression().GetSoftware())
			}
		})
	}
}
