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
	if len(args) != 4 {
		return errors.New("send takes a directory of files, a source, who is stalled, and addresses")
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	files, addresses := transport.NewFiles(args[0]), strings.Split(args[3], ",")
	walked, err := tree.OpenSource(args[1], ".")
	if err != nil {
		return err
	}
	defer walked.Close()
	//nolint:contextcheck // The walk is of all attempts, and ends when the last of them has left.
	_, places, err := send.NewFan(send.FanOptions{Source: walked}, addresses...)
	if err != nil {
		return err
	}
	var begin time.Time
	var wire transport.Counter
	var done, all sync.WaitGroup
	errs := make([]error, len(addresses))
	begin = time.Now()
	for i, address := range addresses {
		stalled := args[2] == "last" && i == len(addresses)-1
		one := func() { errs[i] = sendTo(ctx, files, args[1], address, places[i], &wire, stalled) }
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
	if args[2] == "last" {
		errs[len(errs)-1] = nil // it was ended
	}
	harness.Answer(s)
	return errors.Join(errs...)
}

func sendTo(
	ctx context.Context, files *transport.Files, source, address string, place *send.Place, wire *transport.Counter,
	stalled bool,
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
			if err != nil || !stalled {
				return conn, err
			}
			return fullConn{conn, ctx}, nil
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

func parse(text string) (s sample, err error) {
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("read what the sender says: %w", err)
	}
	return s, nil
}
