// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"runtime"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// probeTimeout bounds a probe; cleaning up comes after it.
const probeTimeout = 2 * time.Minute

func (a *agent) probe(ctx context.Context) error {
	var c wirev1.ProbeConfig
	if err := a.readConfig(&c); err != nil {
		return err
	}
	report := &probeReport{start: time.Now()}
	return a.end(report, func() error {
		store, err := openStore(c.GetStore(), c.GetDialPolicy(), nil, nil)
		if err != nil {
			return err
		}
		defer store.Close()
		ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, failure.New(
			wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE, "the probe took longer than %v", probeTimeout,
		))
		defer cancel()
		verdicts, err := objectstore.Probe(ctx, store)
		a.logDetail(err)
		for _, v := range verdicts {
			a.logDetail(v.Problem)
		}
		report.promises = objectstore.Wire(verdicts)
		return err
	}())
}

// logDetail logs what a server said: the log is the tenant's, status is not.
func (a *agent) logDetail(err error) {
	var detailed *objectstore.Error
	if errors.As(err, &detailed) {
		a.log.Warn("A request to the store failed", "error", err.Error(), "code", detailed.Code, "detail", detailed.Detail)
	}
}

// storeOptions are those of a store as it was configured, which dials only what the policy permits.
func storeOptions(c *wirev1.ObjectStoreConfig, dials *wirev1.DialPolicy) (objectstore.Options, error) {
	parsed, err := egress.Parse(dials)
	if err != nil {
		return objectstore.Options{}, badConfig("%w", err)
	}
	return objectstore.FromWire(c, egress.NewGuard(parsed)), nil
}

// openStore returns a store as it was configured; wrap, if there is one, is asked for each connection to it, and counter,
// if there is one, counts requests.
func openStore(
	c *wirev1.ObjectStoreConfig, dials *wirev1.DialPolicy, wrap func(net.Conn) net.Conn, counter *objectstore.Counter,
) (*objectstore.Store, error) {
	options, err := storeOptions(c, dials)
	if err != nil {
		return nil, err
	}
	options.Counter = counter
	if dial := options.Dial; wrap != nil {
		options.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dial(ctx, address)
			if err != nil {
				return nil, err
			}
			return wrap(conn), nil
		}
	}
	store, err := objectstore.New(options)
	if err != nil {
		return nil, badConfig("%w", err)
	}
	return store, nil
}

// probeReport is the report of a probe.
type probeReport struct {
	start, end time.Time
	promises   []*wirev1.StorePromise
	failure    *wirev1.Failure
}

// End says how it ended: nil is success.
func (r *probeReport) End(err error) {
	r.end, r.failure = r.start.Add(time.Since(r.start)), failure.ToWire(err)
}

// Report returns the report of a probe that has ended.
func (r *probeReport) Report() *wirev1.Report {
	report := &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Version: wirev1.Version, Architecture: runtime.GOARCH,
		StartTime: timestamppb.New(r.start), EndTime: timestamppb.New(r.end), Promises: r.promises,
	}
	if r.failure != nil {
		report.State, report.Failure = wirev1.AgentState_AGENT_STATE_FAILED, r.failure
	}
	return report
}
