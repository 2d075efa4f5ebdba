// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node measures what the engines of this build and the network stack cost on the node it runs on.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/hardware"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// interval is how often a node is measured again.
	interval = 24 * time.Hour
	// recheck is how often it is looked whether the machine is still the one that was measured: a guest moves between
	// hosts of different processors while it runs.
	recheck = time.Minute
	// retry is how soon a node is measured again when a part of the measurement failed; it is doubled each time, up to
	// interval.
	retry = 5 * time.Minute

	// Reasons of a NetworkMeasurement.
	calibrated        = "Calibrated"
	nodeBusy          = "NodeBusy"
	calibrationFailed = "Failed"
)

// Profiler measures and serves what it measured. It is a wirev1.NodeAgentServer.
type Profiler struct {
	wirev1.UnimplementedNodeAgentServer
	options Options

	mu       sync.Mutex
	measured *wirev1.NodeMeasurement // nil before the first; never changed

	// Of Run alone: what the network cost when it was calibrated last, and the machine of that; no runs: never.
	network     NetworkCost
	networkHost Host

	// counters are nil while they are not open, for countersFailed or because nobody wants them.
	counters       Counters
	countersFailed error
}

// Options of a Profiler.
type Options struct {
	// Engines in software, in static order.
	Engines []codec.Engine
	// Find looks for the accelerator; it defaults to hardware.Find.
	Find func(context.Context) (codec.Engine, hardware.Verdict)
	// Network measures what the network costs; it defaults to NetworkCPU.
	Network func(context.Context) (NetworkCost, error)
	// OpenCounters opens the counters of the CPU measurement facility; nil: they are not read.
	OpenCounters func() (Counters, error)
	// Accelerator is told the engine of the accelerator after each measurement, nil where none was proved; nil: nobody is.
	Accelerator func(codec.Engine)
	// Shares are what agents are granted of the accelerator, and take their weights; nil: nothing is granted.
	Shares Shares
	// CallTime is how long this process has been in calls of the accelerator; it defaults to hardware.CallTime.
	CallTime func() time.Duration
	// Host says what the machine is; it defaults to ReadHost.
	Host func() Host
	// Recheck is how often Host is asked; when it answers otherwise than before, the node is measured again. It
	// defaults to a minute.
	Recheck time.Duration
	// Retry is how soon a measurement that failed in part is repeated. It is doubled each time, up to a day, and
	// defaults to 5 minutes.
	Retry time.Duration
	// Sample is what engines are measured with; it defaults to 4 MiB of calibrate.Sample.
	Sample []byte
	// Budget is about the CPU time for measuring an engine in one direction at one level; it defaults to 150 ms.
	Budget time.Duration
	Log    *slog.Logger
}

// Shares of the accelerator.
type Shares interface {
	// Sharing is what was granted; nil while nothing is.
	Sharing() *wirev1.AcceleratorSharing
	// SetWeights replaces the weights of namespaces.
	SetWeights(map[string]uint32)
}

// NewProfiler returns a profiler that has not measured yet.
func NewProfiler(o Options) *Profiler {
	if o.Find == nil {
		o.Find = hardware.Find
	}
	if o.Network == nil {
		o.Network = NetworkCPU
	}
	if o.CallTime == nil {
		o.CallTime = hardware.CallTime
	}
	if o.Host == nil {
		o.Host = ReadHost
	}
	if o.Recheck == 0 {
		o.Recheck = recheck
	}
	if o.Retry == 0 {
		o.Retry = retry
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	return &Profiler{options: o}
}

// Run measures at once, and again from time to time, sooner when a part failed, and when the machine has become
// another, until the context ends.
func (p *Profiler) Run(ctx context.Context) {
	ticker := time.NewTicker(p.options.Recheck)
	defer ticker.Stop()
	defer p.closeCounters()
	var last Host
	next := p.options.Retry
	for {
		host, begin, wait := p.options.Host(), time.Now(), interval
		if host != last {
			last, next = host, p.options.Retry
		}
		m, err := p.measure(ctx, host)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait, next = next, min(2*next, interval)
			p.options.Log.Error("Measurement is incomplete", "error", err.Error(), "repeatedAfter", wait)
		default:
			next = p.options.Retry
		}
		p.mu.Lock()
		p.measured = m
		p.openCounters()
		p.mu.Unlock()
		p.options.Log.Info("Node was measured", "engines", len(m.GetEngines()), "accelerator", m.GetAccelerator().GetReason(),
			"acceleratorMessage", m.GetAccelerator().GetMessage(), "networkCPUNanosPerGiB", m.GetNetworkCpuNanosPerGib(),
			"kernel", host.Kernel, "cpuModel", host.CPUModel)
		for time.Since(begin) < wait && p.options.Host() == host {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}
}

// measure does everything that can be done and returns what could not with it.
func (p *Profiler) measure(ctx context.Context, host Host) (*wirev1.NodeMeasurement, error) {
	m := &wirev1.NodeMeasurement{
		Version:      wirev1.Version,
		Architecture: runtime.GOARCH,
		Cores:        uint32(runtime.NumCPU()),
		Kernel:       host.Kernel,
		CpuModel:     host.CPUModel,
	}
	accelerator, verdict := p.options.Find(ctx)
	m.Accelerator = Accelerator(verdict)
	engines := slices.DeleteFunc(slices.Clone(p.options.Engines), func(e codec.Engine) bool {
		return e.Codec() == codec.None
	})
	if accelerator != nil {
		engines = append([]codec.Engine{accelerator}, engines...)
	}
	sample := p.options.Sample
	if sample == nil {
		sample = calibrate.Sample(sampleSize)
	}
	var err error
	m.Engines, err = Engines(ctx, engines, sample, p.options.Budget, func(e codec.Engine) bool {
		return e.Class() != codec.Hardware || verdict.InflateMinSize != hardware.NeverInflate
	})
	failed := []error{err}
	if verdict.Reason == hardware.Interrupted {
		failed = append(failed, fmt.Errorf("prove the accelerator: %s", verdict.Message))
	}
	if err := p.measureNetwork(ctx, m, host); err != nil {
		failed = append(failed, err)
	}
	if p.options.Accelerator != nil && ctx.Err() == nil {
		p.options.Accelerator(accelerator)
	}
	m.MeasuredTime = timestamppb.Now()
	return m, errors.Join(failed...)
}

// measureNetwork adds what the network costs: while it cannot be measured, what it cost this machine before.
func (p *Profiler) measureNetwork(ctx context.Context, m *wirev1.NodeMeasurement, host Host) error {
	cost, err := p.options.Network(ctx)
	m.Network = &wirev1.NetworkMeasurement{
		InterruptAccounting: interruptAccounting(host.Kernel), Reason: calibrated,
		BackgroundPercent: uint32(math.Ceil(100 * cost.Background)),
	}
	switch {
	case errors.Is(err, ErrBusy):
		m.Network.Reason = nodeBusy
	case err != nil:
		m.Network.Reason = calibrationFailed
	default:
		p.network, p.networkHost = cost, host
	}
	if known := p.network; known.Runs > 0 && p.networkHost == host {
		m.NetworkCpuNanosPerGib = uint64(known.Median)
		m.NetworkCpuNanosPerGibLeast, m.NetworkCpuNanosPerGibMost = uint64(known.Least), uint64(known.Most)
		m.NetworkRuns = uint32(known.Runs)
		m.Network.Calibrated = true
		m.Network.AcknowledgementPicos = uint64(math.Round(known.Acknowledgement * 1e12))
		m.Network.SegmentPicos = uint64(math.Round(known.Segment * 1e12))
		m.Network.ReceivedNanosPerGib = uint64(math.Round(known.Byte * (1 << 30) * 1e9))
	}
	return err
}

// Accelerator is a verdict as it is reported.
func Accelerator(v hardware.Verdict) *wirev1.AcceleratorMeasurement {
	states := map[hardware.State]wirev1.AcceleratorState{
		hardware.Absent:   wirev1.AcceleratorState_ACCELERATOR_STATE_ABSENT,
		hardware.NotUsed:  wirev1.AcceleratorState_ACCELERATOR_STATE_NOT_USED,
		hardware.Verified: wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED,
	}
	return &wirev1.AcceleratorMeasurement{
		State:              states[v.State],
		Reason:             string(v.Reason),
		Message:            v.Message,
		SlowerThanSoftware: v.SlowerThanSoftware,
		InflateMinSize:     inflateMinSize(v),
	}
}

// GetProfile implements wirev1.NodeAgentServer.
func (p *Profiler) GetProfile(_ context.Context, q *wirev1.GetProfileRequest) (*wirev1.GetProfileResponse, error) {
	if p.options.Shares != nil && q.GetWeights() != nil {
		p.options.Shares.SetWeights(q.GetWeights().GetNamespaces())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.measured == nil {
		return nil, status.Error(codes.Unavailable, "the first measurement has not ended")
	}
	measured := proto.CloneOf(p.measured)
	measured.AcceleratorUse = p.use()
	return &wirev1.GetProfileResponse{Measurement: measured}, nil
}

// inflateMinSize is 0 for an accelerator that inflates nothing, as for one that inflates everything.
func inflateMinSize(v hardware.Verdict) uint64 {
	if v.InflateMinSize == hardware.NeverInflate {
		return 0
	}
	return uint64(max(v.InflateMinSize, 0))
}
