// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || !zlibng

package zlibng_test

import (
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/codec/zlibng"
)

func TestUnavailable(t *testing.T) {
	if zlibng.Available() || zlibng.Version() != "" {
		t.Errorf("available: %v, version %q", zlibng.Available(), zlibng.Version())
	}
	if _, err := zlibng.New(zlibng.Options{}); err == nil || !strings.Contains(err.Error(), "tag zlibng") {
		t.Errorf("got %v, want an error that says how to build it", err)
	}
}
