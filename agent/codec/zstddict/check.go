// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package zstddict

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/lighterage/lighterage/agent/codec/cover"
)

// Check is Number for a dictionary that somebody else sent: its number is that which Train gives to what it holds. The
// error matches ErrInvalid.
func Check(dictionary []byte) (uint32, error) {
	found, err := Number(dictionary)
	if err != nil {
		return 0, err
	}
	d, err := zstd.InspectDictionary(dictionary)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if want := cover.Number(d.Content()); found != want {
		return 0, fmt.Errorf("%w: it has number %d, and its content makes it %d", ErrInvalid, found, want)
	}
	return found, nil
}
