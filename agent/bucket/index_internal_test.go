// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestReservedRecords reads an index that somebody made.
func TestReservedRecords(t *testing.T) {
	var b bytes.Buffer
	for _, path := range []string{
		".", ".lighterage", ".lighterage/index", ".lighterage-probe", "sub", "sub/.lighterage", "sub/.lighterage/index",
		"sub/.lighterage-x", "sub/x",
	} {
		e := tree.Entry{Path: path, Type: tree.Directory, Mode: 0o755}
		if _, err := protodelim.MarshalTo(&b, &wirev1.StoreIndexEntry{Entry: e.ToWire()}); err != nil {
			t.Fatal(err)
		}
	}
	var paths, unfit []string
	r := &indexReader{plain: bufio.NewReader(&b), unfit: func(path string) { unfit = append(unfit, path) }}
	for {
		record, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, record.entry.Path)
	}
	if want := []string{".", "sub", "sub/.lighterage-x", "sub/x"}; !slices.Equal(paths, want) {
		t.Errorf("entries %q, want %q", paths, want)
	}
	if want := []string{".lighterage", ".lighterage-probe", "sub/.lighterage"}; !slices.Equal(unfit, want) {
		t.Errorf("unfit %q, want %q", unfit, want)
	}
}
