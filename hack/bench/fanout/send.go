// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// sendRole is a process that sends a tree to all receivers and prints what that took.
func sendRole(ctx context.Context, args []string) error {
	if len(args) != 5 {
		return errors.New("send takes a directory of files, a source, if the last is stalled, if links are slow, " +
			"and addresses")
	}
	lastStalled, slow := args[2] == "true", args[3] == "true"
	ctx, end := context.WithCancel(ctx)
	defer end()
	files, addresses := transport.NewFiles(args[0]), strings.Split(args[4], ",")
	walked, err := tree.OpenSource(args[1], ".")
	if err != nil {
		return err
	}
	defer walked.Close()
	//nolint:contextcheck // The walk is of all attempts, and ends when the last of them has left.
	places, err := send.NewFan(send.FanOptions{Source: walked}, addresses...)
	if err != nil {
		return err
	}
	var begin time.Time
	var wire transport.Counter
	var done, all sync.WaitGroup
	errs := make([]error, len(addresses))
	begin = time.Now()
	for i, address := range addresses {
		stalled := lastStalled && i == len(addresses)-1
		over := func(conn net.Conn) net.Conn { return conn }
		switch {
		case stalled:
			over = func(conn net.Conn) net.Conn { return fullConn{conn, ctx} }
		case slow:
			link := rate.NewLimiter(linkMbits*1e6/8, linkBurst)
			over = func(conn net.Conn) net.Conn { return slowConn{conn, ctx, link} }
		}
		one := func() { errs[i] = sendTo(ctx, files, args[1], address, places[i], &wire, over) }
		if stalled {
			all.Go(one)
			continue
		}
		done.Go(one)
	}
	done.Wait()
	s := sample{CPU: harness.OwnCPU(), Wall: time.Since(begin), Wire: wire.Bytes()}
	end()
	all.Wait()
	if lastStalled {
		errs[len(errs)-1] = nil // it was ended
	}
	harness.Answer(s)
	return errors.Join(errs...)
}

func sendTo(
	ctx context.Context, files *transport.Files, source, address string, place *send.Place, wire *transport.Counter,
	over func(net.Conn) net.Conn,
) error {
	defer place.Leave()
	s, err := tree.OpenSource(source, ".")
	if err != nil {
		return err
	}
	defer s.Close()
	dialer := &transport.Dialer{Address: address, Files: files, Counter: wire}
	return send.Run(ctx, send.Options{
		RunID: "bench", Attempt: 1, Source: s, Engines: engines.Default(),
		Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast},
		Codecs: []codec.ID{codec.Deflate}, Place: place,
		Dial: func() (send.Conn, error) { return dialer.Dial(serverName) },
		DialBlocks: func(ctx context.Context) (net.Conn, error) {
			conn, err := dialer.DialBlocks(ctx, serverName)
			if err != nil {
				return nil, err
			}
			return over(conn), nil
		},
		Streams: runtime.GOMAXPROCS(0), Report: send.NewReport(), Direct: true,
	})
}

// fullConn is a connection whose other side takes nothing until a context ends.
type fullConn struct {
	net.Conn
	ctx context.Context
}

// Write implements net.Conn.
func (c fullConn) Write([]byte) (int, error) {
	<-c.ctx.Done()
	return 0, context.Cause(c.ctx)
}

// linkBurst is how many bytes a slow link takes at once.
const linkBurst = 64 << 10

// slowConn is a connection over a link that others share, which takes so many bytes per second.
type slowConn struct {
	net.Conn
	ctx  context.Context
	link *rate.Limiter
}

// Write implements net.Conn.
func (c slowConn) Write(data []byte) (written int, err error) {
	for len(data) > 0 {
		part := data[:min(len(data), linkBurst)]
		if err := c.link.WaitN(c.ctx, len(part)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(part)
		written += n
		if err != nil {
			return written, err
		}
		data = data[n:]
	}
	return written, nil
}

func parse(text string) (s sample, err error) {
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("read what the sender says: %w", err)
	}
	return s, nil
}
