// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package codectest

const raceEnabled = true
