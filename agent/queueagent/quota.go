// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// quotaInterval is between two looks at how much the stream has stored.
const quotaInterval = time.Second

// openQuota bounds the ids that the members' servers remember, each of which remembers those that any of them
// admitted: a member admits its share. It is nil with external servers, whose memory is their owner's matter.
func (a *Agent) openQuota(
	ctx context.Context, kept engine, conn *nats.Conn, o store.Options, settings store.Settings,
) (*ids.Quota, error) {
	if kept.Shared() {
		return nil, nil //nolint:nilnil // Nothing is bounded.
	}
	now, err := lookAt(ctx, kept, conn)
	if err != nil {
		return nil, err
	}
	options := ids.QuotaOptions{
		Limit: ids.MaxIDs / int64(max(settings.Replicas, 1)), Window: settings.Window(),
		Messages: now.Messages + now.DeadLetters, Last: now.LastSequence,
	}
	if !o.Memory {
		options.Path = filepath.Join(o.Directory, "ids-let-in.json")
	}
	quota, err := ids.NewQuota(options)
	if err != nil {
		a.options.Log.Warn("Ids are counted from zero", "error", err.Error())
	}
	return quota, nil
}

// keepQuota keeps count until the context ends, and writes it then.
func (a *Agent) keepQuota(ctx context.Context, conn *nats.Conn, queue string, quota *ids.Quota) {
	if quota == nil {
		return
	}
	told := false
	write := func(always bool) {
		err := quota.Write(always)
		if err != nil && !told {
			a.options.Log.Warn("After a restart fewer ids count than were accepted", "error", err.Error())
		}
		told = err != nil
	}
	ticker := time.NewTicker(quotaInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			if quota.Counts() {
				quota.Turn(lastSequence(ctx, conn, queue))
				write(false)
			}
		}
	}
	if quota.Counts() {
		quota.Turn(0)
		write(true)
	}
}

// lastSequence of the stream; 0: it is not known now.
func lastSequence(ctx context.Context, conn *nats.Conn, queue string) uint64 {
	_, stream, err := store.Look(ctx, conn, queue)
	if err != nil {
		return 0
	}
	return stream.CachedInfo().State.LastSeq
}
