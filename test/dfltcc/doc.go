// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dfltcc exercises the hardware path against a software model of the
// instruction DFLTCC. README.md says what that proves and what it does not.
//
// With the build tag dfltcc, which env.sh sets together with a zlib-ng that brings
// the model along, it has controls of the model and zlib-ng's streams as they are,
// which the engines of agent/codec wrap; without, it is empty.
package dfltcc
