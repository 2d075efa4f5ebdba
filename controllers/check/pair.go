// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/route"
)

// pairDocs is the page about what Pair checks.
const pairDocs = "docs/how-to/connect-clusters.md"

// Side is one of two clusters, by the name of its context.
type Side struct {
	Name  string
	Facts *Facts
}

// Pair returns what only both clusters together show: whether their clocks agree, and whether each has a Peer for the
// other one that holds its CA and leads to it.
func Pair(a, b Side) []Result {
	results := []Result{clocks(a, b), direction(a, b), direction(b, a)}
	for i, name := range []string{"clocks", "peer", "peer"} {
		r := &results[i]
		r.Category, r.Check = "Link", name
		if r.Result != OK {
			r.Docs = pairDocs
		}
	}
	return results
}

// clocks compares the times of two API servers, by this machine's clock at the moments of their answers.
func clocks(a, b Side) Result {
	for _, s := range []Side{a, b} {
		if err := s.Facts.ServerTime.Err; err != nil {
			return skipped("the time of the API server of "+s.Name, err)[0]
		}
	}
	ahead := func(f *Facts) time.Duration { return f.ServerTime.Value.Sub(f.Now) }
	skew := (ahead(a.Facts) - ahead(b.Facts)).Abs().Round(time.Second)
	hint := "synchronise the clocks of both clusters, for example by NTP"
	switch {
	case skew > skewError:
		return wrong(hint, "the clocks of clusters %s and %s differ by %s: certificates of one may not be valid yet in the "+
			"other", a.Name, b.Name, skew)
	case skew > skewNotice:
		return warning(hint, "the clocks of clusters %s and %s differ by %s", a.Name, b.Name, skew)
	}
	return ok("the clocks of clusters %s and %s agree to %s", a.Name, b.Name, skewNotice)
}

// direction says whether a cluster has a Peer for another one.
func direction(from, to Side) Result {
	for _, fact := range []struct {
		what   string
		err    error
		report func(string, error) []Result
	}{
		{"Peers of " + from.Name, from.Facts.Peers.Err, skipped},
		{"ConfigMap " + pki.CAName + " in cluster " + to.Name, to.Facts.CA.Err, required},
		{"ConfigMap " + pki.CAName + " in cluster " + from.Name, from.Facts.CA.Err, required},
	} {
		if fact.err != nil {
			return fact.report(fact.what, fact.err)[0]
		}
	}
	connect := "kubectl lighterage connect --context " + from.Name + " --to " + to.Name
	if shared, err := link.Share(from.Facts.CA.Value, to.Facts.CA.Value); err == nil && shared {
		return wrong("name two clusters; if these are two, give one of them a CA of its own",
			"%s and %s have the same CA: they are one cluster, or cannot be told from each other", from.Name, to.Name)
	}
	holders, err := link.Find(from.Facts.Peers.Value, to.Facts.CA.Value)
	switch {
	case err != nil:
		return wrong("see the logs of its manager, which writes it", "ConfigMap %s of %s: %v", pki.CAName, to.Name, err)
	case len(holders) == 0:
		return wrong(connect, "cluster %s has no Peer with the CA of cluster %s", from.Name, to.Name)
	case len(holders) > 1:
		var names []string
		for _, p := range holders {
			names = append(names, p.Name)
		}
		return wrong("delete all but one", "cluster %s has several Peers with the CA of cluster %s: %s", from.Name, to.Name,
			strings.Join(names, ", "))
	}
	p := holders[0]
	switch known := knownAs(from, to); {
	case !link.Covers(p.Spec.CABundle, to.Facts.CA.Value):
		return warning(connect, "Peer %s of cluster %s lacks a CA of cluster %s, which the next rotation needs", p.Name,
			from.Name, to.Name)
	case !route.Reaches(p):
		return ok("cluster %s receives from cluster %s as Peer %s; nothing can be sent to it", from.Name, to.Name, p.Name)
	case p.Status.KnownAs != "" && len(known) > 0 && !slices.Contains(known, p.Status.KnownAs):
		return wrong("check spec.endpoint of the Peer", "Peer %s of cluster %s leads to a gateway that knows this cluster as "+
			"%s, and cluster %s knows it as %s", p.Name, from.Name, p.Status.KnownAs, to.Name, strings.Join(known, ", "))
	case !link.IsReady(p):
		return wrong("kubectl describe peer "+p.Name+" --context "+from.Name, "Peer %s of cluster %s is not Ready%s", p.Name,
			from.Name, why(p))
	}
	return ok("cluster %s sends to cluster %s as Peer %s", from.Name, to.Name, p.Name)
}

// why is the reason of a Peer that is not Ready.
func why(p *v1alpha1.Peer) string {
	if c := link.Condition(p); c != nil {
		return ": " + c.Reason
	}
	return ": its manager has not looked at it"
}

// knownAs are the Peers by which a cluster knows another one; none if they cannot be read.
func knownAs(from, to Side) []string {
	if to.Facts.Peers.Err != nil {
		return nil
	}
	holders, err := link.Find(to.Facts.Peers.Value, from.Facts.CA.Value)
	if err != nil {
		return nil
	}
	var names []string
	for _, p := range holders {
		names = append(names, p.Name)
	}
	return names
}
