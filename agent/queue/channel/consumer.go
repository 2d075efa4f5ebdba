// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// errServed ends a session that begins before the queue's own service has heard of the channel.
var errServed = errors.New(
	"clients of gRPC and HTTP had messages until now; the channel takes over when their consumer has gone",
)

// maxConsumersNamed bounds how many consumers an error names.
const maxConsumersNamed = 5

// makeConsumer makes that of a stream, which begins with the oldest message, in place of that of an earlier start: what
// an old one delivers again comes out of order.
func makeConsumer(ctx context.Context, stream jetstream.Stream, name string, c jetstream.ConsumerConfig) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := stream.DeleteConsumer(ctx, consumerName); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("take the place of the channel's former consumer: %w", err)
	}
	c.Durable, c.Description, c.FilterSubjects = consumerName, "The channel to another queue", store.Subjects(name)
	c.AckPolicy, c.DeliverPolicy = jetstream.AckExplicitPolicy, jetstream.DeliverAllPolicy
	if _, err := stream.CreateConsumer(ctx, c); err != nil {
		return whyNoConsumer(ctx, stream, err)
	}
	return nil
}

// whyNoConsumer says why the channel gets no consumer, and names those that are in its way.
func whyNoConsumer(ctx context.Context, stream jetstream.Stream, err error) error {
	if !jetstreamerror.OtherConsumer(err) {
		return fmt.Errorf("make a consumer for the channel: %w", err)
	}
	var others []string
	served := false
	names := stream.ConsumerNames(ctx)
	for name := range names.Name() {
		if store.Serves(name) {
			served = true
			continue // The agent ends it by itself.
		}
		others = append(others, name)
	}
	if served && len(others) == 0 {
		return errServed
	}
	slices.Sort(others)
	who := strings.Join(others[:min(len(others), maxConsumersNamed)], ", ")
	if len(others) > maxConsumersNamed {
		who += fmt.Sprintf(" and %d more", len(others)-maxConsumersNamed)
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_IN_USE,
		"a message of a queue goes to one consumer, which is the channel where there is one, and clients have consumers "+
			"here (%s): delete them, and get the messages from the receiving queue; or take the channel away", who)
}

// Release removes what a channel that was taken away has left in the stream that it sent, so that messages go to
// clients' consumers again. What was in doubt may be in both queues then. It may be repeated.
func Release(ctx context.Context, conn *nats.Conn, stream string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	if err := js.DeleteConsumer(ctx, stream, consumerName); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("remove the consumer of the channel that was taken away: %w", err)
	}
	return nil
}
