// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/transfer/send"
)

// gardener changes trees at random, the same for a seed.
type gardener struct {
	t    *testing.T
	rand *rand.Rand
	tick int64
}

// grown describes what is in a tree: "d", "l" and the target, or "f", the time and the content.
func grown(t *testing.T, root string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := "d"
		switch d.Type() {
		case fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			what = "l" + target
		case 0:
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			what = fmt.Sprintf("f%d %s", info.ModTime().UnixNano(), b)
		}
		all[strings.TrimPrefix(name, root+"/")] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (g *gardener) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// change adds, replaces and removes some entries. Unless mixed, a name is always that of a directory or never.
func (g *gardener) change(root string, times int, mixed bool) {
	names := []string{"d0", "d1", "d2", "a.tmp", "b.csv", "c"}
	for range times {
		p := ""
		for range g.rand.IntN(3) {
			p = path.Join(p, names[g.rand.IntN(3)])
		}
		kind := g.rand.IntN(len(names))
		p = path.Join(p, names[kind])
		name := filepath.Join(root, p)
		if mixed {
			kind = g.rand.IntN(len(names))
			// What is in the place of a directory on the way goes.
			for i := range p {
				if info, err := os.Lstat(filepath.Join(root, p[:i])); p[i] == '/' && err == nil && !info.IsDir() {
					g.must(os.Remove(filepath.Join(root, p[:i])))
				}
			}
		}
		g.must(os.MkdirAll(filepath.Dir(name), 0o755))
		old, _ := os.ReadFile(name)
		if kind > 2 || mixed || g.rand.IntN(4) == 0 {
			g.must(os.RemoveAll(name))
		}
		if g.rand.IntN(4) == 0 {
			continue // It is gone.
		}
		g.tick++
		switch {
		case kind < 3:
			g.must(os.MkdirAll(name, 0o755))
		case kind == 5 && g.rand.IntN(2) == 0:
			g.must(os.Symlink(fmt.Sprintf("target-%d", g.tick), name))
		default:
			content := fmt.Appendf(nil, "content %d", g.tick)
			switch {
			case len(old) > 64<<10:
				content = old
				content[g.rand.IntN(len(old))]++
			case g.rand.IntN(6) == 0:
				content = noise(uint64(g.tick), 130<<10+g.rand.IntN(1000))
			}
			g.must(os.WriteFile(name, content, 0o600))
			at := time.Unix(1_000_000_000+g.tick, g.tick)
			g.must(os.Chtimes(name, at, at))
		}
	}
}

// properties are patterns and what they match besides what is below it, told in another way than package filter does.
var properties = map[string]func(path string) bool{
	"*.tmp":  func(p string) bool { return strings.HasSuffix(p, ".tmp") },
	"*.csv":  func(p string) bool { return strings.HasSuffix(p, ".csv") },
	"/d0":    func(p string) bool { return p == "d0" },
	"d1/":    func(p string) bool { return path.Base(p) == "d1" },
	"d2/**":  func(p string) bool { return strings.HasPrefix(p, "d2/") },
	"/d0/d1": func(p string) bool { return p == "d0/d1" },
	"**/c":   func(p string) bool { return path.Base(p) == "c" },
}

func (g *gardener) patterns() (chosen []string) {
	for _, p := range slices.Sorted(maps.Keys(properties)) {
		if g.rand.IntN(4) == 0 {
			chosen = append(chosen, p)
		}
	}
	return chosen
}

func matches(patterns []string, p string) bool {
	for ; p != "."; p = path.Dir(p) {
		if slices.ContainsFunc(patterns, func(pattern string) bool { return properties[pattern](p) }) {
			return true
		}
	}
	return false
}

// mirrored is what there is after a mirror: what moves of the source, what does not move of the destination, and the
// directories of both.
func mirrored(source, destination map[string]string, include, exclude []string) map[string]string {
	moves := func(p string) bool {
		return (len(include) == 0 || matches(include, p)) && !matches(exclude, p)
	}
	want := make(map[string]string)
	keep := func(p, what string) {
		want[p] = what
		for p = path.Dir(p); p != "."; p = path.Dir(p) {
			want[p] = "d"
		}
	}
	for p, what := range destination {
		if !moves(p) {
			keep(p, what)
		}
	}
	for p, what := range source {
		if moves(p) {
			keep(p, what)
		}
	}
	return want
}

// Whatever the trees and the patterns are, a mirror ends as it is defined.
func TestMirrorOfRandomTrees(t *testing.T) {
	t.Parallel()
	allowEmpty := func(o *send.Options) { o.Mirror.AllowEmptySource = true }
	const trees uint64 = max(6/sparsely, 2)
	for seed := range trees { // trees that are mixed and trees that are not
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := &gardener{t: t, rand: rand.New(rand.NewPCG(seed, 1))}
			source, destination := t.TempDir(), t.TempDir()
			mixed := seed%3 == 0
			g.change(source, 30, mixed)
			move(t, source, destination)
			if got := grown(t, destination); !maps.Equal(got, grown(t, source)) {
				t.Fatalf("there are %q", slices.Sorted(maps.Keys(got)))
			}
			for round := range 4 {
				g.change(source, 12, mixed)
				g.change(destination, 12, mixed)
				var include, exclude []string
				if !mixed { // Else there may be files in the place of directories that have something protected, which is refused.
					include, exclude = g.patterns(), g.patterns()
				}
				from, before := grown(t, source), grown(t, destination)
				want := mirrored(from, before, include, exclude)
				move(t, source, destination, filtered(t, true, include, exclude), allowEmpty)
				got := grown(t, destination)
				for _, p := range slices.Sorted(maps.Keys(want)) {
					if got[p] != want[p] {
						t.Errorf("round %d: %q is %.60q instead of %.60q", round, p, got[p], want[p])
					}
				}
				for _, p := range slices.Sorted(maps.Keys(got)) {
					if want[p] == "" {
						t.Errorf("round %d: %q is there, include %q, exclude %q", round, p, include, exclude)
					}
				}
				if !maps.Equal(from, grown(t, source)) {
					t.Errorf("round %d: the source is another", round)
				}
			}
		})
	}
}
