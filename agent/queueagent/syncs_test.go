// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/durationpb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestSyncChanges: how messages are synced counts from the next start, and those that are there stay, whatever it was.
func TestSyncChanges(t *testing.T) {
	m := newMember(t)
	puts := uint64(0)
	for _, change := range []func(*wirev1.QueueStorage){
		func(s *wirev1.QueueStorage) {},
		func(s *wirev1.QueueStorage) { s.SyncAlways = true },
		func(s *wirev1.QueueStorage) { s.SyncAlways, s.SyncInterval = false, durationpb.New(time.Minute) },
	} {
		m.change(func(c *wirev1.QueueConfig) { change(c.GetStorage()) })
		m.begin()
		pool := m.certify() // for the new address
		stop := m.run()
		m.await("it serves", serves)
		conn, err := m.client(pool, "secret")
		if err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "orders", []byte(strings.Repeat("a", 100))); err != nil {
			t.Fatal(err)
		}
		puts++
		r := m.await("it holds what was put by then, and has measured the volume", func(r *wirev1.QueueReport) bool {
			return r.GetContent().GetMessages() == puts && r.GetStatistics().GetVolumeSyncs().GetCount() > 0
		})
		if always := m.config.GetStorage().GetSyncAlways(); (r.GetStatistics().GetCheckpoints() == nil) != always {
			t.Errorf("always synced: %v, checkpoints: %v", always, r.GetStatistics().GetCheckpoints())
		}
		if syncs := r.GetStatistics().GetVolumeSyncs(); syncs.GetLastNanos() == 0 ||
			syncs.GetHighNanos() < syncs.GetLastNanos() || syncs.GetFailed() != 0 {
			t.Errorf("syncs of the volume: %v", syncs)
		}
		m.change(func(c *wirev1.QueueConfig) { c.Storage.SyncAlways = !c.GetStorage().GetSyncAlways() })
		m.await("it is told to start it again", func(r *wirev1.QueueReport) bool {
			return strings.Contains(r.GetConfigError(), "start it again")
		})
		m.change(func(c *wirev1.QueueConfig) { c.Storage.SyncAlways = !c.GetStorage().GetSyncAlways() })
		conn.Close()
		stop()
	}
}

// TestNoVolume: where messages are in memory, no volume is measured, and sweeps are counted where they spill.
func TestNoVolume(t *testing.T) {
	for name, spill := range map[string]*wirev1.QueueSpill{
		"memory": nil, "spill": {MemoryBytes: 16 << 20, VolumeBytes: 2 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t)
			m.certify()
			m.change(func(c *wirev1.QueueConfig) { c.Storage.Memory, c.Storage.Spill = true, spill })
			m.run()
			r := m.await("it serves", serves)
			s := r.GetStatistics()
			if s.GetVolumeSyncs() != nil || s.GetCheckpoints() != nil {
				t.Errorf("%v, %v", s.GetVolumeSyncs(), s.GetCheckpoints())
			}
			for _, n := range []*uint64{s.Sweeps, s.AbortedSweeps, s.SweptBytes} {
				if (n != nil) != (spill != nil) || n != nil && *n != 0 {
					t.Errorf("sweeps: %v", s)
				}
			}
		})
	}
}

// TestSpillRestarts: an agent that is started again finds the messages of a queue in memory that spills, and one that
// is told of another bound wants that.
func TestSpillRestarts(t *testing.T) {
	m := newMember(t)
	m.change(func(c *wirev1.QueueConfig) {
		c.Storage.Memory, c.Storage.Spill = true, &wirev1.QueueSpill{MemoryBytes: 16 << 20, VolumeBytes: 2 << 30}
	})
	for puts := uint64(1); puts <= 2; puts++ {
		m.begin()
		pool := m.certify() // for the new address
		stop := m.run()
		m.await("it serves", serves)
		conn, err := m.client(pool, "secret")
		if err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "orders", []byte("a message")); err != nil {
			t.Fatal(err)
		}
		m.await("it holds what was put by then", func(r *wirev1.QueueReport) bool {
			return r.GetContent().GetMessages() == puts && r.GetStorageFailure() == nil
		})
		m.change(func(c *wirev1.QueueConfig) { c.Storage.Spill.MemoryBytes++ })
		m.await("it is told to start it again", func(r *wirev1.QueueReport) bool {
			return strings.Contains(r.GetConfigError(), "start it again")
		})
		conn.Close()
		stop()
	}
}
