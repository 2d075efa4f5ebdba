// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package online

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

const (
	// connections are kept by the client, each of which has one request at a time.
	connections = 64
	// answerPatience is how long an answer may take.
	answerPatience = 30 * time.Second
)

// load is an order of the client.
type load struct {
	// Rate of requests a second; 0: as many as are answered.
	Rate     float64
	Duration time.Duration
	// Seed of the times at which is asked.
	Seed uint64
}

// answered is what came of it: how many answers a second came within the time, and how many milliseconds they took,
// from when they were to be asked for.
type answered struct{ Rate, P50, P99 float64 }

// client holds connections to the endpoint.
type client struct{ idle []*connection }

type connection struct {
	*tls.Conn
	in *bufio.Reader
}

// serveClient carries out orders on connections to an address.
func serveClient(ctx context.Context, address string) error {
	c := &client{}
	defer c.close()
	dialer := &tls.Dialer{
		Config: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // The certificate was made for this run.
	}
	for range connections {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("connect to the endpoint: %w", err)
		}
		c.idle = append(c.idle, &connection{conn.(*tls.Conn), bufio.NewReader(conn)})
	}
	return harness.Work(func(l load) error {
		got, err := c.load(l)
		if err == nil {
			harness.Answer(got)
		}
		return err
	})
}

func (c *client) close() {
	for _, conn := range c.idle {
		_ = conn.Close()
	}
}

// load asks at the times of the order whether answers are there or not. A request that finds all connections in use
// waits for one, and its time goes on.
func (c *client) load(l load) (answered, error) {
	begin := time.Now()
	due := make(chan time.Time, 1)
	took := make([][]time.Duration, len(c.idle)) // by connection
	var group errgroup.Group
	for i, conn := range c.idle {
		group.Go(func() (err error) {
			for at := range due {
				if err == nil { // else nobody would take the rest
					err = conn.ask()
					took[i] = append(took[i], time.Since(at))
				}
			}
			return err
		})
	}
	for _, wait := range arrivals(l) {
		time.Sleep(time.Until(begin.Add(wait)))
		due <- begin.Add(wait)
	}
	for l.Rate == 0 && time.Since(begin) < l.Duration {
		due <- time.Now()
	}
	close(due)
	err := group.Wait()
	return summary(slices.Concat(took...), max(time.Since(begin), l.Duration)), err
}

// arrivals are the times since its beginning at which an order asks. They come independently of each other.
func arrivals(l load) (all []time.Duration) {
	if l.Rate == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(l.Seed, 0))
	for at := 0.0; ; {
		at += random.ExpFloat64() / l.Rate
		wait := time.Duration(at * float64(time.Second))
		if wait >= l.Duration {
			return all
		}
		all = append(all, wait)
	}
}

// summary of what all answers took, which came within a time.
func summary(took []time.Duration, within time.Duration) answered {
	if len(took) == 0 {
		return answered{}
	}
	slices.Sort(took)
	of := func(part float64) float64 {
		return took[min(int(part*float64(len(took))), len(took)-1)].Seconds() * 1e3
	}
	return answered{Rate: float64(len(took)) / within.Seconds(), P50: of(0.5), P99: of(0.99)}
}

// ask takes one answer, which has to be compressed.
func (c *connection) ask() error {
	if err := c.SetDeadline(time.Now().Add(answerPatience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(
		c, "GET /xml/%d HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n", bodySize,
	); err != nil {
		return fmt.Errorf("ask the endpoint: %w", err)
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Encoding") != "gzip" {
		return errors.New("the endpoint answers " + res.Status + ", or does not compress")
	}
	return nil
}
