// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// redialAfter is how many draws have to fail in a row, without a lease, before another connection is made: one trusts
// the CA that there was when it was made.
const redialAfter = 10

// Conn is a connection to a broker.
type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

// Run draws a share for an account every second until the context ends, over a connection that dial makes. It logs the
// first failure, that a lease has ended, and that the account has one again.
func Run(ctx context.Context, account *Account, dial func() (Conn, error), log *slog.Logger) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var conn Conn
	hangUp := func() {
		if conn != nil {
			_ = conn.Close()
		}
		conn = nil
	}
	defer hangUp()
	leased, told, failed := false, false, 0
	for {
		var err error
		if conn == nil {
			conn, err = dial()
		}
		if err == nil {
			err = drawInTime(ctx, account, wirev1.NewAcceleratorSharesClient(conn))
		}
		now := account.leased()
		if failed++; err == nil || now {
			failed = 0
		} else if failed%redialAfter == 0 {
			hangUp()
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && now && !leased:
			log.Info("Accelerator is shared with other agents of the node")
		case err != nil && (!told || leased && !now):
			log.Warn("Node agent grants no share of the accelerator", "error", err.Error())
		}
		leased, told = now, true
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// drawInTime is Draw, for a second at most.
func drawInTime(ctx context.Context, account *Account, broker wirev1.AcceleratorSharesClient) error {
	ctx, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	return Draw(ctx, account, broker)
}

// Draw tells the broker what was used, and grants the account what the broker says: nothing where too many agents share
// the accelerator, so that the parts of namespaces hold. A broker that does not answer changes nothing.
func Draw(ctx context.Context, account *Account, broker wirev1.AcceleratorSharesClient) error {
	drawn := account.drawn()
	granted, err := broker.Draw(ctx, &wirev1.DrawRequest{UsedNanos: drawn.Used, Refused: drawn.Refused})
	if err != nil {
		if status.Code(err) == codes.ResourceExhausted {
			account.grant(0, false)
		}
		return fmt.Errorf("draw a share of the accelerator: %w", err)
	}
	account.grant(float64(granted.GetNanosPerSecond()), granted.GetContended())
	return nil
}
