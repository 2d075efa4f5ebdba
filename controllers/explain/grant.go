// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

func ofGrant(g *v1alpha1.PeerGrant, s *sheet) {
	s.section("Allows")
	for _, from := range g.Spec.From {
		text := fmt.Sprintf("namespaces %s of %s", strings.Join(from.Namespaces, ", "),
			cmp.Or(from.Peer, v1alpha1.ThisCluster))
		if len(from.Transfers) > 0 {
			text += ", Transfers " + strings.Join(from.Transfers, ", ")
		}
		s.row("from", text)
	}
	for _, to := range g.Spec.To {
		text := fmt.Sprintf("%s %s", to.Kind, cmp.Or(to.Name, "(all)"))
		if to.Kind == v1alpha1.GrantedPersistentVolumeClaim {
			text += fmt.Sprintf(", directory %s, delete %t, privileged %t, verbs %s", cmp.Or(to.Path, "/"), to.AllowDelete,
				to.AllowPrivileged, grantedVerbs(to.Verbs))
		}
		if to.Create != nil {
			text += fmt.Sprintf(", create up to %s of class %s", to.Create.MaxSize.String(),
				strings.Join(append([]string{"(default)"}, to.Create.StorageClassNames...), " or "))
		}
		if to.MaxSnapshots > 0 {
			text += fmt.Sprintf(", %d VolumeSnapshots", to.MaxSnapshots)
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

// grantedVerbs are what may be done with a claim.
func grantedVerbs(verbs []v1alpha1.GrantedVerb) string {
	if len(verbs) == 0 {
		return string(v1alpha1.GrantedWrite)
	}
	var all []string
	for _, verb := range verbs {
		all = append(all, string(verb))
	}
	return strings.Join(all, " and ")
}

// pull tells from where the data are pulled, or who pulls them.
func (s *sheet) pull(t *v1alpha1.Transfer) {
	if of, pulled := plan.PulledFor(t); pulled {
		s.section("Pulled")
		s.rowf("by", "Transfer %s/%s of Peer %s, which says when it runs", of.Namespace, of.Name, of.Peer)
		s.row("allowed by", "a PeerGrant of this namespace with the verb Read; without it this Transfer is deleted")
		return
	}
	if !plan.Pulls(t) {
		return
	}
	s.section("Pulled")
	s.rowf("from", "claim %s of namespace %s in the cluster of Peer %s, whose policy, quotas and limits apply",
		t.Spec.Source.PersistentVolumeClaim.ClaimName, plan.PullNamespace(t), t.Spec.Source.Peer)
	if p := t.Status.Pull; p != nil {
		s.rowf("by Transfer", "%s there, run %s", p.Transfer, cmp.Or(p.RunID, unknown))
	}
	if name := plan.PullDelivery(t, nil); name != "" {
		s.next("look at what arrives here: kubectl lighterage explain delivery %s -n %s", name, t.Namespace)
	}
}
