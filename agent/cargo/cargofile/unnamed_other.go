// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cargofile

import (
	"errors"
	"os"
)

// createUnnamed fails: only Linux has files without a name.
func createUnnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// nameUnnamed is not called.
func nameUnnamed(*os.File, string) error { return errors.ErrUnsupported }
