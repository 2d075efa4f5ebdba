// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRounds has the clock of a bubble: how many rounds there are depends on how long one takes.
func TestRounds(t *testing.T) { synctest.Test(t, testRounds) }

func testRounds(t *testing.T) {
	for _, c := range []struct {
		quick bool
		took  time.Duration
		want  int
	}{{false, 400 * time.Millisecond, 13}, {false, 3 * time.Second, 3}, {true, time.Millisecond, 3}} {
		got := 0
		err := (&Run{Quick: c.quick}).Rounds(3, func(round int) error {
			if round != got {
				t.Errorf("round %d is called %d", got, round)
			}
			got++
			time.Sleep(c.took)
			return nil
		})
		if err != nil || got != c.want {
			t.Errorf("%d rounds of %s, want %d: %v", got, c.took, c.want, err)
		}
	}
	broken := errors.New("broken")
	if err := (&Run{}).Rounds(3, func(int) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestUndisturbed: what was measured while more than a hundredth of the processors' time was stolen does not count, and
// a machine on which that never ends has no result.
func TestUndisturbed(t *testing.T) { synctest.Test(t, testUndisturbed) }

func testUndisturbed(t *testing.T) {
	all := time.Second * time.Duration(runtime.NumCPU())
	for _, c := range []struct {
		took    time.Duration
		stolen  []time.Duration // in each turn, and nothing later
		forever bool
		want    int
	}{
		{time.Second, nil, false, 1},
		{time.Second, []time.Duration{all / 100}, false, 1},
		{time.Second, []time.Duration{all / 50, all / 10}, false, 3},
		{time.Minute, nil, true, 20},
		{10 * time.Second, nil, true, 33},
		{time.Second, nil, true, 59},
	} {
		turns, total := 0, time.Hour
		got, err := undisturbed("a turn", func() (time.Duration, error) { return total, nil }, func() (int, error) {
			time.Sleep(c.took)
			switch {
			case c.forever:
				total += all
			case turns < len(c.stolen):
				total += c.stolen[turns]
			}
			turns++
			return turns, nil
		})
		if turns != c.want || (err != nil) != c.forever || err == nil && got != c.want {
			t.Errorf("%v in turns of %s: %d after %d turns, want %d: %v", c.stolen, c.took, got, turns, c.want, err)
		}
	}
	broken := errors.New("broken")
	if _, err := Undisturbed("a turn", func() (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestOrder: everybody takes a turn in each round, and nobody always comes after the same one.
func TestOrder(t *testing.T) {
	after := map[[2]int]int{}
	for round := range 20 {
		order := Order(round, 4)
		if !slices.Equal(order, Order(round, 4)) || !slices.Equal(slices.Sorted(slices.Values(order)), []int{0, 1, 2, 3}) {
			t.Fatalf("round %d: %v", round, order)
		}
		for i := range order[1:] {
			after[[2]int{order[i], order[i+1]}]++
		}
	}
	if len(after) != 12 {
		t.Errorf("%v", after)
	}
}

// TestPublish: what is no result does not go where results are, unless it is told to.
func TestPublish(t *testing.T) {
	for _, c := range []struct {
		run  Run
		want string
	}{
		{Run{}, "docs/results"},
		{Run{Quick: true}, "dist/bench"},
		{Run{Partial: true}, "dist/bench"},
		{Run{Quick: true, Out: "x"}, "x"},
	} {
		if got := c.run.Directory(); got != c.want {
			t.Errorf("%+v is written to %s", c.run, got)
		}
	}
	r := Run{Name: "some", Quick: true, Out: t.TempDir(), busy: 2, begun: time.Now()}
	if err := r.Publish(t.Context(), Report{
		Name: "some", Template: "{{written}}\n{{machine}}\n{{targets}}{{.}}", Data: "data", Drawing: "<svg/>",
		Targets:  []Target{{Name: "a", What: "b", Measured: Exactly(1), Bound: 1}},
		Versions: []string{"", "program 7"},
	}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.Out, "some.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"`make bench-some BENCH=quick`", "It is no result.", "program 7. Other work ran beside it: it kept 2.0 cores busy",
		"| a | b | 1 |  | <=1 | ok |\ndata",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if svg, err := os.ReadFile(filepath.Join(r.Out, "some.svg")); err != nil || string(svg) != "<svg/>" {
		t.Errorf("%s, %v", svg, err)
	}
}

func TestCommand(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(here) // The command changes to the root.
	var got Run
	size, role := 0, []string(nil)
	b := Benchmark{
		Name: "some", Flags: func(f *flag.FlagSet) { f.IntVar(&size, "size", 1, "a size") },
		Run: func(_ context.Context, r *Run) error { got = *r; return nil },
		Roles: map[string]func(context.Context, []string) error{
			"server": func(_ context.Context, args []string) error { role = args; return nil },
		},
	}
	if err := command(t.Context(), []Benchmark{b}, []string{"some", "-extent", "quick", "-size", "7"}); err != nil ||
		!got.Quick || size != 7 {
		t.Errorf("%+v, size %d: %v", got, size, err)
	}
	if _, err := os.Stat("Makefile"); err != nil {
		t.Error("it does not run in the root")
	}
	if err := command(t.Context(), []Benchmark{b}, Self("some", "server", "a", "b")[1:]); err != nil ||
		!slices.Equal(role, []string{"a", "b"}) {
		t.Errorf("%v: %v", role, err)
	}
	for _, wrong := range [][]string{
		{}, {"other"}, {"some", "-extent", "all"}, {"some", "word"}, {"some", "-unknown"}, Self("some", "client")[1:],
	} {
		if err := command(t.Context(), []Benchmark{b}, wrong); err == nil {
			t.Errorf("%q runs", wrong)
		}
	}
}
