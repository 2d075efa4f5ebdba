// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/bucket"
	forms "github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func recorded(r forms.Records) func(*bucket.WriteOptions) {
	return func(o *bucket.WriteOptions) { o.Resting.Records = r }
}

// described are records of noise with their words, at least n bytes of them.
func described(seed uint64, n int) string {
	var b strings.Builder
	for noise := random(seed, n+8000); b.Len() < n; {
		length := 1 + int(noise[0])*31
		_, _ = b.Write(append(binary.BigEndian.AppendUint16(nil, uint16(length+4)), 0, 0))
		_, _ = b.WriteString(noise[:length])
		noise = noise[length:]
	}
	return b.String()
}

// numbered fails the test unless the index of an object is the one that a scan of it makes; of zero records it knows
// none.
func numbered(t *testing.T, store bucket.Store, form forms.Form, name string, r forms.Records) {
	t.Helper()
	rest := read(t, store, form.Name(name))
	want, err := forms.RebuildRecords(t.Context(), bytes.NewReader(rest), engines.Default(), r)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !bytes.Equal(read(t, store, form.IndexPath(name)), want.Append(nil)) {
		t.Errorf("%s: the index is not that of %d records %v", name, want.RecordCount(), r)
	}
}

func uncounted(r *wirev1.Report) uint64 {
	for _, o := range r.GetOmissions() {
		if o.GetWhat() == tree.OmittedRecords {
			return o.GetCount()
		}
	}
	return 0
}

// TestRecords has files of records put into a bucket, whole and in parts. Those of others are put without numbers, and
// counted. From there, and from a claim without numbers, they go on as they rest.
func TestRecords(t *testing.T) {
	for i, c := range []struct {
		records forms.Records
		one     func(seed uint64, n int) string
	}{
		{forms.Records{Layout: forms.Lines}, random},
		{forms.Records{Layout: forms.Fixed, Length: 137}, func(seed uint64, n int) string { return random(seed, n/137*137) }},
		{forms.Records{Layout: forms.RDW}, described},
	} {
		form := formsAtRest[i%2]
		t.Run(c.records.String(), func(t *testing.T) {
			if i != 1 {
				moves(t)
			}
			root := t.TempDir()
			files := map[string]string{
				"small": c.one(1, 2000), "chunks": c.one(2, 3<<20), "parts": c.one(3, 30<<20), "empty": "",
			}
			wrong := map[string]string{"wrong": "\x00\xff" + files["small"], "wrong-parts": files["parts"] + "\x00\xff"}
			if c.records.Layout == forms.Lines {
				wrong = nil // Anything has lines.
			}
			put(t, root, files)
			put(t, root, wrong)
			store := open(t, objectstoretest.New(t, ""), prefix)
			report, err := write(t, source(t, root, nil), store, and(resting(form), recorded(c.records)))
			if err != nil {
				t.Fatal(err)
			}
			all := func(store bucket.Store) {
				t.Helper()
				for name := range files {
					numbered(t, store, form, name, c.records)
				}
				for name := range wrong {
					numbered(t, store, form, name, forms.Records{})
				}
			}
			all(store)
			restored(t, root, store)
			if n := uncounted(report); n != uint64(len(wrong)) {
				t.Errorf("%d files are counted as ones without records, of %d", n, len(wrong))
			}

			// From store to store, with numbers and without: nothing is compressed.
			from := bucket.NewSource(t.Context(), store, nil)
			there := open(t, objectstoretest.New(t, ""), prefix)
			if _, err := write(t, from, there, and(resting(form), recorded(c.records))); err != nil {
				t.Fatal(err)
			}
			all(there)
			claim := t.TempDir()
			packs(t, claim, form, files)
			s, m := atRest(t, claim, form)
			there = open(t, objectstoretest.New(t, ""), prefix)
			report, err = write(t, s, there, and(resting(form), recorded(c.records)))
			if err != nil {
				t.Fatal(err)
			}
			if c := report.GetCompression(); c.GetHardware().GetOperations()+c.GetSoftware().GetOperations() > 0 {
				t.Errorf("compressed again: %v", c)
			}
			for name := range files {
				numbered(t, there, form, name, c.records)
			}
			if n := inflated(m); (n > 0) == (c.records.Layout == forms.Fixed) {
				t.Errorf("%d blocks were inflated", n)
			}
		})
	}
}

// TestRecordsCountedAgain: an attempt that finds files which an earlier one put counts those without record numbers.
func TestRecordsCountedAgain(t *testing.T) {
	moves(t)
	records := forms.Records{Layout: forms.RDW}
	root := t.TempDir()
	put(t, root, map[string]string{
		"right": described(1, 5000), "wrong": "none", "parts": described(2, 20<<20), "wrong-parts": random(3, 20<<20),
	})
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, and(resting(forms.Gzip), recorded(records)))
	if err := store.Delete(t.Context(), bucket.IndexName); err != nil {
		t.Fatal(err)
	}
	report, err := write(t, source(t, root, nil), store, and(resting(forms.Gzip), recorded(records)))
	if err != nil {
		t.Fatal(err)
	}
	if p := report.GetProgress(); p.GetUnchangedFiles() != 4 || uncounted(report) != 2 {
		t.Errorf("%d files are unchanged, omissions are %v", p.GetUnchangedFiles(), report.GetOmissions())
	}
	// Later runs ask no object: the index of the prefix says it.
	for _, c := range []struct {
		records forms.Records
		want    uint64
	}{{records, 2}, {forms.Records{}, 0}, {records, 2}, {forms.Records{Layout: forms.Lines}, 4}} {
		report, err := write(t, source(t, root, nil), store, and(resting(forms.Gzip), recorded(c.records)))
		if err != nil {
			t.Fatal(err)
		}
		if p := report.GetProgress(); p.GetUnchangedFiles() != 4 || uncounted(report) != c.want {
			t.Errorf("%v: %d files are unchanged, omissions are %v", c.records, p.GetUnchangedFiles(), report.GetOmissions())
		}
	}
}

// unreadable is a source of which the block at an offset cannot be read, once the next one was.
type unreadable struct {
	*tree.Source
	offset int64
	next   chan struct{}
}

func (u *unreadable) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	switch offset {
	case u.offset:
		<-u.next
		return errLimited
	case u.offset + int64(len(p)):
		defer close(u.next)
	}
	return u.Source.ReadAt(e, p, offset)
}

// TestRecordsUnreadable: who has read a block does not wait for the records of one before that cannot be read.
func TestRecordsUnreadable(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"large": random(1, 20<<20)})
	store := open(t, objectstoretest.New(t, ""), prefix)
	u := &unreadable{Source: source(t, root, nil), offset: 3 << 20, next: make(chan struct{})}
	_, err := write(t, u, store, and(resting(forms.Gzip), recorded(forms.Records{Layout: forms.Lines})))
	if !errors.Is(err, errLimited) {
		t.Errorf("the attempt ended with %v", err)
	}
}

// TestRecordsInterrupted ends an attempt within a file of several parts. The next one knows the records of the parts
// that are there, and those of one that is none of records; with other records no part is taken.
func TestRecordsInterrupted(t *testing.T) {
	moves(t)
	records := forms.Records{Layout: forms.RDW}
	for _, form := range formsAtRest {
		for name, c := range map[string]struct {
			content string
			before  forms.Records
			resumed bool
			after   forms.Records
		}{
			"records": {described(1, 60<<20), records, true, records},
			"wrong":   {random(2, 60<<20), records, true, forms.Records{}},
			"late":    {described(3, 50<<20) + random(4, 10<<20), records, true, forms.Records{}},
			"others":  {described(5, 60<<20), forms.Records{Layout: forms.Lines}, false, records},
			"none":    {described(6, 60<<20), forms.Records{}, false, records},
		} {
			t.Run(form.String()+"/"+name, func(t *testing.T) {
				root := t.TempDir()
				put(t, root, map[string]string{"large": c.content})
				store := open(t, objectstoretest.New(t, ""), prefix)
				l := &limited{Source: source(t, root, nil)}
				l.left.Store(41 << 20)
				if _, err := write(t, l, store, and(resting(form), recorded(c.before))); !errors.Is(err, errLimited) {
					t.Fatal(err)
				}
				again := &limited{Source: source(t, root, nil)}
				again.left.Store(200 << 20)
				report, err := write(t, again, store, and(resting(form), recorded(records), attempt(2)))
				if err != nil {
					t.Fatal(err)
				}
				if n := report.GetProgress().GetResumedBytes(); (n >= 16<<20) != c.resumed {
					t.Errorf("%d bytes were resumed", n)
				}
				if c.resumed && again.read.Load() > 19<<20+2*8<<20+9<<20 {
					t.Errorf("%d bytes were read again", again.read.Load())
				}
				numbered(t, store, form, "large", c.after)
				if wrong := c.after != records; uncounted(report) > 0 != wrong {
					t.Errorf("omissions are %v", report.GetOmissions())
				}
				restored(t, root, store)
			})
		}
	}
}
