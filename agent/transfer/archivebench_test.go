// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/claimstore"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
)

// inClaim packs a directory into archives of another one.
func inClaim(t testing.TB, source, destination string, id codec.ID) {
	t.Helper()
	origin, err := tree.OpenSource(source, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer origin.Close()
	store, err := claimstore.Open(destination, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	settings := policy.Settings{Mode: policy.Always, Level: codec.Fast}
	if id == codec.None {
		settings.Mode = policy.Never
	}
	err = bucket.Write(t.Context(), bucket.WriteOptions{
		Origin: origin, Store: store, Transfer: "bank/ledger (1)", RunID: "run", Attempt: 1, Verify: true, Streams: 3,
		SmallStreams: 16, CheckpointInterval: 64 << 20, Report: send.NewReport(),
		Archive: &bucket.ArchiveOptions{Codec: id, Engines: engines.Default(), Policy: settings},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fromArchives has what archives in a directory hold sent as plain files.
func fromArchives(t testing.TB, directory string) sendOption {
	t.Helper()
	store, err := claimstore.OpenSource(t.Context(), directory, ".")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return func(o *send.Options) {
		source := bucket.NewSource(t.Context(), store, nil)
		source.Inflate(engines.Default)
		o.Source = source
	}
}

// Archives in a claim are sent to another cluster as they are, where nobody inflates them, and what they hold is
// restored there.
func TestArchivesOfAClaimAreCopied(t *testing.T) {
	source, archives, copied, restored := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	mixedTree(t, source)
	inClaim(t, source, archives, codec.Deflate)
	mirrored := filtered(t, true, nil, nil)
	never := func(o *send.Options) { o.Policy.Mode = policy.Never }
	_, received := move(t, archives, copied, mirrored, never)
	all, err := filepath.Glob(filepath.Join(copied, ".lighterage/archives/*.tar.gz"))
	if err != nil || len(all) == 0 {
		t.Fatalf("archives %q, %v", all, err)
	}
	d := received.GetDecompression()
	if n := d.GetHardware().GetOperations() + d.GetSoftware().GetOperations() + d.GetFallback().GetOperations(); n > 0 {
		t.Errorf("the receiver inflated %d blocks", n)
	}
	move(t, source, restored, fromArchives(t, copied)) // in place of source
	same(t, source, restored)
	sent, _ := move(t, archives, copied, mirrored, never)
	if p := sent.GetProgress(); p.GetUnchangedBytes() != p.GetBytesTotal() {
		t.Errorf("archives that are there are sent again: %v", p)
	}
}

// BenchmarkArchiveInAClaim is the CPU time of this process for many small files and some large ones, in one pod or from
// a sender to a receiver over TLS: a copy of the files, beside which the others are to be seen, the same in form Gzip,
// archives that are packed, archives that are copied, files that are restored from them, and scrubs.
func BenchmarkArchiveInAClaim(b *testing.B) {
	source, archives := b.TempDir(), b.TempDir()
	for i := range 4000 {
		file(b, source, fmt.Sprintf("%d/%d.csv", i%50, i), text(i, 8<<10), 0o640)
	}
	for i := range 4 {
		// One half does not shrink.
		file(b, source, fmt.Sprintf("large-%d", i), append(text(i, 8<<20), noise(uint64(i), 8<<20)...), 0o640)
	}
	const size = 4000*8<<10 + 4*16<<20
	inClaim(b, source, archives, codec.Deflate)
	never := func(o *send.Options) { o.Policy.Mode = policy.Never }
	always := func(o *send.Options) { o.Policy = policy.Settings{Mode: policy.Always, Level: codec.Fast} }
	// moving also says what the receiver did, apart from the sender.
	moving := func(b *testing.B, from string, options ...sendOption) {
		b.Helper()
		var inflates, nanos uint64
		spend(b, size, func() {
			_, received := move(b, from, b.TempDir(), options...)
			d, cpu := received.GetDecompression(), received.GetCpu()
			inflates += d.GetHardware().GetOperations() + d.GetSoftware().GetOperations() + d.GetFallback().GetOperations()
			nanos += cpu.GetDecompressNanos() + cpu.GetWriteNanos()
		})
		b.ReportMetric(float64(inflates)/float64(b.N), "receiver-inflates/op")
		b.ReportMetric(float64(nanos)/1e6/float64(b.N), "receiver-inflate+write-ms/op")
	}
	b.Run("Copy", func(b *testing.B) { moving(b, source, never) })
	b.Run("Gzip", func(b *testing.B) { moving(b, source, inForm(cargo.Gzip), always) })
	for _, id := range []codec.ID{codec.None, codec.Deflate, codec.Zstd} {
		b.Run("Pack/"+id.String(), func(b *testing.B) {
			spend(b, size, func() { inClaim(b, source, b.TempDir(), id) })
		})
	}
	b.Run("CopyArchives", func(b *testing.B) { moving(b, archives, never) })
	b.Run("Restore", func(b *testing.B) { moving(b, source, never, fromArchives(b, archives)) })
	for _, inflate := range []bool{false, true} {
		b.Run(fmt.Sprintf("Scrub/inflate=%v", inflate), func(b *testing.B) {
			store, err := claimstore.OpenRead(archives, ".")
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			spend(b, size, func() { scrubs(b, store, inflate) })
		})
	}
}

// scrubs fails the benchmark unless a scrub finds everything as it should be.
func scrubs(b *testing.B, store *claimstore.Store, inflate bool) {
	b.Helper()
	report := send.NewReport()
	err := bucket.Scrub(context.Background(), store, scrub.Options{
		Inflate: inflate, Engines: meter.Decoders(engines.Default(), &meter.Meter{}), Workers: 3, Report: report,
	})
	if r := report.Report(); err != nil || len(r.GetOmissions()) > 0 || r.GetProgress().GetFiles() == 0 {
		b.Fatalf("%v, %v", err, r)
	}
}

// spend runs something as often as asked for, and reports its CPU time for so many plain bytes.
func spend(b *testing.B, size int64, do func()) {
	b.Helper()
	b.SetBytes(size)
	before := processCPU(b)
	for range b.N {
		do()
	}
	b.ReportMetric((processCPU(b)-before).Seconds()*1e3/float64(b.N), "cpu-ms/op")
}

// processCPU is the CPU time of this process.
func processCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
