// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package scrub_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/tree"
)

// TestQueueArchive: the archive of a Queue in a claim is verified as other files that rest.
func TestQueueArchive(t *testing.T) {
	root := t.TempDir()
	life := archive.Life(time.Unix(5, 6))
	below := filepath.Join(root, archive.Name("orders", life))
	if err := os.Mkdir(below, 0o750); err != nil {
		t.Fatal(err)
	}
	e, err := archive.NewEncoders(archive.Compression{
		Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast}, Codecs: []codec.ID{codec.Deflate},
		Engines: engines.Default(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var file bytes.Buffer
	w, err := archive.NewWriter(&file, e, archive.Head{Queue: "orders", Life: life, First: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(5000) {
		err := w.Add(&archive.Record{Sequence: i + 1, Time: time.Unix(7, 0), Payload: []byte(strings.Repeat("order ", 100))})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, index, err := w.Close(5000)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(below, "00000000000000000001-00000000000000005000-1a2b3c4d.jsonl.gz")
	for name, content := range map[string][]byte{
		data: file.Bytes(), cargo.Gzip.IndexPath(strings.TrimSuffix(data, ".gz")): index.Append(nil),
		filepath.Join(below, "index"): []byte("of the archive"),
	} {
		if err := os.WriteFile(name, content, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	r := looked(t, root, cargo.Gzip, true)
	if found := findings(r); len(found) != 1 || !strings.Contains(found[scrub.NoChecksum], "/index") ||
		r.GetProgress().GetFiles() != 1 {
		t.Errorf("found %v, %v", found, r.GetProgress())
	}
	edit(t, data, flip(-100))
	found := findings(looked(t, root, cargo.Gzip, true))
	if !strings.Contains(found[scrub.Damaged], "-1a2b3c4d.jsonl.gz") {
		t.Errorf("found %v", found)
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	if found := findings(looked(t, root, cargo.Gzip, true)); found[tree.OmittedMissing] == "" {
		t.Errorf("found %v", found)
	}
}
