// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota is the one place that admits what is limited: runs of Transfers, Deliveries and storage of Queues. It
// is pure: it is given the limits, what is held and what waits, and answers with a grant or with the limit that is
// exceeded. DataQuotas are limits; whatever else will be, such as a cap of a Peer, becomes a Limits beside them.
//
// The order among those that wait is that in which they began to wait. One that does not fit keeps what it lacks from
// those behind it, so that none starves, and nothing else: those behind it that do not need what it lacks go past it.
// Storage of Queues is different, since it does not come free by itself: a Queue that does not fit keeps nothing from
// others.
package quota
