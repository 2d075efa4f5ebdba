// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of Statements.
const (
	// ReasonOpen (Statement): figures are booked as objects report them.
	ReasonOpen = "Open"
	// ReasonClosed (Statement): the month is over, and nothing is booked any more.
	ReasonClosed = "Closed"
	// ReasonBooked (Statement): all figures that objects showed are booked.
	ReasonBooked = "Booked"
	// ReasonEdited (Statement): rows or marks were edited by hand, so that figures may be missing, or be there twice.
	ReasonEdited = "Edited"
	// ReasonRebuilt (Statement): the Statement was deleted by hand and is rebuilt from objects that still exist; figures
	// of others are missing.
	ReasonRebuilt = "Rebuilt"
	// ReasonMarksLost (Statement): Statements were deleted by hand, more than ten attempts of a Transfer ended between two
	// bookings, or the status of an object was changed by hand, so that it is not known what was booked; figures are
	// missing, as the message says.
	ReasonMarksLost = "MarksLost"
	// ReasonNamespaceReplaced (Statement): the namespace was deleted and created again, and its Statements were restored;
	// what the former namespace used after its last booking is missing.
	ReasonNamespaceReplaced = "NamespaceReplaced"
	// ReasonNoSpace (Statement): more objects have figures than a Statement has space for. They are booked when other
	// objects of the namespace are deleted; if rows are used up, with the next month.
	ReasonNoSpace = "NoSpace"
)
