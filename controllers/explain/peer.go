// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"strings"

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

func ofGrant(g *v1alpha1.PeerGrant, s *sheet) {
	s.section("Allows")
	for _, from := range g.Spec.From {
		s.rowf("from", "namespaces %s of %s", strings.Join(from.Namespaces, ", "), cmp.Or(from.Peer, v1alpha1.ThisCluster))
	}
	for _, to := range g.Spec.To {
		text := fmt.Sprintf("%s %s", to.Kind, cmp.Or(to.Name, "(all)"))
		if to.Kind == v1alpha1.GrantedPersistentVolumeClaim {
			text += fmt.Sprintf(", directory %s, delete %t, privileged %t", cmp.Or(to.Path, "/"), to.AllowDelete,
				to.AllowPrivileged)
		}
		if to.Create != nil {
			text += fmt.Sprintf(", create up to %s of class %s", to.Create.MaxSize.String(),
				strings.Join(append([]string{"(default)"}, to.Create.StorageClassNames...), " or "))
		}
		s.row("to", text)
	}
	if end := g.Spec.ExpirationTime; end != nil {
		s.at("ends", end)
	} else {
		s.row("ends", "never")
	}
	s.usedBy("Used by", g.Status.UsedBy)
}
