// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || !zlibng

package zlibng

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
)

// Available reports whether this build contains the library.
func Available() bool { return false }

// Version returns the version of the library in this build, empty when there is
// none.
func Version() string { return "" }

// New fails: this build does not contain the library.
func New(o Options) (codec.Engine, error) {
	return nil, fmt.Errorf("engine %s is not in this build: build with cgo and the tag zlibng", o.name())
}
