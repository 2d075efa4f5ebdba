// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"
)

// Run is one of a benchmark.
type Run struct {
	Name string
	// Quick is a look that is no result.
	Quick bool
	// Partial is set by a benchmark that measures less than everything, which is no result either.
	Partial bool
	// Out is the directory for what is written; empty: the one that fits.
	Out string

	busy  float64 // cores that other work took when it began
	begun time.Time
}

// leastCell is how long a cell lasts at least, which is one condition under which contenders are compared.
const leastCell = 5 * time.Second

// Rounds calls round for so many rounds of a cell and then until the cell has lasted for 5 s, if the run is not quick.
// No more than most are made where a single one takes next to nothing.
func (r *Run) Rounds(rounds int, round func(round int) error) error {
	const most = 10_000
	begin := time.Now()
	for i := 0; i < rounds || !r.Quick && i < most && time.Since(begin) < leastCell; i++ {
		if err := round(i); err != nil {
			return err
		}
	}
	return nil
}

// Undisturbed measures until the hypervisor has stolen no more than 1 % of the processors' time meanwhile. What was
// measured before is discarded. Between turns it waits, at first 1 s and at last 10 s, since what neighbours on the
// host do comes in phases. After 20 turns, and 10 minutes, it gives up. The kernel counts in steps of 10 ms, so that a
// turn of less than 1 s by the number of processors is discarded when any step was seen.
func Undisturbed[T any](what string, measure func() (T, error)) (T, error) {
	return undisturbed(what, Stolen, measure)
}

func undisturbed[T any](what string, stolen func() (time.Duration, error), measure func() (T, error)) (T, error) {
	const turns, patience, most = 20, 10 * time.Minute, 0.01
	var none T
	turn, first := 0, time.Now()
	for ; turn < turns || time.Since(first) < patience; turn++ {
		before, err := stolen()
		if err != nil {
			return none, err
		}
		begun := time.Now()
		measured, err := measure()
		if err != nil {
			return none, err
		}
		processors := float64(time.Since(begun)) * float64(runtime.NumCPU())
		after, err := stolen()
		if err != nil {
			return none, err
		}
		lost := float64(after - before)
		if lost <= most*processors {
			return measured, nil
		}
		Log("%s: discarded, because the hypervisor has stolen %.1f %% of the processors' time", what, 100*lost/processors)
		time.Sleep(time.Second * time.Duration(min(turn+1, 10)))
	}
	return none, fmt.Errorf("%s: in each of %d turns the hypervisor has stolen more than 1 %% of the processors' time",
		what, turn)
}

// Order in which n contenders take their turns in a round. It differs from round to round, so that nobody always comes
// after the same one, and is the same in every run.
func Order(round, n int) []int {
	return rand.New(rand.NewPCG(uint64(round), 0)).Perm(n)
}

// Log tells on standard error how far the run has come.
func Log(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}
