// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// terms are what both sides hold to in a session.
type terms struct {
	codec codec.ID
	token []byte
	salt  []byte
	// accepted is all that the receiver answered.
	accepted *wirev1.Accepted
	// carry is the form of files whose blocks travel as they rest; 0: none.
	carry cargo.Form
}

// negotiate begins the session, calls begun, and waits for the answer.
func negotiate(o *Options, s *session, begun func()) (*terms, error) {
	begin := &wirev1.Begin{
		ProtocolVersion:    cmp.Or(o.ProtocolVersion, wirev1.ProtocolVersion),
		RunId:              o.RunID,
		Attempt:            o.Attempt,
		ChunkSize:          protocol.ChunkSize,
		Verify:             o.Verify,
		CheckpointInterval: uint64(o.CheckpointInterval),
		Mirror:             o.Mirror,
		Contents:           o.Contents,
		Form:               protocol.FormToWire(o.Form),
		Records:            protocol.RecordsToWire(o.Records),
		Block:              o.Block,
	}
	for _, id := range offer(o) {
		begin.Codecs = append(begin.Codecs, uint32(id))
	}
	err := s.stream.Send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Begin{Begin: begin}})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, protocol.Lost(err)
	}
	begun()
	m, err := s.receive()
	if err != nil {
		return nil, err
	}
	if f := m.GetFailure(); f != nil {
		return nil, refused(f)
	}
	accepted := m.GetAccepted()
	if accepted == nil || len(accepted.GetSession()) == 0 || accepted.GetCodec() > 255 {
		return nil, protocol.Invalid("the receiver did not answer the beginning of the session")
	}
	t := &terms{
		codec: codec.ID(accepted.GetCodec()), token: accepted.GetSession(), salt: accepted.GetSalt(), accepted: accepted,
	}
	t.carry = carried(o, accepted)
	if !slices.Contains(offer(o), t.codec) {
		return nil, protocol.Invalid("the receiver chose codec %d, which was not offered", accepted.GetCodec())
	}
	if o.Block && !accepted.GetBlock() {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_VOLUME_MODE_MISMATCH,
			"the receiving cluster (%s) writes no block volumes, so nothing was sent: upgrade it",
			failure.Shorten(accepted.GetVersion(), 64))
	}
	if o.Contents && !accepted.GetContents() {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_RECEIPT_UNSUPPORTED,
			"the receiving cluster (%s) cannot give receipts, so nothing was sent: upgrade it, or set spec.receipt to false",
			failure.Shorten(accepted.GetVersion(), 64))
	}
	if form := protocol.FormToWire(o.Form); form != accepted.GetForm() || o.Form == cargo.Gzip && !accepted.GetJoinable() {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED,
			"the receiving cluster (%s) cannot keep files in form %v, so nothing was sent: upgrade it, or make a Transfer "+
				"without spec.destination.form", failure.Shorten(accepted.GetVersion(), 64), o.Form)
	}
	if want, got := begin.GetRecords(), accepted.GetRecords(); want.GetLayout() != got.GetLayout() ||
		want.GetLength() != got.GetLength() {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED,
			"the receiving cluster (%s) cannot keep the numbers of records, so nothing was sent: upgrade it, or make a "+
				"Transfer without spec.destination.records", failure.Shorten(accepted.GetVersion(), 64))
	}
	return t, nil
}

// offer returns the codecs that the sender can write and the policy allows, and none, which always works.
func offer(o *Options) []codec.ID {
	var ids []codec.ID
	if o.Policy.Mode != policy.Never {
		for _, id := range o.Codecs {
			if id != codec.None && len(o.Engines.ForCodec(id)) > 0 {
				ids = append(ids, id)
			}
		}
	}
	ids = append(ids, codec.None)
	// What rests travels in any mode. Behind None, the receiver does not choose it for what else there is.
	if id := o.SourceForm.Codec(); o.SourceForm != 0 && !slices.Contains(ids, id) {
		ids = append(ids, id)
	}
	return ids
}

// carried returns the form of the source if the receiver takes its blocks: it reads the codec, does not need digests,
// and files rest there plain or in the same form. Others get blocks that are made of the plain bytes.
func carried(o *Options, accepted *wirev1.Accepted) cargo.Form {
	form := o.SourceForm
	if form == 0 || o.Form != 0 && o.Form != form || !accepted.GetUndigested() ||
		!slices.Contains(accepted.GetCodecs(), uint32(form.Codec())) || form == cargo.Gzip && !accepted.GetJoinable() {
		return 0
	}
	return form
}
