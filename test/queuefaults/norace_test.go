// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults && !race

package queuefaults_test

var agentFlags []string
