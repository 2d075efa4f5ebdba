// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/movers"
	"github.com/lighterage/lighterage/hack/bench/trees"
	"github.com/lighterage/lighterage/test/corpus"
)

// field is a tree and those who compete in moving it.
type field struct {
	name, about string
	make        func(ctx context.Context, o options, root string) error
	contenders  []contender
}

// Names of contenders that targets speak of.
const (
	oursNone     = "lighterage, no compression, verify None"
	oursNoneRead = "lighterage, no compression"
	oursZstd     = "lighterage, zstd Fast, verify None"
	oursFast     = "lighterage, deflate Fast, verify None"
	oursFastRead = "lighterage, deflate Fast"
	oursBalanced = "lighterage, deflate Balanced, verify None"
	rsyncNone    = "rsync -a"
	rsyncZstd    = "rsync -az --zc=zstd --zl=1"
	tlsNone      = "rsync -a through stunnel"
	tlsZstd      = "rsync -az --zc=zstd --zl=1 through stunnel"
	sshNone      = "rsync -a over ssh"
	sftp         = "rclone over SFTP"
	tarIgzip     = "tar, igzip -1 -T2, TLS"
)

// settings of ours. For any other objective than bytes mode Auto may send as it is what this way, which is as fast as
// memory, carries sooner than it is compressed.
func settings(
	mode wirev1.CompressionMode, level wirev1.CompressionLevel, codecs ...string,
) *wirev1.CompressionSettings {
	return &wirev1.CompressionSettings{
		Mode: mode, Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES, Codecs: codecs, Level: level,
	}
}

func (o *options) fields() []field {
	agent := o.agent
	const auto, fast, balanced = wirev1.CompressionMode_COMPRESSION_MODE_AUTO,
		wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED
	never := settings(wirev1.CompressionMode_COMPRESSION_MODE_NEVER, fast)
	return []field{
		{
			name: "mixed",
			about: "35 files of 13 MB: XML, JSON, binary records, CSV, source text, files compressed before and noise, " +
				"five each",
			make: makeMixed,
			contenders: []contender{
				ours(oursNone, agent, false, never),
				rsync(rsyncNone, "-a"),
				tunnelled(tlsNone, "-a"),
				ours(oursNoneRead, agent, true, never),
				ours(oursZstd, agent, false, settings(auto, fast, "zstd")),
				ours(oursFast, agent, false, settings(auto, fast, "deflate")),
				rsync(rsyncZstd, "-az", "--zc=zstd", "--zl=1"),
				tunnelled(tlsZstd, "-az", "--zc=zstd", "--zl=1"),
				ours(oursFastRead, agent, true, settings(auto, fast, "deflate")),
				tarPipeline(tarIgzip),
				ours(oursBalanced, agent, false, settings(auto, balanced, "deflate")),
			},
		},
		{
			name: "deep", about: "3,000 files of mixed kinds and sizes, half of them small ones in a deep tree",
			make: func(_ context.Context, _ options, root string) error { return trees.Deep(root) },
			contenders: append([]contender{
				ours(oursNone, agent, false, never),
				rsync(rsyncNone, "-a"),
				tunnelled(tlsNone, "-a"),
				ours(oursZstd, agent, false, settings(auto, fast, "zstd")),
				rsync(rsyncZstd, "-az", "--zc=zstd", "--zl=1"),
				tunnelled(tlsZstd, "-az", "--zc=zstd", "--zl=1"),
			}, o.overSSH()...),
		},
		{
			name: "demo", about: "the tree of the demo: small files of source code, and programs",
			make: makeDemo,
			contenders: []contender{
				ours(oursNone, agent, false, never),
				rsync(rsyncNone, "-a"),
				ours(oursFast, agent, false, settings(auto, fast, "deflate")),
				rsync(rsyncZstd, "-az", "--zc=zstd", "--zl=1"),
				ours(oursFastRead, agent, true, settings(auto, fast, "deflate")),
			},
		},
		{
			name: "small", about: "200,000 files of 4 KiB of JSON in 200 directories", make: makeSmall,
			contenders: []contender{
				ours(oursNone, agent, false, never),
				rsync(rsyncNone, "-a"),
				ours(oursNoneRead, agent, true, never),
			},
		},
	}
}

// overSSH are contenders that need OpenSSH's server.
func (o *options) overSSH() []contender {
	if o.rclone == "" || !movers.HasSSHD() {
		return nil
	}
	return []contender{overSSH(sshNone, "-a"), rclone(sftp, o.rclone)}
}

func makeDemo(ctx context.Context, o options, root string) error {
	return trees.Demo(ctx, root, o.size)
}

func makeMixed(_ context.Context, _ options, root string) error {
	const size, each = 13_000_000, 5
	for _, name := range []string{"xml", "json", "records", "csv", "source", "gzip", "random"} {
		kind, _ := corpus.ByName(name)
		if err := trees.Cut(kind.Generate(size*each), size, root, name+"-%d"); err != nil {
			return err
		}
	}
	return nil
}

func makeSmall(_ context.Context, _ options, root string) error { return trees.Small(root, 200) }
