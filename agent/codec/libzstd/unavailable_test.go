// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || !libzstd

package libzstd_test

import (
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/codec/libzstd"
)

func TestUnavailable(t *testing.T) {
	if libzstd.Available() || libzstd.Version() != "" {
		t.Errorf("available: %v, version %q", libzstd.Available(), libzstd.Version())
	}
	if _, err := libzstd.New(); err == nil || !strings.Contains(err.Error(), "tag libzstd") {
		t.Errorf("got %v, want an error that says how to build it", err)
	}
}
