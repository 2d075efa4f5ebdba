// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"strings"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/table"
)

func ofSet(t *v1alpha1.TransferSet, s *sheet) {
	s.section("Members")
	where := "-n " + t.Namespace
	if t.Spec.NamespaceSelector != nil {
		where = "-A"
		s.count("namespaces", int64(t.Status.Namespaces))
	}
	if m := t.Status.Members; m != nil {
		s.rowf("claims", "%d selected: %d complete, %d running, %d waiting, %d failed",
			m.Selected, m.Complete, m.Running, m.Waiting, m.Failed)
		s.count("retained Transfers", int64(m.Retained))
	}
	s.rowf("first runs at once", "%d", t.Spec.MaxConcurrent)
	s.rowf("at the destinations", "%s of %s", table.Bytes(t.Status.Bytes), table.Bytes(t.Status.BytesTotal))
	s.row("on the wire", table.Bytes(t.Status.WireBytes))
	for _, c := range t.Status.Costs {
		s.rowf("cost", "%s %s for CPU, %s for the network; compression saved %s", c.Currency, c.CPU, c.Network, c.Saved)
	}
	if g := t.Status.Group; g != nil {
		s.rowf("VolumeGroupSnapshot", "%s: %s", g.Name, g.State)
		s.at("of the moment", g.PointInTime)
	}
	s.at("oldest recovery point", t.Status.RecoveryPoint)
	if len(t.Status.Failures) > 0 {
		s.section("Claims that need somebody")
	}
	for _, f := range t.Status.Failures {
		namespace := cmp.Or(f.Namespace, t.Namespace)
		name := f.ClaimName
		if f.Namespace != "" {
			name = strings.TrimSuffix(f.Namespace+"/"+name, "/")
		}
		if f.TransferName == "" {
			s.rowf(name, "%s: %s", f.Reason, f.Message)
			continue
		}
		s.rowf(name, "Transfer %s: %s: %s", f.TransferName, f.Reason, f.Message)
		s.next("see why: kubectl lighterage explain transfer/%s -n %s", f.TransferName, namespace)
	}
	s.next("see all members: kubectl get transfers %s -l %s=%s", where, v1alpha1.TransferSetLabel, t.Name)
}
