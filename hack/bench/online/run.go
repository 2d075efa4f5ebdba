// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package online

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/windows"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/transfer"
	"github.com/lighterage/lighterage/test/corpus"
)

// dayLimit is the bandwidthLimit of the window by day.
const dayLimit = "5Mi"

var (
	night = v1alpha1.ScheduleWindow{Start: "20:00", End: "06:00"}
	day   = v1alpha1.ScheduleWindow{Start: "06:00", End: "20:00", BandwidthLimit: ptr.To(resource.MustParse(dayLimit))}
	// all have a run at all times, slowly by day; nights by night alone.
	all, nights = []v1alpha1.ScheduleWindow{day, night}, []v1alpha1.ScheduleWindow{night}
)

// state is what load is made beside: a run that its windows see at an hour, or none.
type state struct {
	name, text  string
	windows     []v1alpha1.ScheduleWindow // nil: there is no run
	hour        int
	compression *wirev1.CompressionSettings
	// endpoint is what its pod requests, in thousandths of a CPU; 0: as all agents.
	endpoint int
}

// Names of states.
const (
	alone, atNight, byDay, byDayHigh, paused = "alone", "night", "day", "day-high", "paused"
	atNightSized, byDaySized                 = "night-sized", "day-sized"
)

// sized is a whole CPU, as an endpoint has it that is to come before runs.
const sized, sizedText = 1000, ", endpoint requests 1 CPU"

var states = []state{
	{name: alone, text: "no run"},
	{name: atNight, text: "at night, no limit", windows: all, hour: 23, compression: fast},
	{
		name: atNightSized, text: "at night, no limit" + sizedText, windows: all, hour: 23, compression: fast,
		endpoint: sized,
	},
	{name: byDay, text: "by day, " + dayLimit, windows: all, hour: 12, compression: fast},
	{
		name: byDaySized, text: "by day, " + dayLimit + sizedText, windows: all, hour: 12, compression: fast,
		endpoint: sized,
	},
	{name: byDayHigh, text: "by day, " + dayLimit + ", level High", windows: all, hour: 12, compression: high},
	{name: paused, text: "outside of all windows", windows: nights, hour: 12, compression: fast},
}

var (
	// fast compresses each block on all cores.
	fast = &wirev1.CompressionSettings{
		Mode: wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS, Codecs: []string{"zstd"},
		Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
	}
	// high may spend all CPU time that saves bytes on a slow network.
	high = &wirev1.CompressionSettings{
		Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Codecs: []string{"zstd"},
		Level:     wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH,
		Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_ELAPSED,
	}
)

// fileSize of the files of the tree.
const fileSize = 64 << 20

// makeTree makes what runs move.
func (b *bench) makeTree() error {
	kind, found := corpus.ByName("csv")
	if !found {
		return errors.New("there is no such data")
	}
	b.source = filepath.Join(b.work, "source")
	if err := os.Mkdir(b.source, 0o755); err != nil {
		return err
	}
	data := kind.Generate(fileSize)
	for i := range b.size / fileSize {
		if err := os.WriteFile(filepath.Join(b.source, fmt.Sprintf("%04d", i)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// run is that of a Transfer; without a pair there is none.
type run struct {
	*transfer.Pair
	sender  *harness.Process
	manager agentclient.Agents
	target  agentclient.Target
	paused  bool
	dirs    []string
}

// begin starts a run, and does with it what the manager does when the windows have come to the hour of a state. What it
// returns has to end, also with an error.
func (b *bench) begin(ctx context.Context, s state) (r *run, err error) {
	r = &run{}
	if s.windows == nil {
		return r, nil
	}
	destination, dir := filepath.Join(b.work, "destination"), filepath.Join(b.work, "pair")
	r.dirs = []string{destination, dir}
	if err := errors.Join(os.Mkdir(destination, 0o755), os.Mkdir(dir, 0o755)); err != nil {
		return r, fmt.Errorf("make a directory for a run: %w", err)
	}
	if r.Pair, err = transfer.NewPair(ctx, dir, b.agent, b.source, destination, s.compression); err != nil {
		return r, fmt.Errorf("start the receiver: %w", err)
	}
	if r.manager, r.target, err = r.Manager(); err != nil {
		return r, err
	}
	if r.sender, err = r.Begin(ctx); err != nil {
		return r, err
	}
	if err := errors.Join(
		b.pods.put("receiver", r.Receiver()), b.pods.put("sender", r.sender.PID()), r.awaitData(ctx),
	); err != nil {
		return r, err
	}
	return r, r.follow(ctx, s)
}

// awaitData waits until the first bytes have been moved.
func (r *run) awaitData(ctx context.Context) error {
	const patience = 30 * time.Second
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		report, err := r.manager.Report(ctx, r.target)
		if err == nil && report.GetCompression().GetUncompressedBytes() > 0 {
			return nil
		}
		if time.Since(begin) > patience {
			return errors.Join(errors.New("the run moves nothing"), err)
		}
	}
}

// says is what the windows of a state say at its hour: whether a run may be under way, and the limit; 0: none.
func (s state) says() (open bool, limit int64, err error) {
	w, err := windows.New(s.windows, time.UTC)
	if err != nil {
		return false, 0, err
	}
	now := time.Date(2026, time.January, 5, s.hour, 0, 0, 0, time.UTC)
	open, _ = w.At(now)
	limit, _ = w.Limit(now)
	return open, limit, nil
}

// follow tells the sender what the windows of a state say.
func (r *run) follow(ctx context.Context, s state) error {
	open, limit, err := s.says()
	if err != nil {
		return err
	}
	if open {
		return r.manager.Limit(ctx, r.target, uint64(limit)) //nolint:gosec // it is not below 0
	}
	if err := r.manager.Pause(ctx, r.target); err != nil {
		return err
	}
	r.paused = true
	const patience = 10 * time.Second
	for _, ended := range []<-chan struct{}{r.sender.Ended(), r.Ended()} {
		select {
		case <-ended:
		case <-time.After(patience):
			return errors.New("an agent of a run that was paused has not ended")
		}
	}
	return nil
}

// figures of a run at a time.
type figures struct {
	at          time.Time
	cpu         time.Duration
	plain, wire float64
}

// look fails when the run is over that should be under way.
func (r *run) look(ctx context.Context) (figures, error) {
	if r.Pair == nil || r.paused {
		return figures{at: time.Now()}, nil
	}
	report, err := r.manager.Report(ctx, r.target)
	if err != nil {
		return figures{}, fmt.Errorf("ask the sender, which ends when the tree is too small for a turn: %w", err)
	}
	f := figures{
		at: time.Now(), plain: float64(report.GetCompression().GetUncompressedBytes()), wire: float64(report.GetWireBytes()),
	}
	for _, pid := range []harness.PID{r.sender.PID(), r.Receiver()} {
		spent, err := pid.CPU()
		if err != nil {
			return figures{}, err
		}
		f.cpu += spent
	}
	return f, nil
}

// end waits for what the context has ended, and removes what the run has made.
func (r *run) end() error {
	if r.sender != nil {
		<-r.sender.Ended()
	}
	if r.Pair != nil {
		<-r.Ended()
	}
	var errs []error
	for _, dir := range r.dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}
