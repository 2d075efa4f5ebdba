// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/policy"
)

// The sending agent is told the form in which files are to rest, in a field that agents of earlier releases do not
// start with, and nothing where files rest as they are.
func TestFormOfAnAttempt(t *testing.T) {
	for form, want := range map[v1alpha1.RestingForm]any{
		"": nil, v1alpha1.RestingFiles: nil, v1alpha1.RestingGzip: "FORM_GZIP", v1alpha1.RestingZstd: "FORM_ZSTD",
	} {
		transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
		transfer.Spec.Destination.Form = form
		start := plan.DecideTransfer(transfer, facts, image).Start
		if start == nil {
			t.Fatalf("%q: no attempt begins", form)
		}
		b, err := start.Config()
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := json.Unmarshal(b, &config); err != nil {
			t.Fatal(err)
		}
		if config["form"] != want {
			t.Errorf("%q becomes %v", form, config["form"])
		}
	}
}

// An agent that writes into a store is told to archive.
func TestArchiveOfAnAttempt(t *testing.T) {
	transfer, facts := storeTransfer(nil, storePath("vault", "/a"))
	transfer.Spec.Destination.Form = v1alpha1.RestingArchive
	start := plan.DecideTransfer(transfer, facts, image).Start
	if start == nil {
		t.Fatal("no attempt begins")
	}
	b, err := start.Config()
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Send struct{ Form string } }
	if err := json.Unmarshal(b, &config); err != nil || config.Send.Form != "FORM_ARCHIVE" {
		t.Errorf("%v: %s", err, b)
	}
}

// What the API server rejects is rejected again.
func TestFormsThatAreNotSupported(t *testing.T) {
	store := &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}
	for name, change := range map[string]func(*v1alpha1.TransferSpec){
		"Receipt": func(s *v1alpha1.TransferSpec) { s.Receipt = true },
		"Via": func(s *v1alpha1.TransferSpec) {
			s.Destination.Via = &v1alpha1.TransferVia{ObjectStore: v1alpha1.ObjectStoreReference{Name: "vault"}}
		},
		"IntoStore": func(s *v1alpha1.TransferSpec) {
			s.Destination = v1alpha1.TransferDestination{ObjectStore: store}
		},
		"FromStore": func(s *v1alpha1.TransferSpec) {
			s.Source, s.Destination.Peer, s.Destination.Namespace = v1alpha1.TransferSource{ObjectStore: store}, "", ""
		},
	} {
		spec := newTransfer("ledger", time.Hour).Spec
		change(&spec)
		spec.Destination.Form = v1alpha1.RestingFiles
		if err := plan.ValidateTransfer(spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		spec.Destination.Form = v1alpha1.RestingGzip
		var invalid *policy.InvalidError
		if err := plan.ValidateTransfer(spec); !errors.As(err, &invalid) || invalid.Field != "spec.destination.form" {
			t.Errorf("%s: %v", name, err)
		}
		spec.Destination.Form = v1alpha1.RestingArchive
		err := plan.ValidateTransfer(spec)
		if name == "IntoStore" {
			if err != nil {
				t.Errorf("archives in a store: %v", err)
			}
		} else if !errors.As(err, &invalid) || invalid.Field != "spec.destination.form" {
			t.Errorf("%s, archived: %v", name, err)
		}
	}
	spec := newTransfer("ledger", time.Hour).Spec
	spec.Destination.Form = v1alpha1.RestingArchive
	var invalid *policy.InvalidError
	if err := plan.ValidateTransfer(spec); !errors.As(err, &invalid) || invalid.Field != "spec.destination.form" {
		t.Errorf("archives in a claim: %v", err)
	}
}
