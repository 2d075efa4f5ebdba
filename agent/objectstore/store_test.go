// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// How objects are put.
var always, ifAbsent = objectstore.PutOptions{}, objectstore.PutOptions{IfAbsent: true}

func options(t *testing.T, server *objectstoretest.Server) objectstore.Options {
	t.Helper()
	o := server.Options("east/bank")
	o.CredentialsDirectory = objectstoretest.Credentials(t, "me", "hush")
	return o
}

// start returns a server and a store that uses it.
func start(t *testing.T) (*objectstoretest.Server, *objectstore.Store) {
	t.Helper()
	server := objectstoretest.New(t, "me")
	return server, objectstoretest.Open(t, options(t, server))
}

func put(t *testing.T, store *objectstore.Store, name, content string) string {
	t.Helper()
	etag, err := store.Put(t.Context(), name, strings.NewReader(content), int64(len(content)), always)
	if err != nil {
		t.Fatal(err)
	}
	return etag
}

func get(t *testing.T, store *objectstore.Store, name, etag string, offset, length int64) (string, error) {
	t.Helper()
	body, err := store.Get(t.Context(), name, etag, offset, length)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(body)
	return string(b), errors.Join(err, body.Close())
}

func list(t *testing.T, store *objectstore.Store, begin string) ([]string, error) {
	t.Helper()
	var names []string
	for object, err := range store.List(t.Context(), begin) {
		if err != nil {
			return names, err
		}
		names = append(names, object.Name)
	}
	return names, nil
}

func TestObjects(t *testing.T) {
	server, store := start(t)
	etag := put(t, store, "a/b", "content")
	if got, err := get(t, store, "a/b", etag, 2, 3); err != nil || got != "nte" {
		t.Errorf("ranged get: %q, %v", got, err)
	}
	object, err := store.Head(t.Context(), "a/b")
	if err != nil || object.Size != 7 || object.ETag != etag || strings.Contains(etag, `"`) || object.Modified.IsZero() {
		t.Errorf("head: %+v, %v", object, err)
	}
	if _, err := get(t, store, "a/b", "another", 0, 1); !errors.Is(err, objectstore.ErrChanged) {
		t.Errorf("get of another ETag: %v", err)
	}
	if _, err := get(t, store, "a/b", "", 5, 3); err == nil {
		t.Error("more was read than there is")
	}
	put(t, store, "empty", "")
	var want []string
	for i := range 10 {
		name := fmt.Sprintf("l/%02d +%%&ü", i)
		want = append(want, name)
		put(t, store, name, "x")
	}
	server.Add("east/bank-other/l/x", nil, time.Now())
	if got, err := list(t, store, "l/"); err != nil || !slices.Equal(got, want) {
		t.Errorf("list: %q, %v", got, err)
	}
	if got, err := list(t, store, ""); err != nil || len(got) != 12 {
		t.Errorf("list of all: %q, %v", got, err)
	}
	for range 2 {
		if err := store.Delete(t.Context(), "a/b"); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if _, err := store.Head(t.Context(), "a/b"); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("head of what was deleted: %v", err)
	}
	if _, err := get(t, store, "a/b", "", 0, 1); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("get of what was deleted: %v", err)
	}
}

func TestListStopsEarly(t *testing.T) {
	server, store := start(t)
	for i := range 10 {
		put(t, store, fmt.Sprint(i), "x")
	}
	before := len(server.Requests())
	for range store.List(t.Context(), "") {
		break
	}
	if n := len(server.Requests()) - before; n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestCounter: requests are counted by what providers charge for, those that are tried again as well, and the bytes of
// bodies in both directions.
func TestCounter(t *testing.T) {
	server := objectstoretest.New(t, "me")
	o := options(t, server)
	o.Counter = &objectstore.Counter{}
	if o.Counter.Wire() != nil {
		t.Error("something was counted before the first request")
	}
	store := objectstoretest.Open(t, o)
	step := func(what string, want *wirev1.StoreTraffic, do func() error) {
		t.Helper()
		o.Counter.Reset()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := o.Counter.Wire()
		if got.GetWriteRequests() != want.GetWriteRequests() || got.GetReadRequests() != want.GetReadRequests() ||
			got.GetSentBytes() != want.GetSentBytes() || got.GetReceivedBytes() < want.GetReceivedBytes() {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	content := strings.Repeat("x", 1000)
	put := func() error {
		_, err := store.Put(t.Context(), "a", strings.NewReader(content), 1000, always)
		return err
	}
	step("a put", &wirev1.StoreTraffic{WriteRequests: 1, SentBytes: 1000}, put)
	var once atomic.Bool
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if once.Swap(true) {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	step("a put that is tried again", &wirev1.StoreTraffic{WriteRequests: 2, SentBytes: 2000}, put)
	step("a look and a get", &wirev1.StoreTraffic{ReadRequests: 2, ReceivedBytes: 1000}, func() error {
		object, err := store.Head(t.Context(), "a")
		if err != nil {
			return err
		}
		r, err := store.Get(t.Context(), "a", object.ETag, 0, object.Size)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r)
		return errors.Join(err, r.Close())
	})
	step("a list", &wirev1.StoreTraffic{WriteRequests: 1, ReceivedBytes: 1}, func() error {
		for _, err := range store.List(t.Context(), "") {
			if err != nil {
				return err
			}
		}
		return nil
	})
	step("a delete", nil, func() error { return store.Delete(t.Context(), "a") })
}

func TestLargeDirectory(t *testing.T) {
	server := objectstoretest.New(t, "")
	for i := range 7 {
		server.Add(fmt.Sprintf("large/%d", i), nil, time.Now())
	}
	o := options(t, server)
	o.Prefix, o.MaxNames = "", 7
	if children, err := objectstoretest.Open(t, o).Directory(t.Context(), "large"); len(children) != 7 || err != nil {
		t.Errorf("got %d names, %v", len(children), err)
	}
	o.MaxNames = 6
	_, err := objectstoretest.Open(t, o).Directory(t.Context(), "large")
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_STORE_UNFIT) {
		t.Errorf("a directory of too many names: %v", err)
	}
	if lists := len(server.Requests()); lists > 6 {
		t.Errorf("%d requests", lists)
	}
}

func TestWrittenWith(t *testing.T) {
	server := objectstoretest.New(t, "me")
	o := options(t, server)
	o.StorageClass, o.Encryption = "STANDARD_IA", objectstore.Encryption{KMSKeyID: "key-1"}
	store := objectstoretest.Open(t, o)
	put(t, store, "one", "x")
	u, err := store.Create(t.Context(), "two", nil)
	if err != nil {
		t.Fatal(err)
	}
	part, err := store.PutPart(t.Context(), u, 1, 0, strings.NewReader("x"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Complete(t.Context(), u, []objectstore.Part{part}, false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		header := server.Header("east/bank/" + name)
		if header.Get("X-Amz-Storage-Class") != "STANDARD_IA" ||
			header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != "key-1" {
			t.Errorf("%s: %v", name, header)
		}
	}
}

func TestConditions(t *testing.T) {
	server, store := start(t)
	ctx := t.Context()
	if _, err := store.Put(ctx, "a", strings.NewReader("1"), 1, ifAbsent); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(ctx, "a", strings.NewReader("2"), 1, ifAbsent); !errors.Is(err, objectstore.ErrExists) {
		t.Errorf("second put: %v", err)
	}
	// An answer that was lost is none that said no, and another's object is not one's own.
	server.Reset(1, http.MethodPut, true)
	if etag, err := store.Put(ctx, "b", strings.NewReader("3"), 1, ifAbsent); err != nil || etag == "" {
		t.Errorf("put whose answer was lost: %q, %v", etag, err)
	}
	server.Reset(1, http.MethodPut, false)
	if _, err := store.Put(ctx, "a", strings.NewReader("4"), 1, ifAbsent); !errors.Is(err, objectstore.ErrExists) {
		t.Errorf("put of what is there over a broken connection: %v", err)
	}
	if got, err := get(t, store, "a", "", 0, 1); err != nil || got != "1" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMultipart(t *testing.T) {
	server, store := start(t)
	ctx := t.Context()
	u, err := store.Create(ctx, "big", nil)
	if err != nil {
		t.Fatal(err)
	}
	var parts []objectstore.Part
	for i := range 7 {
		part, err := store.PutPart(ctx, u, i+1, 0, strings.NewReader(fmt.Sprint(i)), 1)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	if listed, err := store.Parts(ctx, u); err != nil || !reflect.DeepEqual(listed, parts) {
		t.Errorf("parts: %v, %v", listed, err)
	}
	wrong := slices.Clone(parts)
	wrong[3].ETag = wrong[2].ETag
	if _, err := store.Complete(ctx, u, wrong, false); !errors.Is(err, objectstore.ErrInvalid) {
		t.Errorf("complete with another ETag: %v", err)
	}
	slices.Reverse(parts)
	server.Reset(1, http.MethodPost, true)
	if etag, err := store.Complete(ctx, u, parts, true); err != nil || etag == "" {
		t.Errorf("complete whose answer was lost: %q, %v", etag, err)
	}
	if got, err := get(t, store, "big", "", 0, 7); err != nil || got != "0123456" {
		t.Errorf("%q, %v", got, err)
	}
	// A restart that does not know that it was completed.
	if _, err := store.Complete(ctx, u, parts, false); err != nil {
		t.Errorf("complete once more: %v", err)
	}
	if _, err := store.Parts(ctx, u); !errors.Is(err, objectstore.ErrNoUpload) {
		t.Errorf("parts of what was completed: %v", err)
	}
	put(t, store, "big", "another's")
	if _, err := store.Complete(ctx, u, parts, false); !errors.Is(err, objectstore.ErrNoUpload) {
		t.Errorf("complete of what another has replaced: %v", err)
	}
}

func TestUploads(t *testing.T) {
	server, store := start(t)
	ctx := t.Context()
	made := map[string]bool{}
	for i := range 7 {
		u, err := store.Create(ctx, fmt.Sprintf("u/%d", i%2), nil)
		if err != nil {
			t.Fatal(err)
		}
		made[u.ID] = true
	}
	if _, err := store.Create(ctx, "v", nil); err != nil {
		t.Fatal(err)
	}
	for u, err := range store.Uploads(ctx, "u/") {
		if err != nil || !made[u.ID] || u.Started.IsZero() {
			t.Fatalf("%+v, %v", u, err)
		}
		delete(made, u.ID)
		for range 2 {
			if err := store.Abort(ctx, u); err != nil {
				t.Error(err)
			}
		}
	}
	if len(made) > 0 || server.Uploads() != 1 {
		t.Errorf("not listed: %v; left: %d", made, server.Uploads())
	}
}

func TestPartLimits(t *testing.T) {
	server, store := start(t)
	before := len(server.Requests())
	u := objectstore.Upload{Name: "a", ID: "x"}
	for _, number := range []int{-1, 0, objectstore.MaxParts + 1} {
		if _, err := store.PutPart(
			t.Context(), u, number, 0, bytes.NewReader(nil), 0,
		); !errors.Is(err, objectstore.ErrInvalid) {
			t.Errorf("part %d: %v", number, err)
		}
	}
	for _, size := range []int64{-1, objectstore.MaxPut + 1} {
		if _, err := store.Put(t.Context(), "a", bytes.NewReader(nil), size, always); !errors.Is(err,
			objectstore.ErrInvalid) {
			t.Errorf("put of %d: %v", size, err)
		}
	}
	if _, err := store.Get(t.Context(), "a", "", 1, 0); !errors.Is(err, objectstore.ErrInvalid) {
		t.Errorf("get of nothing: %v", err)
	}
	if n := len(server.Requests()); n != before {
		t.Errorf("%d requests", n-before)
	}
}

func TestRotation(t *testing.T) {
	server := objectstoretest.New(t, "me")
	o := options(t, server)
	store := objectstoretest.Open(t, o)
	put(t, store, "a", "x")
	server.Set(objectstoretest.Faults{}, "new")
	_, err := store.Head(t.Context(), "a")
	if !errors.Is(err, objectstore.ErrAccessDenied) {
		t.Errorf("with old credentials: %v", err)
	}
	objectstoretest.WriteCredential(t, o.CredentialsDirectory, wirev1.ObjectStoreAccessKeyIDKey, "new")
	objectstoretest.Eventually(t, "the new credentials to be taken", func() bool {
		_, err := store.Head(t.Context(), "a")
		return err == nil
	})
	for name, content := range map[string]string{
		"none": "", "two lines": "a\nb", "not ASCII": "ü", "long": strings.Repeat("x", 20<<10),
	} {
		objectstoretest.WriteCredential(t, o.CredentialsDirectory, wirev1.ObjectStoreAccessKeyIDKey, content)
		objectstoretest.Eventually(t, "credentials to be refused: "+name, func() bool {
			_, err := store.Head(t.Context(), "a")
			return errors.Is(err, objectstore.ErrCredentials)
		})
	}
}

func TestOptions(t *testing.T) {
	good := objectstore.Options{Endpoint: "http://store", Bucket: "b", Dial: objectstoretest.Dial}
	if _, err := objectstore.New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*objectstore.Options){
		"credentials without TLS": func(o *objectstore.Options) { o.CredentialsDirectory = "/x" },
		"CA without TLS":          func(o *objectstore.Options) { o.CABundle = []byte("x") },
		"no CA": func(o *objectstore.Options) {
			o.Endpoint, o.CABundle = "https://store", []byte("x")
		},
		"no bucket":       func(o *objectstore.Options) { o.Bucket = "" },
		"no dialer":       func(o *objectstore.Options) { o.Dial = nil },
		"no scheme":       func(o *objectstore.Options) { o.Endpoint = "store:443" },
		"path":            func(o *objectstore.Options) { o.Endpoint = "http://store/b" },
		"user":            func(o *objectstore.Options) { o.Endpoint = "http://me:x@store" },
		"prefix":          func(o *objectstore.Options) { o.Prefix = "a/" },
		"two encryptions": func(o *objectstore.Options) { o.Encryption = objectstore.Encryption{S3: true, KMSKeyID: "k"} },
	} {
		o := good
		change(&o)
		if _, err := objectstore.New(o); !errors.Is(err, objectstore.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBlockedAddress(t *testing.T) {
	server := objectstoretest.New(t, "me")
	o := options(t, server)
	o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		return egress.NewGuard(egress.Policy{}).Dial(ctx, time.Minute, address)
	}
	if _, err := objectstoretest.Open(t, o).Head(t.Context(), "a"); !errors.Is(err, egress.ErrBlocked) {
		t.Error(err)
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}
