// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/control"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/handoff"
	"github.com/lighterage/lighterage/agent/longpath"
	"github.com/lighterage/lighterage/agent/node"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/wire/datapath"
	"github.com/lighterage/lighterage/agent/wire/tunnel"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// maxDataConns and maxControlConns bound the connections that are open at once, those without a finished handshake
	// included.
	maxDataConns    = 256
	maxControlConns = 64
	// stopPatience is how long a server may take to end the calls that are under way.
	stopPatience = 3 * time.Second
)

func (a *agent) send(ctx context.Context) error {
	var c wirev1.SendConfig
	if err := a.readConfig(&c); err != nil {
		return err
	}
	if len(c.GetReceivers()) > 0 {
		return a.sendToSeveral(ctx, &c)
	}
	if err := reachable(&c); err != nil {
		return err
	}
	pace, err := paceOf(&c)
	if err != nil {
		return err
	}
	report := send.NewReport()
	report.Paths.Try = datapath.Path(c.GetDataPath())
	return a.sendTo(ctx, &c, report, pace, func(_ context.Context, to *transport.Dialer) (*handoff.Offer, error) {
		to.Address = cmp.Or(c.GetReceiverEndpoint(), c.GetGatewayEndpoint())
		to.Counter, to.Pace = &report.Wire, pace
		to.Connect = tunnel.Through(report.Paths.DialContext, c.GetGatewayTunnel(), to.Files.Certificate)
		return nil, nil
	})
}

// reachable returns an error if the configuration does not say how the receiver is reached, and on what path.
func reachable(c *wirev1.SendConfig) error {
	if _, err := datapath.Parse(c.GetDataPath()); err != nil {
		return badConfig("data_path: %w", err)
	}
	if c.GetReceiverEndpoint() == "" {
		return required("gateway_endpoint or receiver_endpoint", c.GetGatewayEndpoint())
	}
	return required("receiver_server_name", c.GetReceiverServerName())
}

// sendTo sends at a pace to whom connect has the dialer reach, through an object store if it returns an offer.
func (a *agent) sendTo(
	ctx context.Context, c *wirev1.SendConfig, report *send.Report, pace *transport.Pace,
	connect func(context.Context, *transport.Dialer) (*handoff.Offer, error),
) error {
	err := required(
		"run_id", c.GetRunId(), "volume", c.GetVolume(), "path", c.GetPath(), "control_address", c.GetControlAddress(),
	)
	if err != nil {
		return err
	}
	if err := ofClaim(c.GetVolume()); err != nil { // Identities are no data, either.
		return err
	}
	resolved, err := settingsOf(c)
	if err != nil {
		return err
	}
	a.known = knownOn(node.ReadHost(), c.GetFigures())
	files := transport.NewFiles(a.configDir)
	stop, err := a.serveControl(files, c.GetControlAddress(), report, pace)
	if err != nil {
		return err
	}
	defer stop()

	err = func() error {
		archives := func() *codec.Registry { return a.decoders(ctx).registry }
		source, done, err := openAnySource(ctx, c, report, archives, engines.Default)
		if err != nil {
			return err
		}
		defer done()
		// The engines are tried while the receiver starts.
		compress := sync.OnceValue(func() encoders { return a.encoders(ctx, resolved) })
		go compress()
		dialer := &transport.Dialer{Files: files}
		offer, err := connect(ctx, dialer)
		if err != nil {
			return err
		}
		ctx, done := a.whileOffered(ctx, offer)
		defer done()
		backoff := send.DefaultBackoff
		if offer != nil {
			backoff = handOffBackoff
		}
		return because(offer, a.sendBy(ctx, c, dialer, backoff, report, func() send.Options {
			options := sendOptions(c, source, compress(), resolved, report)
			options.Pace = pace.BytesPerSecond
			return options
		}))
	}()
	return a.end(report, err)
}

// sendBy opens the run, where a gateway has to, and sends to whom the dialer reaches.
func (a *agent) sendBy(
	ctx context.Context, c *wirev1.SendConfig, dialer *transport.Dialer, backoff send.Backoff, report *send.Report,
	with func() send.Options,
) error {
	dialer.Adapted = report.SetPath
	name, version := c.GetReceiverServerName(), uint32(wirev1.ProtocolVersion)
	if c.GetReceiverEndpoint() == "" {
		var err error
		if name, version, err = a.open(ctx, c, dialer, report, backoff); err != nil {
			return err
		}
	}
	options := with()
	options.Streams = streamsOver(report.Path(), c, options.Streams)
	options.Dial = func() (send.Conn, error) { return dialer.Dial(name) }
	options.DialBlocks = func(ctx context.Context) (net.Conn, error) { return dialer.DialBlocks(ctx, name) }
	if report.Path().Long() {
		dialer.Eager = true
		options.DialEarly = func(ctx context.Context) (net.Conn, error) { return dialer.DialEarly(ctx, name) }
	}
	options.Direct = c.GetReceiverEndpoint() != ""
	options.ProtocolVersion = version
	return send.Run(ctx, options)
}

// paceOf returns how fast a sender may write at first.
func paceOf(c *wirev1.SendConfig) (*transport.Pace, error) {
	pace, err := transport.NewPace(c.GetBandwidthLimit())
	if err != nil {
		return nil, badConfig("bandwidth_limit: %w", err)
	}
	return pace, nil
}

// streamsOf returns how many connections are to carry blocks.
func streamsOf(c *wirev1.SendConfig) int {
	n := uint32(runtime.GOMAXPROCS(0))
	if asked := c.GetStreams(); asked != 0 {
		n = asked
	}
	return int(min(n, protocol.MaxStreams))
}

// streamsOver returns how many connections are to carry blocks over a path, where others than those of long paths would
// be so many.
func streamsOver(path longpath.Path, c *wirev1.SendConfig, others int) int {
	if c.GetStreams() == 0 && path.Long() {
		return max(others, longpath.Streams)
	}
	return others
}

// volume is a source that is open.
type volume interface {
	send.Source
	io.Closer
}

// openSource returns what is to be moved. inflate has the engines for files in a form, where these are expanded here.
func openSource(c *wirev1.SendConfig, inflate func() *codec.Registry) (volume, error) {
	if c.GetBlock() { // As an image it has a form: see openImage.
		if c.GetForm() != wirev1.Form_FORM_UNSPECIFIED || c.GetSourceForm() != wirev1.Form_FORM_UNSPECIFIED {
			return nil, badConfig("a block volume has no form")
		}
		return tree.OpenDeviceSource(c.GetVolume())
	}
	patterns, err := filter.New(c.GetInclude(), c.GetExclude())
	if err != nil {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_FILTER, "spec.%w", err)
	}
	source, err := tree.OpenSource(c.GetVolume(), c.GetPath())
	if err != nil {
		return nil, err
	}
	source.SetFilter(patterns)
	if form, err := protocol.FormOf(c.GetSourceForm()); err != nil {
		return nil, errors.Join(err, source.Close())
	} else if form != 0 {
		source.SetForm(form, inflate())
	}
	return source, nil
}

// openDestination opens the volume that is written.
func openDestination(c *wirev1.ReceiveConfig) (receive.Destination, error) {
	if c.GetBlock() {
		d, err := tree.OpenDeviceDestination(c.GetVolume())
		return receive.Device{DeviceDestination: d}, err
	}
	d, err := tree.OpenDestination(c.GetVolume(), c.GetPath(), c.GetRunId(), c.GetAttempt())
	return receive.Tree{Destination: d}, err
}

// mirror is what to ask of the receiver; nil if what else is at the destination is to stay.
func mirror(c *wirev1.SendConfig) *wirev1.Mirror {
	if !c.GetMirror() {
		return nil
	}
	return &wirev1.Mirror{Include: c.GetInclude(), Exclude: c.GetExclude(), AllowEmptySource: c.GetAllowEmptySource()}
}

// open opens the run at the peer's gateway and returns the TLS server name of the receiving agent, and the version of
// the protocol in which to speak to it.
func (a *agent) open(
	ctx context.Context, c *wirev1.SendConfig, dialer *transport.Dialer, report *send.Report, backoff send.Backoff,
) (name string, version uint32, err error) {
	// What it takes to open a run is nobody's data.
	quiet := *dialer
	quiet.Counter, quiet.Pace, quiet.Eager = nil, nil, true
	gateway, err := quiet.Dial(transport.GatewayServerName)
	if err != nil {
		return "", 0, badConfig("%w", err)
	}
	defer gateway.Close()
	request := &wirev1.OpenRequest{
		ProtocolVersion: wirev1.ProtocolVersion,
		RunId:           c.GetRunId(),
		Attempt:         c.GetAttempt(),
		Destination:     c.GetDestination(),
		Privileged:      c.GetPrivileged(),
		Mirror:          c.GetMirror(),
		Template:        c.GetTemplate(),
		Snapshot:        c.GetSnapshot(),
		Block:           proto.Bool(c.GetBlock()),
	}
	if name, err = send.Open(ctx, gateway, request, report, backoff); err != nil {
		return "", 0, err
	}
	a.log.Info("Receiving agent is ready", "serverName", name, "protocol", request.GetProtocolVersion())
	return name, request.GetProtocolVersion(), nil
}

// settingsOf returns how a sender compresses. The form in which files rest fixes the codec.
func settingsOf(c *wirev1.SendConfig) (compression.Settings, error) {
	if err := identitiesFit(c); err != nil {
		return compression.Settings{}, err
	}
	form, err := protocol.FormOf(c.GetForm())
	if err != nil {
		return compression.Settings{}, err
	}
	if _, err := protocol.RecordsOf(c.GetRecords(), form); err != nil {
		return compression.Settings{}, badConfig("%w", err)
	}
	resolved, err := compression.Read(c.GetCompression())
	if err != nil {
		return compression.Settings{}, badConfig("%w", err)
	}
	if form != 0 {
		resolved.Codecs = []codec.ID{form.Codec()}
	}
	return resolved, nil
}

// sendOptions are those of a sender but for how it reaches its receiver.
func sendOptions(
	c *wirev1.SendConfig, source send.Source, compress encoders, resolved compression.Settings, report *send.Report,
) send.Options {
	form, _ := protocol.FormOf(c.GetForm()) // settingsOf has checked it
	records, _ := protocol.RecordsOf(c.GetRecords(), form)
	sourceForm, _ := protocol.FormOf(c.GetSourceForm()) // openSource has; archives are none that travels
	return send.Options{
		RunID:              c.GetRunId(),
		Attempt:            c.GetAttempt(),
		Source:             source,
		Engines:            compress.registry,
		Accelerator:        compress.accelerator,
		Policy:             resolved.Policy,
		Codecs:             resolved.Codecs,
		Ways:               compress.plan.Ways,
		WayEngines:         compress.plan.Engines,
		Verify:             c.GetVerify(),
		Contents:           c.GetReceipt(),
		Form:               form,
		Records:            records,
		SourceForm:         sourceForm,
		Block:              c.GetBlock(),
		CheckpointInterval: int64(c.GetCheckpointInterval()),
		Mirror:             mirror(c),
		Streams:            streamsOf(c),
		Report:             report,
	}
}

func (a *agent) receive(ctx context.Context) error {
	var c wirev1.ReceiveConfig
	if err := a.readConfig(&c); err != nil {
		return err
	}
	err := required("run_id", c.GetRunId(), "sender_namespace", c.GetSenderNamespace(), "sender_name", c.GetSenderName(),
		"volume", c.GetVolume(), "path", c.GetPath(), "control_address", c.GetControlAddress(), "data_address",
		c.GetDataAddress())
	if err != nil {
		return err
	}
	a.known = knownOn(node.ReadHost(), c.GetFigures())
	files := transport.NewFiles(a.configDir)
	report := receive.NewReport()
	stop := func() {}
	defer func() { stop() }() // after the final report, for which the manager may be waiting

	err = func() error {
		destination, err := openDestination(&c)
		if err != nil {
			return err
		}
		defer destination.Close()
		inflate := a.decoders(ctx)
		report.SoftwareReason = inflate.software
		receiver := receive.New(receive.Options{
			RunID:        c.GetRunId(),
			Attempt:      c.GetAttempt(),
			Sender:       c.GetSenderNamespace() + "/" + c.GetSenderName(),
			Destination:  destination,
			Block:        c.GetBlock(),
			AllowDelete:  c.GetAllowDelete(),
			Engines:      inflate.registry,
			InflateRates: inflate.rates,
			Report:       report,
		})
		path, err := datapath.Parse(c.GetDataPath())
		if err != nil {
			return badConfig("data_path: %w", err)
		}
		listener, err := datapath.Listen(ctx, path, "tcp", c.GetDataAddress())
		if err != nil {
			return badConfig("listen for the sender: %w", err)
		}
		server := transport.NewDataServer(files, senderOf(&c), receiver.ServeBlocks)
		wirev1.RegisterReceiverServer(server, receiver)
		defer a.serve(server, transport.Listen(listener, &report.Wire, maxDataConns))()
		// The control port is what tells others that the agent is ready, so it comes last.
		stopControl, err := a.serveControl(files, c.GetControlAddress(), report, nil)
		if err != nil {
			return err
		}
		stop = stopControl
		return receiver.Wait(ctx)
	}()
	return a.end(report, err)
}

// senderOf is whom a receiving agent serves.
func senderOf(c *wirev1.ReceiveConfig) transport.Sender {
	sender := transport.Sender{Namespace: c.GetSenderNamespace(), Name: c.GetSenderName(), Run: c.GetRunId()}
	if c.GetRevokedBefore() > 0 {
		sender.RevokedBefore = time.Unix(c.GetRevokedBefore(), 0)
	}
	return sender
}

// ending is a report that can be completed.
type ending interface {
	control.Reporter
	End(err error)
}

// end completes the report and leaves it for the manager.
func (a *agent) end(report ending, err error) error {
	report.End(err)
	final := report.Report()
	a.logMessage("Final report", "report", final)
	if a.terminationLog == "" {
		return err
	}
	return errors.Join(err, control.WriteTermination(a.terminationLog, final))
}

// serveControl answers the manager, which may change the pace of an agent that has one. Questions that wait for the end
// are answered when it is stopped.
func (a *agent) serveControl(
	files *transport.Files, address string, reporter control.Reporter, pace *transport.Pace,
) (stop func(), err error) {
	server, ended := transport.NewControlServer(files), make(chan struct{})
	options := control.Options{Reporter: reporter, Pause: a.pause, Ended: ended}
	if pace != nil {
		options.Limit = pace.Set
	}
	wirev1.RegisterAgentServer(server, control.NewServer(options))
	stopServer, err := a.serveManager(server, address)
	if err != nil {
		return nil, err
	}
	return func() {
		close(ended)
		stopServer()
	}, nil
}

type server interface {
	Serve(net.Listener) error
	Stop()
	GracefulStop()
}

// serve runs a server until the function that it returns is called.
func (a *agent) serve(server server, listener net.Listener) (stop func()) {
	go func() {
		if err := server.Serve(listener); err != nil {
			a.log.Error("Server has ended", "address", listener.Addr().String(), "error", err.Error())
		}
	}()
	return func() {
		timer := time.AfterFunc(stopPatience, server.Stop)
		defer timer.Stop()
		server.GracefulStop()
	}
}

// logMessage logs a protocol buffer in its own JSON.
func (a *agent) logMessage(text, key string, m proto.Message) {
	b, err := protojson.Marshal(m)
	if err != nil {
		a.log.Error("Message cannot be logged", "error", err.Error())
		return
	}
	a.log.Info(text, key, json.RawMessage(b))
}
