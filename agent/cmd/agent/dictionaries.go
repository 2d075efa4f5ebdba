// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !faults

package main

import "github.com/lighterage/lighterage/agent/queue/dictionary"

// dictionaryTiming is the default.
var dictionaryTiming dictionary.Timing
