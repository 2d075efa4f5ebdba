// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package batch_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/batch"
	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
)

func TestIsControl(t *testing.T) {
	for name, want := range map[string]bool{
		"Nats-Rollup": true, "nats-ttl": true, "NATS-X": true, "Nats": false, "X-Nats-TTL": false, "": false,
	} {
		if batch.IsControl(name) != want {
			t.Errorf("%q steers: %v", name, !want)
		}
	}
}

func TestLifeLeft(t *testing.T) {
	now := time.Unix(1000, 0)
	for text, want := range map[string]time.Duration{
		"": 0, "never": 0, "1h": 59 * time.Minute, "90": 30 * time.Second, "2s": time.Second,
	} {
		h := nats.Header{}
		if text != "" {
			h.Set("Nats-TTL", text)
		}
		if got := batch.LifeLeft(h, now.Add(-time.Minute), now); got != want {
			t.Errorf("of %q are left %v, want %v", text, got, want)
		}
	}
}

// A batch is stored at once, or not at all.
func TestPublish(t *testing.T) {
	_, conn, _ := storetest.Open(t, store.Options{}, store.Settings{})
	messages := func(n int) []*nats.Msg {
		var all []*nats.Msg
		for range n {
			all = append(all, nats.NewMsg("orders.new"))
		}
		return all
	}
	if last, err := batch.Publish(t.Context(), conn, messages(3)); last != 3 || err != nil {
		t.Errorf("%d, %v", last, err)
	}
	overtaken := messages(3)
	overtaken[2].Header.Set(jetstream.ExpectedLastSubjSeqHeader, "1")
	overtaken[2].Subject = "orders.old"
	_, err := batch.Publish(t.Context(), conn, overtaken)
	if !jetstreamerror.Overtaken(err) {
		t.Errorf("refused with %v", err)
	}
	if last, err := batch.Publish(t.Context(), conn, messages(1)); last != 4 || err != nil {
		t.Errorf("%d, %v", last, err)
	}
	if _, err := batch.Publish(t.Context(), conn, nil); err == nil {
		t.Error("nothing was put")
	}
}

// A stream that has too many batches open is one to try again.
func TestBusy(t *testing.T) {
	_, conn, _ := storetest.Open(t, store.Options{Memory: true}, store.Settings{})
	// The server has space for some hundred, for some seconds after the last that was said of them.
	for i := range 2000 {
		m := nats.NewMsg("orders.new")
		m.Header.Set("Nats-Batch-Id", strconv.Itoa(i))
		m.Header.Set("Nats-Batch-Sequence", "1")
		if err := conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	_, err := batch.Publish(t.Context(), conn, []*nats.Msg{nats.NewMsg("orders.new"), nats.NewMsg("orders.new")})
	if err != nil && !jetstreamerror.Is(err, jetstreamerror.TooManyBatches) {
		t.Errorf("refused with %v", err)
	}
}
