// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dispatch gives out the messages of a queue to clients that do not speak the
// protocol of NATS: with a visibility time-out for each, in order within each key, and
// moves those that come back too often to the dead letters.
//
// One dispatcher gives out for all members of a queue, in the one that leads the stream. A
// Hub is in every member: it runs the dispatcher where it belongs, and asks it from
// everywhere. What survives the dispatcher is in the store: messages in the queue's stream,
// and who has which in a log of leases.
package dispatch
