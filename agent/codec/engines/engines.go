// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engines lists the engines that a build contains.
package engines

import (
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/codec/isal"
	"github.com/lighterage/lighterage/agent/codec/libzstd"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
)

// All returns the engines of this build that are true on every machine, the
// preferred ones of each codec first. Hardware is not among them: it has to be
// proved first.
func All() []codec.Engine {
	var all []codec.Engine
	if e, err := isal.New(); err == nil {
		all = append(all, e)
	}
	if e, err := zlibng.New(zlibng.Options{}); err == nil {
		all = append(all, e)
	}
	all = append(all, goflate.New())
	if e, err := libzstd.New(); err == nil {
		all = append(all, e)
	}
	return append(all, gozstd.New(), identity.New())
}

// Default returns a registry of All.
func Default() *codec.Registry {
	return codec.NewRegistry(All()...)
}
