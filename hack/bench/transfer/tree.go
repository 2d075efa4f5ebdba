// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// cpuCounter is the file of a control group that counts CPU time, or empty for the whole system.
type cpuCounter string

func (c cpuCounter) read() (time.Duration, error) {
	if c == "" {
		busy, _, err := harness.SystemCPU()
		return busy, err
	}
	text, err := os.ReadFile(string(c))
	if err != nil {
		return 0, fmt.Errorf("read the control group's CPU time: %w", err)
	}
	// cpuacct.usage is a number of nanoseconds; cpu.stat begins with usage_usec and one of microseconds.
	fields, unit := strings.Fields(string(text)), time.Nanosecond
	if len(fields) > 1 && fields[0] == "usage_usec" {
		fields, unit = fields[1:], time.Microsecond
	}
	if len(fields) == 0 {
		return 0, fmt.Errorf("read the control group's CPU time: %s is empty", string(c))
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the control group's CPU time: %w", err)
	}
	return time.Duration(n) * unit, nil
}
