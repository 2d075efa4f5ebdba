// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"math"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxPeerCores bounds what a receiver says of its cores.
const maxPeerCores = 1 << 12

// adaptive is a sender's part in choosing block by block how to compress. The zero value chooses nothing.
type adaptive struct {
	chooser *adapt.Sender
	ways    map[policy.Option]codec.Engine
}

// adapt sets up what is to be chosen between, as far as the receiver reads it.
func (s *sender) adapt(accepted *wirev1.Accepted) {
	if s.Policy.Mode != policy.Auto || s.OneProcess || s.codec == codec.None || len(s.Ways) == 0 {
		return
	}
	reads := []uint32{accepted.GetCodec()}
	if len(accepted.GetCodecs()) > 0 {
		reads = accepted.GetCodecs()
	}
	rates := make(map[codec.ID]float64)
	for _, r := range accepted.GetInflate() {
		if r.GetCodec() <= math.MaxUint8 {
			rates[codec.ID(r.GetCodec())] = float64(r.GetBytesPerSecond())
		}
	}
	var ways []policy.Way
	s.ways = make(map[policy.Option]codec.Engine)
	for _, w := range s.Ways {
		if !slices.Contains(s.Codecs, w.Codec) || !slices.Contains(reads, uint32(w.Codec)) {
			continue
		}
		w.InflateRate = rates[w.Codec]
		ways = append(ways, w)
		s.ways[w.Option] = s.WayEngines[w.Option]
	}
	if len(ways) == 0 {
		return
	}
	s.chooser = adapt.NewSender(policy.ControllerOptions{
		Objective:      s.Policy.Objective,
		Prices:         s.Policy.Prices,
		Ways:           ways,
		PreferHardware: s.Policy.PreferHardware,
		Limit:          float64(s.BandwidthLimit),
		Cores:          min(s.Streams, runtime.GOMAXPROCS(0)),
		PeerCores:      int(min(accepted.GetCores(), maxPeerCores)),
	}, nil)
}

// heard takes in what the receiver says of itself.
func (s *sender) heard(m *wirev1.Received) {
	if s.chooser == nil || m.GetStreams() == 0 {
		return
	}
	inflated := m.GetDecompression()
	s.chooser.Peer(adapt.PeerTotals{
		CPU:      nanos(m.GetCpu().GetReceiveNanos()),
		Inflate:  nanos(m.GetCpu().GetDecompressNanos()),
		Inflated: inflated.GetSoftware().GetBytes() + inflated.GetHardware().GetBytes(),
		Busy:     nanos(m.GetBusyNanos()),
		Streams:  int(min(m.GetStreams(), protocol.MaxStreams)),
	})
}

func nanos(n uint64) time.Duration { return time.Duration(min(n, math.MaxInt64)) }

// encoderOptions are those of the encoder of each stream.
func (s *sender) encoderOptions() frame.EncoderOptions {
	o := frame.EncoderOptions{
		Engines: s.Engines, Accelerator: s.Accelerator, Codec: s.codec, Policy: s.Policy, NoNetwork: s.OneProcess,
	}
	if s.chooser != nil {
		o.Chooser, o.Ways = s.chooser, s.ways
	}
	return o
}

// watch begins to tell the chooser of a connection; nil without a chooser.
func (s *sender) watch(conn net.Conn) *adapt.Stream {
	if s.chooser == nil {
		return nil
	}
	return s.chooser.Open(func() (transport.Carried, error) { return transport.Measure(conn) })
}

// timed calls prepare and then write, and tells the chooser how long they took.
func (w *worker) timed(prepare func() (meter.Outcome, error), write func() error) (meter.Outcome, error) {
	if w.stream == nil {
		outcome, err := prepare()
		if err != nil {
			return outcome, err
		}
		return outcome, write()
	}
	var outcome meter.Outcome
	var err error
	begin := time.Now()
	cpu := meter.ThreadCPU(func() { outcome, err = prepare() })
	if err != nil {
		return outcome, err
	}
	prepared := time.Now()
	err = write()
	w.stream.Sent(outcome, prepared.Sub(begin), cpu, time.Since(prepared))
	return outcome, err
}
