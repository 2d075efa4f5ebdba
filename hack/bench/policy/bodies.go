// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/lighterage/lighterage/agent/codec"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/http"
	"github.com/lighterage/lighterage/hack/bench/network"
)

// codings that clients know codecs by.
var codings = map[codec.ID]string{codec.Deflate: "gzip", codec.Zstd: "zstd"}

// backendAddress is where the backend of all proxies listens, beside them.
const backendAddress = "127.0.0.1:8080"

// proxies are the contenders of bodies: agents in mode http beside a backend, and one client in the other namespace.
type proxies struct {
	section section
	net     *network.Pair
	work    string
	backend *harness.Process
	client  *harness.Worker
	open    map[string]proxy
	opened  int
}

// proxy is an agent, and where it listens.
type proxy struct {
	*harness.Worker
	address string
}

func openProxies(ctx context.Context, net *network.Pair, work string, s section, _ int) (_ bed, err error) {
	b := &proxies{section: s, net: net, work: work, open: map[string]proxy{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	self := http.Backend(backendAddress)
	if b.backend, err = net.StartBeside(
		ctx, network.Command(ctx, net.Sender(), self[0], self[1:]...), backendAddress,
	); err != nil {
		return nil, fmt.Errorf("start the backend: %w", err)
	}
	self = harness.Self(benchmark, clientRole)
	b.client, err = harness.StartWorker(network.Command(ctx, net.Receiver(), self[0], self[1:]...))
	return b, err
}

// over starts all agents again, so that Auto learns what the network is now.
func (b *proxies) over(ctx context.Context, _ speed) error {
	if err := b.stop(); err != nil {
		return err
	}
	for _, one := range b.section.everyone() {
		b.opened++
		p, err := b.start(ctx, one, fmt.Sprintf("%s:%d", b.net.SenderAddress(), 9000+b.opened))
		if err != nil {
			return fmt.Errorf("start %s: %w", one.name, err)
		}
		b.open[one.agent()] = p
	}
	return nil
}

func (b *proxies) start(ctx context.Context, one *contender, address string) (proxy, error) {
	dir := filepath.Join(b.work, fmt.Sprint(b.opened))
	config := &wirev1.HTTPConfig{
		Revision: "1", ListenAddress: address, ServingDirectory: filepath.Join(dir, "certificate"),
		Backend: &wirev1.HTTPBackend{Address: backendAddress},
		// The backend of a measurement is on this machine.
		DialPolicy: &wirev1.DialPolicy{AllowLoopback: true}, Compression: setting(one.settings),
	}
	for _, id := range one.codecs() {
		config.Codings = append(config.Codings, codings[id])
	}
	text, err := protojson.Marshal(config)
	if err != nil {
		return proxy{}, fmt.Errorf("write the configuration: %w", err)
	}
	if err := agents.ServerFiles(config.GetServingDirectory()); err != nil {
		return proxy{}, err
	}
	path := filepath.Join(dir, "config.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return proxy{}, fmt.Errorf("write the configuration: %w", err)
	}
	self := harness.Self(benchmark, proxyRole, path)
	w, err := harness.StartWorker(network.Command(ctx, b.net.Sender(), self[0], self[1:]...))
	if err != nil {
		return proxy{}, err
	}
	var serves answer
	if err := w.Answer(&serves); err != nil {
		return proxy{}, errors.Join(err, w.Close())
	}
	return proxy{w, address}, nil
}

// ready has every contender answer with bodies such as those of the cell.
func (b *proxies) ready(ctx context.Context, c *cell) error { return warm(ctx, b, b.section, c) }

func (b *proxies) run(_ context.Context, c *cell, one *contender) (outcome, error) {
	p := b.open[one.agent()]
	before, err := p.PID().CPU()
	if err != nil {
		return outcome{}, err
	}
	var got asked
	if err := errors.Join(b.client.Order(ask{
		URL: fmt.Sprintf("https://%s/%s/%d", p.address, c.kind.corpus, c.unit), Accept: "gzip, zstd",
		Requests: int(c.size) / c.unit,
	}), b.client.Answer(&got)); err != nil {
		return outcome{}, err
	}
	after, err := p.PID().CPU()
	choice := "none"
	for _, id := range one.codecs() {
		if codings[id] == got.Coding {
			choice = fmt.Sprintf("%v %v", id, one.settings.Level)
		}
	}
	return outcome{
		elapsed: got.Elapsed.Seconds(), cpu: (after - before).Seconds(), bytes: float64(got.Bytes), choice: choice,
	}, err
}

// stop ends the agents.
func (b *proxies) stop() error {
	var errs []error
	for _, p := range b.open {
		errs = append(errs, p.Close())
	}
	clear(b.open)
	return errors.Join(errs...)
}

func (b *proxies) close() error {
	const patience = 200 * time.Millisecond
	err := b.stop()
	if b.client != nil {
		err = errors.Join(err, b.client.Close())
	}
	if b.backend != nil {
		b.backend.Stop(patience)
	}
	return err
}
