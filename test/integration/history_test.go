// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package integration_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestDestinationsAreImmutable: nothing of where data go changes; what is kept of it may.
func TestDestinationsAreImmutable(t *testing.T) {
	ctx := context.Background()
	create := func(change func(*v1alpha1.TransferDestination)) *v1alpha1.Transfer {
		t.Helper()
		object := transfer(func(t *v1alpha1.Transfer) { change(&t.Spec.Destination) }).(*v1alpha1.Transfer)
		if err := k8s.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = k8s.Delete(ctx, object) })
		return object
	}
	here := create(func(d *v1alpha1.TransferDestination) { d.Peer = "" })
	elsewhere := create(func(d *v1alpha1.TransferDestination) { d.Peer, d.Namespace = "", "vault" })
	peer := create(func(d *v1alpha1.TransferDestination) { d.Namespace = "vault" })
	there := create(func(d *v1alpha1.TransferDestination) {
		d.Namespace = "vault"
		d.Via = &v1alpha1.TransferVia{ObjectStore: v1alpha1.ObjectStoreReference{Name: "post"}}
	})
	store := create(func(d *v1alpha1.TransferDestination) {
		*d = v1alpha1.TransferDestination{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}}
	})
	const recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	encrypted := create(func(d *v1alpha1.TransferDestination) {
		*d = v1alpha1.TransferDestination{
			ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}, Form: v1alpha1.RestingArchive,
			Encryption: &v1alpha1.ArchiveEncryption{Recipients: []v1alpha1.AgeRecipient{recipient}},
		}
	})
	for name, test := range map[string]struct {
		of     *v1alpha1.Transfer
		change func(*v1alpha1.TransferDestination)
	}{
		"peer, added":      {here, func(d *v1alpha1.TransferDestination) { d.Peer = "west" }},
		"namespace, added": {here, func(d *v1alpha1.TransferDestination) { d.Namespace = "vault" }},
		"claim":            {here, func(d *v1alpha1.TransferDestination) { d.PersistentVolumeClaim.ClaimName = "other" }},
		"path":             {here, func(d *v1alpha1.TransferDestination) { d.PersistentVolumeClaim.Path = "/data" }},
		"template, added": {here, func(d *v1alpha1.TransferDestination) {
			d.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{}
		}},
		"form, added":        {here, func(d *v1alpha1.TransferDestination) { d.Form = v1alpha1.RestingZstd }},
		"peer":               {there, func(d *v1alpha1.TransferDestination) { d.Peer = "north" }},
		"peer and via, gone": {there, func(d *v1alpha1.TransferDestination) { d.Peer, d.Via = "", nil }},
		"namespace":          {there, func(d *v1alpha1.TransferDestination) { d.Namespace = "bank" }},
		"namespace, gone":    {there, func(d *v1alpha1.TransferDestination) { d.Namespace = "" }},
		"via":                {there, func(d *v1alpha1.TransferDestination) { d.Via.ObjectStore.Name = "other" }},
		"store":              {store, func(d *v1alpha1.TransferDestination) { d.ObjectStore.Path = "/data" }},
		"form of a store":    {store, func(d *v1alpha1.TransferDestination) { d.Form = v1alpha1.RestingArchive }},
		"encryption, gone":   {encrypted, func(d *v1alpha1.TransferDestination) { d.Encryption = nil }},
		"encryption": {encrypted, func(d *v1alpha1.TransferDestination) {
			d.Encryption.Recipients = append(d.Encryption.Recipients,
				"age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg")
		}},
		"another kind": {store, func(d *v1alpha1.TransferDestination) {
			*d = v1alpha1.TransferDestination{Scrub: v1alpha1.ScrubInflate}
		}},
		"history through a store": {there, func(d *v1alpha1.TransferDestination) {
			d.Snapshot = &v1alpha1.DestinationSnapshot{Retention: v1alpha1.SnapshotRetention{Last: 1}}
		}},
		"history elsewhere": {elsewhere, func(d *v1alpha1.TransferDestination) {
			d.Snapshot = &v1alpha1.DestinationSnapshot{Retention: v1alpha1.SnapshotRetention{Last: 1}}
		}},
	} {
		changed := test.of.DeepCopy()
		test.change(&changed.Spec.Destination)
		err := k8s.Update(ctx, changed)
		want := "immutable; delete this Transfer"
		if strings.HasPrefix(name, "history") {
			want = "remove namespace or via"
		}
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	retention := v1alpha1.SnapshotRetention{Last: 3}
	for name, snapshot := range map[string]*v1alpha1.DestinationSnapshot{
		"added":   {Retention: retention},
		"changed": {Retention: retention, VolumeSnapshotClassName: "fast"},
		"removed": nil,
	} {
		for _, object := range []*v1alpha1.Transfer{here, peer} {
			object.Spec.Destination.Snapshot = snapshot
			if err := k8s.Update(ctx, object); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
