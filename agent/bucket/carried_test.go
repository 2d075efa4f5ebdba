// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lighterage/lighterage/agent/bucket"
	forms "github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// packs puts files below a directory as they rest in a form, in blocks that end at lines where records are known.
func packs(t testing.TB, root string, form forms.Form, files map[string]string) {
	t.Helper()
	for name, content := range files {
		var rest bytes.Buffer
		o := forms.PackOptions{Form: form, Engines: engines.Default()}
		if strings.HasSuffix(name, ".log") {
			o.Records, o.BlockSize = forms.Records{Layout: forms.Lines}, 300_000
		}
		index, err := forms.Pack(t.Context(), &rest, strings.NewReader(content), o)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755),
			os.WriteFile(filepath.Join(root, form.IndexPath(name)), index.Append(nil), 0o600),
			os.WriteFile(filepath.Join(root, form.Name(name)), rest.Bytes(), 0o640))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// atRest is a source whose files may rest in a form, and counts what is inflated of them.
func atRest(t *testing.T, root string, form forms.Form) (*tree.Source, *meter.Meter) {
	t.Helper()
	s, m := source(t, root, nil), &meter.Meter{}
	s.SetForm(form, meter.Decoders(engines.Default(), m))
	return s, m
}

func inflated(m *meter.Meter) int64 {
	s := m.Snapshot()
	return s.Hardware.Operations + s.Software.Operations
}

// asItRests fails the test unless the store has of each file what the directory has, byte for byte.
func asItRests(t *testing.T, root string, form forms.Form, store bucket.Store, files map[string]string) {
	t.Helper()
	for name := range files {
		for _, name := range []string{form.Name(name), form.IndexPath(name)} {
			want, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(read(t, store, name), want) {
				t.Errorf("the object %s is not what rests in the claim", name)
			}
		}
	}
}

func contentsAre(t *testing.T, s send.Source, want map[string]string) {
	t.Helper()
	_, _, got := entries(t, s)
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s has another content, of %d bytes", name, len(got[name]))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
}

// TestCarried has files that rest in a claim put into buckets in each form, and from there into others. In the same
// form what rests is put byte for byte, with its index, and nothing is inflated or compressed.
func TestCarried(t *testing.T) {
	cargo := map[string]string{
		"d/a.csv": text(1, 3<<20), "empty": "", "noise": random(2, 300<<10), "records.log": text(3, 2<<20),
		"large": text(4, 3<<20) + random(5, 17<<20),
	}
	all := map[string]string{"plain": "a file without an index"}
	for name, content := range cargo {
		all[name] = content
	}
	for i, form := range formsAtRest {
		t.Run(form.String(), func(t *testing.T) {
			root := t.TempDir()
			packs(t, root, form, cargo)
			put(t, root, map[string]string{"plain": all["plain"]})
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			s, m := atRest(t, root, form)
			report, err := write(t, s, store, and(resting(form), mirrored))
			if err != nil {
				t.Fatal(err)
			}
			asItRests(t, root, form, store, cargo)
			c := report.GetCompression()
			if n := inflated(m); n > 0 || c.GetSkipped()[string(policy.AlreadyCompressed)] < 20 ||
				c.GetHardware().GetOperations()+c.GetSoftware().GetOperations() > 1 ||
				c.GetReason() != string(policy.AlreadyCompressed) {
				t.Errorf("%d blocks were inflated; %v", n, c)
			}
			contentsAre(t, bucket.NewSource(t.Context(), store, nil), all)
			finds(t, "as it rests", store, true, map[string]string{})
			if l := left(server); len(l) > 0 {
				t.Errorf("%q are left", l)
			}
			s, _ = atRest(t, root, form)
			p := mustWrite(t, s, store, and(resting(form), mirrored))
			if p.GetUnchangedFiles() != uint64(len(all)) || p.GetRemoved() > 0 {
				t.Errorf("a run without changes: %v", p)
			}

			// From store to store.
			server = objectstoretest.New(t, "")
			there, m := open(t, server, prefix), &meter.Meter{}
			from := bucket.NewSource(t.Context(), store, nil)
			from.Inflate(func() *codec.Registry { return meter.Decoders(engines.Default(), m) })
			mustWrite(t, from, there, resting(form))
			asItRests(t, root, form, there, cargo)
			if n := inflated(m); n > 0 {
				t.Errorf("%d blocks were inflated from store to store", n)
			}

			// In another form, in none, and in archives it is inflated.
			for what, change := range map[string]func(*bucket.WriteOptions){
				"other": resting(formsAtRest[1-i]), "files": nil, "archives": archived(codec.Zstd, 0),
			} {
				store := open(t, objectstoretest.New(t, ""), prefix)
				s, m := atRest(t, root, form)
				report, err := write(t, s, store, change)
				if err != nil {
					t.Fatal(what, err)
				}
				if n := report.GetCompression().GetSkipped()[string(policy.AlreadyCompressed)]; n > 0 || inflated(m) == 0 {
					t.Errorf("%s: %d blocks were put as they rest, %d inflated", what, n, inflated(m))
				}
				contentsAre(t, bucket.NewSource(t.Context(), store, nil), all)
			}
		})
	}
}

// lazy ends an attempt when so much of what rests was read.
type lazy struct {
	*tree.Source
	left atomic.Int64
}

func (l *lazy) Rest(e *tree.Entry, i *forms.Index, block int, buf []byte) ([]byte, error) {
	rest, err := l.Source.Rest(e, i, block, buf)
	if l.left.Add(-int64(len(rest))) < 0 {
		return nil, errLimited
	}
	return rest, err
}

// plainOnly hides that files rest.
type plainOnly struct{ bucket.Origin }

// TestCarriedInterrupted ends an attempt within a file of several parts: the next one goes on behind the parts that are
// there, whether they are of the blocks that rest or not.
func TestCarriedInterrupted(t *testing.T) {
	moves(t)
	content := text(1, 5<<20) + random(2, 55<<20)
	for _, form := range formsAtRest {
		t.Run(form.String(), func(t *testing.T) {
			root := t.TempDir()
			packs(t, root, form, map[string]string{"large": content})
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			s, _ := atRest(t, root, form)
			l := &lazy{Source: s}
			l.left.Store(40 << 20)
			if _, err := write(t, l, store, resting(form)); !errors.Is(err, errLimited) || server.Uploads() != 1 {
				t.Fatalf("the first attempt: %v, and %d uploads", err, server.Uploads())
			}
			s, m := atRest(t, root, form)
			again := &lazy{Source: s}
			again.left.Store(int64(60<<20 - 16<<20))
			p := mustWrite(t, again, store, and(resting(form), attempt(2)))
			if p.GetResumedBytes() < 16<<20 || inflated(m) > 0 {
				t.Errorf("%v, want two parts resumed; %d blocks were inflated", p, inflated(m))
			}
			asItRests(t, root, form, store, map[string]string{"large": ""})
			contentsAre(t, bucket.NewSource(t.Context(), store, nil), map[string]string{"large": content})
			if l := left(server); len(l) > 0 {
				t.Errorf("%q are left", l)
			}
		})
	}
	t.Run("OtherBlocks", func(t *testing.T) {
		root := t.TempDir()
		packs(t, root, forms.Gzip, map[string]string{"large.log": content})
		server := objectstoretest.New(t, "")
		store := open(t, server, prefix)
		s, _ := atRest(t, root, forms.Gzip)
		limited := &limited{Source: s}
		limited.left.Store(40 << 20)
		if _, err := write(t, plainOnly{limited}, store, resting(forms.Gzip)); !errors.Is(err, errLimited) {
			t.Fatal(err)
		}
		s, _ = atRest(t, root, forms.Gzip)
		p := mustWrite(t, s, store, and(resting(forms.Gzip), attempt(2)))
		if p.GetResumedBytes() > 0 {
			t.Errorf("%v, of parts with other blocks", p)
		}
		asItRests(t, root, forms.Gzip, store, map[string]string{"large.log": ""})
	})
}

// TestCarriedDamage has files whose bytes, or index, are not those that were written: they are not put.
func TestCarriedDamage(t *testing.T) {
	moves(t)
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	for what, c := range map[string]struct {
		name   string
		change func([]byte) []byte
	}{
		"block":     {"a.gz", flip},
		"end":       {"a.gz", func(b []byte) []byte { b[len(b)-6] ^= 1; return b }},
		"truncated": {"a.gz", func(b []byte) []byte { return b[:len(b)-1] }},
		"index":     {".a.gz.lgci", flip},
		"part":      {"large.gz", flip},
	} {
		t.Run(what, func(t *testing.T) {
			root := t.TempDir()
			packs(t, root, forms.Gzip, map[string]string{"a": text(1, 3<<20), "large": random(2, 20<<20)})
			path := filepath.Join(root, c.name)
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, c.change(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			store := open(t, objectstoretest.New(t, ""), prefix)
			s, _ := atRest(t, root, forms.Gzip)
			_, err = write(t, s, store, resting(forms.Gzip))
			if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE) {
				t.Errorf("%v", err)
			}
			name := strings.TrimSuffix(strings.TrimPrefix(c.name, "."), forms.IndexSuffix)
			if _, err := store.Head(t.Context(), name); !errors.Is(err, objectstore.ErrNotFound) {
				t.Errorf("%s was put: %v", name, err)
			}
		})
	}
}

// TestCarriedChanged has a file replaced while it is put.
func TestCarriedChanged(t *testing.T) {
	root := t.TempDir()
	packs(t, root, forms.Zstd, map[string]string{"a": text(1, 20<<20)})
	s, _ := atRest(t, root, forms.Zstd)
	store := open(t, objectstoretest.New(t, ""), prefix)
	r := &replacing{Source: s, replace: func() {
		other := t.TempDir()
		packs(t, other, forms.Zstd, map[string]string{"a": text(2, 21<<20)})
		for _, name := range []string{".a.zst.lgci", "a.zst"} {
			if err := os.Rename(filepath.Join(other, name), filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
		}
	}}
	mustWrite(t, r, store, resting(forms.Zstd))
	asItRests(t, root, forms.Zstd, store, map[string]string{"a": ""})
	contentsAre(t, bucket.NewSource(t.Context(), store, nil), map[string]string{"a": text(2, 21<<20)})
}

// replacing has its file replaced when the third block is read.
type replacing struct {
	*tree.Source
	reads   atomic.Int32
	replace func()
}

func (r *replacing) Rest(e *tree.Entry, i *forms.Index, block int, buf []byte) ([]byte, error) {
	if r.reads.Add(1) == 3 {
		r.replace()
	}
	return r.Source.Rest(e, i, block, buf)
}
