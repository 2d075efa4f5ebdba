// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// rateWindow is how long a rate is measured for at least.
const rateWindow = 10 * time.Second

// status collects what there is to say of a sending end.
type status struct {
	mu      sync.Mutex
	now     *wirev1.ChannelStatus
	counted uint64 // messages ever; the rate does not know of resets
	rate    rate
}

// rate is over one to two windows.
type rate struct {
	before, since mark
}

type mark struct {
	at       time.Time
	messages uint64
}

func newStatus() *status {
	now := time.Now()
	return &status{
		now:  &wirev1.ChannelStatus{State: wirev1.ChannelState_CHANNEL_STATE_STANDBY},
		rate: rate{before: mark{at: now}, since: mark{at: now}},
	}
}

func (s *status) update(change func(*wirev1.ChannelStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.now)
}

// stored counts messages that the other end has, up to a position.
func (s *status) stored(position, messages, batches, payload, plain, recoded uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Position = position
	s.now.Messages += messages
	s.now.Batches += batches
	s.now.PayloadBytes += payload
	s.now.PlainBytes += plain
	s.now.Recoded += recoded
	s.now.InDoubt -= messages
	// What came after a long silence counts from its end on.
	s.rate.move(time.Now(), s.counted)
	s.counted += messages
}

// failed notes why the channel ended.
func (s *status) failed(err error, next time.Time) {
	s.update(func(now *wirev1.ChannelStatus) {
		now.State, now.Detail = wirev1.ChannelState_CHANNEL_STATE_RETRYING, ""
		now.LastError, now.LastErrorTime = failure.ToWire(err), timestamppb.Now()
		now.NextTryTime = timestamppb.New(next)
	})
}

// report returns a copy.
func (s *status) report(now time.Time) *wirev1.ChannelStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := proto.CloneOf(s.now)
	s.rate.move(now, s.counted)
	out.MilliMessagesPerSecond = s.rate.milli(now, s.counted)
	return out
}

// reset begins all counters again.
func (s *status) reset() {
	s.update(func(now *wirev1.ChannelStatus) {
		now.Messages, now.Batches, now.PayloadBytes, now.PlainBytes, now.Recoded, now.Starts, now.DeadLetters,
			now.Dictionaries = 0, 0, 0, 0, 0, 0, 0, 0
	})
}

func (r *rate) move(now time.Time, messages uint64) {
	switch passed := now.Sub(r.since.at); {
	case passed >= 2*rateWindow: // Nobody looked and nothing moved for as long.
		r.before, r.since = mark{now.Add(-rateWindow), messages}, mark{now, messages}
	case passed >= rateWindow:
		r.before, r.since = r.since, mark{now, messages}
	}
}

func (r *rate) milli(now time.Time, messages uint64) uint64 {
	passed := max(now.Sub(r.before.at), time.Second)
	return uint64(float64(messages-r.before.messages) * 1000 / passed.Seconds())
}
