// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"cmp"
	"crypto/rand"
	"math"
	"runtime"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// defaultCheckpointInterval is how much each stream may have at stake, in bytes, unless the sender says otherwise.
	defaultCheckpointInterval = 64 << 20

	minCheckpointInterval = 1 << 20
	maxCheckpointInterval = 16 << 30

	// maxCodecs bounds the answer to a sender that offers very many.
	maxCodecs = 64

	tokenSize = 32
	// saltSize is how many random bytes go into the digests of parts.
	saltSize = 32
)

// terms are what both sides hold to in a session.
type terms struct {
	chunk    int64
	interval int64 // for each stream
	verify   bool
	codec    codec.ID
	token    []byte
	salt     []byte
	// contents: the sender sends its content manifest.
	contents bool
	// form in which files rest; 0: as they are.
	form cargo.Form
	// records of which these consist; the zero value: none are known.
	records cargo.Records
}

// negotiate checks what the sender begins with.
func negotiate(o *Options, begin *wirev1.Begin) (*terms, error) {
	if begin == nil {
		return nil, protocol.Invalid("the session does not begin with its beginning")
	}
	if v := begin.GetProtocolVersion(); !wirev1.Speaks(v) {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
			"the sender speaks version %d of the protocol, this receiver (%s) version %d: use the same release of Lighterage "+
				"in both clusters",
			v, wirev1.Version, wirev1.ProtocolVersion)
	}
	if begin.GetRunId() != o.RunID || begin.GetAttempt() != o.Attempt {
		return nil, protocol.Invalid("the sender is at run %q attempt %d, this receiver was made for run %q attempt %d",
			failure.Shorten(begin.GetRunId(), 64), begin.GetAttempt(), o.RunID, o.Attempt)
	}
	c := begin.GetChunkSize()
	if c < protocol.MinChunkSize || c > protocol.MaxChunkSize || c&(c-1) != 0 {
		return nil, protocol.Invalid("a chunk size of %d bytes; it must be a power of two from %d to %d", c,
			protocol.MinChunkSize, protocol.MaxChunkSize)
	}
	interval := cmp.Or(begin.GetCheckpointInterval(), defaultCheckpointInterval)
	if interval < minCheckpointInterval || interval > maxCheckpointInterval {
		return nil, protocol.Invalid("a checkpoint interval of %d bytes; it must be from %d to %d", interval,
			minCheckpointInterval, maxCheckpointInterval)
	}
	form, err := protocol.FormOf(begin.GetForm())
	if err != nil {
		return nil, err
	}
	records, err := protocol.RecordsOf(begin.GetRecords(), form)
	if err != nil {
		return nil, err
	}
	if form != 0 && begin.GetContents() {
		return nil, protocol.Invalid("the sender wants a receipt of files that rest in form %v", form)
	}
	if begin.GetBlock() != o.Block {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH,
			"the source claim has volumeMode: %s and the destination claim volumeMode: %s, so nothing was written: use claims "+
				"of the same volumeMode", volumeMode(begin.GetBlock()), volumeMode(o.Block))
	}
	if o.Block && form != 0 {
		return nil, protocol.Invalid("the sender wants a block volume to rest in form %v", form)
	}
	id, err := choose(o.Engines, begin.GetCodecs())
	if err != nil {
		return nil, err
	}
	t := &terms{
		chunk: int64(c), interval: int64(interval), verify: begin.GetVerify(), codec: id, token: make([]byte, tokenSize),
		salt: make([]byte, saltSize), contents: begin.GetContents(), form: form, records: records,
	}
	rand.Read(t.token) // Never fails.
	rand.Read(t.salt)
	return t, nil
}

// volumeMode is what Kubernetes calls it.
func volumeMode(block bool) string {
	if block {
		return "Block"
	}
	return "Filesystem"
}

// accepted is the answer to what the sender began with.
func (t *terms) accepted(o *Options, begin *wirev1.Begin) *wirev1.Accepted {
	return &wirev1.Accepted{
		Codec:        uint32(t.codec),
		Session:      t.token,
		Salt:         t.salt,
		Contents:     t.contents,
		Joinable:     true,
		Undigested:   true,
		EarlyFinish:  true,
		Block:        o.Block,
		Form:         protocol.FormToWire(t.form),
		Records:      protocol.RecordsToWire(t.records),
		Version:      wirev1.Version,
		Architecture: runtime.GOARCH,
		Codecs:       readable(o.Engines, begin.GetCodecs()),
		Inflate:      inflate(o),
		Cores:        uint32(runtime.GOMAXPROCS(0)),
	}
}

// choose returns the first codec of the sender's that this build can read.
func choose(engines *codec.Registry, offered []uint32) (codec.ID, error) {
	if ids := readable(engines, offered); len(ids) > 0 {
		return codec.ID(ids[0]), nil
	}
	return 0, failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
		"the receiver reads none of the codecs that the sender offers: use the same release of Lighterage in both clusters")
}

// readable returns the codecs of the sender's that this build can read.
func readable(engines *codec.Registry, offered []uint32) []uint32 {
	var ids []uint32
	for _, n := range offered {
		if n <= math.MaxUint8 && len(ids) < maxCodecs &&
			(codec.ID(n) == codec.None || len(engines.ForCodec(codec.ID(n))) > 0) {
			ids = append(ids, n)
		}
	}
	return ids
}

// inflate returns what is known of how fast this side expands.
func inflate(o *Options) []*wirev1.InflateRate {
	var rates []*wirev1.InflateRate
	for _, id := range o.Engines.Codecs() {
		if rate := o.InflateRates[id]; rate >= 1 && rate < math.MaxInt64 {
			rates = append(rates, &wirev1.InflateRate{Codec: uint32(id), BytesPerSecond: uint64(rate)})
		}
	}
	return rates
}
