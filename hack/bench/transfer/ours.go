// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/network"
)

const (
	namespace, transfer = "bench", "tree"
	serverName          = "00000000-0000-0000-0000-000000000001.receive.lighterage.internal"
	senderName          = "sender.send.lighterage.internal"
	// linkPort is where the gateway listens in a namespace of its own, and linkInner where the receiver does behind it.
	linkPort, linkInner = ":8443", "127.0.0.1:8444"
)

// ours runs both agents as they run in their pods, TLS on, with the gateway's own way of passing connections through
// between them.
func ours(name, agent string, verify bool, settings *wirev1.CompressionSettings) contender {
	return watched(name, agent, verify, settings, false)
}

// watched also follows how much memory the agents have, if it is told to, which takes CPU time.
func watched(name, agent string, verify bool, settings *wirev1.CompressionSettings, watch bool) contender {
	return contender{name, func(
		ctx context.Context, dir, source, destination string,
	) (func(context.Context) (moved, error), error) {
		b := &bench{dir: dir, agent: agent, watch: watch}
		return b.move, b.prepare(ctx, source, destination, verify, settings)
	}}
}

// bench is one pair of agents.
type bench struct {
	dir, agent string
	watch      bool
	direct     bool // without a gateway between the agents
	block      bool // devices in place of directories
	// attempt is the number of the attempt, 0: the first; interval that between checkpoints in bytes, 0: the default.
	attempt  uint32
	interval uint64
	// link is the network that the agents have between them; nil: loopback.
	link *network.Pair
	// benchmark has GatewayRole, if there is a link.
	benchmark string
	// via is the object store between the agents; nil: TCP.
	via             *wirev1.StoreEnd
	receiver, relay *harness.Process
	gateway         *harness.Process // with a link
	// ca is that of both clusters, and control where the sender listens for its manager.
	ca      *pki.CA
	control string
}

// sending is the mode of the sender.
func (b *bench) sending() string {
	if b.via != nil {
		return "handoff"
	}
	return "send"
}

func (b *bench) prepare(
	ctx context.Context, source, destination string, verify bool, settings *wirev1.CompressionSettings,
) error {
	now := time.Now()
	ca, _, err := pki.NewCA("bench", now)
	if err != nil {
		return fmt.Errorf("make a CA: %w", err)
	}
	b.ca = ca
	data, err1 := harness.FreeAddress()
	control, err2 := harness.FreeAddress()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	b.control = control
	if b.link != nil {
		data = linkInner
	}
	receive := &wirev1.ReceiveConfig{
		RunId: "bench", Attempt: max(b.attempt, 1), SenderNamespace: namespace, SenderName: transfer,
		Volume: destination, Path: ".", ControlAddress: "127.0.0.1:0", DataAddress: data, Block: b.block,
	}
	send := &wirev1.SendConfig{
		RunId: "bench", Attempt: max(b.attempt, 1), CheckpointInterval: b.interval,
		Destination: &wirev1.ClaimPath{Namespace: namespace, ClaimName: "copy", Path: "/"},
		Volume:      source, Path: ".", Verify: verify, ControlAddress: control,
		Compression: settings, Block: b.block,
	}
	if b.link != nil {
		send.GatewayEndpoint = b.link.Address() + linkPort
	} else if b.direct {
		send.ReceiverEndpoint, send.ReceiverServerName = data, serverName
	} else if send.GatewayEndpoint, err = serveGateway(ctx, ca, data); err != nil {
		return err
	}
	if err := b.configure(ca, "receive", receive, pki.Template{
		Identity: pki.DeliveryIdentity("bench", namespace, "copy"), DNSNames: []string{serverName},
	}); err != nil {
		return err
	}
	var sending proto.Message = send
	if b.via != nil {
		sending = &wirev1.HandOffConfig{Send: send, Via: b.via}
	}
	if err := b.configure(ca, b.sending(), sending, pki.Template{
		Identity: pki.TransferIdentity("bench", namespace, transfer), DNSNames: []string{senderName},
		Claims: &pki.RunClaims{
			Run: send.GetRunId(), Audience: []string{pki.Fingerprint(ca.Certificate)}, Namespace: namespace, Claim: "copy",
			Path: "/",
		},
	}); err != nil {
		return err
	}
	if b.link != nil {
		if b.receiver, err = b.link.StartListening(ctx, b.command(ctx, "receive"), data); err != nil {
			return err
		}
		return b.startGateway(ctx, ca, send.GetGatewayEndpoint(), data)
	}
	if b.receiver, err = harness.StartListening(ctx, b.command(ctx, "receive"), data); err != nil || b.via == nil {
		return err
	}
	return b.startRelay(ctx, ca, send.GetGatewayEndpoint())
}

func (b *bench) startRelay(ctx context.Context, ca *pki.CA, gateway string) error {
	err := b.configure(ca, "relay", &wirev1.RelayConfig{Store: b.via, GatewayAddress: gateway}, pki.Template{
		Identity: pki.Identity{Cluster: "bench", Path: "/ns/" + namespace + "/objectstore/store"},
		DNSNames: []string{"relay.objectstore.lighterage.internal"},
	})
	if err != nil {
		return err
	}
	b.relay, err = harness.Start(b.command(ctx, "relay"))
	return err
}

// serveGateway serves the gateway, which admits the one Transfer of the benchmark. It returns its address.
func serveGateway(ctx context.Context, ca *pki.CA, target string) (string, error) {
	pair, err := ca.Issue(pki.Template{
		Identity: pki.Identity{Cluster: "bench", Path: pki.GatewayPath}, DNSNames: []string{pki.GatewayServerName},
		Lifetime: time.Hour,
	}, time.Now())
	if err != nil {
		return "", fmt.Errorf("issue the gateway's certificate: %w", err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		return "", err
	}
	return agents.Gateway{
		Listen: "127.0.0.1:0", Certificate: certificate, Name: serverName, Target: target, Server: admitAll{},
	}.Serve(ctx)
}

// admitAll answers every Open as ready.
type admitAll struct {
	wirev1.UnimplementedGatewayServer
}

func (admitAll) Open(_ *wirev1.OpenRequest, stream grpc.ServerStreamingServer[wirev1.OpenResponse]) error {
	return stream.Send(
		&wirev1.OpenResponse{State: &wirev1.OpenResponse_Ready{Ready: &wirev1.OpenReady{ServerName: serverName}}},
	)
}

func (b *bench) configure(ca *pki.CA, mode string, config proto.Message, certificate pki.Template) error {
	text, err := protojson.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode the configuration of agent %s: %w", mode, err)
	}
	return agents.Files(filepath.Join(b.dir, mode), ca, ca, certificate, map[string][]byte{"config.json": text})
}

func (b *bench) command(ctx context.Context, mode string) *exec.Cmd {
	dir := filepath.Join(b.dir, mode)
	args := []string{mode, "--config-dir", dir, "--termination-log", filepath.Join(dir, "report.json")}
	cmd := exec.CommandContext(ctx, b.agent, args...)
	if b.link != nil {
		space := b.link.Sender()
		if mode == "receive" {
			space = b.link.Receiver()
		}
		cmd = network.Command(ctx, space, b.agent, args...)
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%d", int64(memoryGoal)))
	return cmd
}

// move runs the sender and waits for both.
func (b *bench) move(ctx context.Context) (moved, error) {
	sender, err := harness.Start(b.command(ctx, b.sending()))
	if err != nil {
		return moved{}, err
	}
	send, receive := watchPeak(sender, b.watch), watchPeak(b.receiver, b.watch)
	if err := errors.Join(sender.Wait(), b.receiver.Wait()); err != nil {
		return moved{}, err
	}
	report, err := b.report(b.sending())
	if err != nil {
		return moved{}, err
	}
	cpu := report.GetCpu()
	return moved{
		wire: int64(report.GetWireBytes()),
		send: time.Duration(cpu.GetSendNanos()), receive: time.Duration(cpu.GetReceiveNanos()),
		sendPeak: <-send, receivePeak: <-receive,
	}, nil
}

// report is what an agent left when it ended.
func (b *bench) report(mode string) (*wirev1.Report, error) {
	text, err := os.ReadFile(filepath.Join(b.dir, mode, "report.json"))
	if err != nil {
		return nil, fmt.Errorf("read the report of agent %s: %w", mode, err)
	}
	report := &wirev1.Report{}
	if err := protojson.Unmarshal(text, report); err != nil {
		return nil, fmt.Errorf("decode the report of agent %s: %w", mode, err)
	}
	return report, nil
}
