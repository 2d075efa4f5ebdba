// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// TestPartHash holds digests, which cross the wire, to what they are defined as, of zeros too, and the shortcut for
// zeros to the comparison of digests.
func TestPartHash(t *testing.T) {
	salt := []byte("a salt of one session")
	const part = ChunkSize / PartsPerChunk
	oneByte := make([]byte, part)
	oneByte[part-1] = 1
	parts := map[string][]byte{
		"zeros": make([]byte, part), "fewer zeros": make([]byte, 1000), "one zero": {0}, "nothing": {},
		"one byte that is not": oneByte, "data": bytes.Repeat([]byte{7}, part), "more than a part": make([]byte, 2*part),
	}
	digests := map[string]Digest{}
	for name, p := range parts {
		sum := sha256.Sum256(append(bytes.Clone(salt), p...))
		digests[name] = Digest(sum[:DigestSize])
	}
	hash := NewPartHash(salt)
	for range 2 { // with what the first round remembers
		for name, p := range parts {
			if got := hash.Digest(p); got != digests[name] {
				t.Errorf("the digest of %s is %x, not %x", name, got, digests[name])
			}
			for other, d := range digests {
				if got := hash.Matches(p, d); got != (name == other) {
					t.Errorf("%s has the digest of %s: %v", name, other, got)
				}
			}
		}
	}
	if NewPartHash([]byte("another")).Matches(parts["zeros"], digests["zeros"]) {
		t.Error("digests of two sessions are the same")
	}
}
