// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package found_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/lighterage/lighterage/test/corpus/found"
)

func TestCollect(t *testing.T) {
	const limit = 2 << 20
	for _, c := range found.All() {
		t.Run(c.Name, func(t *testing.T) {
			first, err := c.Collect(t.Context(), limit)
			if errors.Is(err, found.ErrTooLittle) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(first) == 0 || len(first) > limit {
				t.Errorf("%d bytes, at most %d wanted", len(first), limit)
			}
			second, err := c.Collect(t.Context(), limit)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first, second) {
				t.Error("a second look finds other data")
			}
		})
	}
}

func TestCollectCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range found.All() {
		if _, err := c.Collect(ctx, 1<<20); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the context's error", c.Name, err)
		}
	}
}
