// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzSegment parses what somebody else may have written as a segment: it is what a writer writes, or rejected.
func FuzzSegment(f *testing.F) {
	f.Add(uint64(0), []byte{kindOpen})
	f.Add(uint64(1), []byte{kindData, 'x'})
	f.Add(uint64(2), []byte{kindEnd})
	f.Add(uint64(1), []byte{})
	f.Fuzz(func(t *testing.T, number uint64, segment []byte) {
		content, end, err := parseSegment(number, segment)
		if err != nil {
			if content != nil || end {
				t.Errorf("it was rejected, and has %d bytes; end: %t", len(content), end)
			}
			return
		}
		kind := kindData
		switch {
		case end:
			kind = kindEnd
		case number == 0:
			kind = kindOpen
		}
		written := make([]byte, 1+len(content))
		if _, err := (&segmentBody{[1]byte{kind}, content}).ReadAt(written, 0); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(written, segment) {
			t.Errorf("%x was taken for %x", segment, written)
		}
	})
}

// FuzzParseID: what a list has belongs to a sender only if its name is built as it should be.
func FuzzParseID(f *testing.F) {
	for _, name := range []string{
		"", offers, offers + "abcdefghijklmnopqrstuvwxyz", connections + "abcdefghijklmnopqrstuvwxy2/0/d/1", relays + "../x",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id, ok := parseID(name)
		if ok && (len(id) != idLength || !strings.Contains(name, "/"+id) || strings.ContainsAny(id, "/.")) {
			t.Errorf("%q belongs to %q", name, id)
		}
	})
}
