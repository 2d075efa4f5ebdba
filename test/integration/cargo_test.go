// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package integration_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestFormsOfRoutes accepts forms at both ends of every route that has them. TestRefusals has those that are rejected.
func TestFormsOfRoutes(t *testing.T) {
	vault := &v1alpha1.ObjectStorePath{Name: "vault", Path: "/a"}
	for name, c := range map[string]struct {
		from, to  v1alpha1.RestingForm
		out, into bool // of a store, into one
		receipt   bool
	}{
		"as it rests into a store":           {from: v1alpha1.RestingGzip, to: v1alpha1.RestingGzip, into: true},
		"with a receipt":                     {from: v1alpha1.RestingZstd, to: v1alpha1.RestingZstd, into: true, receipt: true},
		"in another form into a store":       {from: v1alpha1.RestingGzip, to: v1alpha1.RestingZstd, into: true},
		"as plain files into a store":        {from: v1alpha1.RestingZstd, into: true},
		"as archives into a store":           {from: v1alpha1.RestingGzip, to: v1alpha1.RestingArchive, into: true},
		"in a form out of a store":           {to: v1alpha1.RestingGzip, out: true},
		"in another form out of a store":     {from: v1alpha1.RestingGzip, to: v1alpha1.RestingZstd, out: true},
		"from store to store":                {to: v1alpha1.RestingGzip, out: true, into: true},
		"from claim to claim":                {from: v1alpha1.RestingGzip, to: v1alpha1.RestingGzip},
		"archives of a claim, of that alone": {from: v1alpha1.RestingArchive, to: v1alpha1.RestingZstd},
	} {
		err := k8s.Create(context.Background(), transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Source.Form, t.Spec.Receipt = c.from, c.receipt
			if c.out {
				t.Spec.Source = v1alpha1.TransferSource{ObjectStore: vault, Form: c.from}
				t.Spec.Destination.Peer, t.Spec.Destination.Namespace = "", ""
			}
			if c.into {
				t.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: &v1alpha1.ObjectStorePath{Name: "b", Path: "/"}}
			}
			t.Spec.Destination.Form = c.to
		}), client.DryRunAll)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecords accepts records with the forms whose indexes know them, and rejects a change of them.
func TestRecords(t *testing.T) {
	fixed := &v1alpha1.FileRecords{Format: v1alpha1.RecordFixed, Length: 80}
	for name, c := range map[string]struct {
		form    v1alpha1.RestingForm
		records *v1alpha1.FileRecords
		says    string
	}{
		"fixed":                  {v1alpha1.RestingGzip, fixed, ""},
		"lines":                  {v1alpha1.RestingZstd, &v1alpha1.FileRecords{Format: v1alpha1.RecordLines}, ""},
		"RDW":                    {v1alpha1.RestingZstd, &v1alpha1.FileRecords{Format: v1alpha1.RecordRDW}, ""},
		"without a form":         {"", fixed, "set form: Gzip or Zstd"},
		"of files":               {v1alpha1.RestingFiles, fixed, "set form: Gzip or Zstd"},
		"fixed without a length": {v1alpha1.RestingGzip, &v1alpha1.FileRecords{Format: v1alpha1.RecordFixed}, "add length"},
		"RDW with a length": {
			v1alpha1.RestingGzip, &v1alpha1.FileRecords{Format: v1alpha1.RecordRDW, Length: 80}, "add length",
		},
		"a length of too much": {
			v1alpha1.RestingGzip, &v1alpha1.FileRecords{Format: v1alpha1.RecordFixed, Length: 1<<30 + 1}, "records.length",
		},
		"unknown": {v1alpha1.RestingGzip, &v1alpha1.FileRecords{Format: "VB"}, "records.format"},
	} {
		err := k8s.Create(context.Background(), transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Destination.Form, t.Spec.Destination.Records = c.form, c.records
		}), client.DryRunAll)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	made, _ := transfer(func(t *v1alpha1.Transfer) {
		t.Spec.Destination.Form, t.Spec.Destination.Records = v1alpha1.RestingGzip, fixed.DeepCopy()
	}).(*v1alpha1.Transfer)
	if err := k8s.Create(context.Background(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(context.Background(), made) })
	for _, change := range []func(){
		func() { made.Spec.Destination.Records = &v1alpha1.FileRecords{Format: v1alpha1.RecordLines} },
		func() { made.Spec.Destination.Records = nil },
	} {
		change()
		if err := k8s.Update(context.Background(), made, client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Errorf("records were changed: %v", err)
		}
	}
}
