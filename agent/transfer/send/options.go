// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Options describe one attempt to send.
type Options struct {
	RunID   string
	Attempt uint32
	// ProtocolVersion in which to speak to the receiver; default: the newest.
	ProtocolVersion uint32

	Source Source
	// Engines to compress with, the preferred ones first. Those of class Hardware count as verified.
	Engines *codec.Registry
	// Accelerator is what is known of the machine's, for the reason to give when software has to do its work.
	Accelerator policy.Accelerator
	// Policy and Codecs, in order of preference, say how to compress.
	Policy policy.Settings
	Codecs []codec.ID
	// Ways to compress between which mode Auto chooses block by block, and the engine of each; none: it compresses what
	// promises to shrink as the first of Codecs that the receiver reads, at the policy's level.
	Ways       []policy.Way
	WayEngines map[policy.Option]codec.Engine
	// Pace is what DialBlocks' connections hold themselves to now, in bytes a second, for the choice between Ways; 0:
	// nothing. nil: always 0.
	Pace func() float64
	// Contents: both sides are to compute the digest of the content manifest, for a receipt.
	Contents bool
	// Form in which files are to rest at the receiver; 0: as they are. Codecs and Ways of other codecs than the form's
	// are not used.
	Form cargo.Form
	// Records of which files consist that rest in a form, whose index is to know them; the zero value: none are known.
	Records cargo.Records
	// SourceForm is that of files that rest compressed at the source, whose blocks travel as they rest if they can; 0:
	// there are none. Source is a CargoSource then.
	SourceForm cargo.Form
	// Block: Source is a block volume, whose blocks of zeros are not sent.
	Block bool
	// Verify asks the receiver to read back what it wrote.
	Verify bool
	// CheckpointInterval is how many bytes each stream may have at stake; 0 is the receiver's default, 64 MiB.
	CheckpointInterval int64
	// Mirror asks the receiver to remove what the source does not have; nil if it is not to. Its patterns are those of
	// Source's filter.
	Mirror *wirev1.Mirror
	// Dial returns a new connection to the receiver. It is closed with Close.
	Dial func() (Conn, error)
	// DialBlocks returns a new connection to the receiver that carries blocks.
	DialBlocks func(context.Context) (net.Conn, error)
	// DialEarly is DialBlocks before there is a session, so that these connections are made beside its own, and fails
	// where the receiver does not serve that. nil: they are made after the session.
	DialEarly func(context.Context) (net.Conn, error)
	// Streams is the number of workers, 1 to MaxStreams.
	Streams int
	Report  *Report
	// Direct says that the receiver is reached without a gateway.
	Direct bool
	// Place in a Fan; nil: there is one receiver.
	Place *Place
	// OneProcess says that the receiver is in this process, and what is sent crosses no network.
	OneProcess bool
	// ChangedPauses are how long to wait before files that changed while they were read are read again, each once more
	// for every pause. nil is the default: 1 s, then 5 s.
	ChangedPauses []time.Duration
	// Silence is how long a receiver, which says every second how far it is, may say nothing. 0 is the default: 1
	// minute.
	Silence time.Duration
}

// streams is how many workers there are.
func (o *Options) streams() int {
	if o.Place != nil {
		return o.Place.fan.streams(o.Streams)
	}
	return o.Streams
}

// far reports whether the path to the receiver is long.
func (o *Options) far() bool { return o.DialEarly != nil }

// announcesEarly reports whether manifests follow the session's beginning at once. A receiver that rejects the
// beginning passes over them. One that takes it and lacks what the sender cannot do without must see none: it would begin to
// write.
func (o *Options) announcesEarly() bool {
	return o.far() && o.Place == nil && !o.Block && !o.Contents && o.Form == 0
}

// Source is what a sender reads. See tree.Source for what the methods promise.
type Source interface {
	Walk(ctx context.Context, visit func(*tree.Entry) error) error
	Again(*tree.Entry) (*tree.Entry, error)
	ReadAt(e *tree.Entry, p []byte, offset int64) error
	Omissions() *tree.Omissions
}

// SparseSource is a Source some of whose entries are sparse.
type SparseSource interface {
	Source
	Open(*tree.Entry) (*tree.SourceFile, error)
}

// CargoSource is a Source some of whose files rest compressed.
type CargoSource interface {
	Source
	Carry(e *tree.Entry, offset int64, length int, buf []byte) (h frame.Header, payload []byte, ok bool, err error)
	Index(e *tree.Entry) (*cargo.Index, error)
}

var (
	_ SparseSource = (*tree.Source)(nil)
	_ SparseSource = (*tree.DeviceSource)(nil)
	_ CargoSource  = (*tree.Source)(nil)
)

const defaultSilence = time.Minute

// Conn is a connection to the receiver, or to the gateway.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
	// Ready waits until the connection is made. It fails when the context ends, or at once when there is no trust.
	Ready(context.Context) error
	// Untrusted returns why there is no trust between the sides, as an error with a reason, or nil.
	Untrusted() error
}

// connectPatience is how long a sender tries to reach the receiver, which was ready a moment ago.
const connectPatience = 2 * time.Minute

// ready waits until the receiver can be reached.
func ready(ctx context.Context, conn Conn, direct bool) error {
	limited, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	err := conn.Ready(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		if direct {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST,
				"the receiving agent cannot be reached since %v: look at the Delivery, and check that a NetworkPolicy lets "+
					"agents reach its port 8443", connectPatience)
		}
		return failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_UNREACHABLE,
			"the receiving agent cannot be reached through the peer's gateway since %v: look at the Delivery in the other "+
				"cluster", connectPatience)
	}
	return err
}

// lost is protocol.Lost for an error that want of trust may explain.
func lost(conn Conn, err error) error {
	if untrusted := conn.Untrusted(); untrusted != nil {
		return untrusted
	}
	return protocol.Lost(err)
}
