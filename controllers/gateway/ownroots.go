// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/wire/chain"
)

// formerTime is how long the former CA of this cluster vouches for its pods: as long as certificates of agents live.
// They renew theirs at half of that.
const formerTime = 4 * time.Hour

// ownRoots are the CA that issues in this cluster and, for a while, the one before it. It is safe for concurrent use.
type ownRoots struct {
	issuer func() (*x509.Certificate, error)

	mu              sync.Mutex
	current, former *x509.Certificate
	// until when former counts.
	until time.Time
}

// at returns those of a time. Only a CA that an earlier call has returned is known as the former one.
func (o *ownRoots) at(now time.Time) (*chain.Roots, error) {
	issuer, err := o.issuer()
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's CA: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !issuer.Equal(o.current) {
		if o.current != nil {
			o.former, o.until = o.current, now.Add(formerTime)
		}
		o.current = issuer
	}
	vouching := []*x509.Certificate{issuer}
	if now.Before(o.until) {
		vouching = append(vouching, o.former)
	}
	roots := chain.NewRoots()
	roots.Add("own", vouching)
	return roots, nil
}
