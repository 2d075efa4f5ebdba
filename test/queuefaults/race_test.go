// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults && race

package queuefaults_test

// agentFlags build members as these tests are built: with the race detector.
var agentFlags = []string{"-race"}
