// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
	"github.com/lighterage/lighterage/controllers/pki"
)

// exchange sends a chunk, which must come back.
func exchange(conn net.Conn, number int) error {
	sent := bytes.Repeat([]byte(fmt.Sprintf("%08d", number)), 4<<10)
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		written <- err
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil {
		_ = conn.Close()
		<-written
		return err
	}
	if !bytes.Equal(sent, got) {
		return errors.New("it came back changed")
	}
	return <-written
}

// descriptors of this process that are open.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// While each control connection is cut a moment after it was made, no request is lost, data connections are made, and
// those that are there never break. In the end nothing is left of all these connections. CONTROL_CUTS says for how
// long; make test-reach has it last for ten minutes.
func TestControlConnectionsAreCut(t *testing.T) {
	lasts := 20 * time.Second
	if text := os.Getenv("CONTROL_CUTS"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	var c *cutter
	delivery, grant := granted()
	n := newBehindNAT(t, func(address string) (between string) {
		c, between = newCutter(t, address, 2*time.Second)
		return between
	}, delivery, grant)
	n.receive(delivery)
	if _, err := n.hello(); err != nil {
		t.Fatal(err)
	}
	goroutines, open := runtime.NumGoroutine(), descriptors(t)

	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var all sync.WaitGroup
	var requests, chunks, runs atomic.Int64
	const pause = 5 * time.Millisecond // so that processors are left for others
	for range 2 {
		all.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(pause) {
				if _, err := n.hello(); err != nil {
					t.Errorf("a request was lost: %v", err)
				}
				requests.Add(1)
			}
		})
		all.Go(func() { // a long run
			conn, err := n.data(t.Context())
			if err != nil {
				t.Errorf("a data connection was not made: %v", err)
				return
			}
			defer conn.Close()
			for i := 0; ctx.Err() == nil; time.Sleep(pause) {
				i++
				if err := exchange(conn, i); err != nil {
					t.Errorf("a data connection broke after %d chunks: %v", i, err)
					return
				}
				chunks.Add(1)
			}
		})
		all.Go(func() { // short ones
			for ; ctx.Err() == nil; time.Sleep(pause) {
				conn, err := n.data(t.Context())
				if err == nil {
					err = exchange(conn, 1)
					_ = conn.Close()
				}
				if err != nil {
					t.Errorf("a run failed: %v", err)
				}
				runs.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d control connections were cut in %v: %d requests, %d runs, %d chunks by long ones",
		c.cuts.Load(), c.controls.Load(), lasts, requests.Load(), runs.Load(), chunks.Load())
	// They are made again soon, however often they are cut, and not before they are needed.
	if cuts, controls := c.cuts.Load(), c.controls.Load(); cuts < 2 || controls > cuts+4 {
		t.Errorf("%d control connections were made, of which %d were cut", controls, cuts)
	}
	if requests.Load() < 10 || runs.Load() < 10 || chunks.Load() < 10 {
		t.Errorf("%d requests, %d runs and %d chunks", requests.Load(), runs.Load(), chunks.Load())
	}
	var left [3]int
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		runtime.GC() // package net keeps pipes for splice until then
		left = [3]int{int(c.passing.Load()), runtime.NumGoroutine() - goroutines, descriptors(t) - open}
		if left[0] <= 2 && left[1] <= 10 && left[2] <= 10 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left are %d connections, %d goroutines and %d descriptors", left[0], left[1], left[2])
		}
	}
}

// Who listens in west's place and lacks its key gets no control connection, and is tried less and less often.
func TestImpostorListens(t *testing.T) {
	n := &behindNAT{t: t, eastCA: newCA(t, "east")}
	impostor := newWest(t, unlimited, listeningTo("east", n.eastCA)) // with a CA of the same name
	tunnels := serveTunnels(t, impostor.gateway)
	c, between := newCutter(t, impostor.address, 0)
	dialled := peerOf("west", newCA(t, "west"))
	dialled.Spec.Connection, dialled.Spec.Endpoint = v1alpha1.PeerDial, between
	began := time.Now()
	n.east = n.cluster(dialled)
	for deadline := began.Add(patience); c.controls.Load() < 11; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d tries", c.controls.Load())
		}
	}
	// Each of two tries at once waits 125 ms or more, and after each failure for twice as long.
	tries, most := int(c.controls.Load()), 2*(1+bits.Len64(uint64(time.Since(began)/(125*time.Millisecond))))
	if tries > most {
		t.Errorf("%d tries in %v", tries, time.Since(began))
	}
	state, err := reverse.Ask(t.Context(), tunnels, "east", ptrTo(issue(t, impostor.ca, manager("west"), time.Now())))
	if err != nil || state.Connections != 0 {
		t.Errorf("the impostor has %d control connections: %v", state.Connections, err)
	}
}

// Who reads the name of a data connection off the network and is faster gets a client that does not believe it.
func TestImpostorTakesDataConnections(t *testing.T) {
	var taken atomic.Int32
	var west string
	serving := issue(
		t, newCA(t, "east"), pki.Identity{Cluster: "east", Path: pki.GatewayPath}, time.Now(), pki.GatewayServerName,
	)
	impostor := acceptAll(t, func(conn net.Conn) {
		defer conn.Close()
		hello := make([]byte, 16<<10)
		read, err := conn.Read(hello)
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", west)
		if err != nil {
			return
		}
		defer to.Close()
		if _, err := to.Write(hello[:read]); err != nil {
			return
		}
		server := tls.Server(to, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{serving}})
		_ = server.SetDeadline(time.Now().Add(patience))
		taken.Add(1)
		if err := server.Handshake(); err == nil {
			// The client's part is over before it says that it does not believe.
			_, _ = server.Read(hello)
		}
	})
	n := newBehindNAT(t, func(address string) string {
		west = address
		c, between := newCutter(t, address, 0)
		c.data = func() string { return impostor }
		return between
	})
	if _, err := n.hello(); !errors.Is(err, agentclient.ErrUntrusted) || taken.Load() == 0 {
		t.Errorf("%d connections were taken: %v", taken.Load(), err)
	}
}
