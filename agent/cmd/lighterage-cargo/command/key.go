// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
)

// keyOf returns the number that a line of JSON has of a name. Without one it is false.
func keyOf(record []byte, key string) (value int64, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(record, &fields) != nil {
		return 0, false
	}
	text, found := fields[key]
	return value, found && string(text) != "null" && json.Unmarshal(text, &value) == nil
}

// keys are those of a file.
type keys struct {
	file *cargofile.File
	name string
}

// findKeys returns the first of the records whose key has one of so many values from one on, and how many they are.
func findKeys(
	ctx context.Context, f *cargofile.File, key string, value, values int64,
) (first, count int64, err error) {
	k := keys{f, key}
	none := fmt.Errorf("%w: none has %s %d", cargo.ErrNoRecord, key, value)
	if values > 1 {
		none = fmt.Errorf("%w: none has %s %d to %d", cargo.ErrNoRecord, key, value, value+values-1)
	}
	from, low, err := k.outer(ctx, 0, 1)
	if err != nil {
		return 0, 0, err
	}
	last, high, err := k.outer(ctx, f.Index().RecordCount()-1, -1)
	if err != nil {
		return 0, 0, err
	}
	if last < from || high < value || low > value+values-1 {
		return 0, 0, none
	}
	if high-low == last-from { // each value once
		begin := max(value, low)
		return from + begin - low, min(value+values-1, high) - begin + 1, nil
	}
	if first, err = k.search(ctx, from, last+1, value-1); err != nil {
		return 0, 0, err
	}
	end, err := k.search(ctx, first, last+1, value+values-1)
	if err == nil && end == first {
		err = none
	}
	return first, end - first, err
}

// outer returns the record at one end of the file, or that beside it, which has the key, and its value.
func (k keys) outer(ctx context.Context, at, step int64) (record, value int64, err error) {
	for range 2 {
		for line, err := range k.file.Records(ctx, at, 1) {
			if err != nil {
				return 0, 0, err
			}
			if value, ok := keyOf(line, k.name); ok {
				return at, value, nil
			}
		}
		at += step
	}
	return 0, 0, k.lacks(at - step)
}

func (k keys) lacks(record int64) error {
	return fmt.Errorf("%w: record %d is no line of JSON with a number %q", cargo.ErrNoRecord, record, k.name)
}

// search returns the first record from one on whose key is greater than a value.
func (k keys) search(ctx context.Context, from, to, value int64) (int64, error) {
	return k.file.SearchRecords(ctx, from, to, func(line []byte) (bool, error) {
		at, ok := keyOf(line, k.name)
		if !ok {
			return false, fmt.Errorf("%w: a line has no number %q", cargo.ErrNoRecord, k.name)
		}
		return at > value, nil
	})
}
