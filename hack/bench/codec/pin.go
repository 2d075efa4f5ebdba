// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// processors returns the numbers of the processors that this process may use.
func processors() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("ask which processors may be used: %w", err)
	}
	var numbers []int
	for i := 0; len(numbers) < set.Count(); i++ {
		if set.IsSet(i) {
			numbers = append(numbers, i)
		}
	}
	return numbers, nil
}

// pin keeps the calling thread, and the processes that it starts, on some
// processors.
func pin(numbers ...int) error {
	var set unix.CPUSet
	for _, n := range numbers {
		set.Set(n)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to processors %v: %w", numbers, err)
	}
	return nil
}

// pinToOne pins to the last processor, on which the fewest interrupts arrive, and
// returns what undoes it.
func pinToOne() (undo func() error, err error) {
	numbers, err := processors()
	if err != nil {
		return nil, err
	}
	return func() error { return pin(numbers...) }, pin(numbers[len(numbers)-1])
}
