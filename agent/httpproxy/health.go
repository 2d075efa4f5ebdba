// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/egress"
)

// BackendHealth is what the last checks of the backend said.
type BackendHealth struct {
	// Checked is false until one check has passed or as many have failed as make a backend unhealthy. Requests are
	// passed on until then.
	Checked bool
	Healthy bool
	// Failure says what kind of thing is wrong, and nothing else: it goes to status, which must not
	// tell which ports of which servers are open. What exactly it was is in the log.
	Failure Failure
	// Status of the answer, with FailureStatus.
	Status int
	// Since is when Healthy last changed.
	Since time.Time
}

// healthCheck looks after one backend. It is safe for concurrent use.
type healthCheck struct {
	url     string
	address string
	options Health
	client  *http.Client
	egress  *egress.Guard
	// tell is told of what a check failed with, when that begins.
	tell func(error)

	mu       sync.Mutex
	state    BackendHealth
	failures int
}

func newHealthCheck(address string, config *tls.Config, o Health, guard *egress.Guard) *healthCheck {
	o.setDefaults()
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	return &healthCheck{
		url: scheme + "://" + address + o.Path, address: address, options: o, egress: guard, tell: func(error) {},
		client: &http.Client{
			Timeout: o.Timeout,
			// A connection of its own each time: that one can be made is part of the check.
			Transport: &http.Transport{
				TLSClientConfig: config, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return guard.Dial(ctx, 0, address)
				},
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// run checks at once and then from time to time until the context ends.
func (h *healthCheck) run(ctx context.Context) {
	for {
		err := h.check(ctx)
		if ctx.Err() != nil {
			return
		}
		h.note(err, time.Now())
		pause := h.options.Interval
		if err != nil {
			pause = min(pause, time.Second) // what comes back is wanted at once
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (h *healthCheck) check(ctx context.Context) error {
	if h.options.Path == "" {
		conn, err := h.egress.Dial(ctx, h.options.Timeout, h.address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "lighterage-health-check")
	res, err := h.client.Do(req)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return &statusError{path: h.options.Path, status: res.StatusCode}
	}
	return nil
}

// note counts the outcome of a check. One failure may be chance, the first of a pod whose network has just been made
// above all; one success is none.
func (h *healthCheck) note(err error, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	healthy := err == nil
	if healthy {
		h.failures = 0
	} else if h.failures++; h.failures < h.options.Failures {
		return
	}
	if !h.state.Checked || h.state.Healthy != healthy {
		h.state.Since = now
	}
	failure, status := classify(err)
	if !healthy && h.state.Failure != failure {
		h.tell(err)
	}
	h.state.Checked, h.state.Healthy, h.state.Failure, h.state.Status = true, healthy, failure, status
}

func (h *healthCheck) get() BackendHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}
