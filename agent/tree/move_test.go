// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// moved is what a run of move did.
type moved struct {
	sent     []string // files whose content was needed
	removed  uint64
	omitted  map[string]uint64
	examples map[string][]string
}

type moveOptions struct {
	filter *filter.Filter
	mirror bool
	// allowEmpty source of a mirror.
	allowEmpty bool
	// before is called when everything was announced and nothing written.
	before func()
}

// move brings a tree to another place, as the agents do: through the form that entries have on the wire.
func move(t *testing.T, from, to string, o moveOptions) moved {
	t.Helper()
	m, err := tryMove(from, to, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func tryMove(from, to string, o moveOptions) (m moved, err error) {
	s, err := tree.OpenSource(from, ".")
	if err != nil {
		return m, err
	}
	defer s.Close()
	s.SetFilter(o.filter)
	d, err := tree.OpenDestination(to, ".", "run", 1)
	if err != nil {
		return m, err
	}
	defer d.Close()
	if o.mirror {
		if err := d.Mirror(o.filter, o.allowEmpty); err != nil {
			return m, err
		}
	}
	var needed, received []*tree.Entry
	err = s.Walk(context.Background(), func(e *tree.Entry) error {
		got, err := tree.FromWire(e.ToWire())
		if err != nil {
			return err
		}
		need, err := d.Look(&got)
		if need {
			needed, received = append(needed, e), append(received, &got)
		}
		return err
	})
	if err != nil {
		return m, err
	}
	if o.before != nil {
		o.before()
	}
	for i, e := range needed {
		if err := moveFile(s, d, uint64(i), e, received[i]); err != nil {
			return m, fmt.Errorf("move %q: %w", e.Path, err)
		}
		m.sent = append(m.sent, e.Path)
	}
	if err := d.Finish(); err != nil {
		return m, err
	}
	m.removed, m.omitted, m.examples = d.Removed(), make(map[string]uint64), make(map[string][]string)
	for _, all := range [][]*wirev1.Omission{s.Omissions().ToWire(), d.Omissions().ToWire()} {
		for _, o := range all {
			m.omitted[o.What] += o.Count
			m.examples[o.What] = append(m.examples[o.What], o.Examples...)
		}
	}
	return m, nil
}

func moveFile(s *tree.Source, d *tree.Destination, number uint64, e, received *tree.Entry) error {
	in, err := s.Open(e)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := d.Stage(number, received)
	if err != nil {
		return err
	}
	defer out.Close()
	for offset := int64(0); offset < e.Size; {
		start, end, err := in.Data(offset)
		if err != nil {
			return err
		}
		if !e.Sparse {
			start, end = offset, e.Size
		}
		for p := make([]byte, min(end-start, 1<<20)); start < end; start += int64(len(p)) {
			p = p[:min(end-start, int64(len(p)))]
			if err := in.ReadAt(p, start); err != nil {
				return err
			}
			if _, err := out.WriteAt(p, start); err != nil {
				return err
			}
		}
		offset = end
	}
	return cmp.Or(in.Check(), out.Commit(received))
}

// same checks that two trees have the same entries and contents, but for the kinds of differences that are listed.
func same(t *testing.T, from, to string, ignore func(*tree.Entry)) {
	t.Helper()
	a, err := walk(t, open(t, from, "."))
	if err != nil {
		t.Fatal(err)
	}
	b, err := walk(t, open(t, to, "."))
	if err != nil {
		t.Fatal(err)
	}
	if len(a) != len(b) {
		t.Fatalf("%d entries became %d", len(a), len(b))
	}
	for i := range a {
		x, y := wireForm(t, a[i]), wireForm(t, b[i])
		if ignore != nil {
			ignore(&x)
			ignore(&y)
		}
		if x != y {
			t.Errorf("%+v became %+v", x, y)
			continue
		}
		if x.Type != tree.File {
			continue
		}
		before, err := os.ReadFile(filepath.Join(from, x.Path))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(filepath.Join(to, x.Path))
		if err != nil {
			t.Fatal(err)
		}
		if string(before) != string(after) {
			t.Errorf("%q has other content", x.Path)
		}
	}
}

// wireForm is an entry without what no other tree can have.
func wireForm(t *testing.T, e *tree.Entry) tree.Entry {
	t.Helper()
	w := e.ToWire()
	w.Changed = 0
	got, err := tree.FromWire(w)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
