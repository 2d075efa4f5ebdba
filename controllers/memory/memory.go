// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory keeps a process of the operator within the memory of its container.
package memory

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

// LimitVariable is the environment variable with the container's limit in bytes.
const LimitVariable = "MEMORY_LIMIT"

// Keep sets the collector's goal to nine tenths of the container's limit: the rest is for what the runtime does not
// count, such as buffers of connections. Without a limit, or where somebody has set GOMEMLIMIT, it does nothing.
func Keep() error {
	text := os.Getenv(LimitVariable)
	if text == "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("reading the environment variable %s: %w", LimitVariable, err)
	}
	if limit > 0 {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
	return nil
}
