// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build security

package security

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/gateway/gatewaytest"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// promptly is in what time an honest peer is answered while strangers come.
	promptly = time.Second
	// floodRounds is how often a flood is tried: other work on the machine may spoil one. A gateway that strangers
	// block fails all.
	floodRounds = 3
)

// TestStrangersAndHonestPeer floods a gateway with strangers: more connections than it keeps that fall silent after
// their ClientHello, and then 200 finished handshakes a second beside silent and slow ones. An honest peer's requests
// are answered.
//
// H2: one stranger took the control port from every peer.
func TestStrangersAndHonestPeer(t *testing.T) {
	for name, sources := range map[string][]string{
		"from the honest peer's address": {"127.0.0.1"},
		"from another address":           strangers(1),
		"from 20 addresses":              strangers(20),
	} {
		t.Run(name, func(t *testing.T) {
			for round := 1; ; round++ {
				err := floodOnce(t, sources)
				if err == nil {
					return
				}
				if round == floodRounds {
					t.Fatal(err)
				}
				t.Logf("round %d: %v", round, err)
			}
		})
	}
}

// errBusy says that the strangers did not get the CPU that they need, so that the round is no proof. The test fails if
// no round is.
var errBusy = errors.New("the machine is too busy")

func floodOnce(t *testing.T, sources []string) error {
	t.Helper()
	east := gatewaytest.NewCA(t, "east")
	west := gatewaytest.New(t, func(o *gateway.Options) { o.Limits.HelloTimeout = 0 }, gatewaytest.PeerOf("east", east),
		gatewaytest.GrantOf("vault", "east", "bank", v1alpha1.GrantedPersistentVolumeClaim, "ledger-copy"))
	defer func() {
		if err := west.Stop(); err != nil {
			t.Error(err)
		}
	}()
	before := processCPU(t)
	f := flood{
		Address: west.Address, ServerName: pki.GatewayServerName, Sources: sources,
		First: 1200, Handshakes: 200, Silent: 50, Slow: 50, Duration: 4 * time.Second,
	}
	ended := f.start(t)
	h := &honest{west: west, ca: east}
	stop := time.After(f.Duration - promptly)
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	for i, asking := 0, true; asking; i++ {
		select {
		case <-tick.C:
			h.ask(t, i)
		case <-stop:
			asking = false
		}
	}
	h.pending.Wait()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	result := ended()
	if len(h.latencies) == 0 {
		return fmt.Errorf("%w: the honest peer made no request", errBusy)
	}
	slices.Sort(h.latencies)
	p50, p99 := h.latencies[len(h.latencies)/2], h.latencies[len(h.latencies)*99/100]
	t.Logf("strangers: %d handshakes (%.0f/s), %d refused or evicted before their end, CPU of the generator %s; gateway "+
		"and honest peer: CPU %s; memory %d MiB; honest requests: %d, failed %d, p50 %s, p99 %s", result.Handshakes,
		float64(result.Handshakes)/f.Duration.Seconds(), result.Refused,
		result.CPU, processCPU(t)-before, (memory.HeapInuse+
			memory.StackInuse)>>20, len(h.latencies), len(h.failures), p50, p99)
	due := int64(f.Handshakes) * int64(f.Duration.Seconds()) * 8 / 10
	if result.Handshakes+result.Refused < due {
		return fmt.Errorf(
			"%w: strangers finished %d handshakes and %d were ended by the gateway, of %d", errBusy, result.Handshakes,
			result.Refused, due,
		)
	}
	switch {
	case len(h.failures) > 0:
		return fmt.Errorf(
			"%d of %d requests of the honest peer failed, the first with %w", len(h.failures), len(h.latencies), h.failures[0],
		)
	case p99 >= promptly:
		return fmt.Errorf("the honest peer was answered in %s at p99", p99)
	case result.Handshakes < due:
		return fmt.Errorf("strangers finished only %d handshakes", result.Handshakes)
	}
	return nil
}

// honest is a peer that asks over a connection of its own each time.
type honest struct {
	west    *gatewaytest.Cluster
	ca      *pki.CA
	pending sync.WaitGroup

	mu        sync.Mutex
	latencies []time.Duration
	failures  []error
}

// ask makes the request with a number: every fifth one opens a run.
func (h *honest) ask(t *testing.T, i int) {
	t.Helper()
	certificate := gatewaytest.Issue(t, h.ca, pki.TransferIdentity("east", "bank", "ledger"), time.Now())
	conn := h.west.Connect(certificate)
	h.pending.Go(func() {
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		client := wirev1.NewGatewayClient(conn)
		var err error
		if i%5 == 0 {
			var stream interface {
				Recv() (*wirev1.OpenResponse, error)
			}
			if stream, err = client.Open(ctx, &wirev1.OpenRequest{
				ProtocolVersion: wirev1.ProtocolVersion, RunId: "7f3ca", Attempt: 1,
				Destination: &wirev1.ClaimPath{Namespace: "vault", ClaimName: "ledger-copy", Path: "/"},
			}); err == nil {
				_, err = stream.Recv()
			}
		} else {
			_, err = client.Hello(ctx, &wirev1.HelloRequest{ProtocolVersion: wirev1.ProtocolVersion})
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.latencies = append(h.latencies, time.Since(began))
		if err != nil {
			h.failures = append(h.failures, err)
		}
	})
}

// processCPU is what this process has used.
func processCPU(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
