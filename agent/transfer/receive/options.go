// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"io"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/tree"
)

// Options describe one attempt to receive.
type Options struct {
	RunID   string
	Attempt uint32
	// Sender is the Transfer that the sender's certificate names, as NAMESPACE/NAME.
	Sender      string
	Destination Destination
	// Block: Destination is a Device.
	Block bool
	// AllowDelete says that the sender may ask for a mirror, which removes what the source does not have.
	AllowDelete bool
	Engines     *codec.Registry
	// InflateRates are the bytes of plain data for each second of CPU time that engines were measured to expand; may be
	// nil.
	InflateRates map[codec.ID]float64
	Report       *Report
	// OneProcess says that the sender is in this process and counts its CPU time.
	OneProcess bool
	// WaitForSender is how long the receiver waits for a session, Idle how long a session may be silent. 0 is the
	// default: 10 and 5 minutes.
	WaitForSender time.Duration
	Idle          time.Duration
}

const (
	defaultWaitForSender = 10 * time.Minute
	defaultIdle          = 5 * time.Minute
	// reportInterval is how often a receiver tells its sender how far it is.
	reportInterval = time.Second
)

// Destination is where a receiver writes. See tree.Destination for what the methods promise.
type Destination interface {
	Mirror(f *filter.Filter, allowEmpty bool) error
	Removed() uint64
	Look(*tree.Entry) (needed bool, err error)
	LookAgain(*tree.Entry) (needed bool, err error)
	Rest(cargo.Form, cargo.Records)
	Forget(path string)
	OpenOld(path string) (*tree.OldFile, error)
	ReadContent(path string, w io.Writer) (size int64, err error)
	ReadLink(path string) (target string, ok bool, err error)
	Stage(number uint64, e *tree.Entry) (StagedFile, error)
	Discard(number uint64) error
	Unstage(number uint64) error
	KeepOthers()
	Finish() error
	Close() error
	Sync() error
	Staged(number uint64) (bytes int64, exists bool, err error)
	Clear(keep func(number uint64) bool) (bytes int64, err error)
	// Staging may return nil: there is no journal, and what an attempt wrote is the old version for the next one.
	Staging() journal.Dir
	Omissions() *tree.Omissions
}

// StagedFile is a file that does not have its name yet.
type StagedFile interface {
	io.WriterAt
	io.ReaderAt
	WriteHole(offset, length int64) error
	CopyFrom(old *tree.OldFile, offset, length int64) error
	IsHole(offset, length int64) (bool, error)
	Truncate(size int64) error
	Sync() error
	Commit(*tree.Entry) error
	Close() error
}

// Tree is a tree.Destination as Destination.
type Tree struct{ *tree.Destination }

// Stage implements Destination.
func (t Tree) Stage(number uint64, e *tree.Entry) (StagedFile, error) {
	return t.Destination.Stage(number, e)
}

// Device is a tree.DeviceDestination as Destination.
type Device struct{ *tree.DeviceDestination }

// Stage implements Destination.
func (d Device) Stage(uint64, *tree.Entry) (StagedFile, error) { return d.Open(), nil }

var (
	_ Destination = Tree{(*tree.Destination)(nil)}
	_ Destination = Device{(*tree.DeviceDestination)(nil)}
)
