// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	forms "github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// imageForms are those in which a block volume is kept.
var imageForms = map[string]forms.Form{"Files": 0, "Gzip": forms.Gzip, "Zstd": forms.Zstd}

// ofImage has the origin written as a block volume, in a form.
func ofImage(form forms.Form) func(*bucket.WriteOptions) {
	return func(o *bucket.WriteOptions) {
		if o.Image = true; form != 0 {
			resting(form)(o)
		}
	}
}

func imageName(form forms.Form) string {
	if form == 0 {
		return tree.ImageName
	}
	return form.Name(tree.ImageName)
}

// volume is a file that stands for a device, as it is put into a store.
func volume(t *testing.T, content, version string) *tree.DeviceSource {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := tree.OpenDeviceSource(path)
	if err != nil {
		t.Fatal(err)
	}
	s.Image(version, time.Unix(1700000000, 0))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// mostlyZeros has data at its beginning, in its middle and at its end, which is no multiple of a block.
func mostlyZeros() string {
	b := make([]byte, 40<<20+1536)
	copy(b, random(1, 1<<20+100))
	copy(b[20<<20+4096:], text(2, 300<<10))
	copy(b[len(b)-512:], random(3, 512))
	return string(b)
}

// deviceOf is what a store restores into a block volume.
func deviceOf(t *testing.T, store bucket.Store) (*tree.Entry, string) {
	t.Helper()
	paths, all, contents := entries(t, bucket.NewImageSource(bucket.NewSource(t.Context(), store, nil)))
	if !slices.Equal(paths, []string{tree.Root, tree.DeviceName}) {
		t.Fatalf("the device is %q", paths)
	}
	e := all[tree.DeviceName]
	return &e, contents[tree.DeviceName]
}

// TestImage has a block volume kept in a store, read as a device, as a file and by other programs, and kept again.
func TestImage(t *testing.T) {
	content := mostlyZeros()
	for name, form := range imageForms {
		t.Run(name, func(t *testing.T) {
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			mustWrite(t, volume(t, content, "copy 1"), store, ofImage(form))
			want := []string{imageName(form)}
			if form != 0 {
				want = []string{form.IndexPath(tree.ImageName), imageName(form)}
			}
			if got := keys(server); !slices.Equal(got, want) {
				t.Errorf("the store has %q, want %q", got, want)
			}
			rest := read(t, store, imageName(form))
			if form == 0 {
				if string(rest) != content {
					t.Error("another content")
				}
			} else if expanded(t, form, rest) != content || len(rest) > 3<<20 {
				t.Errorf("another content, or too much rests: %d bytes", len(rest))
			}
			if l := left(server); len(l) > 0 {
				t.Errorf("%q are left", l)
			}

			if e, got := deviceOf(t, store); got != content || !e.Sparse || e.Size != int64(len(content)) {
				t.Errorf("the device is %+v with %d bytes", e, len(got))
			}
			_, all, files := entries(t, bucket.NewSource(t.Context(), store, nil))
			if e := all[tree.ImageName]; files[tree.ImageName] != content || !e.Sparse || e.Mode != 0o600 ||
				e.Modified/1e9 != 1700000000 || int(e.UID) != os.Getuid() {
				t.Errorf("the file is %+v", e)
			}
			if root := all[tree.Root]; root.Mode != 0o755 {
				t.Errorf("the root is %+v", root)
			}
			finds(t, "image", store, true, map[string]string{})
			digest, err := bucket.Digest(t.Context(), volume(t, content, "copy 1"), store)
			if err != nil || digest.GetEntries() != 1 || digest.GetBytes() != uint64(len(content)) {
				t.Errorf("the digest is %v, %v", digest, err)
			}

			// The same copy is not put again. Another one is, whatever its time, and so is what nobody vouches for.
			for _, c := range []struct {
				version   string
				unchanged uint64
			}{{"copy 1", 1}, {"copy 2", 0}, {"", 0}, {"", 0}} {
				p := mustWrite(t, volume(t, content, c.version), store, ofImage(form))
				if p.GetUnchangedFiles() != c.unchanged || p.GetFiles() != 1 {
					t.Errorf("%q again: %v", c.version, p)
				}
			}
		})
	}
}

// Of blocks of zeros, what rests of one is read.
func TestImageZerosAreNotRead(t *testing.T) {
	content := mostlyZeros()
	for _, form := range formsAtRest {
		server := objectstoretest.New(t, "")
		store := open(t, server, prefix)
		mustWrite(t, volume(t, content, ""), store, ofImage(form))
		m := &meter.Meter{}
		from := bucket.NewSource(t.Context(), store, nil)
		from.Inflate(func() *codec.Registry { return meter.Decoders(engines.Default(), m) })
		s := bucket.NewImageSource(from)
		err := s.Walk(t.Context(), func(e *tree.Entry) error {
			p := bytes.Repeat([]byte{1}, 1<<20)
			for offset := int64(0); offset < e.Size; offset += int64(len(p)) {
				p = p[:min(int64(len(p)), e.Size-offset)]
				if err := s.ReadAt(e, p, offset); err != nil {
					return err
				}
				if string(p) != content[offset:offset+int64(len(p))] {
					t.Errorf("%v: another content at %d", form, offset)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		gets := 0
		for _, r := range server.Requests() {
			if strings.HasPrefix(r, "GET ") && strings.HasSuffix(r, "/"+imageName(form)) {
				gets++
			}
		}
		// Two blocks at the beginning, one in the middle, the end, and one of zeros.
		if n := inflated(m); gets != 5 || n > 5 {
			t.Errorf("%v: %d requests for blocks, and %d were inflated; want 5", form, gets, n)
		}
	}
}

// limitedVolume fails after so many bytes.
type limitedVolume struct {
	*tree.DeviceSource
	left atomic.Int64
}

func (l *limitedVolume) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	if l.left.Add(-int64(len(p))) < 0 {
		return errLimited
	}
	return l.DeviceSource.ReadAt(e, p, offset)
}

// TestImageInterrupted ends an attempt within the image. One that reads the same copy goes on, and one that reads
// another takes nothing of what there is.
func TestImageInterrupted(t *testing.T) {
	moves(t)
	before := random(1, 60<<20)
	for name, form := range imageForms {
		for _, c := range []struct {
			name, first, second string
			resumes             bool
		}{{"same copy", "a", "a", true}, {"another copy", "a", "b", false}, {"no copy", "", "", false}} {
			t.Run(name+" "+c.name, func(t *testing.T) {
				server := objectstoretest.New(t, "")
				store := open(t, server, prefix)
				l := &limitedVolume{DeviceSource: volume(t, before, c.first)}
				l.left.Store(41 << 20)
				if _, err := write(t, l, store, ofImage(form)); !errors.Is(err, errLimited) {
					t.Fatalf("the first attempt: %v", err)
				}
				if server.Uploads() != 1 {
					t.Fatalf("%d uploads, keys %q", server.Uploads(), server.Keys())
				}
				after := before
				if !c.resumes {
					after = random(2, 60<<20)
				}
				p := mustWrite(t, volume(t, after, c.second), store, and(ofImage(form), attempt(2)))
				if resumed := p.GetResumedBytes(); c.resumes != (resumed >= 16<<20) || !c.resumes && resumed > 0 {
					t.Errorf("%d bytes were resumed", resumed)
				}
				if l := left(server); len(l) > 0 {
					t.Errorf("%q are left", l)
				}
				if _, got := deviceOf(t, store); got != after {
					t.Error("another content")
				}
			})
		}
	}
}

// An image has its prefix for itself, and replaces one in another form.
func TestImageNeedsAPrefixOfItsOwn(t *testing.T) {
	moves(t)
	content := mostlyZeros()
	for name, change := range map[string]func(*bucket.WriteOptions){
		"Files": nil, "Gzip": resting(forms.Gzip), "Archive": archived(codec.Zstd, 0),
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			put(t, root, map[string]string{"x/y": "a file"})
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			mustWrite(t, source(t, root, nil), store, change)
			before := server.Keys()
			_, err := write(t, volume(t, content, ""), store, ofImage(forms.Gzip))
			if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH) {
				t.Errorf("%v; want the wrong volume mode", err)
			}
			if got := server.Keys(); !slices.Equal(got, before) {
				t.Errorf("the store has %q, and had %q", got, before)
			}
			restored(t, root, store)
		})
	}
	for first, form := range imageForms {
		for second, next := range imageForms {
			t.Run(first+" and "+second, func(t *testing.T) {
				server := objectstoretest.New(t, "")
				store := open(t, server, prefix)
				mustWrite(t, volume(t, "before", "a"), store, ofImage(form))
				mustWrite(t, volume(t, content, "b"), store, ofImage(next))
				if _, got := deviceOf(t, store); got != content {
					t.Error("another content")
				}
				if next == 0 && len(keys(server)) != 1 || next != 0 && len(keys(server)) != 2 {
					t.Errorf("the store has %q", keys(server))
				}
			})
		}
	}
}

// mismatches has an image rejected, and nothing removed.
func mismatches(t *testing.T, server *objectstoretest.Server, form forms.Form) {
	t.Helper()
	before := server.Keys()
	_, err := write(t, volume(t, "image", ""), open(t, server, prefix), ofImage(form))
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH) {
		t.Errorf("form %v: %v; want the wrong volume mode", form, err)
	}
	if got := server.Keys(); !slices.Equal(got, before) {
		t.Errorf("form %v: the store has %q, and had %q", form, got, before)
	}
}

// What others put under the name of an image in another form is not removed. An index without its object is.
func TestImageBesideForeignObjects(t *testing.T) {
	name, index := prefix+"/"+imageName(forms.Gzip), prefix+"/"+forms.Gzip.IndexPath(tree.ImageName)
	for _, form := range []forms.Form{0, forms.Zstd} {
		server := objectstoretest.New(t, "")
		server.Add(name, []byte("somebody's"), time.Now())
		mismatches(t, server, form)
		server.Add(index, []byte("somebody's"), time.Now())
		mismatches(t, server, form)
		server.Remove(name)
		store := open(t, server, prefix)
		mustWrite(t, volume(t, "image", ""), store, ofImage(form))
		if _, got := deviceOf(t, store); got != "image" || slices.Contains(server.Keys(), index) {
			t.Errorf("form %v: the device has %q, and the store %q", form, got, server.Keys())
		}
	}
}

// Archives that no index names are not removed for an image.
func TestImageBesideArchivesWithoutAnIndex(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"x/y": "a file"})
	server := objectstoretest.New(t, "")
	mustWrite(t, source(t, root, nil), open(t, server, prefix), archived(codec.Zstd, 0))
	for form := range maps.Values(imageForms) {
		server.Add(prefix+"/"+bucket.IndexName, []byte("damaged"), time.Now())
		mismatches(t, server, form)
		server.Remove(prefix + "/" + bucket.IndexName)
		mismatches(t, server, form)
	}
}

// What the index has of objects that are gone keeps no image out, and is not beside it. Links are in the index alone.
func TestImageInAPrefixThatWasEmptied(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{"x/y": "a file"})
	if err := os.Link(filepath.Join(root, "x/y"), filepath.Join(root, "z")); err != nil {
		t.Fatal(err)
	}
	for form := range maps.Values(imageForms) {
		server := objectstoretest.New(t, "")
		store := open(t, server, prefix)
		empty := func() {
			mustWrite(t, source(t, root, nil), store, nil)
			for _, key := range keys(server) {
				server.Remove(prefix + "/" + key)
			}
		}
		empty()
		mustWrite(t, volume(t, "image", ""), store, ofImage(form))
		if _, got := deviceOf(t, store); got != "image" {
			t.Errorf("form %v: the device has %q", form, got)
		}
		link := filepath.Join(root, "link")
		if err := os.Symlink("somewhere", link); err != nil {
			t.Fatal(err)
		}
		empty()
		mismatches(t, server, form)
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}

// What is no image is not taken for one.
func TestNoImage(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		form   func(*bucket.WriteOptions)
		reason wirev1.FailureReason
	}{
		"a tree": {
			map[string]string{"a": "1"}, nil, wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH,
		},
		"a directory": {
			map[string]string{tree.ImageName + "/a": "1"}, nil, wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH,
		},
		"an image and a file behind it": {
			map[string]string{tree.ImageName: "1", "z": "2"}, resting(forms.Gzip),
			wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH,
		},
		"in an archive": {
			map[string]string{tree.ImageName: "1"}, archived(codec.Zstd, 0),
			wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH,
		},
		"an empty image": {
			map[string]string{tree.ImageName: ""}, nil, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		},
		"an empty image in a form": {
			map[string]string{tree.ImageName: ""}, resting(forms.Gzip), wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		},
		"nothing": {nil, nil, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND},
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t, objectstoretest.New(t, ""), prefix)
			if c.files != nil {
				root := t.TempDir()
				put(t, root, c.files)
				mustWrite(t, source(t, root, nil), store, c.form)
			}
			s := bucket.NewImageSource(bucket.NewSource(t.Context(), store, nil))
			err := s.Walk(t.Context(), func(e *tree.Entry) error {
				t.Errorf("%q was visited", e.Path)
				return nil
			})
			if !failure.Is(err, c.reason) {
				t.Errorf("%v; want %v", err, c.reason)
			}
		})
	}
}

// An image that other tools put is one as well, and so is a file of that name.
func TestForeignImage(t *testing.T) {
	server := objectstoretest.New(t, "")
	store := open(t, server, prefix)
	server.Add(prefix+"/"+tree.ImageName, []byte("content"), time.Now())
	if _, got := deviceOf(t, store); got != "content" {
		t.Errorf("the device has %q", got)
	}
}

func TestScrubOfADamagedImage(t *testing.T) {
	for _, form := range formsAtRest {
		server := objectstoretest.New(t, "")
		store := open(t, server, prefix)
		mustWrite(t, volume(t, mostlyZeros(), ""), store, ofImage(form))
		server.Damage(prefix+"/"+imageName(form), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		finds(t, form.String(), store, false, map[string]string{scrub.Damaged: tree.ImageName})
	}
}

// While it is read, an image may be replaced or removed. A device that has parts of it gets none of another one.
func TestImageReplaced(t *testing.T) {
	for name, form := range imageForms {
		t.Run(name, func(t *testing.T) {
			server := objectstoretest.New(t, "")
			store := open(t, server, prefix)
			mustWrite(t, volume(t, mostlyZeros(), "a"), store, ofImage(form))
			s := bucket.NewImageSource(bucket.NewSource(t.Context(), store, nil))
			e, _ := deviceOf(t, store)
			if err := s.Walk(t.Context(), func(*tree.Entry) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if now, err := s.Again(e); err != nil || *now != *e {
				t.Fatalf("the same image: %+v, %v", now, err)
			}
			changed := func(how string) {
				t.Helper()
				if err := s.ReadAt(e, make([]byte, 1<<20), 0); !errors.Is(err, tree.ErrChanged) {
					t.Errorf("%s: %v; want that it has changed", how, err)
				}
				if now, err := s.Again(e); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED) {
					t.Errorf("%s: %+v, %v; want a changed source", how, now, err)
				}
			}
			mustWrite(t, volume(t, random(5, 3<<20), "b"), store, ofImage(form))
			changed("replaced")
			for _, key := range keys(server) {
				server.Remove(prefix + "/" + key)
			}
			changed("removed")
		})
	}
}
