// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func spoolFile(t testing.TB) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "spool"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestSpoolGoesBackwards(t *testing.T) {
	for _, size := range []int{0, 1, 100, maxRecord - 10} {
		s := newSpool(spoolFile(t))
		const count = 20
		record := func(i int) string { return fmt.Sprintf("%03d", i) + strings.Repeat("x", size) }
		for i := range count {
			if err := s.add([]byte(record(i)), "path"); err != nil {
				t.Fatal(err)
			}
		}
		for i := count - 1; i >= 0; i-- {
			if b, err := s.previous(); err != nil || string(b) != record(i) {
				t.Fatalf("record %d of %d bytes is %d bytes, %v", i, size, len(b), err)
			}
		}
		for range 2 {
			if _, err := s.previous(); !errors.Is(err, io.EOF) {
				t.Errorf("after the first record comes %v", err)
			}
		}
	}
}

// The largest entry fits into a record.
func TestLargestRecord(t *testing.T) {
	attributes := map[string]string{}
	for i := range MaxXattrs {
		name := fmt.Sprintf("user.%03d", i)
		attributes[name] = strings.Repeat("v", MaxXattrBytes/MaxXattrs-len(name))
	}
	e := Entry{
		Path: "z" + strings.Repeat("/a", (MaxPath-1)/2), Type: Directory, Mode: ModeMask, Modified: -1 << 63, UID: noID - 1,
		GID:    noID - 1,
		Xattrs: NewXattrs(attributes),
	}
	s := newSpool(spoolFile(t))
	for range 3 {
		if err := s.addEntry(&e); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	err := s.entries(func(got *Entry) error {
		n++
		if *got != e {
			t.Error("it is another one")
		}
		return nil
	})
	if err != nil || n != 3 {
		t.Errorf("%d entries, %v", n, err)
	}
}

// A damaged file ends in an error or in entries that are valid.
func FuzzSpool(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x0a\x01a\x10\x02\x00\x00\x00\x05"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file := spoolFile(t)
		if _, err := file.Write(b); err != nil {
			t.Fatal(err)
		}
		s := newSpool(file)
		s.size = int64(len(b))
		_ = s.entries(func(e *Entry) error {
			if CheckPath(e.Path) != nil {
				t.Fatalf("%+v is taken", e)
			}
			return nil
		})
	})
}
