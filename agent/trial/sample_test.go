// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/trial"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const mib = 1 << 20

// fill makes a file of words that say of each 16 bytes which file they are of and where they are in it.
func fill(t *testing.T, root, path string, size int) {
	t.Helper()
	b := make([]byte, (size+15)/16*16)
	for i := 0; i < len(b); i += 16 {
		copy(b[i:i+8], path)
		binary.BigEndian.PutUint64(b[i+8:], uint64(i))
	}
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:size], 0o644); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, root string, size int64, seed uint64, exclude ...string) (*trial.Sample, error) {
	t.Helper()
	source, err := tree.OpenSource(root, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	patterns, err := filter.New(nil, exclude)
	if err != nil {
		t.Fatal(err)
	}
	source.SetFilter(patterns)
	return trial.Take(t.Context(), source, size, seed)
}

func TestTakeSpreads(t *testing.T) {
	root := t.TempDir()
	fill(t, root, "a", 10*mib)
	for i := range 200 {
		fill(t, root, fmt.Sprintf("b/%03d", i), 16<<10)
	}
	fill(t, root, "c", 10*mib+48)
	fill(t, root, "empty", 0)
	s, err := take(t, root, 6*mib, 7)
	if err != nil {
		t.Fatal(err)
	}
	if total := int64(20*mib + 48 + 200*16<<10); s.TotalFiles != 203 || s.TotalBytes != total || len(s.Bytes) > 6*mib ||
		len(s.Bytes) <= 5*mib || s.Changed != 0 {
		t.Errorf("%d of %d bytes, %d files", len(s.Bytes), s.TotalBytes, s.TotalFiles)
	}
	// Blocks are in the order of the source and no byte comes twice.
	const step = 1024
	seen, of := map[string]bool{}, map[string]int{}
	last := ""
	for i := 0; i+16 <= len(s.Bytes); i += step {
		word := string(s.Bytes[i : i+16])
		if seen[word] || word <= last && word[:8] == last[:8] {
			t.Fatalf("at %d: %q after %q", i, word, last)
		}
		seen[word], last = true, word
		of[strings.TrimRight(word[:8], "\x00")]++
	}
	if of["a"] < mib/step || of["c"] < mib/step || len(of) != int(s.Files) {
		t.Errorf("from a are %d words, from c %d, of %d files of which it says %d", of["a"], of["c"], len(of), s.Files)
	}

	again, err := take(t, root, 6*mib, 7)
	if err != nil || !bytes.Equal(again.Bytes, s.Bytes) {
		t.Errorf("the same seed gives another sample: %v", err)
	}
	differ := 0
	for seed := range uint64(4) {
		if other, err := take(t, root, 6*mib, 8+seed); err != nil {
			t.Fatal(err)
		} else if !bytes.Equal(other.Bytes, s.Bytes) {
			differ++
		}
	}
	if differ == 0 {
		t.Error("four other seeds give the same sample")
	}
}

func TestTakeEverything(t *testing.T) {
	root := t.TempDir()
	fill(t, root, "a", 100)
	fill(t, root, "b", 2*mib+5)
	fill(t, root, "left-out", 500)
	s, err := take(t, root, 64*mib, 0, "left-out")
	if err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(filepath.Join(root, "a"))
	b, _ := os.ReadFile(filepath.Join(root, "b"))
	if !bytes.Equal(s.Bytes, append(a, b...)) || s.Files != 2 || s.TotalFiles != 2 || s.TotalBytes != int64(len(s.Bytes)) {
		t.Errorf("%d bytes of %d files", len(s.Bytes), s.Files)
	}
}

func TestTakeLeavesHolesOut(t *testing.T) {
	root := t.TempDir()
	f, err := os.Create(filepath.Join(root, "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data := bytes.Repeat([]byte("data"), 64<<10/4)
	for _, at := range []int64{0, 8 * mib} {
		if _, err := f.WriteAt(data, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(64 * mib); err != nil {
		t.Fatal(err)
	}
	s, err := take(t, root, 64*mib, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.TotalBytes == 64*mib {
		t.Skip("this file system has no holes")
	}
	if zeros := bytes.Count(s.Bytes, []byte{0}); s.TotalBytes != int64(len(s.Bytes)) || len(s.Bytes) < 2*len(data) ||
		zeros > 2*mib {
		t.Errorf("%d bytes, %d of them zeros", len(s.Bytes), zeros)
	}
}

func TestTakeFromNothing(t *testing.T) {
	root := t.TempDir()
	for _, make := range []func(){
		func() {}, func() { fill(t, root, "empty", 0) }, func() { fill(t, root, "left-out", 10) },
	} {
		make()
		_, err := take(t, root, mib, 0, "left-out")
		if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY) {
			t.Errorf("got %v", err)
		}
	}
}
