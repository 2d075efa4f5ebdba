// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func TestToWire(t *testing.T) {
	full := failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL, "full: %w", io.ErrShortWrite)
	tests := map[string]struct {
		err  error
		want wirev1.FailureReason
	}{
		"Known":    {full, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL},
		"Wrapped":  {fmt.Errorf("write: %w", full), wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL},
		"Canceled": {fmt.Errorf("walk: %w", context.Canceled), wirev1.FailureReason_FAILURE_REASON_ABORTED},
		"Other":    {io.ErrNoProgress, wirev1.FailureReason_FAILURE_REASON_INTERNAL},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := failure.ToWire(test.err)
			if f.Reason != test.want || f.Message == "" {
				t.Errorf("the failure is %v", f)
			}
			if back := failure.FromWire(f); !failure.Is(back, test.want) || back.Error() != f.Message {
				t.Errorf("it came back as %v", back)
			}
		})
	}
	if failure.ToWire(nil) != nil {
		t.Error("nil is a failure")
	}
	if !errors.Is(full, io.ErrShortWrite) {
		t.Error("the cause is lost")
	}
}

func TestShorten(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("é", 100), strings.Repeat("\xff", 100)} {
		for limit := range 120 {
			got := failure.Shorten(s, limit)
			if len(got) > limit || !utf8.ValidString(got) {
				t.Errorf("%q in %d bytes is %q", s, limit, got)
			}
		}
	}
	for in, want := range map[string]string{
		"open a\x1b[2J: no": `open a\x1b[2J: no`, "a\nb": `a\nb`, "a\u202eb": `a\u202eb`, "\u009b2J": `\u009b2J`,
		`"quoted" 'text'`: `"quoted" 'text'`,
	} {
		if got := failure.Shorten(in, 100); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := failure.Shorten("four", 4); got != "four" {
		t.Errorf("what fits became %q", got)
	}
}
