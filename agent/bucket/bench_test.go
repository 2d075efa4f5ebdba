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
	forms "github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/policy"
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

// BenchmarkCarried writes files that rest in form Gzip to versitygw as they rest, and beside that what else can be
// done with the same: put the plain files with mode Never in the same form, put what rests as files of their own, and
// compress the plain files.
func BenchmarkCarried(b *testing.B) {
	b.Setenv("VGW_KEEP_ALIVE", "true")
	rest, plain := b.TempDir(), b.TempDir()
	content := text(1, 64<<20)
	files := make(map[string]string)
	for i := range 4 {
		files[fmt.Sprint(i)] = content
		if err := os.WriteFile(filepath.Join(plain, fmt.Sprint(i)), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	packs(b, rest, forms.Gzip, files)
	never := func(o *bucket.WriteOptions) {
		resting(forms.Gzip)(o)
		o.Resting.Policy.Mode = policy.Never
	}
	for _, way := range []struct {
		name, root string
		form       forms.Form
		change     func(*bucket.WriteOptions)
	}{
		{"AsItRests", rest, forms.Gzip, resting(forms.Gzip)},
		{"Never", plain, 0, never},
		{"AsFiles", rest, 0, func(*bucket.WriteOptions) {}},
		{"Compressed", plain, 0, resting(forms.Gzip)},
	} {
		b.Run(way.name, func(b *testing.B) {
			server := objectstoretest.Programs["versitygw"](b)
			origin, err := tree.OpenSource(way.root, ".")
			if err != nil {
				b.Fatal(err)
			}
			defer origin.Close()
			if way.form != 0 {
				origin.SetForm(way.form, engines.Default())
			}
			b.SetBytes(int64(len(files)) * int64(len(content)))
			before := processCPU(b)
			for i := range b.N {
				o := bucket.WriteOptions{
					Origin: origin, Store: objectstoretest.Open(b, server.Options(fmt.Sprint(i))), Transfer: "bench", RunID: "r",
					Attempt: 1, Verify: true, Streams: 2, SmallStreams: 16, CheckpointInterval: bucket.MaxPart,
					Report: send.NewReport(),
				}
				way.change(&o)
				if err := bucket.Write(b.Context(), o); err != nil {
					b.Fatal(err)
				}
			}
			spent := (processCPU(b) - before) / time.Duration(b.N)
			b.ReportMetric(float64(spent.Milliseconds()), "ms-cpu/run")
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
