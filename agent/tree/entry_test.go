// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func TestEntriesTravel(t *testing.T) {
	for _, e := range []tree.Entry{
		{Path: ".", Type: tree.Directory, Mode: 0o7777, Modified: -1},
		{Path: "a/b\xff", Type: tree.File, Mode: 0o4755, Size: 1 << 40, Modified: 1},
		{Path: "l", Type: tree.Symlink, Mode: 0o777, Target: "../../anywhere", UID: 1, GID: 2},
		{Path: "p", Type: tree.FIFO, Mode: 0o600, Modified: 1 << 62},
		{Path: "z/h", Type: tree.HardLink, Target: "z/a"},
		{Path: "s", Type: tree.File, Size: 1, Sparse: true, Changed: 5, Xattrs: tree.NewXattrs(map[string]string{
			"user.b": "\x00", "user.a": "", "system.posix_acl_access": "acl",
			"trusted.x": strings.Repeat("v", tree.MaxXattrValue),
		})},
		{Path: "d", Type: tree.Directory, Xattrs: tree.NewXattrs(map[string]string{"system.posix_acl_default": "acl"})},
	} {
		got, err := tree.FromWire(e.ToWire())
		if err != nil || got != e {
			t.Errorf("%+v became %+v, %v", e, got, err)
		}
	}
}

func FuzzFromWire(f *testing.F) {
	for _, e := range []*tree.Entry{
		{Path: ".", Type: tree.Directory}, {Path: "a/b", Type: tree.File, Size: 9, Mode: 0o644},
		{Path: "l", Type: tree.Symlink, Target: "t"},
		{Path: "b", Type: tree.HardLink, Target: "a"}, {Path: "p", Type: tree.FIFO},
		{
			Path: "x", Type: tree.File, Sparse: true, Size: 1,
			Xattrs: tree.NewXattrs(map[string]string{"user.a": "1", "security.capability": "2"}),
		},
	} {
		b, err := proto.Marshal(e.ToWire())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var w wirev1.Entry
		if proto.Unmarshal(b, &w) != nil {
			return
		}
		e, err := tree.FromWire(&w)
		if err != nil {
			return
		}
		if e.Type == tree.HardLink && (tree.CheckPath(e.Target) != nil || tree.Compare(e.Target, e.Path) >= 0) {
			t.Fatalf("%+v is accepted", e)
		}
		size := 0
		for name, value := range e.Xattrs.All() {
			size += len(name) + len(value)
		}
		if size > tree.MaxXattrBytes || tree.CheckPath(e.Path) != nil || e.Mode&^tree.ModeMask != 0 || e.Size < 0 {
			t.Fatalf("%+v is accepted", e)
		}
		again, err := tree.FromWire(e.ToWire())
		if err != nil || again != e {
			t.Fatalf("%+v became %+v, %v", e, again, err)
		}
	})
}
