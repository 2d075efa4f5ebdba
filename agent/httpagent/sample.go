// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpagent

import (
	"context"
	"time"

	"github.com/lighterage/lighterage/agent/sampling"
)

// SampleLimits bound the memory that a sample takes, beside the little that a replica takes otherwise.
var SampleLimits = sampling.Limits{Bytes: 4 << 20, Items: 4096, Duration: 30 * time.Second}

// Sample gives bodies that pass. It implements sampling.Source.
func (a *Agent) Sample(ctx context.Context, r sampling.Request, give func(sampling.Item) error) (sampling.Seen, error) {
	server := a.server.Load()
	if server == nil {
		return sampling.Seen{}, sampling.ErrNotReady
	}
	return server.Sample(ctx, r, give)
}
