// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
)

// TestCodecIsNegotiated: the first codec of the sender's list that both sides have is
// used. A build from before zstd has engines of deflate alone, and offers and chooses
// by the same rule.
func TestCodecIsNegotiated(t *testing.T) {
	source := t.TempDir()
	file(t, source, "a", text(1, 3<<20), 0o600)
	all, old := engines.Default(), codec.NewRegistry(goflate.New(), identity.New())
	pure := codec.NewRegistry(gozstd.New(), goflate.New(), identity.New())
	zstd, _ := all.Best(codec.Zstd, codec.Software, codec.Balanced)
	deflate, _ := all.Best(codec.Deflate, codec.Software, codec.Balanced)

	both := []codec.ID{codec.Zstd, codec.Deflate}
	for name, test := range map[string]struct {
		codecs            []codec.ID
		sender, receiver  *codec.Registry
		codec, engine     string
		reason            policy.Reason
		operations, plain uint64
	}{
		"zstd":       {[]codec.ID{codec.Zstd}, all, all, "zstd", zstd.Name(), policy.CodecNotAccelerated, 3, 0},
		"zstd first": {both, all, all, "zstd", zstd.Name(), policy.CodecNotAccelerated, 3, 0},
		"deflate first": {
			[]codec.ID{codec.Deflate, codec.Zstd}, all, all, "deflate", deflate.Name(), policy.NoAccelerator, 3, 0,
		},
		"read by Go":              {both, all, pure, "zstd", zstd.Name(), policy.CodecNotAccelerated, 3, 0},
		"written by Go":           {both, pure, all, "zstd", gozstd.Name, policy.CodecNotAccelerated, 3, 0},
		"an old receiver":         {both, all, old, "deflate", deflate.Name(), policy.NoAccelerator, 3, 0},
		"an old sender":           {both, old, all, "deflate", goflate.Name, policy.NoAccelerator, 3, 0},
		"zstd to an old receiver": {[]codec.ID{codec.Zstd}, all, old, "none", "none", policy.PeerRefused, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			destination := t.TempDir()
			p := startReceiver(t, destination, func(o *receive.Options) { o.Engines = test.receiver })
			sent, err := p.send(t.Context(), t, source, func(o *send.Options) {
				o.Engines, o.Codecs = test.sender, test.codecs
				o.Policy = policy.Settings{Mode: policy.Always, Level: codec.Balanced, PreferHardware: true}
			})
			if err != nil {
				t.Fatal("send:", err)
			}
			if err := p.wait(t); err != nil {
				t.Fatal("receive:", err)
			}
			same(t, source, destination)
			c := sent.Compression
			if c.Codec != test.codec || c.Engine != test.engine || c.Reason != string(test.reason) ||
				c.Software.Operations != test.operations || c.Stored.Operations != test.plain || c.Hardware.Operations != 0 {
				t.Errorf("compression is %v", c)
			}
			if d := sent.Decompression; d.Software.GetOperations() != test.operations || d.Fallback.GetOperations() != 0 {
				t.Errorf("decompression is %v", d)
			}
		})
	}
}
