// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
)

// TestKeys: lines of JSON are found by a number that grows in them, with holes and without.
func TestKeys(t *testing.T) {
	line := func(n int) string {
		return fmt.Sprintf("{\"sequence\":%d,\"text\":%q}\n", n, strings.Repeat("x", 500))
	}
	for name, step := range map[string]int{"each": 1, "every third": 3} {
		t.Run(name, func(t *testing.T) {
			var plain strings.Builder
			plain.WriteString("{\"version\":2}\n")
			for i := range 9000 {
				plain.WriteString(line(10 + i*step))
			}
			plain.WriteString("{\"last\":50000}\n")
			file := filepath.Join(t.TempDir(), "m.jsonl.gz")
			must(t, nil, plain.String(), "copy", "--as", "gzip", "--records", "lines", "-", file)
			last := 10 + 8999*step
			for what, want := range map[string]string{
				"10":                               line(10),
				fmt.Sprint(last):                   line(last),
				fmt.Sprint(10 + 5000*step):         line(10 + 5000*step),
				fmt.Sprintf("%d-%d", last, last+9): line(last),
				"1-10":                             line(10),
				fmt.Sprintf("%d-%d", 10+700*step-step+1, 10+701*step): line(10+700*step) + line(10+701*step),
			} {
				if got := must(t, nil, "", "records", "--key", "sequence", file, what); got != want {
					t.Errorf("%s: %.40q, of %d bytes", what, got, len(got))
				}
			}
			for _, what := range []string{"9", fmt.Sprint(last + 1), "0-9"} {
				if _, err := run(t, nil, "", "records", "--key", "sequence", file, what); !errors.Is(err, cargo.ErrNoRecord) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := run(t, nil, "", "records", "--key", "sequence", file, "12"); (err == nil) != (step == 1) {
				t.Errorf("a hole: %v", err)
			}
			if _, err := run(t, nil, "", "records", "--key", "number", file, "12"); !errors.Is(err, cargo.ErrNoRecord) {
				t.Errorf("no such number: %v", err)
			}
		})
	}
}
