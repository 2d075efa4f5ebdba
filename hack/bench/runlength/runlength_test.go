// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package runlength_test

import (
	"bytes"
	"testing"

	"github.com/lighterage/lighterage/hack/bench/runlength"
)

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add([]byte("aaab"), 300)
	f.Add([]byte{1, 1, 2, 2, 2}, 127)
	f.Fuzz(func(t *testing.T, b []byte, zeros int) {
		b = append(b, make([]byte, max(zeros%1000, 0))...)
		packed := runlength.Append(nil, b)
		if len(packed) > len(b)+len(b)/128+1 {
			t.Errorf("%d bytes became %d", len(b), len(packed))
		}
		got, err := runlength.Expand(nil, packed)
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("%v, %v from %v", got, err, b)
		}
		if len(packed) > 0 {
			if _, err := runlength.Expand(nil, packed[:len(packed)-1]); err == nil {
				t.Error("cut data expand")
			}
		}
	})
}
