// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/codec/engines"
)

// TestCountsOfTwo: ranges of the same messages, which two members have written, are counted as files.
func TestCountsOfTwo(t *testing.T) {
	below := t.TempDir()
	records := []Record{{Sequence: 1, Payload: []byte("one")}, {Sequence: 2, Payload: []byte("two")}}
	name := WriteFormer(t, below, "orders", testHead.Life, records, 1)
	d, err := Open(below, name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	data, beside := writeRange(t, testEncoders(t), records[:1], Head{
		Queue: "orders", Life: testHead.Life, First: 1,
	}, 1, nil)
	r := Range{First: 1, Last: 1, form: testEncoders(t).form, tag: 7}
	for file, content := range map[string][]byte{r.name(): data, r.indexName(): beside} {
		if err := os.WriteFile(filepath.Join(below, name, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &current{directory: d, life: testHead.Life}
	if err := c.load(t.Context(), Options{Stream: "orders", Decoders: engines.Default()}, func() {}); err != nil {
		t.Fatal(err)
	}
	size := uint64(0)
	for _, r := range c.ranges {
		size += uint64(r.Size)
	}
	if c.index.Ranges != 3 || len(c.ranges) != 3 || c.index.Bytes != size || c.index.Messages != 2 {
		t.Errorf("%d ranges, index %+v", len(c.ranges), c.index)
	}
}

// TestSize: what a range is closed by bounds its lines.
func TestSize(t *testing.T) {
	many := nats.Header{}
	for i := range 5000 {
		many[fmt.Sprintf("%x", i)] = []string{""}
	}
	for name, r := range map[string]Record{
		"empty":   {Sequence: 1 << 63, Time: time.Unix(7, 123456789)},
		"headers": {Sequence: 1, Headers: many},
		"values":  {Sequence: 1, Headers: nats.Header{"A": make([]string, 5000)}},
		"quotes":  {Sequence: 1, Payload: []byte(strings.Repeat("\"", 5000))},
	} {
		line, err := appendLine(nil, &r, strings.Repeat("q", 63))
		if err != nil || int64(len(line)) > 4*r.size() {
			t.Errorf("%s: a line of %d bytes, size %d, %v", name, len(line), r.size(), err)
		}
	}
}

// TestHostileLine: neither long errors nor much memory come of a line.
func TestHostileLine(t *testing.T) {
	const begin = `{"sequence":1,"time":"2026-03-04T05:06:07Z","subject":"orders",`
	for name, line := range map[string]string{
		"a long number": `{"sequence":` + strings.Repeat("9", 100_000) + `}`,
		"many headers":  begin + `"headers":{"A":[""` + strings.Repeat(`,""`, maxHeaderText/3) + `]}}`,
		"a late year":   `{"sequence":1,"time":"9999-12-31T23:59:59-23:00","subject":"orders"}`,
	} {
		if _, err := parseLine([]byte(line), "orders"); !errors.Is(err, ErrDamaged) || len(err.Error()) > 400 {
			t.Errorf("%s: %.500v", name, err)
		}
	}
}
