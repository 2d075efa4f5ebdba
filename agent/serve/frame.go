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

	mu          sync.Mutex
	config      C // that is in effect
	configError string
	reset       string
	cpuBase     time.Duration // of the process at the last reset
}

// New returns the frame of an agent that starts now.
func New[C Config](o Options[C]) *Frame[C] {
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	return &Frame[C]{Options: o, started: time.Now()}
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

// Service is what the agent serves with.
type Service[C Config] struct {
	// Passed is a number that changes when the agent has said something to a client or heard of one.
	Passed func() uint64
	// Reload puts a configuration into effect in place of another. After an error that one stays.
	Reload          func(ctx context.Context, before, c C) error
	ResetStatistics func(now time.Time)
	// Look does what else is due from time to time; nil: nothing is.
	Look func(ctx context.Context, c C)
}

// Follow puts configurations into effect that have changed, until the context ends.
func (f *Frame[C]) Follow(ctx context.Context, s Service[C]) {
	ticker := time.NewTicker(f.Interval)
	defer ticker.Stop()
	var rejected, none C
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		f.idle.Look(s.Passed())
		before := f.Config()
		c, err := f.Read()
		switch {
		case err != nil:
			rejected = none
		case proto.Equal(c, before):
			f.Note(nil)
			rejected = none
		case proto.Equal(c, rejected): // what is wrong with it is noted
		default:
			if err = s.Reload(ctx, before, c); err != nil {
				rejected = c
				break
			}
			rejected = none
			f.adopt(c, s)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.Note(err)
		}
		if s.Look != nil {
			s.Look(ctx, f.Config())
		}
	}
}

// Note keeps why a configuration cannot be used, and logs it once; nil: the one in effect is the one to use.
func (f *Frame[C]) Note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.configError = ""
		return
	}
	if text := err.Error(); text != f.configError {
		f.configError = text
		f.Log.Error("New configuration cannot be used; the one before stays", "error", text)
	}
}

// adopt notes a configuration that is in effect, and resets the counters if it says so.
func (f *Frame[C]) adopt(c C, s Service[C]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.config, f.configError = c, ""
	reset := c.GetResetStatistics()
	if reset == f.reset {
		return
	}
	f.reset = reset
	s.ResetStatistics(time.Now())
	if user, system, err := meter.ProcessCPU(); err == nil {
		f.cpuBase = user + system
		f.idle.Reset()
	}
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
	Certificate *wirev1.HTTPCertificate
}

// Status returns what there is to say now.
func (f *Frame[C]) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Status{
		StartTime: timestamppb.New(f.started), Revision: f.config.GetRevision(), ConfigError: f.configError,
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
