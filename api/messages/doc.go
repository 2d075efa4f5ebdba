// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package messages is a client of Queues: it puts, gets and acknowledges messages by MessageService, the gRPC service
// on port 8443 of every Queue.
//
//	client, err := messages.New("orders.bank.svc:8443", messages.WithTLS(config), messages.WithToken(token))
//
// # Delivery
//
// A message is delivered at least once. One that was got is invisible to other clients until it is acknowledged,
// released or rejected, or until its visibility time-out has passed; then it is delivered again. After as many
// deliveries as spec.redelivery.maxDeliveries of the Queue it becomes a dead letter. [Client.Consume] does this for a
// handler: it extends the visibility while the handler works, acknowledges, and releases after an error.
//
// # Retries
//
// Calls that fail because no member of the Queue can answer are repeated, with growing pauses, for a minute
// ([WithRetryFor]) or until their context ends. A put is repeated only for messages with an ID, because the Queue
// finds a repeated ID within its spec.duplicateWindow (2 minutes unless it says otherwise) and stores the message
// once. For a message without one the error is [ErrUnknown] when no answer came: it may be stored. [NewID] makes IDs
// for messages that have none of their own.
//
// The package depends on gRPC and protobuf alone. The calls themselves, with all their fields, are in [messagesv1].
package messages
