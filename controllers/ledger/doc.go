// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger books the figures of objects in Statements, each exactly once. It is pure: it is given objects as they
// were read, and returns the Statement to write.
//
// An Account has the cumulative figures of an object, by lives: what counts from 0, such as an attempt. A Statement has
// a mark for each object that says how much of its figures is in rows. Book adds the difference to the rows of the day
// and moves the mark, in one object, so that one write does both or neither. Who writes from a stale Statement gets a
// conflict; who reads a stale object finds that its resource version is older than the mark's, and books nothing.
//
// A month is closed first and its successor opened then with its marks, so that no figure is booked in both.
package ledger

import "time"

const (
	// maxRows of a Statement have a day and all dimensions. What comes then is booked in maxMonthRows rows without a day,
	// then in rows of the kind Other: maxDayRows by day and currency, then by currency alone.
	maxRows, maxMonthRows, maxDayRows, maxAllRows = 320, 96, 32, 512
	// maxPrices bounds the sets of prices that rows name.
	maxPrices = 64
	// maxMarks are of objects that exist. reservedMarks are for objects that are being deleted, which must not wait.
	maxMarks, reservedMarks = 1500, 256
	// markGrace is for how long a mark outlives its object: longer than any manager goes on with a stale cache.
	markGrace = time.Hour
	// maxStoredStep is the longest time between two bookings for which bytes at rest are counted. What a manager that
	// was away for longer did not see is not charged.
	maxStoredStep = 24 * time.Hour
	// storedStep is after how long bytes at rest alone are a reason to write.
	storedStep = time.Hour
	// restoredGrace: what began longer before its object was made is of a predecessor from which status was restored.
	// Clocks of nodes may differ by that from the API server's.
	restoredGrace = time.Minute
	// openingGrace: what ended longer before the month of a namespace's first Statement is not booked.
	openingGrace = 24 * time.Hour
)
