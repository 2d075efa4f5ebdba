// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// BackendHealth is what the last checks of the backend said.
type BackendHealth struct {
	// Checked is false until the first check has ended.
	Checked bool
	Healthy bool
	// Message says what is wrong.
	Message string
	// Since is when Healthy last changed.
	Since time.Time
}

// healthCheck looks after one backend. It is safe for concurrent use.
type healthCheck struct {
	url     string
	address string
	options Health
	client  *http.Client

	mu       sync.Mutex
	state    BackendHealth
	failures int
}

func newHealthCheck(address string, config *tls.Config, o Health) *healthCheck {
	o.setDefaults()
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	return &healthCheck{
		url: scheme + "://" + address + o.Path, address: address, options: o,
		client: &http.Client{
			Timeout: o.Timeout,
			// A connection of its own each time: that one can be made is part of the check.
			Transport: &http.Transport{
				TLSClientConfig: config, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, "tcp", address)
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
		conn, err := (&net.Dialer{Timeout: h.options.Timeout}).DialContext(ctx, "tcp", h.address)
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
		return fmt.Errorf("GET %s answers %s", h.options.Path, res.Status)
	}
	return nil
}

// note counts the outcome of a check. One failure may be chance; one success is none.
func (h *healthCheck) note(err error, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	healthy := err == nil
	if healthy {
		h.failures = 0
	} else if h.failures++; h.failures < h.options.Failures && h.state.Checked {
		return
	}
	if !h.state.Checked || h.state.Healthy != healthy {
		h.state.Since = now
	}
	h.state.Checked, h.state.Healthy, h.state.Message = true, healthy, ""
	if !healthy {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			err = fmt.Errorf("no answer within %v", h.options.Timeout)
		}
		h.state.Message = fmt.Sprintf("backend %s: %v", h.address, err)
	}
}

func (h *healthCheck) get() BackendHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}
