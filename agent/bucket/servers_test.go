// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package bucket_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
)

// killedEnv holds what an agent that is to be killed does.
const killedEnv = "LIGHTERAGE_BUCKET_KILLED"

type killed struct {
	Server objectstoretest.Program
	Root   string
}

func (k killed) store() (*objectstore.Store, error) {
	return objectstore.New(objectstore.Options{
		Endpoint: k.Server.Endpoint, CABundle: k.Server.CA, CredentialsDirectory: k.Server.Credentials,
		Bucket: objectstoretest.Bucket, Prefix: prefix,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
	})
}

// init writes, in the process that is to be killed, as slowly as it is told.
func init() {
	text := os.Getenv(killedEnv)
	if text == "" {
		return
	}
	var k killed
	err := json.Unmarshal([]byte(text), &k)
	if err == nil {
		err = k.write()
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
	}
	os.Exit(1)
}

func (k killed) write() error {
	store, err := k.store()
	if err != nil {
		return err
	}
	origin, err := tree.OpenSource(k.Root, ".")
	if err != nil {
		return err
	}
	return bucket.Write(context.Background(), bucket.WriteOptions{
		Origin: slow{origin}, Store: store, Transfer: "bank/nightly (1)", RunID: "r", Attempt: 1, Streams: 1,
		Report: send.NewReport(),
	})
}

// slow is a source that never gives the end of the large file.
type slow struct{ *tree.Source }

func (s slow) ReadAt(e *tree.Entry, p []byte, offset int64) error {
	if e.Path == "large" && offset >= 20<<20 {
		select {}
	}
	return s.Source.ReadAt(e, p, offset)
}

// TestServers holds round trips, and a restart after a kill, against real servers.
func TestServers(t *testing.T) {
	for name, start := range objectstoretest.Programs {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			put(t, root, map[string]string{
				"a/b/c": "deep", "a-b": "sorts before", "empty": "", "ü %2F+&=": "name", "large": random(7, 40<<20),
			})
			if err := os.Symlink("a/b", filepath.Join(root, "link")); err != nil {
				t.Fatal(err)
			}
			k := killed{Server: start(t), Root: root}
			store, err := k.store()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			k.kill(t, store)
			progress := mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Attempt = 2 })
			t.Logf("after a kill: %v", progress)
			if progress.GetResumedBytes() < 16<<20 || progress.GetUnchangedFiles() < 2 {
				t.Errorf("after a kill: %v", progress)
			}
			same(t, root, store)
			if progress := mustWrite(t, source(t, root, nil), store, nil); progress.GetUnchangedFiles() != 5 {
				t.Errorf("again: %v", progress)
			}
			// A file in the place of a directory, which a server that keeps files cannot have beside it.
			if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
				t.Fatal(err)
			}
			put(t, root, map[string]string{"a": "no directory any more"})
			mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Delete = true })
			same(t, root, store)
		})
	}
}

// kill has another process write, and kills it when two parts are there.
func (k killed) kill(t *testing.T, store *objectstore.Store) {
	t.Helper()
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), killedEnv+"="+string(text))
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for parts := 0; parts < 2; time.Sleep(50 * time.Millisecond) {
		if t.Context().Err() != nil {
			t.Fatal("the other process puts no parts")
		}
		for u, err := range store.Uploads(t.Context(), "large") {
			if err != nil {
				t.Fatal(err)
			}
			if have, err := store.Parts(t.Context(), u); err == nil {
				parts = len(have)
			}
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait()
}

// same reports differences between a tree and what a bucket has.
func same(t *testing.T, root string, store *objectstore.Store) {
	t.Helper()
	wantPaths, want, wantContents := entries(t, source(t, root, nil))
	gotPaths, got, gotContents := entries(t, bucket.NewSource(t.Context(), store, nil))
	if !slices.Equal(gotPaths, wantPaths) {
		t.Fatalf("the bucket has %q, want %q", gotPaths, wantPaths)
	}
	for path, w := range want {
		if g := got[path]; g.Mode != w.Mode || g.Modified != w.Modified || g.Target != w.Target ||
			gotContents[path] != wantContents[path] {
			t.Errorf("%s: %+v, want %+v", path, g, w)
		}
	}
	for u, err := range store.Uploads(t.Context(), "") {
		t.Errorf("an upload is left: %+v, %v", u, err)
	}
}
