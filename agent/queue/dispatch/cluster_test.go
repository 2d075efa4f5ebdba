// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"context"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/queue/dispatch"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// TestLeaderChange: any member gives out messages, and when the one that leads is gone another
// knows who has which message, and how often each was given out.
func TestLeaderChange(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take some seconds")
	}
	t.Parallel() // members mostly wait for each other
	authority := transporttest.NewAuthority(t, "east")
	tls := transport.NewFiles(authority.Directory(t, authority, "/ns/bank/queue/orders", "")).MembersConfig()
	settings := store.Settings{Replicas: 3}
	var members []*queue
	for _, s := range storetest.Members(t, store.Options{MaxPayload: 8 << 20}, tls) {
		members = append(members, &queue{T: t, store: s})
	}
	for _, q := range members {
		q.conn, q.js = storetest.Connect(t, q.store)
		if err := q.store.Ensure(t.Context(), q.conn, settings); err != nil {
			t.Fatal(err)
		}
		q.stop = q.newHub(config{settings: settings, options: dispatch.Options{}})
	}
	leader := func() int {
		return slices.IndexFunc(members, func(q *queue) bool { return q.store.Leader() })
	}
	members[0].put("x", "x1", "x2")
	members[0].put("", "a", "b", "c")
	// Through a member that does not lead.
	other := members[(max(leader(), 0)+1)%3]
	first := other.expect(long, "x1", "a", "b", "c")
	// Expired is what it is when the first answer was lost, as by an election: b is got again below in any case.
	if r := other.hub.Release(t.Context(), first.receipts()[2:3], 0); r[0] != done && r[0] != expired {
		t.Errorf("release: %v", r)
	}
	// What was acknowledged just before is given to nobody, whatever was removed of it.
	other.results(other.hub.Acknowledge(t.Context(), first.receipts()[3:]), done)

	gone := max(leader(), 0)
	members[gone].stop()
	members[gone].conn.Close()
	members[gone].store.Shutdown()
	left := slices.Delete(slices.Clone(members), gone, gone+1)
	second := retry(left[0], 1)
	if len(second) != 1 || string(second[0].GetMessage().GetPayload()) != "b" || second[0].GetDeliveries() != 2 {
		t.Fatalf("after the change: %v", second)
	}
	acknowledged := retryAcknowledge(left[1], first.receipts()[:2])
	left[1].results(acknowledged, done, done)
	if third := retry(left[0], 1); len(third) != 1 || string(third[0].GetMessage().GetPayload()) != "x2" {
		t.Fatalf("after the acknowledgement: %v", third)
	}
	left[0].await(2, 0)
}

// retry gets until somebody leads, and there is something.
func retry(q *queue, count int) got {
	q.Helper()
	ctx, stop := context.WithTimeout(q.Context(), soon)
	defer stop()
	var err error
	for ctx.Err() == nil {
		var out got
		if out, err = q.hub.Get(ctx, count, long, soon, false); err == nil && len(out) > 0 {
			return out
		}
	}
	q.Fatal(err, "and nothing was got")
	return nil
}

// retryAcknowledge acknowledges until it is known that it was done, or is not.
func retryAcknowledge(q *queue, receipts []string) []messagesv1.ReceiptResult {
	q.Helper()
	ctx, stop := context.WithTimeout(q.Context(), soon)
	defer stop()
	for {
		results := q.hub.Acknowledge(ctx, receipts)
		if !slices.Contains(results, unknown) || ctx.Err() != nil {
			return results
		}
	}
}
