// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestKilled kills each of those who take part in a hand-off through real servers, in the middle of it. Nothing is
// served half, and the next attempt has everything there.
func TestKilled(t *testing.T) {
	for name, start := range objectstoretest.Programs {
		t.Run(name, func(t *testing.T) {
			proxy := objectstoretest.NewProxy(t, start(t))
			for _, who := range []string{"handoff", "receive", "relay", "server"} {
				if who == "server" && proxy.Directory == "" {
					continue // What it has is in memory.
				}
				t.Run(who, func(t *testing.T) { killedHandOff(t, proxy, who) })
			}
		})
	}
}

// child is an agent in a process of its own.
type child struct {
	*exec.Cmd
	log   lines
	ended chan struct{}
}

func startChild(t *testing.T, mode, directory string) *child {
	t.Helper()
	c := &child{ended: make(chan struct{})}
	c.Cmd = exec.CommandContext(context.Background(), os.Args[0], mode, "--config-dir", directory, "--termination-log",
		filepath.Join(t.TempDir(), "log"))
	c.Env = append(os.Environ(), childEnv+"=1")
	c.Stdout, c.Stderr = &c.log, &c.log
	if err := objectstoretest.StartWithTest(c.Cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.Wait()
	}()
	t.Cleanup(c.kill)
	return c
}

func (c *child) kill() {
	_ = c.Process.Kill()
	<-c.ended
}

// endsWithin reports whether it ends by itself, and kills it if it does not.
func (c *child) endsWithin(patience time.Duration) bool {
	select {
	case <-c.ended:
		return true
	case <-time.After(patience):
		c.kill()
		return false
	}
}

func killedHandOff(t *testing.T, proxy *objectstoretest.Proxy, who string) {
	r := newHandOffRun(t, 48<<20)
	end := &wirev1.StoreEnd{
		Store: &wirev1.ObjectStoreConfig{
			Endpoint: proxy.Endpoint, CaBundle: proxy.CA, Bucket: objectstoretest.Bucket, Prefix: "handoff-" + who,
			CredentialsDirectory: proxy.Credentials,
		},
		DialPolicy: &wirev1.DialPolicy{AllowLoopback: true},
	}
	r.send.Via, r.relay.Store = end, end
	relayDirectory := r.relayDirectory(t)
	receiveDirectory, sendDirectory := r.prepare(t, 1)

	segments := objectstoretest.Kind(func(q *http.Request) bool {
		return q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/d/") && q.ContentLength > 512<<10
	})
	reached := make(chan struct{})
	proxy.Inject(segments.After(8, objectstoretest.Once(func() { close(reached) })))
	defer proxy.Inject(nil)
	processes := map[string]*child{
		"relay": startChild(t, "relay", relayDirectory), "receive": startChild(t, "receive", receiveDirectory),
	}
	processes["handoff"] = startChild(t, "handoff", sendDirectory)
	sender := processes["handoff"]
	select {
	case <-reached:
	case <-sender.ended:
		t.Fatalf("the sender ended before anything was killed:\n%s", sender.log.String())
	case <-time.After(time.Minute):
		t.Fatal("nothing was sent in a minute")
	}
	proxy.Inject(nil)
	if who == "server" {
		proxy.Kill()
		r.notHalf(t)
		if err := proxy.Restart(); err != nil {
			t.Fatal(err)
		}
	} else {
		processes[who].kill()
		r.notHalf(t)
	}
	began := time.Now()
	t.Logf("the sender ends by itself: %v, after %v", sender.endsWithin(2*time.Minute), time.Since(began).Round(time.Second))
	processes["receive"].endsWithin(5 * time.Second) // as the manager has it when another attempt comes
	r.notHalf(t)
	if who == "relay" {
		startChild(t, "relay", relayDirectory)
	}
	code, report := r.attempt(t.Context(), t, 2)
	if code != exitOK {
		t.Fatalf("the next attempt exits with %d: %v", code, report)
	}
	t.Logf("the next attempt: %v", report.GetProgress())
	r.arrived(t)
}

// notHalf reports a file at the destination that is not whole.
func (r *handOffRun) notHalf(t *testing.T) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(r.destination, "copy/file"))
	if err == nil && !bytes.Equal(got, r.content) {
		t.Errorf("a file with %d bytes of %d is served", len(got), len(r.content))
	}
}
