// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"errors"
	"maps"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		if err := plan.ValidateTransfer(spec); name == "IntoStore" || name == "FromStore" {
			if err != nil {
				t.Errorf("compressed, %s: %v", name, err)
			}
		} else if !errors.As(err, &invalid) || invalid.Field != "spec.destination.form" {
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
	for name, c := range map[string]struct {
		change func(*v1alpha1.TransferSpec)
		field  string
	}{
		"Here":          {func(*v1alpha1.TransferSpec) {}, ""},
		"InACluster":    {func(s *v1alpha1.TransferSpec) { s.Destination.Peer = "west" }, "spec.destination.form"},
		"InANamespace":  {func(s *v1alpha1.TransferSpec) { s.Destination.Namespace = "vault" }, "spec.destination.form"},
		"WithAReceipt":  {func(s *v1alpha1.TransferSpec) { s.Receipt = true }, "spec.destination.form"},
		"OfArchives":    {func(s *v1alpha1.TransferSpec) { s.Source.Form = v1alpha1.RestingArchive }, "spec.destination.form"},
		"OfCompressed":  {func(s *v1alpha1.TransferSpec) { s.Source.Form = v1alpha1.RestingGzip }, ""},
		"Restored":      {restored("", ""), ""},
		"RestoredThere": {restored("west", v1alpha1.RestingZstd), ""},
		"RestoredToMany": {func(s *v1alpha1.TransferSpec) {
			restored("", "")(s)
			s.Destination, s.Destinations = v1alpha1.TransferDestination{}, []v1alpha1.NamedDestination{{Name: "a"}}
		}, "spec.source.form"},
	} {
		spec := newTransfer("ledger", time.Hour).Spec
		spec.Destination.Peer, spec.Destination.Namespace = "", ""
		spec.Destination.Form = v1alpha1.RestingArchive
		c.change(&spec)
		err := plan.ValidateTransfer(spec)
		var invalid *policy.InvalidError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &invalid) || invalid.Field != c.field) {
			t.Errorf("archives in a claim, %s: %v", name, err)
		}
	}
}

// An objectStore may be read by a form, and claims are put into it as they rest.
func TestSourceFormsOfStores(t *testing.T) {
	for name, c := range map[string]struct {
		form     v1alpha1.RestingForm
		from, to bool
		scrub    v1alpha1.ScrubMode
		valid    bool
	}{
		"restored":            {form: v1alpha1.RestingGzip, from: true, valid: true},
		"into another store":  {form: v1alpha1.RestingZstd, from: true, to: true, valid: true},
		"archives":            {form: v1alpha1.RestingArchive, from: true},
		"scrubbed":            {form: v1alpha1.RestingGzip, from: true, scrub: v1alpha1.ScrubInflate},
		"from a claim":        {form: v1alpha1.RestingGzip, to: true, valid: true},
		"archives of a claim": {form: v1alpha1.RestingArchive, to: true},
	} {
		spec := newTransfer("ledger", time.Hour).Spec
		spec.Destination.Peer, spec.Destination.Namespace = "", ""
		if c.from {
			spec.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/a"}}
		}
		if c.to {
			spec.Destination = v1alpha1.TransferDestination{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/b"}}
		}
		if c.scrub != "" {
			spec.Destination = v1alpha1.TransferDestination{Scrub: c.scrub}
		}
		spec.Source.Form = c.form
		var invalid *policy.InvalidError
		err := plan.ValidateTransfer(spec)
		if c.valid && err != nil || !c.valid && (!errors.As(err, &invalid) || invalid.Field != "spec.source.form") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a store has can rest in a form in a claim, and not in a volume that goes with its pod. The agent is told both
// forms, and the policy's mode.
func TestFormsOfWhatAStoreHas(t *testing.T) {
	transfer, facts := storeTransfer(storePath("vault", "/a"), nil)
	transfer.Spec.Source.Form, transfer.Spec.Destination.Form = v1alpha1.RestingGzip, v1alpha1.RestingZstd
	transfer.Spec.Compression = &v1alpha1.Compression{Mode: v1alpha1.CompressionAlways}
	start := plan.DecideTransfer(transfer, facts, image).Start
	if start == nil {
		t.Fatal("no attempt begins")
	}
	b, err := start.Config()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Send struct {
			SourceForm, Form string
			Compression      struct{ Mode string }
		}
	}
	if err := json.Unmarshal(b, &config); err != nil || config.Send.SourceForm != "FORM_GZIP" ||
		config.Send.Form != "FORM_ZSTD" || config.Send.Compression.Mode != "COMPRESSION_MODE_ALWAYS" {
		t.Errorf("%v: %s", err, b)
	}
	spec := transfer.Spec
	size := resource.MustParse("1Gi")
	spec.Destination = v1alpha1.TransferDestination{
		Ephemeral: &v1alpha1.EphemeralVolume{Size: &size}, Form: v1alpha1.RestingZstd,
	}
	var invalid *policy.InvalidError
	if err := plan.ValidateTransfer(spec); !errors.As(err, &invalid) || invalid.Field != "spec.destination.form" {
		t.Errorf("in an ephemeral volume: %v", err)
	}
}

// The policy's mode holds for what rests compressed in a store, and the agent is placed for the codec of the form. What
// rests as it is is not compressed.
func TestCompressionOfFormsInStores(t *testing.T) {
	for form, mode := range map[v1alpha1.RestingForm]string{
		"": "COMPRESSION_MODE_AUTO", v1alpha1.RestingGzip: "COMPRESSION_MODE_ALWAYS",
		v1alpha1.RestingZstd: "COMPRESSION_MODE_ALWAYS", v1alpha1.RestingArchive: "COMPRESSION_MODE_ALWAYS",
	} {
		transfer, facts := storeTransfer(nil, storePath("vault", "/a"))
		transfer.Spec.Destination.Form = form
		transfer.Spec.Compression = &v1alpha1.Compression{Mode: v1alpha1.CompressionAlways}
		start := plan.DecideTransfer(transfer, facts, image).Start
		if start == nil {
			t.Fatal("no attempt begins")
		}
		b, err := start.Config()
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			Send struct{ Compression struct{ Mode string } }
		}
		if err := json.Unmarshal(b, &config); err != nil || config.Send.Compression.Mode != mode {
			t.Errorf("%q: %v: %s", form, err, b)
		}
	}
}

// restored is a Transfer of what archives of a claim have, to a Peer if that is named.
func restored(peer string, form v1alpha1.RestingForm) func(*v1alpha1.TransferSpec) {
	return func(s *v1alpha1.TransferSpec) {
		s.Source.Form, s.Destination.Form, s.Destination.Peer = v1alpha1.RestingArchive, form, peer
	}
}

// One pod with both claims writes archives, told for whom, whatever nodes the volumes can be reached from. If there is
// no such node that is said, for no two agents can do it.
func TestArchivesInAClaimAreMadeInOnePod(t *testing.T) {
	transfer, facts := localTransfer("")
	transfer.UID, transfer.Spec.Destination.Form = "1-2", v1alpha1.RestingArchive
	decision := plan.DecideTransfer(transfer, facts, image)
	if decision.Start == nil || decision.Status.Run.Route != v1alpha1.RoutePod {
		t.Fatalf("%+v", decision.Status)
	}
	b, err := decision.Start.Config()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Transfer string
		Send     struct{ Form string }
	}
	if err := json.Unmarshal(b, &config); err != nil || config.Send.Form != "FORM_ARCHIVE" ||
		config.Transfer != "bank/ledger (1-2)" {
		t.Errorf("%v: %s", err, b)
	}
	transfer.Status = decision.Status
	facts.Job = &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: decision.Start.Name(), CreationTimestamp: metav1.NewTime(now)},
	}
	facts.Pod = pod(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}})
	facts.Pod.Status.Phase, facts.Pod.Status.Conditions = corev1.PodPending, []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "volume node affinity conflict",
	}}
	facts.Now = now.Add(time.Minute)
	decision = plan.DecideTransfer(transfer, facts, image)
	stalled := meta.FindStatusCondition(decision.Status.Conditions, v1alpha1.ConditionStalled)
	if decision.Status.Run.Route != v1alpha1.RoutePod || decision.Finished != nil || stalled == nil ||
		stalled.Status != metav1.ConditionTrue || stalled.Reason != v1alpha1.ReasonUnschedulable {
		t.Errorf("%+v, %+v", decision.Status.Run, stalled)
	}
}

// The sending agent is told what files consist of, in a field that agents of earlier releases do not start with.
func TestRecordsOfAnAttempt(t *testing.T) {
	for format, want := range map[v1alpha1.RecordFormat]map[string]any{
		v1alpha1.RecordLines: {"layout": "RECORD_LAYOUT_LINES"},
		v1alpha1.RecordFixed: {"layout": "RECORD_LAYOUT_FIXED", "length": 80.0},
		v1alpha1.RecordRDW:   {"layout": "RECORD_LAYOUT_RDW"},
		"":                   nil,
	} {
		transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
		transfer.Spec.Destination.Form = v1alpha1.RestingGzip
		if format != "" {
			transfer.Spec.Destination.Records = &v1alpha1.FileRecords{Format: format}
		}
		if format == v1alpha1.RecordFixed {
			transfer.Spec.Destination.Records.Length = 80
		}
		start := plan.DecideTransfer(transfer, facts, image).Start
		if start == nil {
			t.Fatalf("%q: no attempt begins", format)
		}
		b, err := start.Config()
		if err != nil {
			t.Fatal(err)
		}
		var config struct{ Records map[string]any }
		if err := json.Unmarshal(b, &config); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(config.Records, want) {
			t.Errorf("%q becomes %v", format, config.Records)
		}
	}
}

// Records are accepted with the forms whose indexes know them, and a length with those that have one.
func TestRecordsThatAreNotSupported(t *testing.T) {
	const records, format, length = "spec.destination.records", "spec.destination.records.format",
		"spec.destination.records.length"
	fixed := func(n int32) v1alpha1.FileRecords {
		return v1alpha1.FileRecords{Format: v1alpha1.RecordFixed, Length: n}
	}
	for name, c := range map[string]struct {
		form    v1alpha1.RestingForm
		records v1alpha1.FileRecords
		field   string
	}{
		"Lines":       {v1alpha1.RestingGzip, v1alpha1.FileRecords{Format: v1alpha1.RecordLines}, ""},
		"RDW":         {v1alpha1.RestingZstd, v1alpha1.FileRecords{Format: v1alpha1.RecordRDW}, ""},
		"Fixed":       {v1alpha1.RestingZstd, fixed(1 << 30), ""},
		"OfFiles":     {v1alpha1.RestingFiles, fixed(80), records},
		"OfNoForm":    {"", fixed(80), records},
		"OfArchives":  {v1alpha1.RestingArchive, fixed(80), records},
		"Unknown":     {v1alpha1.RestingGzip, v1alpha1.FileRecords{Format: "VB"}, format},
		"NoLength":    {v1alpha1.RestingGzip, fixed(0), length},
		"Long":        {v1alpha1.RestingGzip, fixed(1<<30 + 1), length},
		"OtherLength": {v1alpha1.RestingGzip, v1alpha1.FileRecords{Format: v1alpha1.RecordRDW, Length: 80}, length},
	} {
		spec := newTransfer("ledger", time.Hour).Spec
		if spec.Destination.Form = c.form; c.form == v1alpha1.RestingArchive {
			spec.Destination.Peer, spec.Destination.Namespace = "", ""
		}
		spec.Destination.Records = &c.records
		err := plan.ValidateTransfer(spec)
		var invalid *policy.InvalidError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &invalid) || invalid.Field != c.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
