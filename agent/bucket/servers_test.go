// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package bucket_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	forms "github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// killedEnv holds what an agent that is to be killed does.
const killedEnv = "LIGHTERAGE_BUCKET_KILLED"

type killed struct {
	Server objectstoretest.Program
	Root   string
	// Prefix below that of the other tests.
	Prefix string
	// Slow: it never ends.
	Slow bool
	// Archive: it packs files.
	Archive bool
	// Form, unless 0, is that of its files.
	Form forms.Form
}

func (k killed) store() (*objectstore.Store, error) {
	o := k.Server.Options(prefix + k.Prefix)
	o.Retry = objectstore.DefaultRetry
	return objectstore.New(o)
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
		os.Exit(1)
	}
	os.Exit(0)
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
	o := bucket.WriteOptions{
		Origin: origin, Store: store, Transfer: "bank/nightly (1)", RunID: "r", Attempt: 1, Streams: 1,
		Report: send.NewReport(),
	}
	if k.Slow {
		o.Origin = slow{origin}
	}
	k.options(&o)
	return bucket.Write(context.Background(), o)
}

// options has files packed or compressed if they are to be.
func (k killed) options(o *bucket.WriteOptions) {
	if k.Archive {
		archived(codec.Zstd, 10<<20)(o)
	}
	if k.Form != 0 {
		resting(k.Form)(o)
	}
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
			k := killed{Server: start(t), Root: root, Slow: true}
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

// start has another process write.
func (k killed) start(t *testing.T) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), killedEnv+"="+string(text))
	c.Stderr = os.Stderr
	if err := objectstoretest.StartWithTest(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestKilled kills writers of real servers at every step of a run, and then the server.
func TestKilled(t *testing.T) {
	for name, start := range objectstoretest.Programs {
		t.Run(name, func(t *testing.T) {
			proxy := objectstoretest.NewProxy(t, start(t))
			root := cargo(t)
			for step, kind := range map[string]objectstoretest.Kind{
				"claim": objectstoretest.Put("/.lighterage/writer"), "whole": objectstoretest.Put("/a"),
				"note": objectstoretest.Notes, "create": objectstoretest.Creates, "part": objectstoretest.Parts,
				"complete": objectstoretest.Completes, "index": objectstoretest.Put("/.lighterage/index"),
				"deletes": objectstoretest.Deletes,
			} {
				t.Run(step, func(t *testing.T) { killedAt(t, proxy, killed{Root: root, Prefix: "-" + step}, kind) })
			}
			for step, kind := range map[string]objectstoretest.Kind{
				"create": objectstoretest.Creates, "part": objectstoretest.Parts, "complete": objectstoretest.Completes,
				"journal": objectstoretest.Put("/00001"), "its index": objectstoretest.Put(".lgci"),
				"index": objectstoretest.Put("/.lighterage/index"), "deletes": objectstoretest.Deletes,
			} {
				t.Run("archive "+step, func(t *testing.T) {
					killedAt(t, proxy, killed{Root: root, Prefix: "-archive-" + strings.ReplaceAll(step, " ", "-"), Archive: true}, kind)
				})
			}
			for step, kind := range map[string]objectstoretest.Kind{
				"part": objectstoretest.Parts, "journal": objectstoretest.Put("/00001"),
				"index of a file": objectstoretest.Put(".lgci"),
				"complete":        objectstoretest.Completes, "whole": objectstoretest.Put(".gz"),
				"deletes": objectstoretest.Deletes,
			} {
				t.Run("form "+step, func(t *testing.T) {
					k := killed{Root: root, Prefix: "-form-" + strings.ReplaceAll(step, " ", "-"), Form: forms.Gzip}
					killedAt(t, proxy, k, kind)
				})
			}
			if proxy.Directory == "" {
				return // What it has is in memory.
			}
			t.Run("server", func(t *testing.T) { killedServer(t, proxy, root) })
		})
	}
}

// killedAt kills a writer in the middle of each request of a kind, until it makes no more of them.
func killedAt(t *testing.T, proxy *objectstoretest.Proxy, k killed, kind objectstoretest.Kind) {
	k.Server = proxy.Program
	root := k.Root
	store := on(t, proxy.Program, prefix+k.Prefix)
	defer proxy.Inject(nil)
	for n := range int64(8) {
		reached := make(chan struct{})
		proxy.Inject(kind.After(n, objectstoretest.Stall(reached)))
		c := k.start(t)
		ended := make(chan struct{})
		go func() {
			_ = c.Wait()
			close(ended)
		}()
		select {
		case <-reached:
		case <-time.After(time.Minute):
			t.Fatal("the writer neither ends nor makes such a request")
		case <-ended:
			if n == 0 {
				t.Fatal("the writer ended before it was killed")
			}
			if !c.ProcessState.Success() {
				t.Fatal("the writer failed")
			}
			same(t, root, store)
			clean(t, store)
			return
		}
		_ = c.Process.Kill()
		<-ended
		// Nobody is served a part of a file.
		proxy.Inject(nil)
		whole(t, root, store)
	}
	mustWrite(t, source(t, root, nil), store, and(attempt(2), k.options))
	same(t, root, store)
	clean(t, store)
}

// whole reports files of a bucket that are served and differ from those of a tree, of which some may be missing.
func whole(t *testing.T, root string, store *objectstore.Store) {
	t.Helper()
	s := bucket.NewSource(t.Context(), store, nil)
	err := s.Walk(t.Context(), func(e *tree.Entry) error {
		if e.Type != tree.File {
			return nil
		}
		if strings.HasSuffix(e.Path, forms.IndexSuffix) {
			return nil // Its object has not come yet, or there is no index of the prefix.
		}
		plain, rests := strings.CutSuffix(e.Path, ".gz")
		want, err := os.ReadFile(filepath.Join(root, plain))
		if err != nil {
			return err
		}
		got := make([]byte, e.Size)
		if e.Size > 0 {
			if err := s.ReadAt(e, got, 0); errors.Is(err, tree.ErrChanged) {
				t.Logf("%s is truncated, and is not served", e.Path)
				return nil
			} else if err != nil {
				return err
			}
		}
		if rests {
			got = []byte(expanded(t, forms.Gzip, got))
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is served with %d bytes of another content than the file of %d", e.Path, len(got), len(want))
		}
		return nil
	})
	_, noIndex := store.Head(t.Context(), bucket.IndexName)
	switch {
	case err == nil, failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND): // It has nothing yet.
	case failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) && errors.Is(noIndex, objectstore.ErrNotFound):
		// Archives are there, and the first index of the prefix is not.
	default:
		t.Error(err)
	}
}

// killedServer kills the server in the middle of requests. It is back before the attempt gives up, or after that.
func killedServer(t *testing.T, proxy *objectstoretest.Proxy, root string) {
	for step, kind := range map[string]objectstoretest.Kind{
		"whole": objectstoretest.Put("/a"), "part": objectstoretest.Parts, "complete": objectstoretest.Completes,
		"index": objectstoretest.Put("/.lighterage/index"),
	} {
		for _, soon := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, soon %v", step, soon), func(t *testing.T) {
				store := on(t, proxy.Program, fmt.Sprintf("server-%s-%v", step, soon))
				defer proxy.Inject(nil)
				proxy.Inject(kind.Times(1, func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
					timer := time.AfterFunc(5*time.Millisecond, proxy.Kill)
					func() {
						defer func() { _ = recover() }() // The connection breaks, or the answer comes first and is lost.
						objectstoretest.Lose(w, r, pass)
					}()
					timer.Stop()
					proxy.Kill() // It waits for one that is under way.
					if soon {
						if err := proxy.Restart(); err != nil {
							t.Error(err)
						}
					}
					panic(http.ErrAbortHandler)
				}))
				_, err := write(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Streams = 1 })
				t.Logf("the first attempt: %v", err)
				if soon && err != nil {
					t.Errorf("the server was back: %v", err)
				}
				if !soon {
					if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE) {
						t.Errorf("without a server: %v", err)
					}
					if err := proxy.Restart(); err != nil {
						t.Fatal(err)
					}
				}
				whole(t, root, store)
				mustWrite(t, source(t, root, nil), store, func(o *bucket.WriteOptions) { o.Attempt = 2 })
				same(t, root, store)
				clean(t, store)
			})
		}
	}
}

// kill has another process write, and kills it when two parts are there.
func (k killed) kill(t *testing.T, store *objectstore.Store) {
	t.Helper()
	c := k.start(t)
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

// same reports differences between a tree and what a bucket has, and uploads that are left.
func same(t *testing.T, root string, store *objectstore.Store) {
	t.Helper()
	sameTree(t, root, store)
	for u, err := range store.Uploads(t.Context(), "") {
		t.Errorf("an upload is left: %+v, %v", u, err)
	}
}

// sameTree reports differences between a tree and what a bucket has.
func sameTree(t *testing.T, root string, store *objectstore.Store) {
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
}
