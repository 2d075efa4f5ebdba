// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package staging_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// mortal is a client whose manager is killed at a write: before it arrives, or before its answer does. After that
// nothing is written.
type mortal struct {
	client.Client
	left     int
	answered bool
	dead     bool
	// group is the test whose manager it is.
	group string
}

// kills counts the managers that were killed, by group of tests.
var kills = counter{of: map[string]int{}}

type counter struct {
	sync.Mutex
	of map[string]int
}

func (c *counter) add(group string) {
	c.Lock()
	defer c.Unlock()
	c.of[group]++
}

// groupOf is the part of TestStaging that a test is of.
func groupOf(t *testing.T) string {
	_, rest, _ := strings.Cut(t.Name(), "/")
	group, _, _ := strings.Cut(rest, "/")
	return group
}

// leastKills is how often managers are killed at least where they are killed at each write.
const leastKills = 200

// killedOften checks that the groups of tests that have run have killed managers, and not ended before.
func killedOften(t *testing.T) {
	kills.Lock()
	defer kills.Unlock()
	sum := 0
	for group, n := range kills.of {
		t.Logf("%s: %d managers were killed", group, n)
		sum += n
	}
	// A part of the tests by -run may kill none.
	if all := len(kills.of) == killingGroups && killedEvery() == 1; all && sum < leastKills {
		t.Errorf("%d managers were killed, want %d", sum, leastKills)
	}
}

// write does one write, or dies.
func (m *mortal) write(do func() error) error {
	if m.dead {
		return errKilled
	}
	if m.left--; m.left >= 0 {
		return do()
	}
	m.dead = true
	kills.add(m.group)
	if m.answered {
		_ = do()
	}
	return errKilled
}

func (m *mortal) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	return m.write(func() error { return m.Client.Create(ctx, o, options...) })
}

func (m *mortal) Update(ctx context.Context, o client.Object, options ...client.UpdateOption) error {
	return m.write(func() error { return m.Client.Update(ctx, o, options...) })
}

func (m *mortal) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	return m.write(func() error { return m.Client.Patch(ctx, o, p, options...) })
}

func (m *mortal) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	return m.write(func() error { return m.Client.Delete(ctx, o, options...) })
}

func (m *mortal) Apply(
	ctx context.Context, o runtime.ApplyConfiguration, options ...client.ApplyOption,
) error {
	return m.write(func() error { return m.Client.Apply(ctx, o, options...) })
}

func (m *mortal) Status() client.SubResourceWriter { return &mortalStatus{m.Client.Status(), m} }

type mortalStatus struct {
	client.SubResourceWriter
	of *mortal
}

func (m *mortalStatus) Patch(
	ctx context.Context, o client.Object, p client.Patch, options ...client.SubResourcePatchOption,
) error {
	return m.of.write(func() error { return m.SubResourceWriter.Patch(ctx, o, p, options...) })
}

func (m *mortalStatus) Update(ctx context.Context, o client.Object, options ...client.SubResourceUpdateOption) error {
	return m.of.write(func() error { return m.SubResourceWriter.Update(ctx, o, options...) })
}

// killingGroups is how many parts of TestStaging kill managers.
const killingGroups = 5

// killedWrites is how many writes a manager makes at most before it is killed: more than a run has.
const killedWrites = 25

// killedEvery is at which writes managers are killed: at each with STAGING_KILLS=all, else at every third.
func killedEvery() int {
	if os.Getenv("STAGING_KILLS") == "all" {
		return 1
	}
	return 3
}

// killed kills managers at writes of a run, in four ways a run can go: 200 times in all.
func killed(t *testing.T) {
	every := killedEvery()
	for number, story := range []struct {
		name  string
		fails int32
		// deleted: somebody deletes the Transfer when the manager is dead.
		deleted bool
		// broken: the driver cannot take a snapshot until then.
		broken bool
	}{{name: "Succeeds"}, {name: "Restarts", fails: 1}, {name: "Deleted", deleted: true}, {name: "Broken", broken: true}} {
		for writes := number % every; writes < killedWrites; writes += every {
			for _, answered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/%v", story.name, writes, answered), func(t *testing.T) {
					t.Parallel()
					s := prepare(t)
					s.fails = story.fails
					if story.broken {
						s.failure = "out of space"
					}
					cluster.Create(t, s.transfer)
					s.killed(writes, answered)
					s.survive(story.deleted)
				})
			}
		}
	}
}

// killed has a manager work until the run has ended, or it was killed behind so many writes; answered: the last of them
// was told to it.
func (s *storage) killed(writes int, answered bool) {
	s.Helper()
	m := &mortal{Client: manager.GetClient(), left: writes, answered: answered, group: groupOf(s.T)}
	r := reconciler(m)
	for range 80 {
		if s.refresh(); m.dead || s.ended() {
			return
		}
		if err := s.step(r); err != nil && !m.dead {
			s.Log(err) // it is tried again
		}
		s.work()
		s.hurry()
	}
}

// survive has another manager take over, and checks that nothing is left behind.
func (s *storage) survive(deleted bool) {
	s.Helper()
	s.failure = ""
	r := reconciler(manager.GetClient())
	if deleted {
		if err := cluster.Client.Delete(context.Background(), s.transfer); client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
		s.until("deletion", r, func() bool { return !s.refresh() })
		s.work()
		s.nothingLeft()
		return
	}
	s.until("end", r, func() bool {
		if run := s.transfer.Status.Run; run != nil && run.NextAttemptTime != nil {
			s.hurry()
		}
		return s.ended()
	})
	s.nothingLeft()
	if s.mounted["ledger"] || s.transfer.Status.Phase != v1alpha1.TransferComplete {
		s.Errorf("mounted %v, %+v", s.mounted, s.transfer.Status)
	}
}
