// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/network"
)

// keptBytes of messages stay in the receiving queue of a Channel.
const keptBytes = 64 << 20

// Channel is one that stays open between two queues, so that what its mode Auto learns counts for all that it carries.
type Channel struct {
	ends   *ends
	client *harness.Worker // beside the sending queue
	before endAnswer
	put    uint64
}

// OpenChannel opens a channel in the namespaces of a network, with files in a new directory. The sending queue keeps
// messages as they were put, and its channel compresses them as the settings say. Clients put at a port of a loopback
// address that nobody else has.
func OpenChannel(
	ctx context.Context, link *network.Pair, directory, clients string, s *wirev1.CompressionSettings,
) (c *Channel, err error) {
	settings, err := proto.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write the settings of a channel: %w", err)
	}
	c = &Channel{}
	if c.ends, err = startEnds(ctx, link, directory, endSettings{Compression: settings, Clients: clients}, endSettings{
		Compression: settings, Clients: clients, MaxBytes: keptBytes,
	}); err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	if err = errors.Join(
		c.ends.sender.Order(endOrder{Gateway: c.ends.gateway}), c.ends.sender.Answer(&c.before),
	); err == nil {
		var first endAnswer
		self := harness.Self(benchmark, clientRole, filepath.Join(directory, sendEnd), clients)
		c.client, err = firstAnswer(network.Command(ctx, link.Sender(), self[0], self[1:]...), &first)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a channel: %w", err), c.Close())
	}
	return c, nil
}

// Carried is what carrying messages took, from when the first was put until the other queue had all.
type Carried struct {
	// Elapsed by the clock, and CPU time of both agents and the gateway.
	Elapsed, CPU time.Duration
	// Bytes on the network in both directions, TLS included.
	Bytes uint64
	// Compressed messages.
	Compressed uint64
}

// Carry puts so many messages of a size in bytes, cut from a corpus, and waits until the other queue has them. The
// first token behind the name of the queue is the name of the corpus.
func (c *Channel) Carry(corpus string, size, n int) (Carried, error) {
	c.put += uint64(n)
	before, err := c.ends.cpu()
	if err != nil {
		return Carried{}, err
	}
	begin := time.Now()
	var put, sent endAnswer
	if err := errors.Join(
		c.ends.sender.Order(endOrder{Sent: c.put}), c.client.Order(endOrder{Put: n, Size: size, Corpus: corpus}),
		c.client.Answer(&put), c.ends.sender.Answer(&sent),
	); err != nil {
		return Carried{}, fmt.Errorf("carry %d messages of %d bytes of %s: %w", n, size, corpus, err)
	}
	elapsed := time.Since(begin)
	after, err := c.ends.cpu()
	carried := Carried{
		Elapsed: elapsed, CPU: after - before, Bytes: sent.Wire - c.before.Wire, Compressed: sent.Recoded - c.before.Recoded,
	}
	c.before = sent
	return carried, err
}

// Close ends it.
func (c *Channel) Close() error {
	var err error
	if c.client != nil {
		err = c.client.Close()
	}
	return errors.Join(err, c.ends.close())
}
