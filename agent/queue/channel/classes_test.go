// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/test/corpus"
)

// xml shrinks as data do that compressing is some work for.
func xml(t *testing.T, n int) []byte {
	t.Helper()
	c, ok := corpus.ByName("xml")
	if !ok {
		t.Fatal("no corpus")
	}
	return c.Generate(n)
}

// deciding are options of a sender in mode Auto.
func deciding(q *queue, n *network) (channel.SenderOptions, *classes.Classes) {
	o := senderOptions(q, n, codec.Zstd)
	o.Encoding.Policy.Mode = policy.Auto
	o.Classes = classes.New(q.name, true, nil)
	return o, o.Classes
}

// TestChannelDecides: over a fast network messages travel as they rest, those that rest compressed as well; over a slow
// one those that rest plain are compressed. All arrive.
func TestChannelDecides(t *testing.T) {
	t.Parallel()
	east, west := newQueue(t, "orders", nil), newQueue(t, "incoming", nil)
	_, network, stop, err := serveWith(west, "127.0.0.1:0", nil, channel.Acceptance{Any: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	options, decides := deciding(east, network)
	sender, _ := send(t, options)
	arrived := 0
	// pass sends messages and returns how many of them arrived compressed.
	pass := func(rests codec.ID, n int) (compressed int) {
		for range n {
			east.put(t, stored(t, "orders.eu", rests, xml(t, 20_000)))
		}
		east.waitEmpty(t)
		arrived += n
		for _, m := range west.waitFor(t, arrived)[arrived-n:] {
			form, plain := opened(t, m)
			if len(plain) != 20_000 {
				t.Fatalf("%d bytes arrived", len(plain))
			}
			if !form.Plain() {
				compressed++
			}
		}
		return compressed
	}
	if n := pass(codec.None, 64); n != 64 {
		t.Errorf("before the network is known %d of 64 are compressed", n)
	}
	for range 50 {
		decides.Carried(1e-12)
	}
	pass(codec.None, 48)
	// One of them may be a trial.
	if n := pass(codec.None, 64); n > 1 {
		t.Errorf("over a fast network %d of 64 are compressed", n)
	}
	if n := pass(codec.Zstd, 20); n != 20 {
		t.Errorf("%d of 20 that rest compressed arrive so", n)
	}
	d := sender.Status().GetDecisions()
	if len(d.GetClasses()) != 1 || d.GetClasses()[0].GetReason() == "" || d.GetClasses()[0].GetContent() != "eu" ||
		d.GetClasses()[0].GetOperations() != 64+48+64 {
		t.Errorf("%v", d)
	}
	for range 200 {
		decides.Carried(1e-5)
	}
	pass(codec.None, 48)
	if n := pass(codec.None, 64); n != 64 {
		t.Errorf("over a slow network %d of 64 are compressed", n)
	}
	if d := sender.Status().GetDecisions(); d.GetClasses()[0].GetReason() != "" {
		t.Errorf("%v", d)
	}
	sender.ResetStatistics()
	if d := sender.Status().GetDecisions(); d == nil || len(d.GetClasses()) != 0 {
		t.Errorf("after a reset: %v", d)
	}
}
