// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Run draws shares for an account until the context ends. It logs when the broker has not answered for a lease, so that
// the account has none, and when the account has one again.
func Run(ctx context.Context, account *Account, broker wirev1.AcceleratorSharesClient, log *slog.Logger) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	leased, told := false, false
	for {
		err := Draw(ctx, account, broker)
		now := account.leased()
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

// Draw tells the broker what was used, and has the account have what it grants: nothing where too many agents share the
// accelerator, so that the parts of namespaces hold. A broker that does not answer in a second changes nothing.
func Draw(ctx context.Context, account *Account, broker wirev1.AcceleratorSharesClient) error {
	ctx, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
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
