// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"context"
	"errors"
	"testing"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// TestInTurn: there is a pass to warm up, and then everybody takes part in each round.
func TestInTurn(t *testing.T) {
	var order []string
	closed := 0
	named := func(name string) contender {
		return contender{name: name, close: func() error {
			closed++
			return nil
		}, pass: func(context.Context) (sample, error) {
			order = append(order, name)
			return sample{cpu: 1000, wall: 2000, in: 100, out: 50}, nil
		}}
	}
	b := &bench{Run: &harness.Run{Quick: true}, extent: extent{rounds: 3}}
	found, err := b.inTurn(
		t.Context(), "data", plainIn, gather{contenders: []contender{named("one"), named("other")}},
	)
	if err != nil {
		t.Fatal(err)
	}
	if len(order) < 8 || order[0] != "one" || order[1] != "other" { // A pass that was disturbed is made again.
		t.Errorf("the order was %q", order)
	}
	if closed != 2 {
		t.Errorf("%d of 2 were closed", closed)
	}
	if len(found[1].cpu) != 3 {
		t.Errorf("got %+v", found[1])
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
	b, g := &bench{Run: &harness.Run{}}, gather{contenders: []contender{c}}
	if _, err := b.inTurn(t.Context(), "data", plainIn, g); !errors.Is(err, broken) || !closed {
		t.Errorf("got %v, closed: %v", err, closed)
	}
}
