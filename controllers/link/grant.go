// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Grant is a permission that is asked for: Transfers of a namespace of the other cluster may write into a claim.
type Grant struct {
	Namespace string
	// Claim in it; empty: each claim.
	Claim string
	// From is the namespace of the other cluster.
	From string
}

// ParseGrant reads NAMESPACE/CLAIM=FROM. Without /CLAIM it is for each claim, without =FROM for the namespace of the
// same name.
func ParseGrant(text string) (Grant, error) {
	to, from, found := strings.Cut(text, "=")
	namespace, claim, named := strings.Cut(to, "/")
	if !found {
		from = namespace
	}
	for _, label := range []string{namespace, from} {
		if problems := validation.IsDNS1123Label(label); len(problems) > 0 {
			return Grant{}, fmt.Errorf("%q is no name of a namespace: %s", label, problems[0])
		}
	}
	if named {
		if problems := validation.IsDNS1123Subdomain(claim); len(problems) > 0 {
			return Grant{}, fmt.Errorf("%q is no name of a claim: %s", claim, problems[0])
		}
	}
	g := Grant{Namespace: namespace, Claim: claim, From: from}
	if longest := strings.Repeat("p", validation.DNS1123LabelMaxLength); len(g.name(longest)) >
		validation.DNS1123SubdomainMaxLength {
		return Grant{}, fmt.Errorf("the name of claim %q is too long for that of a PeerGrant; write it by hand", claim)
	}
	return g, nil
}

// name of the PeerGrant. Names of Peers and namespaces have no dots, so that no two permissions share one.
func (g Grant) name(peer string) string {
	name := "from-" + peer + "." + g.From
	if g.Claim != "" {
		name += "." + g.Claim
	}
	return name
}

// For is the PeerGrant for a Peer. It allows neither mirroring nor privilege.
func (g Grant) For(peer string) *v1alpha1.PeerGrant {
	return &v1alpha1.PeerGrant{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PeerGrant"},
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.name(peer)},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: peer, Namespaces: []string{g.From}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: g.Claim}},
		},
	}
}
