// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fanout measures what more receivers of one source cost the sender, over loopback: the sender reads and
// compresses once for all of them.
package fanout

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/trees"
)

const (
	name                = "fanout"
	namespace, transfer = "bench", "tree"
	serverName          = "00000000-0000-0000-0000-000000000001.receive.lighterage.internal"
)

type options struct {
	agent, work        string
	rounds, size, slow int
}

// linkMbits is what a slow link carries per second.
const linkMbits = 10

// cells are the conditions that take turns.
var cells = []cell{
	{receivers: 1}, {receivers: 2}, {receivers: 3}, {receivers: 3, stalled: true},
	{receivers: 1, slow: true}, {receivers: 16, slow: true},
}

// cell is a number of receivers, the last of which may take nothing. If they are slow, each is behind a link of its own
// of linkMbits, and the tree is a small one.
type cell struct {
	receivers     int
	stalled, slow bool
}

func (c cell) String() string {
	switch {
	case c.stalled:
		return fmt.Sprintf("%d, and one that takes nothing", c.receivers-1)
	case c.slow:
		return fmt.Sprintf("%d, over %d Mbit/s each", c.receivers, linkMbits)
	default:
		return strconv.Itoa(c.receivers)
	}
}

// Benchmark is that of several receivers.
func Benchmark() harness.Benchmark {
	o := &options{}
	return harness.Benchmark{
		Name: name, About: "what more receivers of one source cost the sender; needs about 6 GiB of memory in -work",
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&o.agent, "agent", "bin/agent", "the agent's binary, which receives")
			f.StringVar(&o.work, "work", "/dev/shm", "where trees and destinations are made, in a directory of their own")
			f.IntVar(&o.rounds, "rounds", 11, "rounds of each cell")
			f.IntVar(&o.size, "size", 1300, "MiB of the demo's tree")
			f.IntVar(&o.slow, "slow", 50, "MiB of the demo's tree for slow links")
		},
		Run:   o.run,
		Roles: map[string]func(context.Context, []string) error{"send": sendRole},
	}
}

// sample is one run: of the sender the CPU time, and how long it took until those were done that take something.
type sample struct {
	CPU, Wall time.Duration
	// Wire are the bytes that were written to the connections.
	Wire int64
}

func (o *options) run(ctx context.Context, r *harness.Run) (err error) {
	if r.Quick {
		o.rounds, o.size, o.slow = 1, min(o.size, 200), min(o.slow, 20)
	}
	if o.agent, err = filepath.Abs(o.agent); err != nil {
		return fmt.Errorf("find the agent: %w", err)
	}
	if o.work, err = os.MkdirTemp(o.work, "lighterage-bench-"); err != nil {
		return fmt.Errorf("make a directory for trees: %w", err)
	}
	defer os.RemoveAll(o.work)
	source, small := filepath.Join(o.work, "source"), filepath.Join(o.work, "small")
	if err := errors.Join(trees.Demo(ctx, source, o.size), trees.Demo(ctx, small, o.slow)); err != nil {
		return fmt.Errorf("make the trees: %w", err)
	}
	moved, err := trees.Measure(source)
	if err != nil {
		return fmt.Errorf("measure the tree: %w", err)
	}
	slowly, err := trees.Measure(small)
	if err != nil {
		return fmt.Errorf("measure the small tree: %w", err)
	}
	samples := make([][]sample, len(cells))
	err = r.Rounds(o.rounds, func(n int) error {
		for _, i := range harness.Order(n, len(cells)) {
			from := source
			if cells[i].slow {
				from = small
			}
			s, err := o.move(ctx, cells[i], from)
			if err != nil {
				return fmt.Errorf("receivers: %v: %w", cells[i], err)
			}
			harness.Log("round %d, receivers: %v: %.2f s of CPU time in %.2f s", n+1, cells[i], s.CPU.Seconds(),
				s.Wall.Seconds())
			samples[i] = append(samples[i], s)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.Publish(ctx, report(samples, moved, slowly))
}

// move has a sender move the tree to new receivers.
func (o *options) move(ctx context.Context, c cell, source string) (s sample, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	dir, err := os.MkdirTemp(o.work, "run-")
	if err != nil {
		return s, fmt.Errorf("make a directory for a run: %w", err)
	}
	defer os.RemoveAll(dir)
	ca, _, err := pki.NewCA("bench", time.Now())
	if err != nil {
		return s, fmt.Errorf("make a CA: %w", err)
	}
	var addresses []string
	var receivers []*harness.Process
	for i := range c.receivers {
		address, receiver, err := o.receiver(ctx, ca, filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return s, err
		}
		addresses, receivers = append(addresses, address), append(receivers, receiver)
	}
	files := filepath.Join(dir, "send")
	err = agents.Files(files, ca, ca, pki.Template{
		Identity: pki.TransferIdentity("bench", namespace, transfer), DNSNames: []string{"sender.send.lighterage.internal"},
		Claims: &pki.RunClaims{
			Run: "bench", Audience: []string{pki.Fingerprint(ca.Certificate)}, Namespace: namespace, Claim: "copy", Path: "/",
		},
	}, nil)
	if err != nil {
		return s, err
	}
	args := harness.Self(name, "send", files, source, strconv.FormatBool(c.stalled), strconv.FormatBool(c.slow),
		strings.Join(addresses, ","))
	text, err := harness.Output(ctx, args[0], args[1:]...)
	if err != nil {
		return s, err
	}
	if s, err = parse(text); err != nil {
		return s, err
	}
	if c.stalled {
		receivers = receivers[:len(receivers)-1] // the context ends the last
	}
	for _, receiver := range receivers {
		if err := receiver.Wait(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// receiver starts one and returns where it listens.
func (o *options) receiver(ctx context.Context, ca *pki.CA, dir string) (string, *harness.Process, error) {
	destination := filepath.Join(dir, "destination")
	if err := os.MkdirAll(destination, 0o755); err != nil {
		return "", nil, fmt.Errorf("make a destination: %w", err)
	}
	address, err := harness.FreeAddress()
	if err != nil {
		return "", nil, err
	}
	config, err := protojson.Marshal(&wirev1.ReceiveConfig{
		RunId: "bench", Attempt: 1, SenderNamespace: namespace, SenderName: transfer,
		Volume: destination, Path: ".", ControlAddress: "127.0.0.1:0", DataAddress: address,
	})
	if err != nil {
		return "", nil, fmt.Errorf("encode the configuration of a receiver: %w", err)
	}
	files := filepath.Join(dir, "files")
	err = agents.Files(files, ca, ca, pki.Template{
		Identity: pki.DeliveryIdentity("bench", namespace, "copy"), DNSNames: []string{serverName},
	}, map[string][]byte{"config.json": config})
	if err != nil {
		return "", nil, err
	}
	command := exec.CommandContext(
		ctx, o.agent, "receive", "--config-dir", files, "--termination-log", filepath.Join(dir, "report.json"),
	)
	receiver, err := harness.StartListening(ctx, command, address)
	return address, receiver, err
}
