// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// maxNote bounds a small object of ours in bytes.
	maxNote = 64 << 10
	// releasePatience is how long giving a prefix up may take when the attempt is to end.
	releasePatience = 5 * time.Second
)

// holdCheck is how often a long removal makes sure that the prefix is still ours.
const holdCheck = time.Minute

// hold is a prefix that an attempt has claimed.
type hold struct {
	store Store
	ours  *wirev1.StoreWriter
	// checked is when checkOften last looked. That is for one goroutine.
	checked time.Time
}

// claim takes the prefix for one Transfer, by an object that one writer alone can make. An attempt takes it over from
// an earlier one of its Transfer, which finds that out with check.
func claim(ctx context.Context, o *WriteOptions) (*hold, error) {
	ours := &wirev1.StoreWriter{Transfer: o.Transfer, RunId: o.RunID, Attempt: o.Attempt}
	if err := putNote(ctx, o.Store, writerName, ours, true); errors.Is(err, objectstore.ErrExists) {
		if err := takeOver(ctx, o, ours); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return &hold{store: o.Store, ours: ours, checked: time.Now()}, nil
}

// folds reports whether the server takes A and a for one, as file systems of some do that keep objects as files.
func (h *hold) folds(ctx context.Context) (bool, error) {
	var present wirev1.StoreWriter
	switch err := getNote(ctx, h.store, strings.ToUpper(writerName), &present); {
	case err == nil:
		return proto.Equal(&present, h.ours), nil
	case errors.Is(err, objectstore.ErrNotFound), errors.Is(err, objectstore.ErrChanged), errors.Is(err, errNote):
		return false, nil // There is none, or it is somebody's file.
	default:
		return false, err
	}
}

// check fails if another attempt or Transfer has the prefix. It comes before all that would replace or remove what that
// one wrote. Stores have no delete with a condition: one request may still cross the takeover.
func (h *hold) check(ctx context.Context) error {
	var present wirev1.StoreWriter
	err := getNote(ctx, h.store, writerName, &present)
	switch {
	case err == nil && present.GetTransfer() == h.ours.GetTransfer() && present.GetRunId() == h.ours.GetRunId() &&
		present.GetAttempt() == h.ours.GetAttempt():
		return nil
	case err != nil && !errors.Is(err, errNote) && !errors.Is(err, objectstore.ErrNotFound) &&
		!errors.Is(err, objectstore.ErrChanged):
		return err
	}
	return h.superseded()
}

// superseded is the error of an attempt that has the prefix no more.
func (h *hold) superseded() error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE,
		"another attempt or Transfer has taken over this prefix, or %s was removed: this attempt removes nothing there any "+
			"more; if no other one writes there, run again", writerName)
}

// checkOften checks if the last check is a while ago.
func (h *hold) checkOften(ctx context.Context) error {
	if time.Since(h.checked) < holdCheck {
		return nil
	}
	h.checked = time.Now()
	return h.check(ctx)
}

// release gives the prefix up, if it is still ours.
func (h *hold) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releasePatience)
	defer cancel()
	if err := h.check(ctx); err != nil {
		return err
	}
	return h.store.Delete(ctx, writerName)
}

func takeOver(ctx context.Context, o *WriteOptions, content *wirev1.StoreWriter) error {
	var present wirev1.StoreWriter
	err := getNote(ctx, o.Store, writerName, &present)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE,
			"another Transfer wrote below this prefix a moment ago: wait for it, or use another "+
				"spec.destination.objectStore.path")
	case err != nil && !errors.Is(err, errNote):
		return err
	case err == nil && present.GetTransfer() == o.Transfer:
		return putNote(ctx, o.Store, writerName, content, false)
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE,
		"another Transfer (%q) writes below this prefix: wait until its run has ended, or use another "+
			"spec.destination.objectStore.path; if no such Transfer exists any more in any cluster, remove the object %s",
		failure.Shorten(present.GetTransfer(), 256), writerName)
}

// putNote writes a small object of ours.
func putNote(ctx context.Context, store Store, name string, m proto.Message, ifAbsent bool) error {
	b, err := protojson.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	_, err = store.Put(ctx, name, bytesAt(b), int64(len(b)), objectstore.PutOptions{IfAbsent: ifAbsent})
	return err
}

// errNote says that a small object of ours is not as we write it.
var errNote = errors.New("the object is not as Lighterage writes it")

// getNote reads a small object of ours: errNote if it is none.
func getNote(ctx context.Context, store Store, name string, m proto.Message) error {
	object, err := store.Head(ctx, name)
	if err != nil {
		return err
	}
	if object.Size < 1 || object.Size > maxNote {
		return fmt.Errorf("read %s: %w: it has %d bytes", name, errNote, object.Size)
	}
	r, err := store.Get(ctx, name, object.ETag, 0, object.Size)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // It was only read.
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := parseNote(b, m); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

func parseNote(b []byte, m proto.Message) error {
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m); err != nil {
		return fmt.Errorf("%w: %w", errNote, err)
	}
	return nil
}
