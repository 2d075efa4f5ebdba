// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

// These tests are of what the manager asks of the API server, by object: what `make bench-scale` measures, in small,
// and bounded by counts, which do not depend on the machine.
package bed_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/hack/bench/scale/bed"
	"github.com/lighterage/lighterage/hack/bench/scale/controlplane"
	"github.com/lighterage/lighterage/hack/bench/scale/fleet"
	"github.com/lighterage/lighterage/test/render"
)

const (
	// patience is how long the manager may take for its part. It is for a busy machine.
	patience = 4 * time.Minute
	// looked is for how long the steady state is looked at: longer than Queues and HTTPEndpoints wait until they are
	// looked at again.
	looked = 18 * time.Second
)

var directory string

func TestMain(m *testing.M) {
	var inside bool
	if directory, inside = controlplane.Inside(); inside {
		ctrl.SetLogger(logr.Discard())
		klog.SetLogger(logr.Discard())
		if err := controlplane.Enter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	code, err := 0, look()
	if err == nil {
		code, err = controlplane.RunInside(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// look looks at what the programs are built from: go test takes a former result for the present one when the files that
// the test itself looked at are as they were.
func look() error {
	var errs []error
	visit := func(_ string, _ fs.DirEntry, err error) error { return err }
	for _, directory := range []string{"agent/wire", "api", "controllers"} {
		errs = append(errs, filepath.WalkDir(filepath.Join(render.Root, directory), visit))
	}
	return errors.Join(errs...)
}

// TestRequests: what the manager writes and asks for is bounded for each object, in a first pass over all of them, when
// nothing happens but progress, and after a restart.
func TestRequests(t *testing.T) {
	world := fleet.World{Namespaces: 5, Nodes: 10, Volumes: 60, Queues: 5, Endpoints: 5, Peers: 2, Transfers: 100}
	b, err := bed.Start(t.Context(), world, directory, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	first := bed.Span{From: point(t, b)}
	if err := b.StartManager(); err != nil {
		t.Fatal(err)
	}
	missing := ""
	until(t, b, func() (bool, error) {
		missing, err = b.Missing(t.Context())
		return missing == "", err
	}, &missing)
	first.To = point(t, b)
	steady := bed.Span{From: first.To}
	if err := b.Wait(t.Context(), looked); err != nil {
		t.Fatal(errors.Join(err, b.Manager.Failure()))
	}
	steady.To = point(t, b)
	if err := b.StopManager(); err != nil {
		t.Fatal(err)
	}
	restart := bed.Span{From: point(t, b)}
	if err := b.StartManager(); err != nil {
		t.Fatal(err)
	}
	unobserved := "not all objects were looked at"
	until(t, b, func() (bool, error) { return b.Observed(t.Context()), nil }, &unobserved)
	restart.To = point(t, b)
	if err := b.Fleet.Err(); err != nil {
		t.Fatal(err)
	}
	t.Run("first pass", func(t *testing.T) { checkFirst(t, world, first) })
	t.Run("steady state", func(t *testing.T) { checkSteady(t, world, steady) })
	t.Run("restart", func(t *testing.T) { checkRestart(t, restart) })
}

// TestLimits: with limits that namespaces share, runs begin as others end, and hardly a grant has the API server list
// all Transfers.
func TestLimits(t *testing.T) {
	world := fleet.World{
		Namespaces: 4, Nodes: 10, Volumes: 60, Queues: 2, Endpoints: 2, Peers: 2, Transfers: 200, Limited: true,
	}
	b, err := bed.Start(t.Context(), world, directory, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	all := bed.Span{From: point(t, b)}
	if err := b.StartManager(); err != nil {
		t.Fatal(err)
	}
	missing := ""
	until(t, b, func() (bool, error) {
		missing, err = b.Missing(t.Context())
		return missing == "", err
	}, &missing)
	if n := b.Fleet.Asked().Reached["sending agents"]; n != world.Admitted() || n >= world.RunningTransfers() {
		t.Errorf("%d of %d Transfers run, want %d", n, world.RunningTransfers(), world.Admitted())
	}
	until(t, b, func() (bool, error) {
		if err := b.Fleet.EndSending(t.Context()); err != nil {
			return false, err
		}
		ended, err := b.Ended(t.Context())
		missing = fmt.Sprintf("%d of %d runs have ended", ended, world.RunningTransfers())
		return ended >= world.RunningTransfers(), err
	}, &missing)
	all.To = point(t, b)
	lists := all.Requests(func(k controlplane.Kind) bool {
		return k == controlplane.Kind{Program: controlplane.Manager, Verb: "list", Resource: "transfers"}
	})
	// One is the cache's, and one is for the first grant. Where the cache is a second late there is another one.
	if most := int64(2 + world.RunningTransfers()/4); lists > most {
		t.Errorf("all Transfers were listed %d times for %d runs, want at most %d", lists, world.RunningTransfers(), most)
	}
	if b.Fleet.Bandwidths.Load() == 0 {
		t.Error("no agent was told its share")
	}
	if err := b.Fleet.Err(); err != nil {
		t.Error(err)
	}
}

func point(t *testing.T, b *bed.Bed) bed.Point {
	t.Helper()
	p, err := b.Point(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// until waits, and fails the test with what is missing when that takes too long.
func until(t *testing.T, b *bed.Bed, done func() (bool, error), missing *string) {
	t.Helper()
	took, err := b.Until(t.Context(), patience, done)
	if errors.Is(err, bed.ErrEnded) {
		err = b.Manager.Failure()
	}
	if err != nil {
		t.Fatal(err)
	}
	if took == 0 {
		t.Fatalf("after %s: %s", patience, *missing)
	}
}

// checkFirst: an object is written as often as its state changes, and what is at rest is not written at all.
func checkFirst(t *testing.T, world fleet.World, s bed.Span) {
	running := world.RunningTransfers()
	for object, n := range s.To.Record.Written {
		n -= s.From.Record.Written[object]
		if limit := mostWrites(t, world, object); n > limit {
			t.Errorf("%s %s was written %d times, want at most %d", object.Resource, object.Name, n, limit)
		}
	}
	checkProgress(t, world, s)
	checkBookings(t, s)
	lists := s.Requests(func(k controlplane.Kind) bool { return k.Program == controlplane.Manager && k.Verb == "list" })
	if lists > maxLists {
		t.Errorf("the manager listed %d times past its cache, want at most %d, for its informers", lists, maxLists)
	}
	asked := s.Requests(func(k controlplane.Kind) bool { return k.Program == controlplane.Manager && k.Verb == "get" })
	if limit := int64(2*running*runReads + (world.Queues+world.Endpoints)*servingReads + 50); asked > limit {
		t.Errorf("the manager read %d objects past its cache, want at most %d", asked, limit)
	}
}

// mostWrites are those of an object in a first pass, progress and statistics left out.
func mostWrites(t *testing.T, world fleet.World, object controlplane.Object) int64 {
	number := func(format string) (i int) {
		if _, err := fmt.Sscanf(object.Name, format, &i); err != nil {
			t.Fatalf("%s has a name of another form: %v", object.Name, err)
		}
		return i
	}
	switch object.Resource {
	case "transfers":
		i := number("transfer-%05d")
		switch phase := fleet.Phase(world, i); {
		case phase == v1alpha1.TransferTransferring:
			return runWrites
		case phase == v1alpha1.TransferComplete && !fleet.Nightly(i):
			return 0
		}
		return 1 // when its night is, or that it is suspended
	case "deliveries":
		if number("in-%05d") < world.RunningTransfers() {
			return runWrites
		}
		return 0
	case "queues", "httpendpoints":
		return servingWrites
	case "nodeprofiles":
		return profileWrites
	}
	return 2 // that it is made, and once more
}

const (
	// runWrites are a run's finalizer, that it starts, where it is placed, that it waits and that it transfers, and
	// some.
	runWrites = 8
	// servingWrites are those of a Queue or an HTTPEndpoint until it is Ready, profileWrites those of a node that is
	// new.
	servingWrites, profileWrites = 10, 4
	// maxLists of informers, some of which begin again.
	maxLists = 60
	// runReads are those past the cache before a run's Job is made, and servingReads those before the objects of a
	// Queue or HTTPEndpoint are.
	runReads, servingReads = 4, 12
	// progressPause is the least time between two writes of the progress of a run, on average.
	progressPause = 5.0
	// mostProgress is how many writes of progress there are in a second at most, however many runs there are, and
	// longestProgress how long one is, in bytes.
	mostProgress, longestProgress = 20.0, 3 << 10
)

// checkProgress: it is written seldom and briefly.
func checkProgress(t *testing.T, world fleet.World, s bed.Span) {
	t.Helper()
	runs, seconds := float64(2*world.RunningTransfers()), s.Length().Seconds()
	// The first and the last write of a run may both lie at the edges of the span.
	limit := min(mostProgress*seconds, runs*(seconds/progressPause+1))
	if writes := float64(s.ProgressWrites()); writes > limit {
		t.Errorf("%.0f writes of progress in %.1f s with %.0f runs, want at most %.0f", writes, seconds, runs, limit)
	}
	if longest := s.To.Record.LongestProgress; longest > longestProgress {
		t.Errorf("a write of progress of %d bytes, want at most %d", longest, longestProgress)
	}
}

// checkSteady: when nothing changes but what agents count, nothing else is written, and nothing read past the cache for
// each object.
func checkSteady(t *testing.T, world fleet.World, s bed.Span) {
	checkProgress(t, world, s)
	checkBookings(t, s)
	if n := s.Writes(); n > 0 {
		t.Errorf("%d writes that are neither progress nor statistics nor bookings: "+
			"%s", n, listed(s, controlplane.Kind.Writes))
	}
	reads := func(k controlplane.Kind) bool {
		return k.Program == controlplane.Manager && (k.Verb == "get" || k.Verb == "list")
	}
	if n := s.Requests(reads); n > 20 {
		t.Errorf("%d reads past the cache: %s", n, listed(s, reads))
	}
}

// checkBookings: a namespace is booked once a minute, and at once when a manager has been started. A Statement takes
// two writes until it is open.
func checkBookings(t *testing.T, s bed.Span) {
	t.Helper()
	limit := 3 + int64(s.Length().Minutes())
	for namespace, n := range s.To.Record.Bookings {
		if n -= s.From.Record.Bookings[namespace]; n > limit {
			t.Errorf("%d writes of the Statement of %s in %s, want at most %d", n, namespace, s.Length(), limit)
		}
	}
}

// checkRestart: a manager that takes over writes nothing but progress, statistics and bookings.
func checkRestart(t *testing.T, s bed.Span) {
	checkBookings(t, s)
	if n := s.Writes(); n > 0 {
		t.Errorf("%d writes: %s", n, listed(s, controlplane.Kind.Writes))
	}
}

// listed says which requests of the manager there were.
func listed(s bed.Span, of func(controlplane.Kind) bool) string {
	var all []string
	for kind, n := range s.To.Record.Requests {
		if n -= s.From.Record.Requests[kind]; n > 0 && kind.Program == controlplane.Manager && of(kind) {
			all = append(all, fmt.Sprintf("%s %s %d", kind.Verb, kind.Resource, n))
		}
	}
	return strings.Join(all, ", ")
}
