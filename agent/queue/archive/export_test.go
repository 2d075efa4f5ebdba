// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// WriteFormer writes an archive as a release did that wrote ranges of blocks, with a range up to one message and
// another with the rest, and an index that counts the first one. It returns its name.
func WriteFormer(t testing.TB, below, queue, life string, records []Record, to uint64) string {
	t.Helper()
	name := Name(queue, life)
	d, err := Make(below, name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	put := func(file string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(below, name, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	x := Index{Version: blocksVersion, Queue: queue, Life: life, From: 1, To: to, Ranges: 1, Below: 1}
	for _, part := range [][]Record{records[:to], records[to:]} {
		r := Range{First: part[0].Sequence, Last: part[len(part)-1].Sequence}
		content := writeOldRange(t, part, Head{Queue: queue, Life: life, First: r.First}, r.Last)
		put(r.name(), content)
		if r.Last == to {
			x.Bytes, x.WrittenBytes, x.Messages = uint64(len(content)), uint64(len(content)), to
		}
	}
	text, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	block, _, err := testEncoders(t).blocks.AppendAt(nil, 0, text, true)
	if err != nil {
		t.Fatal(err)
	}
	put(indexName, block)
	return name
}
