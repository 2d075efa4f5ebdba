// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package dfltcc_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/claimstore"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/test/dfltcc"
)

// TestArchive: an archive of which the instruction made the long blocks and software the last one, which is short, is
// one gzip member of a tar, and its index is right.
func TestArchive(t *testing.T) {
	model(t, dfltcc.DefaultStep, "")
	engine, verdict := hardware.Find(t.Context())
	if engine == nil {
		t.Fatalf("the model is not found: %v", verdict)
	}
	source, destination := t.TempDir(), t.TempDir()
	files := make(map[string][]byte)
	for i, size := range []int{1, 70_000, 1_000_000, 1_200_000} {
		name := fmt.Sprint(i)
		files[name] = plain(size)
		if err := os.WriteFile(filepath.Join(source, name), files[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
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
	report := send.NewReport()
	err = bucket.Write(t.Context(), bucket.WriteOptions{
		Origin: origin, Store: store, Transfer: "bank/ledger (1)", RunID: "run", Attempt: 1, Verify: true, Streams: 2,
		SmallStreams: 2, CheckpointInterval: bucket.MinPart, Report: report,
		Archive: &bucket.ArchiveOptions{
			Codec: codec.Deflate, Accelerator: verdict.Accelerator(codec.Fast),
			Engines: codec.NewRegistry(append([]codec.Engine{engine}, engines.All()...)...),
			Policy:  policy.Settings{Mode: policy.Always, Level: codec.Fast, HardwareMinSize: 1 << 20},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := report.Report().GetCompression()
	if h, s := c.GetHardware().GetOperations(), c.GetSoftware().GetOperations(); h < 2 || s < 1 {
		t.Errorf("%d blocks are of the instruction and %d of software: %v", h, s, c)
	}

	names, err := filepath.Glob(filepath.Join(destination, bucket.Reserved, "archives/*.tar.gz"))
	if err != nil || len(names) != 1 {
		t.Fatalf("archives %q, %v", names, err)
	}
	tarOf(t, names[0], files)
	readers := cargofile.Files{Engines: engines.Default()}
	f, err := readers.Open(t.Context(), names[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Scrub(t.Context(), true); err != nil {
		t.Error(err)
	}
	// Parts of files are ranges of the tar.
	back := bucket.NewSource(t.Context(), store, nil)
	back.Inflate(engines.Default)
	err = back.Walk(t.Context(), func(e *tree.Entry) error {
		if e.Type != tree.File {
			return nil
		}
		for _, from := range []int64{0, e.Size / 3, e.Size - 1} {
			got := make([]byte, e.Size-from)
			if err := back.ReadAt(e, got, from); err != nil || !bytes.Equal(got, files[e.Path][from:]) {
				return fmt.Errorf("%s from byte %d on: other bytes, %w", e.Path, from, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// tarOf fails the test unless a file is one gzip member, of a tar that has some files.
func tarOf(t *testing.T, name string, files map[string][]byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rest := bytes.NewReader(b)
	member, err := gzip.NewReader(rest)
	if err != nil {
		t.Fatal(err)
	}
	member.Multistream(false)
	content, err := io.ReadAll(member)
	if err != nil || rest.Len() > 0 {
		t.Fatalf("%d bytes follow the first member, %v", rest.Len(), err)
	}
	found := 0
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, files[filepath.Base(h.Name)]) {
			t.Errorf("%s has %d bytes of another content, %v", h.Name, len(got), err)
		}
		found++
	}
	if found != len(files) {
		t.Errorf("the tar has %d files of %d", found, len(files))
	}
}
