// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e_test runs Lighterage as installed by its Helm chart in two real clusters (make clusters images
// demo-install).
package e2e_test

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
	east, west *cluster
)

// cluster is one of the two.
type cluster struct {
	*clusters.Cluster
	name string
}

func TestMain(m *testing.M) {
	var err error
	if pair, err = clusters.Connect(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Tests of a release install it.
	if os.Getenv("RELEASE_REGISTRY") == "" {
		if err := pair.Installed(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	east, west = &cluster{pair.East, "east"}, &cluster{pair.West, "west"}
	os.Exit(m.Run())
}
