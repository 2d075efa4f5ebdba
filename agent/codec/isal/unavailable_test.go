// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || !isal

package isal_test

import (
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/codec/isal"
)

func TestUnavailable(t *testing.T) {
	if isal.Available() || isal.Version() != "" {
		t.Errorf("available: %v, version %q", isal.Available(), isal.Version())
	}
	if _, err := isal.New(); err == nil || !strings.Contains(err.Error(), "tag isal") {
		t.Errorf("got %v, want an error that says how to build it", err)
	}
}
