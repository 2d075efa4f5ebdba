// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"strconv"
	"strings"
	"sync"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxChangedNames bounds the files that a message names.
const maxChangedNames = 5

// changedFiles are files that changed while they were read and that the receiver was told to forget.
type changedFiles struct {
	session *session

	mu    sync.Mutex
	files []*outFile
	total int // those that were read again included
}

func (c *changedFiles) add(f *outFile) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = append(c.files, f)
	if c.total++; c.total <= protocol.MaxChanged {
		return nil
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
		"more than %d times a file changed while it was read, among them %s: stop what writes to the claim, or snapshot it",
		protocol.MaxChanged, c.names())
}

// take returns the files and forgets them.
func (c *changedFiles) take() []*outFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	files := c.files
	c.files = nil
	return files
}

// names are some of the files'.
func (c *changedFiles) names() string {
	var names []string
	for _, f := range c.files[:min(len(c.files), maxChangedNames)] {
		names = append(names, strconv.Quote(failure.Shorten(f.entry.Path, failure.MaxMessage/2/maxChangedNames)))
	}
	return strings.Join(names, ", ")
}

// outcome is nil if nothing is left.
func (c *changedFiles) outcome() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.files) == 0 {
		return nil
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
		"%d files changed each time they were read, among them %s; everything else is at the destination: run again when "+
			"they are at rest, snapshot the claim, or leave them out with spec.exclude", len(c.files), c.names())
}

// takeBack tells the receiver to forget a file. It is read again when everything else is sent.
func (c *changedFiles) takeBack(f *outFile) error {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	if f.state.takenBack {
		return nil
	}
	f.state.takenBack = true
	if err := c.add(f); err != nil {
		return err
	}
	return c.session.send(
		&wirev1.SessionRequest{Message: &wirev1.SessionRequest_FileChanged{FileChanged: &wirev1.FileChanged{Index: f.index}}},
	)
}
