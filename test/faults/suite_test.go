// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

// Package faults_test kills processes and a node, cuts links, flips bits on them, fills a disk, changes CAs, lets
// certificates expire and sets clocks in the middle of Transfers between the two local clusters (make test-faults
// brings them up) and wants that every Transfer completes without anybody, that the destination equals the source, and
// that little is sent twice.
//
// A test shows that its fault did hit a running attempt: it waits until the destination has a part of the data, does
// its damage, and
// wants to see the attempt end of it, or, where one should live through it, go on. A bandwidth limit or a slow link
// into west makes runs last for that.
//
// Tests run one after the other, because most faults concern a whole cluster. Those whose names end with ForMinutes are
// for make test-faults-long.
package faults_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/lighterage/lighterage/test/clusters"
)

const root = "../.."

var (
	pair       *clusters.Pair
	east, west *clusters.Cluster
)

func TestMain(m *testing.M) {
	var err error
	if pair, err = clusters.Connect(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := pair.Installed(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !pair.Local || os.Geteuid() != 0 {
		fmt.Fprintln(
			os.Stderr,
			"these tests kill processes and cut links of the local clusters: run them as root, without EAST_KUBECONFIG and "+
				"WEST_KUBECONFIG",
		)
		os.Exit(1)
	}
	east, west = pair.East, pair.West
	os.Exit(m.Run())
}

// long skips what takes minutes unless that is asked for.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("FAULTS_LONG") == "" {
		t.Skip("takes minutes: make test-faults-long runs it")
	}
}
