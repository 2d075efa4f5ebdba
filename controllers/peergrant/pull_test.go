// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peergrant_test

import (
	"testing"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/plan"
)

func pulling() *v1alpha1.Transfer {
	t := &v1alpha1.Transfer{}
	t.Namespace, t.Name, t.UID = "bank", "ledger", "u"
	t.Spec.Source.Peer, t.Spec.Source.Namespace = "west", "vault"
	t.Spec.Source.PersistentVolumeClaim.ClaimName = "ledger"
	t.Spec.Destination.PersistentVolumeClaim.ClaimName = "copy"
	t.Spec.Destination.PersistentVolumeClaim.Path = "/books"
	return t
}

// TestPullGrantsNothingElse: what a Transfer that pulls grants is the one Transfer that the other cluster makes for it,
// into the one directory.
func TestPullGrantsNothingElse(t *testing.T) {
	transfer := pulling()
	grants := []v1alpha1.PeerGrant{*plan.PullGrant(transfer)}
	request := peergrant.Request{
		Peer: "west", Namespace: "vault", Transfer: plan.PulledName(transfer), ToNamespace: "bank",
		Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "copy", Path: "/books",
	}
	if !peergrant.Allowed(grants, request, now) {
		t.Fatalf("%+v does not allow what was asked for", grants[0].Spec)
	}
	for name, change := range map[string]func(*peergrant.Request){
		"another Peer":      func(r *peergrant.Request) { r.Peer = "north" },
		"another namespace": func(r *peergrant.Request) { r.Namespace = "shop" },
		"another Transfer":  func(r *peergrant.Request) { r.Transfer = "ledger" },
		"no Transfer":       func(r *peergrant.Request) { r.Transfer = "" },
		"another claim":     func(r *peergrant.Request) { r.Name = "ledger" },
		"another directory": func(r *peergrant.Request) { r.Path = "/" },
		"delete":            func(r *peergrant.Request) { r.Delete = true },
		"privilege":         func(r *peergrant.Request) { r.Privileged = true },
		"read":              func(r *peergrant.Request) { r.Verb = v1alpha1.GrantedRead },
	} {
		other := request
		if change(&other); peergrant.Allowed(grants, other, now) {
			t.Errorf("%s is allowed", name)
		}
	}
	transfer.UID = "another"
	if plan.PulledName(transfer) == request.Transfer {
		t.Error("one that was made again has the same name in the other cluster")
	}
}

func TestGrantedVerbs(t *testing.T) {
	for name, c := range map[string]struct {
		verbs       []v1alpha1.GrantedVerb
		write, read bool
	}{
		"none":  {nil, true, false},
		"write": {[]v1alpha1.GrantedVerb{v1alpha1.GrantedWrite}, true, false},
		"read":  {[]v1alpha1.GrantedVerb{v1alpha1.GrantedRead}, false, true},
		"both":  {[]v1alpha1.GrantedVerb{v1alpha1.GrantedRead, v1alpha1.GrantedWrite}, true, true},
	} {
		given := grant("vault", []v1alpha1.PeerGrantFrom{from("east", "bank")}, "ledger-copy")
		given.Spec.To[0].Verbs = c.verbs
		reads := asked
		reads.Verb = v1alpha1.GrantedRead
		grants := []v1alpha1.PeerGrant{given}
		if got := peergrant.Allowed(grants, asked, now); got != c.write {
			t.Errorf("%s: writing is allowed: %t", name, got)
		}
		if got := peergrant.Allowed(grants, reads, now); got != c.read {
			t.Errorf("%s: reading is allowed: %t", name, got)
		}
	}
}
