// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	namespace, transfer = "bench", "tree"
	serverName          = "00000000-0000-0000-0000-000000000001.receive.lighterage.internal"
)

// ours runs both agents as they run in their pods, TLS on, with the gateway's own way of passing connections through
// between them.
func ours(name, agent string, verify bool, settings *wirev1.CompressionSettings) contender {
	return oursWatched(name, agent, verify, settings, false)
}

// oursWatched also follows how much memory the agents have, if it is told to.
func oursWatched(name, agent string, verify bool, settings *wirev1.CompressionSettings, watch bool) contender {
	return contender{name: name, setUp: func(
		ctx context.Context, source, destination string,
	) (func(context.Context) (moved, error), func(), error) {
		dir, err := os.MkdirTemp("", "bench-agents-")
		if err != nil {
			return nil, nil, fmt.Errorf("make a directory for the agents: %w", err)
		}
		ctx, cancel := context.WithCancel(ctx)
		tearDown := func() {
			cancel()
			_ = os.RemoveAll(dir)
		}
		b := &bench{dir: dir, agent: agent, watch: watch}
		if err := b.prepare(ctx, source, destination, verify, settings); err != nil {
			tearDown()
			return nil, nil, err
		}
		return b.move, tearDown, nil
	}}
}

// bench is one pair of agents.
type bench struct {
	dir, agent string
	watch      bool
	receiver   *exec.Cmd
	log        bytes.Buffer
}

func (b *bench) prepare(
	ctx context.Context, source, destination string, verify bool, settings *wirev1.CompressionSettings,
) error {
	now := time.Now()
	ca, _, err := pki.NewCA("bench", now)
	if err != nil {
		return fmt.Errorf("make a CA: %w", err)
	}
	dataPort, err := freePort()
	if err != nil {
		return err
	}
	gateway, err := serveGateway(ctx, ca, net.JoinHostPort("127.0.0.1", fmt.Sprint(dataPort)))
	if err != nil {
		return err
	}
	receive := &wirev1.ReceiveConfig{
		RunId: "bench", Attempt: 1, SenderNamespace: namespace, SenderName: transfer,
		Volume: destination, Path: ".", ControlAddress: "127.0.0.1:0", DataAddress: fmt.Sprintf("127.0.0.1:%d", dataPort),
	}
	send := &wirev1.SendConfig{
		RunId: "bench", Attempt: 1, GatewayEndpoint: gateway,
		Destination: &wirev1.ClaimPath{Namespace: namespace, ClaimName: "copy", Path: "/"},
		Volume:      source, Path: ".", Verify: verify, ControlAddress: "127.0.0.1:0",
		Compression: settings,
	}
	if err := b.configure(ca, "receive", receive, pki.Template{
		Identity: pki.DeliveryIdentity("bench", namespace, "copy"), DNSNames: []string{serverName},
	}); err != nil {
		return err
	}
	if err := b.configure(ca, "send", send, pki.Template{
		Identity: pki.TransferIdentity("bench", namespace, transfer), DNSNames: []string{"sender.send.lighterage.internal"},
		Claims: &pki.RunClaims{
			Run: send.GetRunId(), Audience: []string{pki.Fingerprint(ca.Certificate)}, Namespace: namespace, Claim: "copy",
			Path: "/",
		},
	}); err != nil {
		return err
	}
	b.receiver = b.command(ctx, "receive")
	b.receiver.Stderr = &b.log
	if err := b.receiver.Start(); err != nil {
		return fmt.Errorf("start the receiving agent: %w", err)
	}
	if err := waitForPort(dataPort); err != nil {
		return fmt.Errorf("%w: %s", err, b.log.String())
	}
	return nil
}

func (b *bench) configure(ca *pki.CA, name string, config proto.Message, certificate pki.Template) error {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of agent %s: %w", name, err)
	}
	certificate.Lifetime = time.Hour
	pair, err := ca.Issue(certificate, time.Now())
	if err != nil {
		return fmt.Errorf("issue the certificate of agent %s: %w", name, err)
	}
	text, err := protojson.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode the configuration of agent %s: %w", name, err)
	}
	for file, content := range map[string][]byte{
		"config.json": text, "tls.crt": pair.CertificatePEM, "tls.key": pair.KeyPEM,
		"cluster-ca.crt": ca.CertificatePEM, "peer-ca.crt": ca.CertificatePEM,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return fmt.Errorf("write the files of agent %s: %w", name, err)
		}
	}
	return nil
}

func (b *bench) command(ctx context.Context, mode string) *exec.Cmd {
	dir := filepath.Join(b.dir, mode)
	cmd := exec.CommandContext(
		ctx, b.agent, mode, "--config-dir", dir, "--termination-log", filepath.Join(dir, "report.json"),
	) //nolint:gosec // a benchmark's own arguments
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%d", int64(memoryGoal)))
	return cmd
}

// move runs the sender and waits for both.
func (b *bench) move(ctx context.Context) (moved, error) {
	var out bytes.Buffer
	sender := b.command(ctx, "send")
	sender.Stdout, sender.Stderr = &out, &out
	if err := sender.Start(); err != nil {
		return moved{}, fmt.Errorf("start the sending agent: %w", err)
	}
	send, receive := func() int64 { return 0 }, func() int64 { return 0 }
	if b.watch {
		send, receive = watchPeak(sender).end, watchPeak(b.receiver).end
	}
	if err := sender.Wait(); err != nil {
		return moved{}, fmt.Errorf("agent send: %w\n%s\nagent receive:\n%s", err, out.String(), b.log.String())
	}
	if err := b.receiver.Wait(); err != nil {
		return moved{}, fmt.Errorf("agent receive: %w\n%s", err, b.log.String())
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "send", "report.json"))
	if err != nil {
		return moved{}, fmt.Errorf("read the sender's report: %w", err)
	}
	report := &wirev1.Report{}
	if err := protojson.Unmarshal(text, report); err != nil {
		return moved{}, fmt.Errorf("decode the sender's report: %w", err)
	}
	cpu := report.GetCpu()
	return moved{
		wire:    int64(report.GetWireBytes()),         //nolint:gosec // far below the limit
		send:    time.Duration(cpu.GetSendNanos()),    //nolint:gosec // far below the limit
		receive: time.Duration(cpu.GetReceiveNanos()), //nolint:gosec // far below the limit

		sendPeak: send(), receivePeak: receive(),
	}, nil
}
