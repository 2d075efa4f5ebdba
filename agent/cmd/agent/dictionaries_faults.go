// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package main

import (
	"time"

	"github.com/lighterage/lighterage/agent/queue/dictionary"
)

// dictionaryTiming changes dictionaries every few seconds, for members of test/queuefaults. Partitions there are shorter
// than Grace.
var dictionaryTiming = dictionary.Timing{
	Poll: 300 * time.Millisecond, Settle: time.Second, Lease: 3 * time.Second, Grace: 20 * time.Second,
	First: 2 * time.Second, Interval: 6 * time.Second, Always: true,
}
