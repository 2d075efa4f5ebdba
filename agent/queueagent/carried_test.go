// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/queue/dictionary"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestDictionariesAcrossChannel: what refers to a dictionary of the sending queue travels as it rests, and refers to one
// of the receiving queue's own there.
func TestDictionariesAcrossChannel(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(p *pair) {
		for _, m := range []*member{p.east, p.west} {
			m.config.Dictionaries, m.config.CompressionMinSize = true, 1
			m.dictionaries = dictionary.Timing{
				Poll: 10 * time.Millisecond, Settle: 100 * time.Millisecond, First: time.Millisecond, Interval: 10 * time.Second,
				Always: true, // Also where others leave this process little CPU time.
			}
			m.begin()
		}
		p.east.config.Channel.BatchMessages = 50 // Each batch waits for the disk, which tests beside this one may keep busy.
	})
	p.runs("zstd", 1)
	orders := codectest.Orders(9, 2000, 1000)
	put := func() {
		t.Helper()
		puts := make([]jetstream.PubAckFuture, 50)
		for i := range puts {
			plain := orders[len(p.put)%len(orders)]
			var err error
			if puts[i], err = p.putter.PublishAsync(p.subject, plain); err != nil {
				t.Fatal(err)
			}
			p.put = append(p.put, plain)
		}
		for _, put := range puts {
			select {
			case <-put.Ok():
			case err := <-put.Err():
				t.Fatal(err)
			}
		}
	}
	referring(p.east, put)
	// The receiving queue trains on what came so.
	referring(p.west, func() { put(); p.gone() })
	p.get(len(p.put))
	p.east.await("all has gone as it rested", func(r *wirev1.QueueReport) bool {
		c := r.GetChannel()
		return c.GetMessages() >= uint64(len(p.put)) && c.GetRecoded() == 0 && c.GetDeadLetters() == 0 &&
			c.GetDictionaries() > 0
	})
	own := func(m *member) uint32 {
		return m.await("a dictionary is in use", func(r *wirev1.QueueReport) bool {
			return r.GetDictionaries().GetCurrent() != nil
		}).GetDictionaries().GetCurrent().GetNumber()
	}
	if east, west := own(p.east), own(p.west); east == west {
		t.Errorf("both queues have dictionary %d", east)
	}
}
