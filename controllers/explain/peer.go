// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

func ofPeer(p *v1alpha1.Peer, s *sheet) {
	s.section("Link")
	s.row("endpoint", endpointOf(p))
	if p.Spec.Proxy != nil {
		s.row("through proxy", p.Spec.Proxy.URL)
	}
	if control := p.Status.Control; control != nil {
		s.row("dialled by", map[bool]string{true: "this cluster", false: "the other cluster"}[p.Spec.Connection ==
			v1alpha1.PeerDial])
		s.rowf("control connections", "%d", control.Connections)
		s.at("since", control.Since)
		if control.LastError != "" {
			s.row("last error", control.LastError)
			s.at("at", control.LastErrorTime)
		}
	}
	s.row("version", cmp.Or(p.Status.Version, unknown))
	s.row("knows this cluster as", cmp.Or(p.Status.KnownAs, unknown))
	for _, fingerprint := range p.Status.CAFingerprints {
		s.row("CA fingerprint", fingerprint)
	}
	s.at("CA ends", p.Status.CAExpirationTime)
	s.at("revoked before", p.Spec.RevokedBefore)
	s.usedBy("Sent to it", p.Status.Sent)
	s.usedBy("Received from it", p.Status.Received)
	s.next("move real data both ways: kubectl lighterage verify --to CONTEXT")
}

func endpointOf(p *v1alpha1.Peer) string {
	if p.Spec.Connection == v1alpha1.PeerListen {
		return "none: the other cluster dials this one, and is asked for connections"
	}
	return cmp.Or(p.Spec.Endpoint, "none: nothing can be sent to it")
}
