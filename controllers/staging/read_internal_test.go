// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
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

// TestKeptFor a peer are snapshots of the very claim that say of whom they are; labels alone make none.
func TestKeptFor(t *testing.T) {
	t.Parallel()
	remote := plan.HistoryTarget{Claim: "copy", Of: "hash", About: "east/bank/ledger", Peer: "east"}
	local := plan.HistoryTarget{Claim: "copy", Of: "hash", About: "ledger"}
	for _, test := range []struct {
		of              plan.HistoryTarget
		hash, about     string
		source, content string
		want            bool
	}{
		{remote, "hash", "east/bank/ledger", "persistentVolumeClaimName", "copy", true},
		{remote, "other", "east/bank/ledger", "persistentVolumeClaimName", "copy", false},
		{remote, "hash", "east/bank/other", "persistentVolumeClaimName", "copy", false},
		{remote, "hash", "east/bank/ledger", "persistentVolumeClaimName", "other", false},
		{remote, "hash", "east/bank/ledger", "volumeSnapshotContentName", "copy", false},
		{local, "hash", "", "volumeSnapshotContentName", "copy", true},
		{local, "other", "ledger", "persistentVolumeClaimName", "copy", false},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"source": map[string]any{test.source: test.content}},
		}}
		o.SetLabels(map[string]string{v1alpha1.TransferLabel: test.hash})
		o.SetAnnotations(map[string]string{v1alpha1.HistoryTransferAnnotation: test.about})
		if got := keptFor(test.of, o); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}
