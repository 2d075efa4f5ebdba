// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/claimstore"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/node"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/scrub"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// scrub verifies the source where it rests.
func (a *agent) scrub(ctx context.Context, c *wirev1.LocalConfig) error {
	from := c.GetSend()
	err := required("send.run_id", from.GetRunId(), "send.control_address", from.GetControlAddress())
	if err == nil && c.GetSourceStore() == nil {
		err = required("send.volume", from.GetVolume(), "send.path", from.GetPath())
	}
	if err != nil {
		return err
	}
	archives := from.GetSourceForm() == wirev1.Form_FORM_ARCHIVE
	var form cargo.Form
	if !archives {
		form, err = protocol.FormOf(from.GetSourceForm())
	}
	switch {
	case err != nil:
		return badConfig("send.source_form: %w", err)
	case c.GetDestinationStore() != nil:
		return badConfig("the configuration has a destination, and scrub, which has none")
	case (c.GetSourceStore() == nil) != (form != 0 || archives):
		return badConfig("send.source_form is %v: volumes have one, and stores none", from.GetSourceForm())
	}
	if err := identitiesFit(from); err != nil {
		return err
	}
	a.known = knownOn(node.ReadHost(), from.GetFigures())
	report := send.NewReport()
	report.SetDetail("The agent is opening what it verifies")
	inflated, software := &meter.Meter{}, policy.SoftwareUsed
	options := scrub.Options{Inflate: c.GetScrub().GetInflate(), Engines: engines.Default(), Report: report}
	if options.Inflate {
		decoders := a.inflaters(ctx, c.GetInflateInSoftware())
		if !c.GetInflateInSoftware() {
			software = decoders.software
		}
		options.Engines = meter.Decoders(decoders.registry, inflated)
	}
	report.Inflating(inflated, software)
	pace, err := paceOf(from)
	if err != nil {
		return err
	}
	stop, err := a.serveControl(transport.NewFiles(a.configDir), from.GetControlAddress(), report, pace)
	if err != nil {
		return err
	}
	defer stop()
	return a.end(report, func() error {
		options.Workers = localStreams(c)
		if end := c.GetSourceStore(); end != nil {
			store, err := openMetered(end, report, pace)
			if err != nil {
				return err
			}
			defer store.Close()
			readable, err := decrypted(store, c.GetIdentitiesDirectory())
			if err != nil {
				return err
			}
			return bucket.Scrub(ctx, readable, options)
		}
		if err := ofClaim(from.GetVolume()); err != nil {
			return err
		}
		if archives {
			return scrubClaim(ctx, c, options)
		}
		source, err := tree.OpenSource(from.GetVolume(), from.GetPath())
		if err != nil {
			return err
		}
		defer source.Close()
		return scrub.Tree(ctx, source, form, options)
	}())
}

// scrubClaim verifies the archives in a claim.
func scrubClaim(ctx context.Context, c *wirev1.LocalConfig, options scrub.Options) error {
	store, err := claimstore.OpenRead(c.GetSend().GetVolume(), c.GetSend().GetPath())
	if err != nil {
		return err
	}
	defer store.Close()
	readable, err := decrypted(store, c.GetSend().GetIdentitiesDirectory())
	if err != nil {
		return err
	}
	return bucket.Scrub(ctx, readable, options)
}
