// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"errors"
	"fmt"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/tree"
)

// carriedItem sends a piece of a file that rests compressed as the block that it is there. It returns false if that
// cannot be: the piece is none, or no block of its own.
func (w *worker) carriedItem(ctx context.Context, item []piece) (sent bool, err error) {
	if p := item[0]; len(item) > 1 || !p.file.carried || p.file.isTakenBack() {
		return false, nil
	}
	p := item[0]
	source, ok := w.source.(CargoSource)
	if !ok {
		return false, fmt.Errorf("files of a source of type %T cannot be sent as they rest", w.source)
	}
	defer w.borrow()()
	w.begin()
	var h frame.Header
	var payload []byte
	var mark cargo.Mark
	w.haveRead(meter.ThreadCPU(func() {
		h, payload, ok, err = source.Carry(p.file.entry, p.offset, p.length, w.encoded[:0])
	}))
	if ok && err == nil {
		mark, err = w.carriedMark(ctx, p)
	}
	switch {
	case errors.Is(err, tree.ErrChanged):
		return true, w.changed.takeBack(p.file)
	case err != nil || !ok:
		return false, err
	}
	s := segmentOf(p, [16]byte{})
	s.Undigested, s.Mark = true, mark
	w.add(p.file, s)
	if err := w.write(h, payload); err != nil {
		return false, err
	}
	if w.shared != nil {
		w.shared.place.fan.shares.sent(w.shared.place, p.length)
	} else {
		w.encoder.Skip()
	}
	w.report.Blocks.Add(meter.Outcome{
		Path: meter.Stored, Reason: policy.AlreadyCompressed, PlainBytes: p.length, WireBytes: h.BlockLen(),
	})
	return true, nil
}
