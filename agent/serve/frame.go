// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serve is the frame of agents that serve clients: they follow their configuration and their certificate,
// answer health checks, report what they spent, and drain at the end.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/certificates"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// defaultInterval is how often configuration and certificate are looked at.
	defaultInterval = 2 * time.Second
	// defaultDrain is how long clients have after the end if the configuration does not say.
	defaultDrain = 30 * time.Second
)

// Engines finds those to compress with, and what is known of the accelerator.
type Engines func(context.Context, compression.Settings) (*codec.Registry, policy.Accelerator)

// Config is what the configurations of all agents that serve have.
type Config interface {
	proto.Message
	GetRevision() string
	// GetGeneration is higher the later the manager wrote the configuration; 0: one of an earlier release did.
	GetGeneration() uint64
	GetResetStatistics() string
	GetDrainTimeout() *durationpb.Duration
}

// Options of a Frame.
type Options[C Config] struct {
	// Read returns the configuration as it is now.
	Read func() (C, error)
	// Interval at which configuration and certificate are looked at. Default 2 s.
	Interval time.Duration
	Log      *slog.Logger
}

// Frame is the frame of one agent. It is safe for concurrent use.
type Frame[C Config] struct {
	Options[C]
	started      time.Time
	certificates atomic.Pointer[certificates.Serving]
	idle         meter.Idleness
	offers       chan offer[C]

	mu          sync.Mutex
	config      C // that is in effect
	rejected    C // that cannot be used, as configError says; nil: none
	configError string
	following   <-chan struct{} // closed when Follow ends; nil before it begins
	reset       string
	cpuBase     time.Duration // of the process at the last reset
}

// New returns the frame of an agent that starts now.
func New[C Config](o Options[C]) *Frame[C] {
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	return &Frame[C]{Options: o, started: time.Now(), offers: make(chan offer[C])}
}

// Begin notes the configuration that the agent starts with.
func (f *Frame[C]) Begin(c C) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.config, f.reset = c, c.GetResetStatistics()
}

// Config returns the configuration that is in effect.
func (f *Frame[C]) Config() C {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.config
}

// Certificate returns the pair in a directory as soon as there is one, and follows its files until the context ends. It
// is nil if the context ends before.
func (f *Frame[C]) Certificate(ctx context.Context, directory string) *certificates.Serving {
	serving := certificates.Read(directory)
	f.certificates.Store(serving)
	go serving.Run(ctx, f.Interval, f.Log)
	if !serving.Await(ctx, f.Interval/4, f.Log) {
		return nil
	}
	return serving
}

// Drain has end finish what is under way, for which the configuration says how long it may take. What had to be
// disconnected after that is a matter of the log, not a failure.
func (f *Frame[C]) Drain(end func(ctx context.Context, patience time.Duration) error) error {
	patience := f.Config().GetDrainTimeout().AsDuration()
	if patience == 0 {
		patience = defaultDrain
	}
	f.Log.Info("Agent drains", "timeout", patience.String())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := end(ctx, patience); errors.Is(err, context.DeadlineExceeded) {
		f.Log.Warn("Clients that took too long were disconnected", "timeout", patience.String())
	} else if err != nil {
		return fmt.Errorf("end serving clients: %w", err)
	}
	return nil
}

// Status is what reports say of every agent that serves.
type Status struct {
	StartTime   *timestamppb.Timestamp
	Revision    string
	ConfigError string
	// Configuration has the generations of both.
	Configuration *wirev1.ConfigurationState
	Certificate   *wirev1.HTTPCertificate
}

// Status returns what there is to say now.
func (f *Frame[C]) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Status{
		StartTime: timestamppb.New(f.started), Revision: f.config.GetRevision(), ConfigError: f.configError,
		Configuration: &wirev1.ConfigurationState{
			Generation: f.config.GetGeneration(), Rejected: f.rejected.GetGeneration(),
		},
		Certificate: f.certificates.Load().Report(),
	}
}

// CPU is what the process has spent since the last reset.
func (f *Frame[C]) CPU() *wirev1.CPU {
	f.mu.Lock()
	base := f.cpuBase
	f.mu.Unlock()
	cpu := &wirev1.CPU{AcceleratorNanos: uint64(hardware.CallTime())}
	if user, system, err := meter.ProcessCPU(); err == nil {
		cpu.SendNanos = uint64(max(user+system-base, 0))
		cpu.IdleNanos = min(uint64(f.idle.Spent()), cpu.GetSendNanos())
	}
	return cpu
}

// Report returns what a function reports that is told to which reset its counters belong. They are all from before a
// reset or all from after it: the manager adds up what they have grown by.
func Report[C Config, R any](f *Frame[C], report func(reset string) R) R {
	for {
		before := f.lastReset()
		r := report(before)
		if f.lastReset() == before {
			return r
		}
	}
}

func (f *Frame[C]) lastReset() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reset
}

// ErrNotServing is why an agent is not ready that starts or drains.
var ErrNotServing = errors.New("no connections of clients are taken")

// HealthHandler answers GET /livez, and GET /readyz with why the agent is not ready.
func HealthHandler(ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	return mux
}
