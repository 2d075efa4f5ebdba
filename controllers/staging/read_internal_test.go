// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestReadsStatus of VolumeSnapshots: what is not as the CRD has it counts as absent.
func TestReadsStatus(t *testing.T) {
	t.Parallel()
	for text, want := range map[any]string{
		"3Gi": "3Gi", "7Ei": "7Ei", "1099511627776": "1099511627776", "": "", "0": "", "-7Ei": "", "many": "", "7 Ei": "",
		strings.Repeat("9", 1<<16): "", int64(7): "", true: "",
	} {
		seen := read(&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"restoreSize": text, "readyToUse": "yes", "creationTime": "yesterday", "error": "broken",
		}}})
		got := ""
		if seen.RestoreSize != nil {
			got = seen.RestoreSize.String()
		}
		if got != want || seen.Ready || !seen.Created.IsZero() || seen.Failure != "" {
			t.Errorf("%.20v: %+v, size %q, want %q", text, seen, got, want)
		}
	}
	for _, status := range []any{nil, "broken", []any{}, map[string]any{"error": map[string]any{"message": true}}} {
		seen := read(&unstructured.Unstructured{Object: map[string]any{"status": status}})
		if seen.RestoreSize != nil || seen.Ready || !seen.Created.IsZero() {
			t.Errorf("%v: %+v", status, seen)
		}
	}
}
