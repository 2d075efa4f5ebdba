// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package bucket_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	miniocredentials "github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// on opens a prefix of a real server, with requests that are tried again at once.
func on(t *testing.T, server objectstoretest.Program, prefix string) *objectstore.Store {
	t.Helper()
	return objectstoretest.Open(t, server.Options(prefix))
}

// clean reports what a run has left beside files, archives and index.
func clean(t *testing.T, store *objectstore.Store) {
	t.Helper()
	for object, err := range store.List(t.Context(), bucket.Reserved+"/") {
		archive := strings.Contains(object.Name, ".tar") && !strings.Contains(object.Name, "journal")
		if err != nil || object.Name != bucket.Reserved+"/index" && !archive {
			t.Errorf("%s is left (%v)", object.Name, err)
		}
	}
}

// cargo is a tree with files that are put whole and in parts.
func cargo(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put(t, root, map[string]string{
		"a": random(5, 100_000), "b/c": "2", "empty": "", "large": random(6, 17<<20), "z/y/x": random(7, 300_000),
	})
	if err := os.Symlink("b/c", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestServerFaults puts faults between the client and real servers. Each ends with everything there and nothing left.
func TestServerFaults(t *testing.T) {
	for name, start := range objectstoretest.Programs {
		t.Run(name, func(t *testing.T) {
			proxy := objectstoretest.NewProxy(t, start(t))
			root := cargo(t)
			t.Run("Survived", func(t *testing.T) { survived(t, proxy, root) })
			t.Run("WrongETags", func(t *testing.T) { wrongETags(t, proxy, root) })
			t.Run("Reasons", func(t *testing.T) { reasons(t, proxy, root) })
			t.Run("Names", func(t *testing.T) { names(t, proxy) })
			t.Run("Lists", func(t *testing.T) { lists(t, proxy) })
			t.Run("Two", func(t *testing.T) { two(t, proxy) })
			t.Run("Locked", func(t *testing.T) { locked(t, proxy) })
		})
	}
}

// survived are faults that one attempt survives.
func survived(t *testing.T, proxy *objectstoretest.Proxy, root string) {
	busy := objectstoretest.Fail(503, "SlowDown")
	for name, f := range map[string]objectstoretest.Fault{
		"storm":              objectstoretest.All.Each(3, busy),
		"throttled":          objectstoretest.All.Each(2, objectstoretest.Fail(429, "TooManyRequests")),
		"internal error":     objectstoretest.All.Each(3, objectstoretest.Fail(500, "InternalError")),
		"reset in mid-part":  objectstoretest.Parts.Times(4, objectstoretest.Reset),
		"reset in mid-put":   objectstoretest.Wholes.Times(4, objectstoretest.Reset),
		"lost answer: parts": objectstoretest.Parts.Times(4, objectstoretest.Lose),
		"lost answer: puts":  objectstoretest.Wholes.Times(4, objectstoretest.Lose),
		"lost answer: own":   objectstoretest.Own.Each(1, objectstoretest.Lose),
		"lost: create":       objectstoretest.Creates.Times(2, objectstoretest.Lose),
		"lost: complete":     objectstoretest.Completes.Times(2, objectstoretest.Lose),
		"lost: delete":       objectstoretest.Deletes.Each(1, objectstoretest.Lose),
		"truncated lists":    objectstoretest.Lists.Each(2, objectstoretest.Truncate),
	} {
		t.Run(name, func(t *testing.T) {
			store := on(t, proxy.Program, strings.NewReplacer(" ", "-", ":", "").Replace(name))
			proxy.Inject(f)
			mustWrite(t, source(t, root, nil), store, nil)
			proxy.Inject(nil)
			same(t, root, store)
			clean(t, store)
		})
	}
	store := on(t, proxy.Program, "storm")
	for name, f := range map[string]objectstoretest.Fault{
		"storm":            objectstoretest.All.Each(3, busy),
		"truncated bodies": objectstoretest.Gets.Times(3, objectstoretest.Truncate),
		"lost answers":     objectstoretest.Gets.Each(2, objectstoretest.Lose),
		"truncated index":  objectstoretest.OwnGets.Times(3, objectstoretest.Truncate),
	} {
		t.Run("restore: "+name, func(t *testing.T) {
			proxy.Inject(f)
			defer proxy.Inject(nil)
			same(t, root, store)
		})
	}
}

// wrongETags are those of a server, or of something before it, that says of an object what is not true. The attempt may
// fail; the next one, without the fault, has everything there.
func wrongETags(t *testing.T, proxy *objectstoretest.Proxy, root string) {
	for name, kind := range map[string]objectstoretest.Kind{
		"wholes": objectstoretest.Wholes, "parts": objectstoretest.Parts, "completes": objectstoretest.Completes,
	} {
		for _, verify := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, verify %v", name, verify), func(t *testing.T) {
				store := on(t, proxy.Program, fmt.Sprintf("etags-%s-%v", name, verify))
				proxy.Inject(kind.Times(1, objectstoretest.WrongETag))
				defer proxy.Inject(nil)
				change := func(o *bucket.WriteOptions) { o.Verify = verify }
				_, err := write(t, source(t, root, nil), store, change)
				t.Logf("with the fault: %v", err)
				if err == nil && verify {
					t.Error("nothing was noticed")
				}
				proxy.Inject(nil)
				mustWrite(t, source(t, root, nil), store, change)
				same(t, root, store)
				clean(t, store)
			})
		}
	}
	store := on(t, proxy.Program, "etags-wholes-true")
	proxy.Inject(objectstoretest.Gets.Times(1<<30, objectstoretest.WrongETag))
	defer proxy.Inject(nil)
	s := bucket.NewSource(t.Context(), store, nil)
	err := s.Walk(t.Context(), func(e *tree.Entry) error {
		if e.Type != tree.File || e.Size == 0 {
			return nil
		}
		return s.ReadAt(e, make([]byte, e.Size), 0)
	})
	if !errors.Is(err, tree.ErrChanged) {
		t.Errorf("a get with another ETag: %v", err)
	}
}

// reasons are faults that end an attempt, in the middle. The next one goes on with what is there.
func reasons(t *testing.T, proxy *objectstoretest.Proxy, root string) {
	checksSignatures := proxy.Directory != ""
	type fault struct {
		inject objectstoretest.Fault
		end    func()
		want   wirev1.FailureReason
	}
	rotate := func(secret string) {
		objectstoretest.WriteCredential(t, proxy.Credentials, wirev1.ObjectStoreSecretAccessKeyKey, secret)
		time.Sleep(250 * time.Millisecond) // Agents look at it ten times a second.
	}
	parts := objectstoretest.Parts
	faults := map[string]fault{
		"expired": {
			parts.After(1, objectstoretest.Fail(403, "ExpiredToken")), nil, wirev1.FailureReason_FAILURE_REASON_STORE_DENIED,
		},
		"quota": {
			parts.After(1, objectstoretest.Fail(403, "QuotaExceeded")), nil, wirev1.FailureReason_FAILURE_REASON_STORE_FULL,
		},
		"locked": {
			parts.After(1, objectstoretest.Fail(403, "AccessDenied")), nil, wirev1.FailureReason_FAILURE_REASON_STORE_DENIED,
		},
		"storm without end": {
			parts.After(1, objectstoretest.Fail(503, "SlowDown")), nil, wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE,
		},
	}
	if checksSignatures {
		faults["clock"] = fault{
			parts.After(1, objectstoretest.Clock(-20*time.Minute)), nil, wirev1.FailureReason_FAILURE_REASON_STORE_CLOCK_SKEW,
		}
		faults["clock ahead"] = fault{
			parts.After(1, objectstoretest.Clock(20*time.Minute)), nil, wirev1.FailureReason_FAILURE_REASON_STORE_CLOCK_SKEW,
		}
		faults["rotated"] = fault{
			parts.After(1, objectstoretest.Once(func() { rotate("the next secret") })),
			func() { rotate(objectstoretest.SecretKey) }, wirev1.FailureReason_FAILURE_REASON_STORE_DENIED,
		}
		away := proxy.Directory + "-away"
		faults["bucket gone"] = fault{
			parts.After(1, objectstoretest.Once(func() { _ = os.Rename(proxy.Directory, away) })),
			func() { _ = os.Rename(away, proxy.Directory) }, wirev1.FailureReason_FAILURE_REASON_STORE_NOT_FOUND,
		}
	} else {
		faults["bucket gone"] = fault{
			parts.After(1, objectstoretest.Rename("nowhere")), nil, wirev1.FailureReason_FAILURE_REASON_STORE_NOT_FOUND,
		}
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			store := on(t, proxy.Program, "reasons-"+strings.ReplaceAll(name, " ", "-"))
			proxy.Inject(f.inject)
			defer proxy.Inject(nil)
			_, err := write(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Streams = 1 })
			if f.want == wirev1.FailureReason_FAILURE_REASON_STORE_NOT_FOUND &&
				failure.Is(err, wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE) {
				// versitygw closes the connection before it has read the part, by which its answer may be lost. The next
				// attempt begins with small requests.
				_, err = write(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Attempt = 2 })
			}
			if f.end != nil {
				f.end()
			}
			if !failure.Is(err, f.want) {
				t.Errorf("got %v, want %v", err, f.want)
			}
			proxy.Inject(nil)
			progress := mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Attempt = 2 })
			if progress.GetResumedBytes() < bucket.MinPart {
				t.Errorf("the part that was there was put again: %v", progress)
			}
			same(t, root, store)
			clean(t, store)
		})
	}
}

// TestFull has a server whose disk is full, until somebody removes something. It copies parts to complete an upload.
func TestFull(t *testing.T) {
	server := objectstoretest.SmallVersitygw(t, 44)
	root := cargo(t)
	ballast := []byte(random(9, 30<<20))
	beside := on(t, server, "beside")
	_, err := beside.Put(t.Context(), "ballast", bytes.NewReader(ballast), 30<<20, objectstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	store := on(t, server, prefix)
	_, err = write(t, source(t, root, nil), store, nil)
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_STORE_FULL) {
		t.Fatalf("a full disk: %v", err)
	}
	if err := beside.Delete(t.Context(), "ballast"); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Attempt = 2 })
	same(t, root, store)
	clean(t, store)
}

// names has names that are no paths on either side.
func names(t *testing.T, proxy *objectstoretest.Proxy) {
	root := t.TempDir()
	deep := strings.Repeat(strings.Repeat("d", 250)+"/", 4) + "file" // More than 1,024 bytes with the prefix.
	fit := map[string]string{
		"a b/+&%=?#;": "1", "ü/ß": "2", "~'()*!@$,:": "3", "a%2Fb": "4", strings.Repeat("n", 255): "5", "..x/y": "6",
		"trailing ": "7", "-": "8",
	}
	put(t, root, fit)
	put(t, root, map[string]string{"line\nbreak": "9", "back\\slash": "10", "bell\x07": "11", deep: "12"})
	store := on(t, proxy.Program, "names-are-not-paths")
	origin := source(t, root, nil)
	mustWrite(t, origin, store, nil)
	if got := count(origin, tree.OmittedObject); got != 4 {
		t.Errorf("omissions %v, want 4", origin.Omissions().ToWire())
	}
	// What somebody else puts there, as far as the server takes it.
	raw := rawClient(t, proxy)
	var foreign []string
	for _, key := range []string{
		"bad//name", "up/../x", "ctrl\x01", "back\\next", "mark/", ".lighterage-probe/x", "sub/.lighterage/index",
		strings.Repeat("k", 250) + "/" + strings.Repeat("l", 250) + "/x",
	} {
		_, err := raw.PutObject(t.Context(), objectstoretest.Bucket, "names-are-not-paths/"+key,
			strings.NewReader("theirs"), 6, "", "", minio.PutObjectOptions{})
		t.Logf("%q is taken: %v", key, err == nil)
		if err == nil {
			foreign = append(foreign, key)
		}
	}
	s := bucket.NewSource(t.Context(), store, nil)
	paths, _, contents := entries(t, s)
	for _, path := range paths {
		if err := tree.CheckPath(path); err != nil || strings.Contains(path, bucket.Reserved) {
			t.Errorf("%q is served: %v", path, err)
		}
	}
	for path, content := range fit {
		if contents[path] != content {
			t.Errorf("%q has %q, want %q", path, contents[path], content)
		}
	}
	if slices.Contains(foreign, "ctrl\x01") && count(s, tree.OmittedObject) == 0 {
		t.Errorf("what is left out is not counted: %v", s.Omissions().ToWire())
	}
	// A mirror removes what is fit and theirs, and nothing of its own.
	mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Delete = true })
	_, _, contents = entries(t, bucket.NewSource(t.Context(), store, nil))
	for path, content := range fit {
		if contents[path] != content {
			t.Errorf("after a mirror, %q has %q, want %q", path, contents[path], content)
		}
	}
	t.Logf("of others: %q", foreign)
}

// rawClient is a client without our checks of names.
func rawClient(t *testing.T, proxy *objectstoretest.Proxy) *minio.Core {
	t.Helper()
	core, err := minio.NewCore(strings.TrimPrefix(proxy.Endpoint, "https://"), &minio.Options{
		Creds:  miniocredentials.NewStaticV4(objectstoretest.AccessKey, objectstoretest.SecretKey, ""),
		Secure: true, Region: "us-east-1", MaxRetries: 1, Transport: objectstoretest.Transport(proxy.CA),
	})
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// lists has lists that lag behind what was written and removed.
func lists(t *testing.T, proxy *objectstoretest.Proxy) {
	root := cargo(t)
	store := on(t, proxy.Program, "lists")
	defer proxy.Inject(nil)
	lag, freeze := objectstoretest.Lag()
	proxy.Inject(lag)
	mustWrite(t, source(t, root, nil), store, nil)
	if err := os.Remove(filepath.Join(root, "z/y/x")); err != nil {
		t.Fatal(err)
	}
	put(t, root, map[string]string{"a": "another content", "new": random(11, 9<<20)})
	freeze()
	// An upload is under way that no list has.
	proxy.Inject(objectstoretest.FirstOf(objectstoretest.Parts.After(1, objectstoretest.Fail(403, "ExpiredToken")), lag))
	if _, err := write(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Streams = 1 }); err == nil {
		t.Fatal("no error")
	}
	proxy.Inject(lag)
	progress := mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Delete, o.Attempt = true, 2 })
	if progress.GetResumedBytes() == 0 {
		t.Errorf("an upload was not found: %v", progress)
	}
	sameTree(t, root, store)
	proxy.Inject(nil)
	mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Delete = true })
	same(t, root, store)
	clean(t, store)
}

// two has two Transfers write one prefix: one of them does, and the other one afterwards.
func two(t *testing.T, proxy *objectstoretest.Proxy) {
	one, other := t.TempDir(), t.TempDir()
	put(t, one, map[string]string{"a": "1", "x": random(12, 200_000)})
	put(t, other, map[string]string{"b": "2"})
	reached := make(chan struct{})
	held := make(chan error, 1)
	proxy.Inject(objectstoretest.Put("/x").Times(1, func(http.ResponseWriter, *http.Request, http.Handler) bool {
		close(reached)
		<-held
		return false
	}))
	defer proxy.Inject(nil)
	ended := make(chan error, 1)
	first := on(t, proxy.Program, "two")
	go func() {
		_, err := write(t, source(t, one, nil), first, nil)
		ended <- err
	}()
	<-reached
	second := on(t, proxy.Program, "two")
	mirror := func(o *bucket.WriteOptions) { o.Transfer, o.Delete = "bank/another (2)", true }
	_, err := write(t, source(t, other, nil), second, mirror)
	close(held)
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE) {
		t.Errorf("the second: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the first: %v", err)
	}
	same(t, one, first)
	clean(t, first)
	mustWrite(t, source(t, other, nil), second, mirror)
	same(t, other, second)
	clean(t, second)
}

// locked has an object that may not be removed: nothing else is lost by it.
func locked(t *testing.T, proxy *objectstoretest.Proxy) {
	raw := rawClient(t, proxy)
	const name = "locked-cargo"
	if err := raw.MakeBucket(t.Context(), name, minio.MakeBucketOptions{ObjectLocking: true}); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	put(t, root, map[string]string{"a": "1", "b": "2", "c": "3"})
	options := proxy.Options(prefix)
	options.Bucket, options.Retry.Tries = name, 2
	store := objectstoretest.Open(t, options)
	mustWrite(t, source(t, root, nil), store, nil)
	held := minio.LegalHoldEnabled
	err := raw.PutObjectLegalHold(t.Context(), name, prefix+"/b", minio.PutObjectLegalHoldOptions{Status: &held})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "b")); err != nil {
		t.Fatal(err)
	}
	put(t, root, map[string]string{"d": "4"})
	_, err = write(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Delete = true })
	t.Logf("a mirror: %v", err)
	paths, _, contents := entries(t, bucket.NewSource(t.Context(), store, nil))
	switch {
	case err == nil: // The server keeps a version of it.
		same(t, root, store)
	case !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_STORE_DENIED):
		t.Errorf("a mirror: %v", err)
	case !slices.Equal(paths, []string{".", "a", "b", "c", "d"}) || contents["b"] != "2" || contents["d"] != "4":
		t.Errorf("the bucket has %q", paths)
	}
	clean(t, store)
}

// TestFoldedServer has a real server that takes A and a for one.
func TestFoldedServer(t *testing.T) {
	proxy := objectstoretest.NewProxy(t, objectstoretest.Programs["moto"](t))
	proxy.Inject(objectstoretest.Fold())
	root := t.TempDir()
	put(t, root, map[string]string{"Case": "first", "case": "second", "other": "3"})
	store := on(t, proxy.Program, prefix)
	mustWrite(t, source(t, root, nil), store, nil)
	before, err := os.Stat(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "case")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(root, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
	sameTree(t, root, store)
}
