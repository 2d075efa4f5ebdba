// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// scrubbed is what a scrub reports.
func scrubbed(t *testing.T, store bucket.Store, inflate bool) (*wirev1.Report, error) {
	t.Helper()
	inflated, report := &meter.Meter{}, send.NewReport()
	report.Inflating(inflated, "SoftwareUsed")
	err := bucket.Scrub(t.Context(), store, scrub.Options{
		Inflate: inflate, Engines: meter.Decoders(engines.Default(), inflated), Workers: 2,
		Pauses: []time.Duration{0, 0}, Report: report,
	})
	return report.Report(), err
}

// finds reports what a scrub finds that is not wanted, by kind.
func finds(t *testing.T, what string, store bucket.Store, inflate bool, want map[string]string) *wirev1.Report {
	t.Helper()
	report, err := scrubbed(t, store, inflate)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	found := map[string]string{}
	for _, o := range report.GetOmissions() {
		found[o.GetWhat()] = strings.Join(slices.Sorted(slices.Values(o.GetExamples())), " ")
	}
	if !maps.Equal(found, want) {
		t.Errorf("%s, inflate %v: found %v, want %v", what, inflate, found, want)
	}
	return report
}

// objects is a prefix with small files, and if asked one that is put in parts.
func objects(t *testing.T, parts bool) (*objectstoretest.Server, *objectstore.Store, string) {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"a": "one", "sub/b": strings.Repeat("two", 1000), "empty": ""}
	if parts {
		files["big"] = random(1, bucket.MinPart+5)
	}
	put(t, root, files)
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, nil)
	return server, store, root
}

// packed is a prefix with archives.
func packed(t *testing.T, id codec.ID) (*objectstoretest.Server, *objectstore.Store, string, []string) {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"empty": "", "z/big": random(2, 5<<18)}
	for i := range 20 {
		files[fmt.Sprintf("d%d/f%d", i%3, i)] = fmt.Sprintf("%x", random(uint64(100+i), 30_000))
	}
	put(t, root, files)
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, archived(id, 1<<20))
	names, _ := archivesOf(t, store)
	if len(names) < 2 {
		t.Fatalf("there are the archives %q", names)
	}
	return server, store, root, names
}

const tars = bucket.Reserved + "/archives/"

func TestScrubOfObjects(t *testing.T) {
	_, store, _ := objects(t, true)
	report := finds(t, "intact", store, false, map[string]string{})
	p, size := report.GetProgress(), uint64(3+3000+bucket.MinPart+5)
	if p.GetFiles() != 4 || p.GetFilesTotal() != 4 || p.GetBytes() != size || report.GetCopyTime() == nil {
		t.Errorf("%v", report)
	}
	if got := report.GetCompression().GetUncompressedBytes(); got != size {
		t.Errorf("%d of %d bytes were read", got, size)
	}
}

func TestScrubOfDamagedObjects(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	key := func(name string) string { return prefix + "/" + name }
	for name, test := range map[string]struct {
		do   func(*objectstoretest.Server)
		want map[string]string
	}{
		"a flipped byte": {func(s *objectstoretest.Server) { s.Damage(key("a"), flip(1)) }, map[string]string{scrub.Damaged: "a"}},
		"one in the last part": {
			func(s *objectstoretest.Server) { s.Damage(key("big"), flip(bucket.MinPart+2)) }, map[string]string{scrub.Damaged: "big"},
		},
		"truncated": {func(s *objectstoretest.Server) {
			s.Damage(key("sub/b"), func(b []byte) []byte { return b[:10] })
		}, map[string]string{scrub.Damaged: "sub/b"}},
		"gone": {func(s *objectstoretest.Server) { s.Remove(key("a")) }, map[string]string{tree.OmittedMissing: "a"}},
		"somebody else's": {
			func(s *objectstoretest.Server) { s.Add(key("a"), []byte("two"), time.Now()) },
			map[string]string{scrub.ObjectReplaced: "a"},
		},
		"one more": {
			func(s *objectstoretest.Server) { s.Add(key("c"), []byte("two"), time.Now()) },
			map[string]string{scrub.NoChecksum: "c"},
		},
		"the index is damaged": {
			func(s *objectstoretest.Server) {
				s.Damage(key(".lighterage/index"), func(b []byte) []byte { return b[:4] })
			},
			map[string]string{scrub.IndexInvalid: ".lighterage/index", scrub.NoChecksum: "a empty sub/b"},
		},
		"the end of the index is damaged": {
			func(s *objectstoretest.Server) {
				s.Damage(key(".lighterage/index"), func(b []byte) []byte { return flip(len(b) - 6)(b) })
			},
			map[string]string{scrub.IndexInvalid: ".lighterage/index"},
		},
		"no index": {
			func(s *objectstoretest.Server) { s.Remove(key(".lighterage/index")) },
			map[string]string{scrub.IndexMissing: ".lighterage/index", scrub.NoChecksum: "a empty sub/b"},
		},
	} {
		server, store, _ := objects(t, strings.Contains(name, "part"))
		test.do(server)
		finds(t, name, store, false, test.want)
	}
	_, err := scrubbed(t, open(t, objectstoretest.New(t, ""), prefix), false)
	if reason := failure.ToWire(err).GetReason(); reason != wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND {
		t.Errorf("nothing at all: %v", err)
	}
}

// TestScrubWithoutDigests: where ETags are no MD5s nothing is called damaged, and nothing verified.
func TestScrubWithoutDigests(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"a": "one", "big": random(1, bucket.MinPart+5)})
	server := objectstoretest.New(t, "")
	server.Set(objectstoretest.Faults{OpaqueETags: true}, "")
	store := open(t, server, prefix)
	mustWrite(t, source(t, root, nil), store, nil)
	server.Damage(prefix+"/big", func(b []byte) []byte { b[0] ^= 1; return b })
	finds(t, "where ETags are others", store, false, map[string]string{scrub.NoChecksum: "a big"})
	// An index of an earlier release does not say what its ETags are of: those of objects that were put at once can be
	// tried.
	_, older, oldRoot := objects(t, true)
	mustWrite(t, source(t, oldRoot, nil), older, func(o *bucket.WriteOptions) { o.Verify = false })
	finds(t, "an index with digests that is kept", older, false, map[string]string{})
	fresh := open(t, objectstoretest.New(t, ""), prefix)
	mustWrite(t, source(t, oldRoot, nil), fresh, func(o *bucket.WriteOptions) { o.Verify = false })
	finds(t, "without digests", fresh, false, map[string]string{scrub.NoChecksum: "big"})
}

func TestScrubOfArchives(t *testing.T) {
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd, codec.None} {
		for _, inflate := range []bool{false, true} {
			_, store, _, names := packed(t, id)
			report := finds(t, "intact", store, inflate, map[string]string{})
			if p := report.GetProgress(); p.GetFiles() != uint64(len(names)) || p.GetBytes() == 0 || p.GetBytes() != p.GetBytesTotal() {
				t.Errorf("%v: %v of %q", id, p, names)
			}
			if n := report.GetDecompression().GetSoftware().GetOperations(); (n > 0) != (inflate && id != codec.None) {
				t.Errorf("%v, inflate %v: %d operations", id, inflate, n)
			}
		}
	}
}

func TestScrubOfDamagedArchives(t *testing.T) {
	moves(t)
	type server = objectstoretest.Server
	key := func(name string) string { return prefix + "/" + tars + name }
	index := func(name string) string { return key("." + name + ".lgci") }
	lies := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			b[at] ^= 1
			return binary.BigEndian.AppendUint64(b[:len(b)-8], xxh3.Hash(b[:len(b)-8]))
		}
	}
	for name, test := range map[string]struct {
		do              func(s *server, archive string)
		sums, inflating string
	}{
		"a flipped byte": {
			func(s *server, a string) { s.Damage(key(a), func(b []byte) []byte { b[len(b)/2] ^= 1; return b }) },
			scrub.Damaged, scrub.Damaged,
		},
		"truncated": {
			func(s *server, a string) { s.Damage(key(a), func(b []byte) []byte { return b[:len(b)/2] }) },
			scrub.Damaged, scrub.Damaged,
		},
		"gone":     {func(s *server, a string) { s.Remove(key(a)) }, tree.OmittedMissing, tree.OmittedMissing},
		"no index": {func(s *server, a string) { s.Remove(index(a)) }, scrub.IndexMissing, scrub.IndexMissing},
		"an index that is none": {
			func(s *server, a string) { s.Damage(index(a), func([]byte) []byte { return []byte("none") }) },
			scrub.IndexInvalid, scrub.IndexInvalid,
		},
		"an index of too many bytes": {
			func(s *server, a string) { s.Damage(index(a), longIndex) }, scrub.IndexTooLong, scrub.IndexTooLong,
		},
		"an index that lies of what rests": {
			func(s *server, a string) { s.Damage(index(a), lies(32+23)) }, scrub.Damaged, scrub.IndexInvalid,
		},
	} {
		for inflate, what := range map[bool]string{false: test.sums, true: test.inflating} {
			s, store, _, names := packed(t, codec.Deflate)
			test.do(s, names[1])
			report := finds(t, name, store, inflate, map[string]string{what: tars + names[1]})
			if p := report.GetProgress(); p.GetFiles() != uint64(len(names)-1) {
				t.Errorf("%s: %d of %d archives are verified", name, p.GetFiles(), len(names))
			}
		}
	}
}

// TestScrubOfAnIndexThatLies: archives are whole, and the index of the prefix says that their files are elsewhere.
func TestScrubOfAnIndexThatLies(t *testing.T) {
	server, store, root, names := packed(t, codec.Deflate)
	before := read(t, store, bucket.Reserved+"/index")
	// Another tree of the same names and lengths has another index.
	put(t, root, map[string]string{"d0/f0": strings.Repeat("x", 60_000)})
	other := objectstoretest.New(t, "")
	there := open(t, other, prefix)
	mustWrite(t, source(t, root, nil), there, archived(codec.Deflate, 1<<20))
	theirs, _ := archivesOf(t, there)
	// Their archives have other names, so theirs are put in their place here.
	server.Add(prefix+"/"+bucket.Reserved+"/index", read(t, there, bucket.Reserved+"/index"), time.Now())
	for i, name := range theirs {
		if i < len(names) {
			server.Add(prefix+"/"+tars+name, read(t, store, tars+names[i]), time.Now())
			server.Add(prefix+"/"+tars+"."+name+".lgci", read(t, store, tars+"."+names[i]+".lgci"), time.Now())
		}
	}
	finds(t, "by the checksums of the archives", store, false, map[string]string{})
	finds(t, "of the index of another tree", store, true, map[string]string{scrub.IndexInvalid: tars + theirs[0]})
	server.Add(prefix+"/"+bucket.Reserved+"/index", before, time.Now())
	finds(t, "of the right index", store, true, map[string]string{})
}

// TestScrubWhileSomebodyWrites: what is replaced or removed meanwhile, and the index with it, is looked at again.
func TestScrubWhileSomebodyWrites(t *testing.T) {
	for name, change := range map[string]func(*bucket.WriteOptions){
		"objects": func(*bucket.WriteOptions) {}, "archives": archived(codec.Deflate, 1<<20),
	} {
		root := t.TempDir()
		put(t, root, map[string]string{"a": "one", "b": random(3, 2<<20), "c": "three"})
		server := objectstoretest.New(t, "")
		store := open(t, server, prefix)
		mustWrite(t, source(t, root, nil), store, change)
		put(t, root, map[string]string{"a": "another one", "b": random(4, 2<<20)})
		if err := os.Remove(filepath.Join(root, "c")); err != nil {
			t.Fatal(err)
		}
		writer := open(t, server, prefix)
		written := false
		server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
			if written || r.Method != http.MethodGet || strings.Contains(r.URL.Path, "/.lighterage/index") ||
				strings.HasSuffix(r.URL.Path, objectstoretest.Bucket+"/") || strings.HasSuffix(r.URL.Path, objectstoretest.Bucket) {
				return false
			}
			written = true
			server.Unlocked(func() { mustWrite(t, source(t, root, nil), writer, and(change, mirrored, attempt(2))) })
			return false
		})
		report := finds(t, name, store, true, map[string]string{})
		if !written || report.GetProgress().GetFiles() == 0 {
			t.Errorf("%s: nobody wrote: %v", name, report.GetProgress())
		}
	}
}

// TestScrubOfARunThatBrokeOff: objects that are ahead of the index are no damage.
func TestScrubOfARunThatBrokeOff(t *testing.T) {
	server, store, root := objects(t, false)
	put(t, root, map[string]string{"a": "newer than the index"})
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/index") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	if _, err := write(t, source(t, root, nil), store, nil); err == nil {
		t.Fatal("the index was written")
	}
	server.Intercept(nil)
	finds(t, "a run that broke off", store, false, map[string]string{scrub.NoChecksum: "a"})
}

// TestScrubOnlyReads: no request but those that read and list.
func TestScrubOnlyReads(t *testing.T) {
	server, store, _, _ := packed(t, codec.Zstd)
	before, keys := len(server.Requests()), server.Keys()
	finds(t, "intact", store, true, map[string]string{})
	for _, request := range server.Requests()[before:] {
		if method, _, _ := strings.Cut(request, " "); method != http.MethodGet && method != http.MethodHead {
			t.Errorf("it asks for %s", request)
		}
	}
	if !slices.Equal(keys, server.Keys()) {
		t.Error("there are other objects now")
	}
}

// TestScrubFails where the store does, which is no damage.
func TestScrubFails(t *testing.T) {
	server, store, _ := objects(t, false)
	server.Set(objectstoretest.Faults{Denied: []string{http.MethodGet}}, "")
	if _, err := scrubbed(t, store, false); !errors.Is(err, objectstore.ErrAccessDenied) {
		t.Errorf("%v", err)
	}
}
