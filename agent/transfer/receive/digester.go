// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// digester answers what the sender asks about the versions of files that are at the destination.
type digester struct {
	destination Destination
	terms       *terms
	activity    *activity
	expected    *expected
	session     *session
	questions   chan question
}

// question is an ask with the file that it is about; nil if that was taken back.
type question struct {
	file *inFile
	ask  *wirev1.AskOld
}

// ask passes an ask on to run.
func (d *digester) ask(m *wirev1.AskOld) error {
	if n := m.GetCount(); n == 0 || n > protocol.MaxAskParts {
		return protocol.Invalid("the sender asks for %d digests; it may ask for 1 to %d", n, protocol.MaxAskParts)
	}
	f, err := d.expected.find(m.GetIndex())
	if err != nil {
		return err
	}
	if f != nil {
		parts := uint64(f.entry.Size+f.chunk/protocol.PartsPerChunk-1) / uint64(f.chunk/protocol.PartsPerChunk)
		first, count := m.GetFirst(), uint64(m.GetCount())
		// What was asked for is not asked for again: an old version is read once.
		if !f.old || first < f.asked || first >= parts || count > parts-first {
			return protocol.Invalid(
				"the sender asks for %d digests of %q from part %d on: there are %d parts, and %d were asked for", count,
				f.entry.Path, first, parts, f.asked,
			)
		}
		f.asked = first + count
	}
	select {
	case d.questions <- question{f, m}:
		return nil
	default:
		return protocol.Invalid("the sender asks for more digests than it may at once")
	}
}

// run answers until the attempt ends.
func (d *digester) run(ctx context.Context) error {
	hash := protocol.NewPartHash(d.terms.salt)
	for {
		select {
		case <-ctx.Done():
			return nil
		case q := <-d.questions:
			var old *wirev1.Old
			var err error
			if !d.activity.do(func() { old, err = d.digests(ctx, q, hash) }) {
				return nil
			}
			if err == nil {
				err = d.session.send(&wirev1.SessionResponse{Message: &wirev1.SessionResponse_Old{Old: old}})
			}
			if err != nil {
				return err
			}
		}
	}
}

// digests reads the version of a file that is at the destination. What cannot be read is left out: it comes from the
// sender.
func (d *digester) digests(ctx context.Context, q question, hash *protocol.PartHash) (*wirev1.Old, error) {
	answer := &wirev1.Old{Index: q.ask.GetIndex(), First: q.ask.GetFirst()}
	if q.file == nil {
		return answer, nil
	}
	old, err := d.destination.OpenOld(q.file.entry.Path)
	if old == nil || err != nil {
		return answer, err
	}
	defer old.Close()
	part := int(d.terms.chunk / protocol.PartsPerChunk)
	digests, err := old.Digests(ctx, hash.Digest, part, int64(answer.First), int(q.ask.GetCount()))
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	for i := range digests {
		answer.Digests = append(answer.Digests, digests[i][:]...)
	}
	return answer, nil
}
