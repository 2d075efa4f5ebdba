// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"regexp"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/control"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/wire/datapath"
	"github.com/lighterage/lighterage/agent/wire/tunnel"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// severalMemory is transferMemory for a sender with several receivers, which has a spool, a walk that is kept, and
	// blocks of receivers that take nothing (see package send).
	severalMemory = transferMemory + 160<<20
	// hearing is how long such an agent waits at its end until the manager has asked for all reports: not all figures of
	// many receivers fit into a termination message.
	hearing = 30 * time.Second
)

// receiverName is what the name of a receiver is like; names of files begin with it.
var receiverName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// receiver is one of several. It is a control.Reporter.
type receiver struct {
	config *wirev1.SendConfig
	// resolved is how what it gets is compressed: as all of them, but for the form in which files rest.
	resolved compression.Settings
	files    *transport.Files
	report   *send.Report
	place    *send.Place
	pace     *transport.Pace

	ended   atomic.Bool
	heard   chan struct{} // closed when the manager has asked for the report after that
	hearing sync.Once
}

// Report implements control.Reporter.
func (r *receiver) Report() *wirev1.Report {
	ended := r.ended.Load()
	report := r.report.Report()
	if ended {
		r.hearing.Do(func() { close(r.heard) })
	}
	return report
}

// end completes the report. All that was spent until now is booked.
func (r *receiver) end(err error) {
	r.place.Leave()
	r.report.End(err)
	r.ended.Store(true)
}

// sendToSeveral sends to receivers that have an attempt each. What they have in common is in package send, Fan.
func (a *agent) sendToSeveral(ctx context.Context, c *wirev1.SendConfig) error {
	err := required("volume", c.GetVolume(), "path", c.GetPath(), "control_address", c.GetControlAddress())
	if err != nil {
		return err
	}
	if err := ofClaim(c.GetVolume()); err != nil {
		return err
	}
	receivers, names, err := a.receivers(c)
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(min(a.memory, severalMemory))
	start := time.Now()
	stop, err := a.serveReceivers(c.GetControlAddress(), receivers)
	if err != nil {
		return err
	}
	defer stop()

	walked, err := openSource(c, engines.Default)
	if err != nil {
		for _, r := range receivers {
			r.report.End(err)
			r.ended.Store(true)
		}
		return a.endSeveral(ctx, start, names, receivers, err)
	}
	defer walked.Close()
	//nolint:contextcheck // The walk is of all attempts, and ends when the last of them has left.
	places, err := send.NewFan(send.FanOptions{Source: walked}, names...)
	if err != nil {
		return badConfig("receivers: %w", err)
	}
	compress := byForm(receivers, func(c compression.Settings) encoders { return a.encoders(ctx, c) })
	for _, measure := range compress {
		go measure()
	}
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		r := receivers[name]
		r.place = places[i]
		all.Go(func() {
			err := a.sendToOne(ctx, r, func(source send.Source) send.Options {
				options := sendOptions(r.config, source, compress[r.config.GetForm()](), r.resolved, r.report)
				options.Pace = r.pace.BytesPerSecond
				return options
			})
			r.end(err)
			a.logMessage("Report of a receiver", name, r.report.Report())
			if err != nil {
				errs[i] = fmt.Errorf("receiver %s: %w", name, err)
			}
		})
	}
	all.Wait()
	var failed error
	n := 0
	for _, err := range errs {
		if err != nil {
			failed = cmp.Or(failed, err)
			n++
		}
	}
	if n > 1 {
		failed = fmt.Errorf("%d of %d receivers, the first is %w", n, len(names), failed)
	}
	return a.endSeveral(ctx, start, names, receivers, failed)
}

// byForm are the encoders of receivers by their forms, each as measure finds them when they are first asked for. It
// looks at one form after the other: two at a time would measure each other.
func byForm(
	receivers map[string]*receiver, measure func(compression.Settings) encoders,
) map[wirev1.Form]func() encoders {
	all := make(map[wirev1.Form]func() encoders)
	var measuring sync.Mutex
	for _, r := range receivers {
		if form := r.config.GetForm(); all[form] == nil {
			all[form] = sync.OnceValue(func() encoders {
				measuring.Lock()
				defer measuring.Unlock()
				return measure(r.resolved)
			})
		}
	}
	return all
}

func (a *agent) sendToOne(ctx context.Context, r *receiver, with func(send.Source) send.Options) error {
	// What an attempt leaves out is its own.
	source, err := openSource(r.config, engines.Default)
	if err != nil {
		return err
	}
	defer source.Close()
	dialer := &transport.Dialer{
		Address: cmp.Or(r.config.GetReceiverEndpoint(), r.config.GetGatewayEndpoint()), Files: r.files,
		Counter: &r.report.Wire, Pace: r.pace,
		Connect: tunnel.Through(r.report.Paths.DialContext, r.config.GetGatewayTunnel(), r.files.Certificate),
	}
	return a.sendBy(ctx, r.config, dialer, send.DefaultBackoff, r.report, func() send.Options {
		options := with(source)
		options.Place = r.place
		return options
	})
}

// receivers are those of the configuration, by name, and their names in its order.
func (a *agent) receivers(c *wirev1.SendConfig) (map[string]*receiver, []string, error) {
	if len(c.GetReceivers()) > send.MaxReceivers {
		return nil, nil, badConfig("%d receivers; %d is the limit", len(c.GetReceivers()), send.MaxReceivers)
	}
	all := make(map[string]*receiver, len(c.GetReceivers()))
	var names []string
	for _, one := range c.GetReceivers() {
		name := one.GetName()
		if !receiverName.MatchString(name) || all[name] != nil {
			return nil, nil, badConfig("receiver %q is no name of a receiver, or that of two", name)
		}
		config := proto.CloneOf(c)
		config.Receivers = nil
		config.RunId, config.Attempt, config.Destination = one.GetRunId(), one.GetAttempt(), one.GetDestination()
		config.GatewayEndpoint, config.ReceiverEndpoint = one.GetGatewayEndpoint(), one.GetReceiverEndpoint()
		config.ReceiverServerName, config.BandwidthLimit = one.GetReceiverServerName(), one.GetBandwidthLimit()
		config.GatewayTunnel, config.Form = one.GetGatewayTunnel(), one.GetForm()
		err := required("run_id", config.GetRunId())
		if err == nil {
			err = reachable(config)
		}
		r := &receiver{
			config: config, files: transport.NewReceiverFiles(a.configDir, name), report: send.NewReport(),
			heard: make(chan struct{}),
		}
		if err == nil {
			r.pace, err = paceOf(config)
		}
		if err == nil {
			r.resolved, err = settingsOf(config)
		}
		if err != nil {
			return nil, nil, badConfig("receiver %s: %w", name, err)
		}
		r.report.Paths.Try = datapath.Path(config.GetDataPath())
		all[name] = r
		names = append(names, name)
	}
	return all, names, nil
}

// serveReceivers answers the manager's questions about receivers, each under the name of its certificate.
func (a *agent) serveReceivers(address string, receivers map[string]*receiver) (stop func(), err error) {
	served := make(map[string]*receiver, len(receivers))
	for name, r := range receivers {
		certificate, err := r.files.Certificate()
		if err != nil {
			return nil, badConfig("receiver %s: %w", name, err)
		}
		for _, serverName := range certificate.Leaf.DNSNames {
			served[serverName] = r
		}
	}
	server := transport.NewControlServers(func(serverName string) *transport.Files {
		if r := served[serverName]; r != nil {
			return r.files
		}
		return nil
	})
	wirev1.RegisterAgentServer(server, control.NewServerOf(func(ctx context.Context) control.Options {
		r := served[transport.ServerName(ctx)] // nobody else's call gets here
		return control.Options{Reporter: r, Limit: r.pace.Set}
	}))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, badConfig("listen for the manager: %w", err)
	}
	// The manager asks about each over a connection of its own.
	return a.serve(server, transport.Listen(listener, nil, maxControlConns+2*len(receivers))), nil
}

// endSeveral leaves the reports of all receivers for the manager, and waits until it has asked for them.
func (a *agent) endSeveral(
	ctx context.Context, start time.Time, names []string, receivers map[string]*receiver, err error,
) error {
	final := &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Version: wirev1.Version, Architecture: runtime.GOARCH,
		StartTime: timestamppb.New(start), EndTime: timestamppb.Now(), Receivers: map[string][]byte{},
	}
	if err != nil {
		final.State, final.Failure = wirev1.AgentState_AGENT_STATE_FAILED, failure.ToWire(err)
	}
	for name, r := range receivers {
		encoded, encodeErr := proto.Marshal(r.report.Report())
		if encodeErr == nil {
			final.Receivers[name] = encoded
		}
	}
	if a.terminationLog != "" {
		if writeErr := control.WriteTermination(a.terminationLog, final); writeErr != nil {
			a.log.Error("Final reports cannot be left", "error", writeErr.Error())
		}
	}
	patience := time.NewTimer(hearing)
	defer patience.Stop()
	for _, name := range names {
		select {
		case <-receivers[name].heard:
		case <-patience.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
	return err
}
