// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package dfltcc_test

import (
	"log/slog"
	"math"
	"net"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/share"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/test/dfltcc"
)

// delay is how long an execution of the instruction takes by the clock of the test.
const delay = 2 * time.Millisecond

// delayed is the engine of the instruction for one agent, with the time that it was in calls.
type delayed struct {
	codec.Engine
	spent time.Duration
}

func (d *delayed) NewEncoder(level codec.Level) (codec.Encoder, error) {
	e, err := d.Engine.NewEncoder(level)
	return &delayedEncoder{e, d}, err
}

type delayedEncoder struct {
	codec.Encoder
	engine *delayed
}

// Encode counts the executions of the instruction that it takes.
func (e *delayedEncoder) Encode(dst, src []byte) (int, error) {
	before := dfltcc.Calls(dfltcc.Compress)
	n, err := e.Encoder.Encode(dst, src)
	e.engine.spent += time.Duration(dfltcc.Calls(dfltcc.Compress)-before) * delay
	return n, err
}

func (e *delayedEncoder) UsedHardware() bool { return e.Encoder.(codec.Witness).UsedHardware() }

// TestShares: agents that compress by the instruction, each execution of which takes a given time by a clock of the
// test, have what the weights of their namespaces say, within a tenth, and what is reserved is left alone.
func TestShares(t *testing.T) {
	model(t, 1000, "")
	engine, verdict := hardware.Find(t.Context())
	if engine == nil {
		t.Fatalf("the model is not found: %v", verdict)
	}
	now := time.Unix(1e9, 0)
	clock := func() time.Time { return now } // the broker reads it while an agent waits for its answer
	authority := transporttest.NewAuthority(t, "east")
	broker, err := share.NewBroker(share.BrokerOptions{
		ReservedPercent: 10, Now: clock, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	broker.SetWeights(map[string]uint32{"bank": 300, "shop": 200})
	directory := authority.Directory(t, authority, "/node-agent", transport.NodeServerName)
	server := transport.NewShareServer(transport.NewFiles(directory))
	wirev1.RegisterAcceleratorSharesServer(server, broker)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	type agent struct {
		engine  *delayed
		account *share.Account
		client  wirev1.AcceleratorSharesClient
		encoder *frame.Encoder
	}
	var agents []*agent
	for _, path := range []string{"/ns/bank/transfer/a", "/ns/shop/queue/b", "/ns/web/httpendpoint/c"} {
		a := &agent{engine: &delayed{Engine: engine}}
		a.account = share.NewAccount(func() time.Duration { return a.engine.spent }, clock)
		dialer := &transport.Dialer{
			Address: listener.Addr().String(), Files: transport.NewFiles(authority.Directory(t, authority, path, "")),
		}
		conn, err := dialer.DialOwn(transport.NodeServerName)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		a.client = wirev1.NewAcceleratorSharesClient(conn)
		a.encoder, err = frame.NewEncoder(frame.EncoderOptions{
			Engines: codec.NewRegistry(share.Engine(a.engine, a.account), goflate.New()), Codec: codec.Deflate,
			Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.encoder.Close() })
		agents = append(agents, a)
	}

	const seconds, step = 6, 20 * time.Millisecond
	block := plain(3000)
	begun := make([]time.Duration, len(agents))
	for second := range seconds {
		for i, a := range agents {
			if err := share.Draw(t.Context(), a.account, a.client); err != nil {
				t.Fatal(err)
			}
			if second == 1 {
				begun[i] = a.engine.spent
			}
		}
		for range int(time.Second / step) {
			for _, a := range agents {
				for range 2 { // more than anybody's share
					_, o, err := a.encoder.Append(nil, block, false)
					if err != nil {
						t.Fatal(err)
					}
					if want := map[meter.Path]policy.Reason{
						meter.Hardware: policy.HardwareUsed, meter.Software: policy.AcceleratorShare,
					}[o.Path]; o.Reason != want {
						t.Fatalf("%+v", o)
					}
				}
			}
			now = now.Add(step)
		}
	}
	for i, want := range []float64{0.45, 0.30, 0.15} {
		got := (agents[i].engine.spent - begun[i]).Seconds() / (seconds - 1)
		if math.Abs(got-want) > 0.1*want {
			t.Errorf("agent %d has %v of the accelerator, want %v", i, got, want)
		}
	}
}
