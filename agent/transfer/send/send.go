// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package send is the sending end of a Transfer.
//
// It walks the source and announces entries in manifests, on a session with the receiver. What the receiver needs is
// cut into chunks, and what is shorter than a chunk shares a block with others. Workers read, digest, compress and
// send, each over a connection of its own. Files that change while they are read are taken back and announced again
// when everything else was sent.
package send

import (
	"context"
	"fmt"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Run moves the source to the receiver. It returns nil when the receiver has synced everything; any other end has a
// reason (see package failure) or is an error of this side. Nothing is tried again.
func Run(ctx context.Context, o Options) error {
	if o.Place != nil {
		o.Report.place.Store(o.Place)
	}
	conn, err := o.Dial()
	if err != nil {
		return fmt.Errorf("connect to the receiver: %w", err)
	}
	defer conn.Close()
	early := dialEarly(ctx, &o)
	defer early.end()
	if err := ready(ctx, conn, o.Direct); err != nil {
		return err
	}
	// The session outlives a context that ends, so that the receiver can be told.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	if o.Silence == 0 {
		o.Silence = defaultSilence
	}
	if o.ChangedPauses == nil {
		o.ChangedPauses = []time.Duration{time.Second, 5 * time.Second}
	}
	if o.Form != 0 {
		o.Codecs = []codec.ID{o.Form.Codec()}
	}
	stream, err := wirev1.NewReceiverClient(conn).Session(streamCtx)
	if err != nil {
		return lost(conn, err)
	}
	s := &session{stream: stream, cut: cancel, patience: o.Silence, ended: make(chan struct{})}
	announcer := newAnnouncer(&o, s, newWindow())
	defer func() {
		cancel() // what it waits for
		announcer.end()
	}()
	t, err := negotiate(&o, s, func() {
		if o.announcesEarly() {
			announcer.start(ctx)
		}
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if untrusted := conn.Untrusted(); untrusted != nil {
			return untrusted
		}
		return err
	}
	stop()
	if o.Place != nil {
		err = o.Place.meet(ctx, &o, t)
	}
	if err == nil {
		err = newAttempt(&o, s, t, announcer, early).run(ctx)
	}
	if err != nil {
		s.tell(err)
	}
	return err
}
