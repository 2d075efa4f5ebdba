// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

const (
	// reportsPerSecond of both agents together: the receiver tells its sender once a second, and the managers ask less
	// often.
	reportsPerSecond = 3
	// connections of a sender, of which there are at most 16 with blocks.
	connections = 17
)

// costOfReport is the CPU time of a report, with the state of each connection that the kernel is asked for.
func costOfReport(ctx context.Context) (cost time.Duration, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	report := send.NewReport()
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			err = errors.Join(err, conn.Close())
		}
	}()
	for range connections {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		if err != nil {
			return 0, err
		}
		open = append(open, transport.Meter(conn, &report.Wire, nil))
	}
	const reports = 5000
	begin := harness.OwnCPU()
	for range reports {
		report.Report()
	}
	return (harness.OwnCPU() - begin) / reports, nil
}
