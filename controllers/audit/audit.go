// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit writes the audit trail: one log line and one count for each use of a PeerGrant, and for each rejection
// a count and, so that nobody fills a log, a line at a limited rate. Lines carry "audit": true and hold no secrets.
package audit

import (
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// Results of uses beside the reasons of conditions.
const (
	// ResultWithdrawn: the Delivery was deleted before it had ended, by the sending cluster, a newer attempt or
	// somebody.
	ResultWithdrawn = "Withdrawn"
	// ResultClosed: the connection of a channel ended.
	ResultClosed = "Closed"
)

// Use is one use of a grant that has ended.
type Use struct {
	// Peer is the Peer's name, empty for this cluster, and Namespace the sending one there.
	Peer, Namespace string
	// ToNamespace, Kind, Name and Path are what was written; Path is empty for a Queue.
	ToNamespace string
	Kind        v1alpha1.GrantedKind
	Name, Path  string
	// Transfer, Run and Attempt name what wrote a claim; empty for a Queue.
	Transfer, Run string
	Attempt       int32
	// Delete and Privileged are what the grant was used for beyond writing.
	Delete, Privileged bool
	// Bytes towards the destination: of files for a claim, of TLS records for a Queue. Returned are those of TLS
	// records the other way.
	Bytes, Returned int64
	Duration        time.Duration
	// Result is the reason of a condition, or one of the constants here.
	Result string
}

// Uses writes the lines and counts of uses. The nil pointer writes nothing.
type Uses struct {
	log   logr.Logger
	total *prometheus.CounterVec
}

// NewUses makes the counter and registers it; it panics when that was done before.
func NewUses(log logr.Logger, registerer prometheus.Registerer) *Uses {
	u := &Uses{log: log, total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lighterage_grant_uses_total",
		Help: "Uses of PeerGrants that have ended, by the sending Peer (empty: this cluster), the namespace that was " +
			"written, the kind there and the result.",
	}, []string{"peer", "namespace", "kind", "result"})}
	registerer.MustRegister(u.total)
	return u
}

// Record writes one use.
func (u *Uses) Record(use Use) {
	if u == nil {
		return
	}
	u.total.WithLabelValues(use.Peer, use.ToNamespace, string(use.Kind), use.Result).Inc()
	fields := []any{
		"audit", true, "peer", use.Peer, "namespace", use.Namespace,
		"toNamespace", use.ToNamespace, "kind", string(use.Kind), "name", use.Name,
		"result", use.Result, "bytes", use.Bytes, "seconds", use.Duration.Round(time.Millisecond).Seconds(),
	}
	if use.Kind == v1alpha1.GrantedQueue {
		fields = append(fields, "returnedBytes", use.Returned)
	} else {
		fields = append(fields, "path", use.Path, "transfer", use.Transfer, "run", use.Run, "attempt", use.Attempt,
			"delete", use.Delete, "privileged", use.Privileged)
	}
	u.log.Info("Grant used", fields...)
}

const (
	// linesBurst and linesInterval bound the lines of rejections of one peer for one reason.
	linesBurst    = 5
	linesInterval = 10 * time.Second
	// maxSources bounds what is remembered of peers and reasons. Both are few: Peers are objects, reasons constants.
	maxSources = 4096
)

// Rejection is a request that was rejected.
type Rejection struct {
	// Peer is empty for a caller whom no Peer vouches for.
	Peer string
	// Method and Reason are constants.
	Method, Reason string
	// Identity is the path that the caller's certificate names; empty when it could not be verified.
	Identity string
	Message  string
}

// Rejections writes the lines and counts of rejections. It is safe for concurrent use.
type Rejections struct {
	log   logr.Logger
	total *prometheus.CounterVec
	lines *limiter
}

// NewRejections makes the counter and registers it; it panics when that was done before.
func NewRejections(log logr.Logger, registerer prometheus.Registerer, c clock.PassiveClock) *Rejections {
	r := &Rejections{log: log, lines: newLimiter(c), total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lighterage_gateway_rejections_total",
		Help: "Requests that the gateway rejected, by Peer (empty for strangers), method and reason.",
	}, []string{"peer", "method", "reason"})}
	registerer.MustRegister(r.total)
	return r
}

// Record counts a rejection, and writes it unless there were too many of this peer and reason just before; the next
// line has their number.
func (r *Rejections) Record(rejection Rejection) {
	r.total.WithLabelValues(rejection.Peer, rejection.Method, rejection.Reason).Inc()
	suppressed, ok := r.lines.allow(source{rejection.Peer, rejection.Reason})
	if !ok {
		return
	}
	r.log.Info("Request rejected", "audit", true, "peer", rejection.Peer, "method", rejection.Method,
		"reason", rejection.Reason,
		"identity", conditions.Shorten(rejection.Identity), "cause", conditions.Shorten(rejection.Message), "suppressed",
		suppressed)
}
