// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"math"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/regret"
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
	// sampler measures what choices lose; nil: nothing does.
	sampler *regret.Sampler
}

// newAdaptive sets up what is to be chosen between, as far as the receiver reads it.
func newAdaptive(o *Options, t *terms) *adaptive {
	a, accepted := &adaptive{}, t.accepted
	if o.Policy.Mode != policy.Auto || o.OneProcess || t.codec == codec.None || len(o.Ways) == 0 {
		return a
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
	a.ways = make(map[policy.Option]codec.Engine)
	for _, w := range o.Ways {
		if !slices.Contains(o.Codecs, w.Codec) || !slices.Contains(reads, uint32(w.Codec)) {
			continue
		}
		w.InflateRate = rates[w.Codec]
		ways = append(ways, w)
		a.ways[w.Option] = o.WayEngines[w.Option]
	}
	if len(ways) == 0 {
		return a
	}
	a.chooser = adapt.NewSender(policy.ControllerOptions{
		Objective:      o.Policy.Objective,
		Prices:         o.Policy.Prices,
		Ways:           ways,
		PreferHardware: o.Policy.PreferHardware,
		Limit:          o.pace(),
		Cores:          min(o.Streams, runtime.GOMAXPROCS(0)),
		PeerCores:      int(min(accepted.GetCores(), maxPeerCores)),
	}, nil)
	// The blocks of a Fan are those of several, and its process has one share of the CPU time.
	if o.Place == nil {
		a.sample(o, ways)
	}
	return a
}

// sampledOn is a variable for tests.
var sampledOn regret.Machine

// sample has a sample of the blocks compressed in all ways.
func (a *adaptive) sample(o *Options, ways []policy.Way) {
	inflate := make(map[policy.Option]float64)
	for _, w := range ways {
		inflate[w.Option] = w.InflateSeconds()
	}
	a.sampler = regret.New(sampledOn, nil)
	a.sampler.Set(regret.Ways{
		Settings: o.Policy, Engines: a.ways, Prefer: o.Policy.PreferHardware,
		Inflate: func(o policy.Option) float64 { return inflate[o] },
	})
	o.Report.deciding(a.decisions)
}

// decisions are nil until it is known what they lose.
func (a *adaptive) decisions() *wirev1.Decisions {
	lost := compression.Regret(a.sampler.Lost(a.chooser.Value))
	if lost == nil {
		return nil
	}
	return &wirev1.Decisions{Objective: string(a.chooser.Objective()), Regret: lost}
}

// heard takes in what the receiver says of itself, and the pace now.
func (a *adaptive) heard(m *wirev1.Received, pace float64) {
	if a.chooser == nil || m.GetStreams() == 0 {
		return
	}
	a.chooser.Limit(pace)
	inflated := m.GetDecompression()
	a.chooser.Peer(adapt.PeerTotals{
		CPU:      nanos(m.GetCpu().GetReceiveNanos()),
		Inflate:  nanos(m.GetCpu().GetDecompressNanos()),
		Inflated: inflated.GetSoftware().GetBytes() + inflated.GetHardware().GetBytes(),
		Busy:     nanos(m.GetBusyNanos()),
		Streams:  int(min(m.GetStreams(), protocol.MaxStreams)),
	})
}

func (o *Options) pace() float64 {
	if o.Pace == nil {
		return 0
	}
	return o.Pace()
}

func nanos(n uint64) time.Duration { return time.Duration(min(n, math.MaxInt64)) }

// encoderOptions are those of the encoder of each stream.
func (a *adaptive) encoderOptions(o *Options, t *terms) frame.EncoderOptions {
	e := frame.EncoderOptions{
		Engines: o.Engines, Accelerator: o.Accelerator, Codec: t.codec, Policy: o.Policy, NoNetwork: o.OneProcess && o.Form == 0,
		Joinable: t.accepted.GetJoinable(),
	}
	if a.chooser != nil {
		e.Chooser, e.Ways, e.Sample = a.chooser, a.ways, a.sampler.Offer
	}
	return e
}

// watch begins to tell the chooser of a connection; nil without a chooser.
func (a *adaptive) watch(conn net.Conn) *adapt.Stream {
	if a.chooser == nil {
		return nil
	}
	return a.chooser.Open(func() (transport.Carried, error) { return transport.Measure(conn) })
}

// timed calls prepare and then write, and tells the chooser, if there is one, how long they took.
func timed(
	stream *adapt.Stream, prepare func() (meter.Outcome, error), write func() error,
) (meter.Outcome, error) {
	if stream == nil {
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
	stream.Sent(outcome, prepared.Sub(begin), cpu, time.Since(prepared))
	return outcome, err
}
