// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstore

import (
	"bytes"
	"testing"

	"github.com/lighterage/lighterage/agent/objectstore"
)

func FuzzNote(f *testing.F) {
	f.Add([]byte(".lighterage/index\n\n1 0 4 0123456789abcdef\n\n2 4 4 0123456789abcdef\n"))
	f.Add([]byte("x\n-1 0 4 0123456789abcdef\n1 -9223372036854775808 9223372036854775807 0123456789abcdef"))
	f.Add([]byte("\x00\n1 0 1 00000000000000000000000000000"))
	f.Fuzz(func(t *testing.T, note []byte) {
		_, all := parseNote(bytes.NewReader(note))
		if len(all) > objectstore.MaxParts {
			t.Fatalf("%d parts", len(all))
		}
		for number, p := range all {
			if p.Number != number || number < 1 || p.Size < 0 || p.Size > objectstore.MaxPut || len(p.ETag) != 16 {
				t.Errorf("part %d is %+v", number, p)
			}
		}
	})
}
