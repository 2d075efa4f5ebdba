// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strconv"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

var regretDescription = describe("lighterage_decisions_regret_ratio",
	"By which share more of what the objective asks for the choices of mode Auto take than the best alternative for "+
		"everything would: the greatest of a namespace's Transfers that run, Queues or HTTPEndpoints. See "+
		"status.decisions.regretPercent.", "kind", "namespace")

// regret is what an object shows of what the choices of mode Auto lose.
type regret struct {
	place
	share float64
}

// regretOf is that of an object; kept is false when there is none, and of runs of Transfers that have ended.
func regretOf(object any) (r regret, kept bool) {
	var decisions *v1alpha1.DecisionsStatus
	switch o := object.(type) {
	case *v1alpha1.Transfer:
		if o.Status.Phase == v1alpha1.TransferTransferring {
			r.place, decisions = place{"Transfer", o.Namespace}, o.Status.Decisions
		}
	case *v1alpha1.Queue:
		r.place, decisions = place{"Queue", o.Namespace}, o.Status.Decisions
	case *v1alpha1.HTTPEndpoint:
		r.place, decisions = place{"HTTPEndpoint", o.Namespace}, o.Status.Decisions
	}
	if decisions == nil {
		return r, false
	}
	percent, err := strconv.ParseFloat(decisions.RegretPercent, 64)
	r.share = percent / 100
	return r, err == nil
}

func (i *Inventory) showRegrets(out show) {
	most := map[place]float64{}
	for _, r := range i.regrets {
		if share, ok := most[r.place]; !ok || r.share > share {
			most[r.place] = r.share
		}
	}
	for at, share := range most {
		out(regretDescription, share, at.kind, at.namespace)
	}
}
