// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package scrub_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/transfer/send"
)

// FuzzResting: whatever rests and whatever its index says, a finding comes of it and no error, as many bytes as the
// index says are expanded of what is whole, and inflating finds whatever checksums find.
func FuzzResting(f *testing.F) {
	for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd} {
		for _, records := range []cargo.Records{{}, {Layout: cargo.Lines}} {
			var file bytes.Buffer
			lines := bytes.NewReader([]byte("one\ntwo\nthree and some more\n"))
			index, err := cargo.Pack(f.Context(), &file, lines, cargo.PackOptions{
				Form: form, Records: records, BlockSize: 10, Engines: engines.Default(),
			})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(file.Bytes(), index.Append(nil))
			f.Add(append(file.Bytes(), 0), index.Append(nil))
		}
	}
	f.Fuzz(func(t *testing.T, file, data []byte) {
		if len(data) < 8 {
			return
		}
		data = data[:len(data)-8]
		index, err := cargo.ParseIndex(binary.BigEndian.AppendUint64(data, xxh3.Hash(data)))
		if err != nil || index.Size() > 1<<24 {
			return
		}
		found := map[bool]string{}
		for _, inflate := range []bool{false, true} {
			o := &scrub.Options{Inflate: inflate, Engines: engines.Default(), Workers: 2, Report: send.NewReport()}
			var plain bytes.Buffer
			what, err := scrub.Resting(t.Context(), o, bytes.NewReader(file), int64(len(file)), index, &plain)
			if err != nil || !slices.Contains([]string{"", scrub.Damaged, scrub.IndexInvalid}, what) {
				t.Fatalf("inflate %v: %q, %v", inflate, what, err)
			}
			if what == "" && inflate && index.Records().Layout == cargo.NoRecords && int64(plain.Len()) != index.Size() {
				t.Errorf("%d bytes are whole, of %d", plain.Len(), index.Size())
			}
			found[inflate] = what
		}
		if found[false] != "" && found[true] == "" {
			t.Errorf("only without inflating it is %q", found[false])
		}
	})
}
