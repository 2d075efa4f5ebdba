// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/network"
)

const (
	namespace, name = "bench", "tree"
	serverName      = "bench.receive.lighterage.internal"
)

// order is what the program asks of a role: of the receiver to be ready, of the sender to send.
type order struct {
	Run string
	// Of the sender: where the receiver is, what to send and how.
	Address, Source string
	Settings        policy.Settings
	Codec           codec.ID // of mode Always
}

// answer of the receiver first says where it is. At the end each says what it took.
type answer struct {
	Address string
	CPU     time.Duration
	// Of the sender.
	Elapsed time.Duration
	Bytes   uint64
	Choice  string
}

// role carries out orders. It may answer several times.
type role interface {
	do(ctx context.Context, o order) error
}

// serve is a process in a role.
func serve(ctx context.Context, make func(string) (role, error), dir string) error {
	r, err := make(dir)
	if err != nil {
		return err
	}
	return harness.Work(func(o order) error { return r.do(ctx, o) })
}

type receiver struct {
	dir   string
	file  *os.File
	codec *codec.Registry
	rates map[codec.ID]float64
}

func newReceiver(dir string) (role, error) {
	chosen := calibrate.Run(context.Background(), calibrate.Options{Engines: engines.All(), Inflate: true})
	rates := map[codec.ID]float64{}
	for _, choice := range chosen.Inflate {
		for _, f := range choice.Figures {
			if f.Engine == choice.Engine && f.Err == nil {
				rates[choice.Codec] = f.BytesPerSecond
			}
		}
	}
	file, err := openKept(filepath.Join(dir, "file"))
	if err != nil {
		return nil, err
	}
	return &receiver{dir: dir, file: file, codec: chosen.Decode, rates: rates}, nil
}

func (r *receiver) do(ctx context.Context, o order) error {
	to := filepath.Join(r.dir, "destination")
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("empty the destination: %w", err)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return fmt.Errorf("make the destination: %w", err)
	}
	destination, err := tree.OpenDestination(to, ".", o.Run, 1)
	if err != nil {
		return err
	}
	report := receive.NewReport()
	receiver := receive.New(receive.Options{
		RunID: o.Run, Attempt: 1, Sender: namespace + "/" + name,
		Destination: kept{receive.Tree{Destination: destination}, r.file},
		Engines:     r.codec, InflateRates: r.rates, Report: report,
	})
	listener, err := net.Listen("tcp", network.ReceiverAddress(prefix)+":0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := transport.NewDataServer(
		transport.NewFiles(r.dir), transport.Sender{Namespace: namespace, Name: name}, receiver.ServeBlocks,
	)
	wirev1.RegisterReceiverServer(server, receiver)
	//nolint:contextcheck // a server has none
	go func() {
		_ = server.Serve(transport.Listen(listener, &report.Wire, 64))
	}()
	// The sender gets the last word before the connection goes.
	defer func() {
		timer := time.AfterFunc(3*time.Second, server.Stop)
		defer timer.Stop()
		server.GracefulStop()
	}()
	runtime.GC()
	before := processCPU()
	harness.Answer(answer{Address: listener.Addr().String()})
	if err := receiver.Wait(ctx); err != nil {
		return err
	}
	harness.Answer(answer{CPU: processCPU() - before})
	return nil
}

type sender struct {
	dir  string
	plan calibrate.Plan
}

func newSender(dir string) (role, error) {
	plan := calibrate.Ways(context.Background(), calibrate.Options{
		Engines: engines.All(), Level: codec.High, Codecs: []codec.ID{codec.Deflate, codec.Zstd},
	})
	return &sender{dir: dir, plan: plan}, nil
}

func (s *sender) do(ctx context.Context, o order) error {
	source, err := tree.OpenSource(o.Source, ".")
	if err != nil {
		return err
	}
	defer source.Close()
	report := send.NewReport()
	dialer := &transport.Dialer{Address: o.Address, Files: transport.NewFiles(s.dir), Counter: &report.Wire}
	options := send.Options{
		RunID: o.Run, Attempt: 1, Source: source, Engines: engines.Default(), Policy: o.Settings,
		Codecs:     []codec.ID{codec.Deflate, codec.Zstd},
		Dial:       func() (send.Conn, error) { return dialer.Dial(serverName) },
		DialBlocks: func(ctx context.Context) (net.Conn, error) { return dialer.DialBlocks(ctx, serverName) },
		Streams:    runtime.GOMAXPROCS(0), Report: report, Direct: true,
	}
	switch o.Settings.Mode {
	case policy.Auto:
		options.Ways, options.WayEngines = s.plan.Ways, s.plan.Engines
	case policy.Always:
		// The engine that Auto would use for it.
		engine := s.plan.Engines[policy.Option{Codec: o.Codec, Class: codec.Software, Level: o.Settings.Level}]
		options.Engines, options.Codecs = codec.NewRegistry(engine, identity.New()), []codec.ID{o.Codec}
	}
	runtime.GC()
	before, start := processCPU(), time.Now()
	if err := send.Run(ctx, options); err != nil {
		return err
	}
	elapsed := time.Since(start)
	c := report.Report().GetCompression()
	choice := c.GetCodec()
	if c.GetLevel() != "" {
		choice += " " + c.GetLevel()
	}
	if c.GetStored().GetBytes() > c.GetUncompressedBytes()/2 {
		choice = fmt.Sprintf("none (%s)", c.GetReason())
	}
	harness.Answer(answer{Elapsed: elapsed, CPU: processCPU() - before, Bytes: c.GetCompressedBytes(), Choice: choice})
	return nil
}

func processCPU() time.Duration {
	user, system, err := meter.ProcessCPU()
	if err != nil {
		return 0
	}
	return user + system
}
