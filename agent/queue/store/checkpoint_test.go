// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestCheckpoint(t *testing.T) {
	s, err := Start(t.Context(), Options{
		Queue: "orders", Directory: t.TempDir(), Sync: Sync{Interval: time.Hour}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := s.Ensure(t.Context(), conn, Settings{}); err != nil {
		t.Fatal(err)
	}
	c := s.NewCheckpoint()
	if c.Every(time.Second) != time.Hour || c.Every(2*time.Hour) != 2*time.Hour {
		t.Errorf("every %v, %v", c.Every(time.Second), c.Every(2*time.Hour))
	}
	if _, err := conn.Request("orders", []byte("first"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Look(); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(c.paths, func(path string) bool { return filepath.Ext(path) == ".blk" }) {
		t.Errorf("the file with the message is not among %q", c.paths)
	}
	// What was removed since Look is no error.
	c.paths = append(c.paths, filepath.Join(t.TempDir(), "gone"))
	if err := c.Sync(); err != nil || !c.since.Equal(c.next) {
		t.Fatal(err)
	}
	// Nothing changes, and after the slack nothing is found.
	c.since = c.since.Add(2 * changeSlack)
	for range 2 {
		if n, err := c.Look(); n != 0 || err != nil {
			t.Errorf("%d files changed: %q, %v", n, c.paths, err)
		}
	}
	if s.Failed() != nil {
		t.Error(s.Failed())
	}
	walks := 0
	walk := c.walk
	c.walk = func(root string, found fs.WalkDirFunc) error { walks++; return walk(root, found) }
	if _, err := c.Look(); err != nil || walks != 0 {
		t.Errorf("%d walks while nothing was put: %v", walks, err)
	}
	if _, err := conn.Request("orders", []byte("second"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Look(); err != nil || walks != 1 {
		t.Errorf("%d walks after a put: %v", walks, err)
	}
	c.walk = func(string, fs.WalkDirFunc) error { return &fs.PathError{Op: "readdirent", Err: syscall.EIO} }
	if _, err := c.Look(); err == nil || s.Failed() == nil {
		t.Errorf("an error of the volume: %v, %v", err, s.Failed())
	}
}

func TestNoCheckpoint(t *testing.T) {
	for name, o := range map[string]Options{
		"in memory": {Memory: true}, "spilling": {Spill: &Spill{}}, "always": {Sync: Sync{Always: true}},
	} {
		if s := (&Store{options: o}); s.NewCheckpoint() != nil {
			t.Errorf("%s: there is one", name)
		}
	}
}
