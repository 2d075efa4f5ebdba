// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
)

// State of the control connections of one replica with a peer.
type State struct {
	// Connections that are there now.
	Connections int `json:"connections"`
	// Since when the oldest of them is; zero without one.
	Since time.Time `json:"since,omitzero"`
	// Error is why a connection ended last, or could not be made; empty: that did not happen.
	Error     string        `json:"error,omitempty"`
	Reason    tunnel.Reason `json:"reason,omitempty"`
	ErrorTime time.Time     `json:"errorTime,omitzero"`
}

// Sum is the state of several replicas.
func Sum(states []State) State {
	var sum State
	for _, s := range states {
		sum.Connections += s.Connections
		if !s.Since.IsZero() && (sum.Since.IsZero() || s.Since.Before(sum.Since)) {
			sum.Since = s.Since
		}
		if s.ErrorTime.After(sum.ErrorTime) {
			sum.Error, sum.Reason, sum.ErrorTime = s.Error, s.Reason, s.ErrorTime
		}
	}
	return sum
}

const (
	// askTime bounds a question for a state, of all replicas.
	askTime = 3 * time.Second
	// maxState bounds an answer, in bytes.
	maxState  = 16 << 10
	statePath = "/state/"
)

// Ask returns the state of the control connections with a peer, of all replicas behind the address that answer. It
// returns an error if none does.
func Ask(ctx context.Context, address, peer string, certificate *tls.Certificate) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return State{}, fmt.Errorf("asking gateways for their control connections: %w", err)
	}
	replicas, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return State{}, fmt.Errorf("asking gateways for their control connections: %w", err)
	}
	var states []State
	var failed error
	for _, replica := range replicas[:min(len(replicas), maxSiblings)] {
		s, err := askOne(ctx, net.JoinHostPort(replica, port), peer, certificate)
		if err != nil {
			failed = err
			continue
		}
		states = append(states, s)
	}
	if len(states) == 0 {
		return State{}, fmt.Errorf("asking gateways for their control connections: %w", failed)
	}
	return Sum(states), nil
}

func askOne(ctx context.Context, replica, peer string, certificate *tls.Certificate) (s State, err error) {
	proof, err := tunnel.Proof(certificate, tunnel.Target(peer), time.Now())
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime/2)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+replica+statePath+peer, nil)
	if err != nil {
		return s, err
	}
	request.Header.Set("Proxy-Authorization", proof)
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request) // without a proxy of the environment
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return s, fmt.Errorf("gateway %s answers with HTTP status %d", replica, answer.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxState)).Decode(&s); err != nil {
		return s, fmt.Errorf("reading the answer of gateway %s: %w", replica, err)
	}
	return s, nil
}
