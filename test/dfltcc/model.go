// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package dfltcc

/*
#cgo pkg-config: zlib-ng
#include <stdlib.h>
#include <dfltcc_model.h>
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Function is a function of the instruction.
type Function int

// The functions that are modelled.
const (
	Query    Function = C.dfltcc_qaf
	Generate Function = C.dfltcc_gdht
	Compress Function = C.dfltcc_cmpr
	Expand   Function = C.dfltcc_xpnd
)

// DefaultStep is the model's step where nothing else is asked for, in bytes.
const DefaultStep = 256 << 10

// Calls returns how often the model executed a function since the last SetFault.
func Calls(f Function) uint64 { return uint64(C.dfltcc_model_calls(C.int(f))) }

// Partial returns how often a function ended before it was done.
func Partial(f Function) uint64 { return uint64(C.dfltcc_model_partial(C.int(f))) }

// SetStep has the model end its calls after so many plain bytes, with a condition
// code that asks for more calls; 0 is never.
func SetStep(bytes int) { C.dfltcc_model_set_step(C.uint64_t(bytes)) }

// SetFault makes the model faulty in one of the ways that README.md lists, after so
// many good calls of the function concerned. An empty kind fixes it.
func SetFault(kind string, after uint64) error {
	name := C.CString(kind)
	defer C.free(unsafe.Pointer(name))
	if C.dfltcc_model_set_fault(name, C.uint64_t(after)) == 0 {
		return fmt.Errorf("the model has no fault %q", kind)
	}
	return nil
}
