// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// MadeByLabel has the value MadeByConnect on Peers and PeerGrants that kubectl lighterage connect created: disconnect
// deletes no others. It has the value MadeByVerify on namespaces that kubectl lighterage verify makes and deletes.
const (
	MadeByLabel   = "lighterage.dev/made-by"
	MadeByConnect = "connect"
	MadeByVerify  = "verify"
)

// Action is what a Step does with a Peer.
type Action string

// Actions.
const (
	Create Action = "created"
	Repair Action = "repaired"
	Keep   Action = "unchanged"
)

var (
	// ErrNameTaken is returned when a Peer of the name stands for another cluster.
	ErrNameTaken = errors.New("the name is taken")
	// ErrOtherName is returned when the other cluster has a Peer of another name.
	ErrOtherName = errors.New("the cluster has another name here")
	// ErrNoName is returned when there is no name for a Peer.
	ErrNoName = errors.New("no name for the Peer")
)

// Wanted is the other cluster, as one cluster is to know it.
type Wanted struct {
	// Name of the Peer; empty: that of the Peer with its CA, or else Fallback.
	Name, Fallback string
	// Endpoint that was asked for; empty: that of a Peer that is Ready, or else Found. Both empty: the Peer of the
	// cluster has no endpoint, or keeps the one that it has.
	Endpoint, Found string
	// CABundle that the cluster publishes.
	CABundle []byte
}

// Step is what is to be done in one cluster.
type Step struct {
	Action Action
	// Peer as it is to be applied: nothing but what the command sets.
	Peer *v1alpha1.Peer
}

// Find returns the Peers that hold a certificate of the bundle.
func Find(peers []v1alpha1.Peer, bundle []byte) ([]*v1alpha1.Peer, error) {
	certificates, err := pki.ParseBundle(bundle)
	if err != nil {
		return nil, err
	}
	var found []*v1alpha1.Peer
	for i := range peers {
		held, err := pki.ParseBundle(peers[i].Spec.CABundle)
		if err == nil && slices.ContainsFunc(held, isIn(certificates)) {
			found = append(found, &peers[i])
		}
	}
	return found, nil
}

// Share reports whether two bundles have a certificate in common.
func Share(a, b []byte) (bool, error) {
	found, err := Find([]v1alpha1.Peer{{Spec: v1alpha1.PeerSpec{CABundle: a}}}, b)
	return len(found) > 0, err
}

func isIn(certificates []*x509.Certificate) func(*x509.Certificate) bool {
	return func(c *x509.Certificate) bool {
		return slices.ContainsFunc(certificates, func(other *x509.Certificate) bool { return bytes.Equal(c.Raw, other.Raw) })
	}
}

// Plan decides what a cluster with these Peers needs in order to know the other one. It never changes a Peer of another
// cluster.
func Plan(peers []v1alpha1.Peer, w Wanted) (Step, error) {
	holders, err := Find(peers, w.CABundle)
	if err != nil {
		return Step{}, err
	}
	name, err := nameOf(holders, w)
	if err != nil {
		return Step{}, err
	}
	peer := &v1alpha1.Peer{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Peer"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{MadeByLabel: MadeByConnect}},
		Spec:       v1alpha1.PeerSpec{Endpoint: cmp.Or(w.Endpoint, w.Found), CABundle: w.CABundle},
	}
	i := slices.IndexFunc(peers, func(p v1alpha1.Peer) bool { return p.Name == name })
	if i < 0 {
		return Step{Create, peer}, nil
	}
	present := &peers[i]
	if !slices.Contains(holders, present) {
		return Step{}, fmt.Errorf("%w: Peer %q holds the CA of another cluster", ErrNameTaken, name)
	}
	if present.Labels[MadeByLabel] != MadeByConnect {
		peer.Labels = nil
	}
	if w.Endpoint == "" && (IsReady(present) || w.Found == "") {
		peer.Spec.Endpoint = present.Spec.Endpoint
	}
	if present.Spec.Connection == v1alpha1.PeerListen {
		peer.Spec.Endpoint = "" // it is not dialled, whatever its address
	}
	if Covers(present.Spec.CABundle, w.CABundle) {
		peer.Spec.CABundle = present.Spec.CABundle // it may hold the cluster's next CA too
	}
	if peer.Spec.Endpoint == present.Spec.Endpoint && bytes.Equal(peer.Spec.CABundle, present.Spec.CABundle) {
		return Step{Keep, peer}, nil
	}
	return Step{Repair, peer}, nil
}

// nameOf is the name of the Peer: no second one may hold the same CA.
func nameOf(holders []*v1alpha1.Peer, w Wanted) (string, error) {
	var names []string
	for _, p := range holders {
		names = append(names, p.Name)
	}
	switch {
	case len(names) > 1 || len(names) == 1 && w.Name != "" && w.Name != names[0]:
		return "", fmt.Errorf("%w: Peer %s already holds its CA", ErrOtherName, strings.Join(names, ", "))
	case len(names) == 1:
		return names[0], nil
	}
	name := cmp.Or(w.Name, w.Fallback)
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return "", fmt.Errorf("%w: %q is not one: %s", ErrNoName, name, strings.Join(problems, ", "))
	}
	return name, nil
}

// Covers reports whether a bundle has all certificates of the other one.
func Covers(bundle, other []byte) bool {
	have, err := pki.ParseBundle(bundle)
	wanted, bad := pki.ParseBundle(other)
	lacks := func(c *x509.Certificate) bool { return !isIn(have)(c) }
	return err == nil && bad == nil && !slices.ContainsFunc(wanted, lacks)
}

// IsReady reports whether the manager found the Peer as its spec is now to be Ready.
func IsReady(peer *v1alpha1.Peer) bool {
	c := Condition(peer)
	return c != nil && c.Status == metav1.ConditionTrue
}

// Condition is the condition Ready of the Peer, unless it is about an older spec.
func Condition(peer *v1alpha1.Peer) *metav1.Condition {
	if peer.Status.ObservedGeneration != peer.Generation {
		return nil
	}
	return meta.FindStatusCondition(peer.Status.Conditions, v1alpha1.ConditionReady)
}

// Final reports whether waiting does not change why a Peer is not Ready. PeerUntrusted ends when the other cluster has
// its Peer.
func Final(reason string) bool {
	return reason == v1alpha1.ReasonInvalidCABundle || reason == v1alpha1.ReasonDuplicateCA ||
		reason == v1alpha1.ReasonPeerIncompatible
}
