// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/lighterage/lighterage/agent/bucket"
	"github.com/lighterage/lighterage/agent/claimstore"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// ends are what a Transfer within one process reads, and the store that it writes; nil: it writes files of a volume.
type ends struct {
	source      send.Source
	destination bucket.Store
	filter      *filter.Filter
	closers     []func()
	// inflated counts what is inflated of a store that is the source. It may be set until that is read.
	inflated *meter.Meter
}

func (e *ends) close() {
	for _, c := range e.closers {
		c()
	}
}

// openEnds opens the source, and the destination if it is a store.
func (a *agent) openEnds(
	ctx context.Context, c *wirev1.LocalConfig, report *send.Report, pace *transport.Pace,
) (_ *ends, err error) {
	e := &ends{inflated: &meter.Meter{}}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	open := func(end *wirev1.StoreEnd) (*objectstore.Store, error) {
		store, err := openMetered(end, report, pace)
		if err == nil {
			e.closers = append(e.closers, store.Close)
		}
		return store, err
	}
	if e.filter, err = filter.New(c.GetSend().GetInclude(), c.GetSend().GetExclude()); err != nil {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_FILTER, "spec.%w", err)
	}
	switch end, to := c.GetDestinationStore(), c.GetReceive(); {
	case end != nil:
		store, err := open(end)
		if err != nil {
			return nil, err
		}
		e.destination = store
	case c.GetSend().GetForm() == wirev1.Form_FORM_ARCHIVE:
		store, err := claimstore.Open(to.GetVolume(), to.GetPath())
		if err != nil {
			return nil, err
		}
		e.destination, e.closers = store, append(e.closers, store.Close)
	}
	inflate := func() *codec.Registry {
		inflaters := a.inflaters(ctx, c.GetInflateInSoftware())
		if e.destination != nil { // Else the receiver reports it.
			report.Inflating(e.inflated, inflaters.software)
		}
		return meter.Decoders(inflaters.registry, e.inflated)
	}
	if end := c.GetSourceStore(); end != nil {
		opened, err := open(end)
		if err != nil {
			return nil, err
		}
		store, err := decrypted(opened, c.GetIdentitiesDirectory())
		if err != nil {
			return nil, err
		}
		form, err := protocol.FormOf(c.GetSend().GetSourceForm())
		if err != nil {
			return nil, err
		}
		source := archived(ctx, store, e.filter, report, inflate)
		source.SetForm(form)
		e.source = source
		if c.GetImage() != nil {
			e.source = bucket.NewImageSource(source)
		}
		return e, nil
	}
	if c.GetImage() != nil {
		source, err := openImage(c)
		if err != nil {
			return nil, err
		}
		e.source, e.closers = source, append(e.closers, func() { _ = source.Close() })
		return e, nil
	}
	files := engines.Default
	if e.destination != nil {
		files = inflate
	}
	source, done, err := openAnySource(ctx, c.GetSend(), report, inflate, files)
	if err != nil {
		return nil, err
	}
	e.source, e.closers = source, append(e.closers, done)
	return e, nil
}

// openImage opens the block volume that is put into a store.
func openImage(c *wirev1.LocalConfig) (*tree.DeviceSource, error) {
	source, err := tree.OpenDeviceSource(c.GetSend().GetVolume())
	if err != nil {
		return nil, err
	}
	made := time.Now()
	if at := c.GetImage().GetModified(); at != 0 {
		made = time.Unix(0, at)
	}
	source.Image(c.GetImage().GetVersion(), made)
	return source, nil
}

// archived is the source that a store is.
func archived(
	ctx context.Context, store bucket.Store, f *filter.Filter, report *send.Report, inflate func() *codec.Registry,
) *bucket.Source {
	source := bucket.NewSource(ctx, store, f)
	source.Indexed(report.SetCopyTime)
	source.Inflate(inflate)
	return source
}

// openAnySource returns what is to be moved of a claim: its files, or those in archives. Either may have to be
// inflated, for which archives and files return engines. done is to be called at the end.
func openAnySource(
	ctx context.Context, c *wirev1.SendConfig, report *send.Report, archives, files func() *codec.Registry,
) (_ send.Source, done func(), err error) {
	if c.GetSourceForm() != wirev1.Form_FORM_ARCHIVE {
		source, err := openSource(c, files)
		if err != nil {
			return nil, nil, err
		}
		return source, func() { _ = source.Close() }, nil
	}
	patterns, err := filter.New(c.GetInclude(), c.GetExclude())
	if err != nil {
		return nil, nil, failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_FILTER, "spec.%w", err)
	}
	store, err := claimstore.OpenSource(ctx, c.GetVolume(), c.GetPath())
	if err != nil {
		return nil, nil, err
	}
	readable, err := decrypted(store, c.GetIdentitiesDirectory())
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	return archived(ctx, readable, patterns, report, archives), store.Close, nil
}

// How many requests there are at once unless somebody chose, more than there are cores: they wait for the store.
const (
	// smallStreams put small files.
	smallStreams = 16
	// sourceStreams read from a store.
	sourceStreams = 8
)

// localStreams returns how many streams a Transfer within one process has.
func localStreams(c *wirev1.LocalConfig) int {
	if c.GetSourceStore() != nil && c.GetSend().GetStreams() == 0 {
		return sourceStreams
	}
	return streamsOf(c.GetSend())
}

// smallStreamsOf returns how many small files are put at once.
func smallStreamsOf(c *wirev1.SendConfig) int {
	if c.GetStreams() != 0 {
		return streamsOf(c)
	}
	return smallStreams
}

// openMetered opens a store, the requests and connections to which are counted and do not exceed a pace.
func openMetered(end *wirev1.StoreEnd, report *send.Report, pace *transport.Pace) (*objectstore.Store, error) {
	return openStore(end.GetStore(), end.GetDialPolicy(), func(conn net.Conn) net.Conn {
		return transport.Meter(conn, &report.Wire, pace)
	}, &report.Store)
}

// toStore writes a store, which may be archives in a claim.
func (a *agent) toStore(
	ctx context.Context, c *wirev1.LocalConfig, e *ends, resolved compression.Settings, report *send.Report,
) error {
	from := c.GetSend()
	var archive *bucket.ArchiveOptions
	var resting *bucket.RestingOptions
	switch from.GetForm() {
	case wirev1.Form_FORM_UNSPECIFIED:
	case wirev1.Form_FORM_ARCHIVE:
		archive = a.archiveOptions(ctx, resolved)
		var err error
		if archive.Encryption, err = a.encryption(c.GetEncryption()); err != nil {
			return err
		}
	default:
		form, err := protocol.FormOf(from.GetForm())
		if err != nil {
			return err
		}
		records, err := protocol.RecordsOf(from.GetRecords(), form)
		if err != nil {
			return err
		}
		chosen := a.encoders(ctx, resolved) // The form has fixed the codec.
		resting = &bucket.RestingOptions{
			Form: form, Records: records, Policy: resolved.Policy, Engines: chosen.registry, Accelerator: chosen.accelerator,
		}
	}
	err := bucket.Write(ctx, bucket.WriteOptions{
		Origin: e.source, Store: e.destination, Transfer: c.GetTransfer(), RunID: from.GetRunId(),
		Attempt: from.GetAttempt(), Delete: from.GetMirror(), AllowEmpty: from.GetAllowEmptySource(), Filter: e.filter,
		Verify: from.GetVerify(), CheckpointInterval: int64(min(from.GetCheckpointInterval(), bucket.MaxPart)),
		Streams: localStreams(c), SmallStreams: smallStreamsOf(from), Report: report, Archive: archive,
		Resting: resting, Image: c.GetImage() != nil,
	})
	a.logDetail(err)
	if err != nil || !from.GetReceipt() {
		return err
	}
	origin, ok := e.source.(send.ContentSource)
	if !ok {
		return fmt.Errorf("the content of a source of type %T cannot be digested", e.source)
	}
	contents, err := bucket.Digest(ctx, origin, e.destination)
	report.SetContents(contents)
	return err
}

// archiveOptions are how files are packed. The codec is the first that the policy names; with mode Never there is none.
func (a *agent) archiveOptions(ctx context.Context, resolved compression.Settings) *bucket.ArchiveOptions {
	o := &bucket.ArchiveOptions{Policy: resolved.Policy}
	for _, id := range resolved.Codecs {
		if id != codec.None && resolved.Policy.Mode != policy.Never {
			o.Codec = id
			break
		}
	}
	if o.Codec != codec.None {
		resolved.Codecs = []codec.ID{o.Codec}
	}
	chosen := a.encoders(ctx, resolved)
	o.Engines, o.Accelerator = chosen.registry, chosen.accelerator
	return o
}
