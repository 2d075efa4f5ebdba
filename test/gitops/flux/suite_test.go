// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build gitops

package flux_test

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TestMain has controller-runtime log nothing. Without a logger it complains of that after 30 s, with a stack.
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
