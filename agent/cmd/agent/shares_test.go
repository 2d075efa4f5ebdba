// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestBroker: a node agent listens for those that share the accelerator while there is one, and only then, and an agent
// that finds one draws.
func TestBroker(t *testing.T) {
	authority := transporttest.NewAuthority(t, "east")
	log := slog.New(slog.DiscardHandler)
	a := &agent{log: log, configDir: authority.Directory(t, authority, "/node-agent", transport.NodeServerName)}
	b, err := a.newBroker(&wirev1.AcceleratorSharesConfig{ListenAddress: "127.0.0.1:0", ReservedPercent: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	var listener net.Listener
	listen := b.listen
	b.listen = func() (net.Listener, error) {
		listener, err = listen()
		return listener, err
	}
	if b.follow(nil); listener != nil || b.Sharing() != nil {
		t.Error("shares are granted without an accelerator")
	}
	if b.follow(accelerator{goflate.New()}); listener == nil || b.Sharing() == nil {
		t.Fatal("no shares are granted")
	}

	t.Setenv(wirev1.SharesVariable, listener.Addr().String())
	before := findAccelerator
	t.Cleanup(func() { findAccelerator = before })
	findAccelerator = func(context.Context) (codec.Engine, hardware.Verdict) {
		return accelerator{goflate.New()}, hardware.Verdict{State: hardware.Verified}
	}
	sender := &agent{log: log, configDir: authority.Directory(t, authority, "/ns/bank/transfer/ledger", "")}
	t.Cleanup(sender.shares.close)
	engines, _ := sender.engines(t.Context())
	if _, shared := engines[0].(policy.Gate); !shared {
		t.Errorf("engine %s is not shared", engines[0].Name())
	}
	for b.Sharing().GetAgents() == 0 { // go test's own limit ends it
		time.Sleep(time.Millisecond)
	}
	again, _ := sender.engines(t.Context())
	if again[0] != engines[0] {
		t.Error("an agent has several accounts")
	}
	b.follow(nil)
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) || b.Sharing() != nil {
		t.Errorf("shares are granted after the accelerator has gone: %v", err)
	}
}

// TestNoShares: nobody is asked where no address is given, and no broker is made where none is wanted.
func TestNoShares(t *testing.T) {
	t.Setenv(wirev1.SharesVariable, "")
	a := &agent{log: slog.New(slog.DiscardHandler)}
	if _, shared := a.shares.engine(a, accelerator{goflate.New()}).(policy.Gate); shared || a.shares.stop != nil {
		t.Error("shares are drawn from nobody")
	}
	if b, err := a.newBroker(nil); b != nil || err != nil {
		t.Errorf("%v, %v", b, err)
	}
	for _, c := range []*wirev1.AcceleratorSharesConfig{
		{}, {ListenAddress: ":0", ReservedPercent: 91}, {ListenAddress: ":0", Units: 1 << 30},
	} {
		if _, err := a.newBroker(c); err == nil {
			t.Errorf("%v is accepted", c)
		}
	}
}
