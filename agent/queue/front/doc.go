// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package front is where clients of a queue connect. It speaks the protocol of NATS on
// both sides and passes on what it hears, except that
//
//   - payloads of messages that are put into the queue are compressed on the way in,
//   - messages in the form of package message are made plain on the way out,
//   - the ids of messages that are given are kept, and a put with one that the server has
//     forgotten is answered as the server would have,
//   - no acknowledgement is confirmed once the server could not write,
//   - nobody but the agent uses the agent's own consumers,
//   - nobody listens to the inboxes of others,
//   - filters of a consumer are not changed where that would lose messages, and
//   - no message has headers of dead letters.
//
// So a client of NATS has all of JetStream: acknowledgements of puts, pull and push
// consumers, de-duplication, expected sequences.
//
// A client that wants the bytes as they are stored, with the headers that describe
// them, says so with the header "Lighterage-Accept: stored" in its requests for
// messages to a pull consumer, or with the word "lighterage-accept=stored" in the name
// of its connection, for all that it gets. A client may put a message in that form; it
// is taken when its headers prove true.
//
// A message that cannot be made plain is delivered as it is stored, with the header
// Lighterage-Error that says why.
package front
