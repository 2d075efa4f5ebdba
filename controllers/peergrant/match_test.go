// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peergrant_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/peergrant"
)

func grant(namespace string, from []v1alpha1.PeerGrantFrom, claims ...string) v1alpha1.PeerGrant {
	g := v1alpha1.PeerGrant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"}, Spec: v1alpha1.PeerGrantSpec{From: from}}
	for _, claim := range claims {
		g.Spec.To = append(g.Spec.To, v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: claim})
	}
	return g
}

func from(peer string, namespaces ...string) v1alpha1.PeerGrantFrom {
	return v1alpha1.PeerGrantFrom{Peer: peer, Namespaces: namespaces}
}

var asked = peergrant.Request{
	Peer: "east", Namespace: "bank", Kind: v1alpha1.GrantedPersistentVolumeClaim, ToNamespace: "vault", Name: "ledger-copy",
}

func TestAllowed(t *testing.T) {
	type (
		grants = []v1alpha1.PeerGrant
		froms  = []v1alpha1.PeerGrantFrom
	)
	going := grant("vault", froms{from("east", "bank")}, "ledger-copy")
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	anotherKind := grant("vault", froms{from("east", "bank")}, "ledger-copy")
	anotherKind.Spec.To[0].Kind = "Queue"
	for name, c := range map[string]struct {
		grants grants
		want   bool
	}{
		"none":                     {nil, false},
		"exact":                    {grants{grant("vault", froms{from("east", "bank")}, "ledger-copy")}, true},
		"any claim":                {grants{grant("vault", froms{from("east", "bank")}, "")}, true},
		"among several":            {grants{grant("vault", froms{from("west", "a"), from("east", "a", "bank")}, "x", "ledger-copy")}, true},
		"in another grant":         {grants{grant("vault", froms{from("west", "bank")}, "ledger-copy"), grant("vault", froms{from("east", "bank")}, "")}, true},
		"another peer":             {grants{grant("vault", froms{from("west", "bank")}, "ledger-copy")}, false},
		"another namespace there":  {grants{grant("vault", froms{from("east", "ban", "bank2")}, "ledger-copy")}, false},
		"another namespace here":   {grants{grant("bank", froms{from("east", "bank")}, "ledger-copy")}, false},
		"another claim":            {grants{grant("vault", froms{from("east", "bank")}, "ledger")}, false},
		"another kind":             {grants{anotherKind}, false},
		"half of each of two":      {grants{grant("vault", froms{from("east", "bank")}, "x"), grant("vault", froms{from("west", "bank")}, "ledger-copy")}, false},
		"peer and namespace apart": {grants{grant("vault", froms{from("east", "x"), from("west", "bank")}, "ledger-copy")}, false},
		"being deleted":            {grants{going}, false},
		"to nothing":               {grants{grant("vault", froms{from("east", "bank")})}, false},
	} {
		if got := peergrant.Allowed(c.grants, asked); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Within a cluster a namespace needs nobody's leave for itself, and that of another one for the other.
func TestAllowedWithinTheCluster(t *testing.T) {
	local := asked
	local.Peer = ""
	peers := []v1alpha1.PeerGrant{grant("vault", []v1alpha1.PeerGrantFrom{from("east", "bank")}, "")}
	if peergrant.Allowed(nil, local) || peergrant.Allowed(peers, local) {
		t.Error("another namespace is written to without a grant, or with one for a peer")
	}
	own := []v1alpha1.PeerGrant{grant("vault", []v1alpha1.PeerGrantFrom{from("", "bank")}, "ledger-copy")}
	if !peergrant.Allowed(own, local) {
		t.Error("a grant for this cluster grants nothing")
	}
	if peergrant.Allowed(own, asked) {
		t.Error("a grant for this cluster lets a peer in")
	}
	if message := peergrant.Refusal(local); !strings.Contains(message, "{from: [{namespaces: [bank]}], to: [{kind: PersistentVolumeClaim, name: ledger-copy}]}") {
		t.Errorf("the refusal says %q", message)
	}
	local.ToNamespace = "bank"
	if !peergrant.Allowed(nil, local) {
		t.Error("a namespace needs a grant for itself")
	}
	peer := asked
	peer.ToNamespace = "bank"
	if peergrant.Allowed(nil, peer) {
		t.Error("a namespace of that name of a peer needs no grant")
	}
}

func TestRefusal(t *testing.T) {
	message := peergrant.Refusal(asked)
	for _, words := range []string{"PeerGrant in namespace vault", "{from: [{peer: east, namespaces: [bank]}], to: [{kind: PersistentVolumeClaim, name: ledger-copy}]}"} {
		if !strings.Contains(message, words) {
			t.Errorf("%q is not in: %s", words, message)
		}
	}
	if strings.Contains(message, "\n") {
		t.Error("the message is more than one line")
	}
}
