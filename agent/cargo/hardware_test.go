// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package cargo_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
)

func init() {
	engine, err := zlibng.New(zlibng.Options{Hardware: true})
	if err != nil {
		panic(err)
	}
	accelerators = append(accelerators, engine)
}

// TestFileOfHardware: the files of the other tests have blocks of the accelerator.
func TestFileOfHardware(t *testing.T) {
	blocks := 0
	for _, b := range travel(t, cargo.Gzip, files["Large"]...) {
		if b.header.Class == codec.Hardware {
			blocks++
		}
	}
	if blocks == 0 {
		t.Error("there are none")
	}
}
