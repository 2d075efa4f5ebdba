// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package vectors_test

import "github.com/lighterage/lighterage/agent/codec/zlibng"

func init() {
	engine, err := zlibng.New(zlibng.Options{Hardware: true})
	if err != nil {
		panic(err)
	}
	hardware = append(hardware, engine)
}
