// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary

import wirev1 "github.com/lighterage/lighterage/agent/wire/v1"

// Marshal is what is kept of a dictionary, and ErrEntry says that something is not.
var (
	Marshal  = marshal
	ErrEntry = errEntry
)

// ParseEntry reads what is kept.
func ParseEntry(number uint32, data []byte) (*wirev1.QueueDictionary, []byte, error) {
	e, err := parseEntry(number, data)
	return e.about, e.content, err
}
