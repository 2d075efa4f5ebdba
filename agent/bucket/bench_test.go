// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package bucket_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
)

// BenchmarkWrite writes trees to versitygw, and reports what that costs this process. It is for profiles
// (-cpuprofile), which show the client alone; make bench-object compares.
func BenchmarkWrite(b *testing.B) {
	b.Setenv("VGW_KEEP_ALIVE", "true")
	for _, shape := range []struct{ files, size int }{{4000, 4 << 10}, {1000, 64 << 10}, {4, 64 << 20}} {
		b.Run(fmt.Sprintf("%d-of-%d-KiB", shape.files, shape.size>>10), func(b *testing.B) {
			server, root := objectstoretest.Programs["versitygw"](b), b.TempDir()
			content := []byte(random(1, shape.size))
			for i := range shape.files {
				if err := os.WriteFile(filepath.Join(root, fmt.Sprint(i)), content, 0o600); err != nil {
					b.Fatal(err)
				}
			}
			origin, err := tree.OpenSource(root, ".")
			if err != nil {
				b.Fatal(err)
			}
			defer origin.Close()
			b.SetBytes(int64(shape.files) * int64(shape.size))
			before := processCPU(b)
			for i := range b.N {
				store := objectstoretest.Open(b, server.Options(fmt.Sprint(i)))
				err := bucket.Write(b.Context(), bucket.WriteOptions{
					Origin: origin, Store: store, Transfer: "bench", RunID: "r", Attempt: 1, Verify: true, Streams: 2,
					SmallStreams: 16, CheckpointInterval: bucket.MaxPart, Report: send.NewReport(),
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			spent := (processCPU(b) - before) / time.Duration(b.N)
			b.ReportMetric(float64(spent.Microseconds())/float64(shape.files), "µs-cpu/file")
		})
	}
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
