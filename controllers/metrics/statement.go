// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Results of writing Statements, and reasons why figures were refused.
const (
	StatementWritten = "Written"
	StatementFailed  = "Failed"

	StatementNoSpace     = "NoSpace"
	StatementTerminating = "NamespaceTerminating"
	StatementTimeout     = "Timeout"
)

// Statements are the collectors of Statements. They are safe for concurrent use.
type Statements struct {
	writes, refused *prometheus.CounterVec
}

// NewStatements makes the collectors and registers them. All series are there from the start.
func NewStatements(registry prometheus.Registerer) *Statements {
	counter := func(name, help, label string, values ...string) *prometheus.CounterVec {
		vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		registry.MustRegister(vector)
		for _, value := range values {
			vector.WithLabelValues(value)
		}
		return vector
	}
	return &Statements{
		writes: counter("lighterage_statement_writes_total",
			"Writes of Statements, and bookings that failed and are tried again, by result.", "result",
			StatementWritten, StatementFailed),
		refused: counter("lighterage_statement_refused_total",
			"Objects that were deleted with figures which are in no Statement, or tries to book those of an object that is "+
				"being deleted for which there was no space, by reason.", "reason",
			StatementNoSpace, StatementTerminating, StatementTimeout),
	}
}

// Booked counts a write, or one that failed.
func (s *Statements) Booked(result string) { s.writes.WithLabelValues(result).Inc() }

// Refused counts figures that could not be booked.
func (s *Statements) Refused(reason string) { s.refused.WithLabelValues(reason).Inc() }
