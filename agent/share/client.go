// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"log/slog"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Run draws shares for an account until the context ends. While the broker does not answer for a lease the account is
// without one, which is logged, as is that it has one again.
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
		case now && !leased:
			log.Info("Accelerator is shared with other agents of the node")
		case err != nil && !now && (leased || !told):
			log.Warn("Accelerator is used without a share, because the node agent grants none", "error", err.Error())
		}
		leased, told = now, true
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Draw tells the broker what was used, and has the account have what it grants.
func Draw(ctx context.Context, account *Account, broker wirev1.AcceleratorSharesClient) error {
	ctx, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	drawn := account.drawn()
	granted, err := broker.Draw(ctx, &wirev1.DrawRequest{UsedNanos: drawn.Used, Refused: drawn.Refused})
	if err != nil {
		return err
	}
	account.grant(float64(granted.GetNanosPerSecond()), granted.GetContended())
	return nil
}
