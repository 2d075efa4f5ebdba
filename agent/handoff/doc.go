// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handoff carries connections through an object store, between two sides that can reach nothing of each other
// but a prefix of a bucket.
//
// A connection is two streams of bytes. Each is cut into segments, objects with numbers that go up, below a directory
// that both sides agreed about:
//
//	DIRECTORY/CONNECTION/d/SEGMENT   from the side that dialed
//	DIRECTORY/CONNECTION/a/SEGMENT   from the side that accepted
//
// A reader asks for the next segment by its name, so lists that lag delay nothing. It removes a segment when what is in
// it was taken; a writer has at most Window segments in the store that were not removed. Segment 0 opens a stream and
// is empty; a connection is there when both are open. The last one of a stream says that there is no more. Segment 0
// stays until then: servers that keep objects as files remove directories that become empty, and fail a put that makes
// one at that moment.
//
// A sender offers connections (NewOffer) by an object that it renews. A relay (Relay) looks for offers and has the
// connections go on to one address, the gateway of its cluster, where they end as if they had come over the network:
//
//	.lighterage/handoff/offers/ID           there is a sender
//	.lighterage/handoff/relays/ID           a relay serves it, and no other does
//	.lighterage/handoff/connections/ID/...  the DIRECTORY of its connections
//
// A sender that renews its offer no more is taken for dead, and what is left of it is removed. The connections of a
// relay that is killed cannot be continued: the sender notices, ends and makes another offer.
//
// Nothing here is authenticated: whoever can write to the bucket can open, break and delay connections, and read the
// segments. Connections are therefore to carry TLS from end to end (package transport), whose keys are in neither the
// bucket nor its server.
//
// Memory: a connection holds at most two segments for each direction, and a link has at most 34 connections.
//
// Requests: a segment costs a put and one or two heads of the writer, and a head, a get and a delete of the reader. A
// connection on which nothing comes costs each side one head in Options.Longest, as do a listener and a dial that wait,
// and a writer whose window is full two. Nothing is listed but by Sweep, and by relays, which list offers once in
// RelayOptions.Interval.
package handoff
