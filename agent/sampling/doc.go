// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sampling gives a sample of what passes an agent or is stored with it to the agent of a CompressionTrial:
// which is drawn, and how it travels.
package sampling

import (
	"context"
	"errors"
	"time"
)

const (
	// MaxItem is the longest content of an item in bytes.
	MaxItem = 1 << 20
	// MinDuration is the shortest time for which what passes is collected.
	MinDuration = time.Second
	// MaxDuration is the longest.
	MaxDuration = 10 * time.Minute
)

// ErrBusy says that another sample is being taken, ErrNotReady that nothing is served yet.
var (
	ErrBusy     = errors.New("another sample is being taken; one is at a time")
	ErrNotReady = errors.New("clients are not served yet")
)

// Request says how much to take.
type Request struct {
	// MaxBytes and MaxItems are the most; both are positive.
	MaxBytes int64
	MaxItems int
	// Duration for which to collect what passes.
	Duration time.Duration
	// Seed chooses among what is stored.
	Seed uint64
}

// Item is a body or a message.
type Item struct {
	// Content is the whole or the beginning of it, and not empty.
	Content []byte
	// Length of the whole in bytes.
	Length int64
}

// Cut reports whether the content is not all.
func (i Item) Cut() bool { return i.Length > int64(len(i.Content)) }

// Seen is what a sample was taken from.
type Seen struct {
	// Items and Bytes of all that could have been taken.
	Items, Bytes int64
	// Unreadable ones could not be inflated.
	Unreadable int64
}

// Source takes samples.
type Source interface {
	// Sample calls give for each item, whose content may be used until give returns. An error of give ends it. Besides
	// those, errors match ErrBusy, ErrNotReady or that of the context, or say what failed without telling of contents.
	Sample(ctx context.Context, r Request, give func(Item) error) (Seen, error)
}
