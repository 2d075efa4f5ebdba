// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("nothing has a median")
	}
}

func TestGeometricMean(t *testing.T) {
	if got := geometricMean([]float64{0.5, 2}); math.Abs(got-1) > 1e-12 {
		t.Errorf("half and twice make %v", got)
	}
}

// TestFaster pairs rounds: a machine that becomes slower for both changes nothing.
func TestFaster(t *testing.T) {
	ours, theirs := result{cpu: []float64{1, 5, 10}}, result{cpu: []float64{2, 10, 20, 1}}
	if got := ours.faster(theirs); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
}

// TestInTurn has the clock of a bubble: how many rounds there are depends on how long a pass takes.
func TestInTurn(t *testing.T) { synctest.Test(t, testInTurn) }

func testInTurn(t *testing.T) {
	var order []string
	closed := 0
	named := func(name string, took time.Duration) contender {
		return contender{name: name, close: func() error {
			closed++
			return nil
		}, pass: func(context.Context) (sample, error) {
			order = append(order, name)
			time.Sleep(took)
			return sample{cpu: 1000, wall: 2000, in: 100, out: 50}, nil
		}}
	}
	b := &bench{log: io.Discard, extent: extent{rounds: 3, least: 2, patience: 20 * time.Millisecond}}
	found, err := b.inTurn(
		t.Context(), "data", plainIn, []contender{named("quick", 0), named("slow", 30*time.Millisecond)},
	)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"quick", "slow", "quick", "slow", "slow", "quick", "quick"}; !slices.Equal(order, want) {
		t.Errorf("the order was %q, want %q", order, want)
	}
	if closed != 2 {
		t.Errorf("%d of 2 were closed", closed)
	}
	if got := found[0]; len(got.cpu) != 3 || got.speed() != 100 || got.wallSpeed() != 50 || got.ratio() != 0.5 {
		t.Errorf("got %+v", got)
	}
}

func TestInTurnError(t *testing.T) {
	broken, closed := errors.New("broken"), false
	c := contender{
		name: "engine", close: func() error { closed = true; return nil },
		pass: func(context.Context) (sample, error) { return sample{}, broken },
	}
	if _, err := (&bench{log: io.Discard}).inTurn(t.Context(), "data", plainIn, []contender{c}); !errors.Is(err, broken) ||
		!closed {
		t.Errorf("got %v, closed: %v", err, closed)
	}
}
