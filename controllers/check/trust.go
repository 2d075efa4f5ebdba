// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// skewNotice and skewError bound the difference of clocks. Certificates are valid from a minute before their issue.
	skewNotice, skewError = 5 * time.Second, time.Minute
	// expiryNotice is how long before its end a CA is warned of.
	expiryNotice = 30 * 24 * time.Hour
)

func clock(f *Facts) []Result {
	if f.ServerTime.Err != nil {
		return skipped("the time of the API server", f.ServerTime.Err)
	}
	skew := f.Now.Sub(f.ServerTime.Value).Abs().Round(time.Second)
	hint := "synchronise the clocks of the nodes and of this machine, for example by NTP"
	switch {
	case skew > skewError:
		return []Result{wrong(hint, "the clocks of this machine and the API server differ by %s", skew)}
	case skew > skewNotice:
		return []Result{warning(hint, "the clocks of this machine and the API server differ by %s", skew)}
	}
	return []Result{ok("the clocks of this machine and the API server agree to %s", skewNotice)}
}

func ca(f *Facts) []Result {
	if f.CA.Err != nil {
		return required("ConfigMap "+f.OperatorNamespace+"/"+pki.CAName, f.CA.Err)
	}
	certificates, err := pki.ParseBundle(f.CA.Value)
	if err != nil {
		return []Result{wrong("see the logs of the manager, which writes it", "ConfigMap %s: %v", pki.CAName, err)}
	}
	// The first certificate is that of the CA that issues.
	end := certificates[0].NotAfter
	day := end.UTC().Format(time.DateOnly)
	switch {
	case f.Now.After(end):
		return []Result{wrong("replace the CA", "the cluster's CA expired on %s", day)}
	case f.Now.Add(expiryNotice).After(end):
		return []Result{warning("replace the CA before, and give peers the next one", "the cluster's CA expires on %s", day)}
	}
	return []Result{ok("the cluster's CA is valid until %s", day)}
}

func peers(f *Facts) []Result {
	if f.Peers.Err != nil {
		return skipped("Peers", f.Peers.Err)
	}
	if len(f.Peers.Value) == 0 {
		return []Result{ok("there are no Peers; Transfers stay in this cluster")}
	}
	var results []Result
	for i := range f.Peers.Value {
		results = append(results, peer(f, &f.Peers.Value[i]))
	}
	return results
}

func peer(f *Facts, p *v1alpha1.Peer) Result {
	describe := "kubectl describe peer " + p.Name
	c := link.Condition(p)
	if c == nil {
		return wrong("check that the manager runs", "Peer %s: the manager has not looked at it", p.Name)
	}
	switch end := p.Status.CAExpirationTime; {
	case !link.IsReady(p):
		return wrong(describe, "Peer %s: %s: %s", p.Name, c.Reason, c.Message)
	case end != nil && f.Now.Add(expiryNotice).After(end.Time):
		return warning("add the peer's next CA to spec.caBundle", "Peer %s: its CA expires on %s", p.Name,
			end.UTC().Format(time.DateOnly))
	case c.Reason == v1alpha1.ReasonReceiveOnly:
		return ok("Peer %s: this cluster receives from it; nothing can be sent to it", p.Name)
	}
	return ok("Peer %s: reachable, knows this cluster as %s, version %s", p.Name, cmp.Or(p.Status.KnownAs, "?"),
		cmp.Or(p.Status.Version, "?"))
}
