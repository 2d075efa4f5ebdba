// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstoretest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Retry waits for next to nothing.
var Retry = objectstore.Retry{Tries: 4, Base: 1, Longest: 1}

// init has the client library not wait after the only try that it makes.
func init() { minio.DefaultRetryUnit = 1 }

// Dial dials everybody.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// Options are those of a prefix of a Server, without credentials.
func (s *Server) Options(prefix string) objectstore.Options {
	return objectstore.Options{
		Endpoint: s.URL, CABundle: s.CA, Bucket: Bucket, Prefix: prefix, Dial: Dial, Retry: Retry,
	}
}

// Open returns a store that is closed with the test.
func Open(t testing.TB, o objectstore.Options) *objectstore.Store {
	t.Helper()
	store, err := objectstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// Credentials are a directory as the kubelet mounts it.
func Credentials(t testing.TB, id, secret string) string {
	t.Helper()
	dir := t.TempDir()
	WriteCredential(t, dir, wirev1.ObjectStoreAccessKeyIDKey, id+"\n")
	WriteCredential(t, dir, wirev1.ObjectStoreSecretAccessKeyKey, secret)
	return dir
}

// WriteCredential replaces a file of a directory by another, as the kubelet does.
func WriteCredential(t testing.TB, dir, key, content string) {
	t.Helper()
	path := filepath.Join(dir, key)
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until something is so.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}
