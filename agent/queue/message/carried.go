// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
)

// What follows is for channels, which carry messages together with the dictionaries that they refer to.

// Refers reports whether payloads of a codec can be decoded that refer to a dictionary.
func (d *Decoding) Refers(id codec.ID) bool { return d.dictionaryEngine(id) != nil }

// Dictionary returns the content of one that payloads refer to. Errors are those of Dictionaries.
func (d *Decoding) Dictionary(number uint32) ([]byte, error) {
	known := d.dictionaries.Load()
	if known == nil {
		return nil, fmt.Errorf("%w: number %d", ErrDictionary, number)
	}
	return (*known).Dictionary(number)
}

// With returns one of the same engines, which must be closed, for payloads that refer to dictionaries of another origin.
func (d *Decoding) With(dictionaries Dictionaries) (*Decoding, error) {
	out, err := NewDecoding(d.engines)
	if err != nil {
		return nil, err
	}
	out.Use(dictionaries)
	return out, nil
}
