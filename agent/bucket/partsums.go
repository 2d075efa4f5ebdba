// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"crypto/md5" //nolint:gosec // ETags are MD5. They find faults, not forgeries.
	"encoding/hex"
	"fmt"
	"hash"
)

// partSums computes the ETag that most servers give an object: the MD5 of its bytes, or, of one that was put in parts,
// the MD5 of their MD5s with their number.
type partSums struct {
	length  int64
	present hash.Hash // of the part that is being written
	begun   int64     // bytes of it
	all     hash.Hash // of the MD5s of the parts before
	count   int
}

// newPartSums is of parts of a length, at least 1. The last one may be shorter.
func newPartSums(length int64) *partSums {
	return &partSums{length: length, present: md5.New(), all: md5.New()} //nolint:gosec // See above.
}

// Write implements io.Writer: it takes the bytes of the object.
func (s *partSums) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := int(min(int64(len(rest)), s.length-s.begun))
		s.present.Write(rest[:n])
		if s.begun += int64(n); s.begun == s.length {
			s.end()
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// end ends a part.
func (s *partSums) end() {
	s.all.Write(s.present.Sum(nil))
	s.present.Reset()
	s.begun, s.count = 0, s.count+1
}

// add takes the ETag of a whole part, in place of its bytes. What is no MD5 leaves etag different from any other.
func (s *partSums) add(etag string) {
	sum, err := hex.DecodeString(etag)
	if err != nil {
		sum = nil
	}
	s.all.Write(sum)
	s.count++
}

// etag ends the object, which was put in parts, and returns its ETag.
func (s *partSums) etag() string {
	if s.begun > 0 {
		s.end()
	}
	return fmt.Sprintf("%s-%d", hex.EncodeToString(s.all.Sum(nil)), s.count)
}
