// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vectors holds files in the formats that agents send and keep, as one
// machine wrote them. Tests on every architecture read them and write the same
// bytes; the files are a part of the test program, so that it needs no file system
// and none can be missing unnoticed.
//
// A new format gets a directory here, which the directive below names, and a test
// that calls Hold for what is deterministic and Read for what engines may write
// in more than one way. `go test PACKAGE -update-vectors` writes the files again, which is
// right when a format gets a new version and wrong at any other time.
package vectors

import (
	"bytes"
	"embed"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/lighterage/lighterage/test/source"
)

//go:embed block message
var files embed.FS

var update = flag.Bool("update-vectors", false, "write the files of test/vectors again")

// Updating reports whether the files are to be written.
func Updating() bool { return *update }

// Read returns a file, whose name is relative to this directory.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := files.ReadFile(name)
	if err != nil {
		t.Fatalf("%v; write it with -update-vectors", err)
	}
	return b
}

// Hold checks that got is what the file holds, byte for byte, or writes it.
func Hold(t testing.TB, name string, got []byte) {
	t.Helper()
	if *update {
		Write(t, name, got)
		return
	}
	want := Read(t, name)
	if !bytes.Equal(got, want) {
		t.Errorf("%s: written as\n%x, not\n%x", name, got, want)
	}
}

// Write writes a file.
func Write(t testing.TB, name string, b []byte) {
	t.Helper()
	path := filepath.Join(source.Root(), "test", "vectors", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // It is a file of the source.
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
