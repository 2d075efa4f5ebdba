// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package integration_test

import (
	"context"
	"testing"

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
