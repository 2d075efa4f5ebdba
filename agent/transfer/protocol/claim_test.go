// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bytes"
	"io"
	"testing"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// FuzzReadClaim: what comes first on a connection for blocks is a session or has a reason, and nothing behind it is
// read.
func FuzzReadClaim(f *testing.F) {
	for _, m := range []*wirev1.DataRequest{
		{Session: []byte("session")}, {}, {Session: []byte("s"), Block: []byte("b")},
		{Session: []byte("s"), Segments: []*wirev1.Segment{{Index: 1}}}, {Session: make([]byte, maxSmall)},
	} {
		var b bytes.Buffer
		if err := writeSmall(&b, m); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		f.Add(b.Bytes()[:b.Len()/2])
	}
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := bytes.NewReader(append(bytes.Clone(sent), "behind"...))
		before := r.Len()
		session, err := ReadClaim(io.LimitReader(r, int64(len(sent))))
		if err != nil {
			return
		}
		if taken := before - r.Len(); len(session) > maxSmall || taken > 4+maxSmall || taken > len(sent) {
			t.Fatalf("a session of %d bytes took %d of %d", len(session), taken, len(sent))
		}
		var again bytes.Buffer
		if err := WriteClaim(&again, session); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadClaim(&again); err != nil || !bytes.Equal(got, session) {
			t.Errorf("%q is written as %q, %v", session, got, err)
		}
	})
}
