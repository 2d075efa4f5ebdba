// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"math/rand/v2"
	"os"
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

	load  float64 // of the machine when it began
	begun time.Time
}

// leastCell is how long a cell lasts at least, which is one condition under which contenders are compared.
const leastCell = 5 * time.Second

// Rounds calls round for so many rounds of a cell and then until the cell has lasted for 5 s, if the run is not quick.
// No more than most are made where a single one takes next to nothing.
func (r *Run) Rounds(rounds int, round func(round int) error) error {
	const most = 1000
	begin := time.Now()
	for i := 0; i < rounds || !r.Quick && i < most && time.Since(begin) < leastCell; i++ {
		if err := round(i); err != nil {
			return err
		}
	}
	return nil
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
