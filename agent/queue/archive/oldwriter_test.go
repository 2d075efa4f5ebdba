// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/lighterage/lighterage/agent/frame"
)

// oldWriter writes a range of form 1, as releases before form 2 did.
type oldWriter struct {
	to       io.Writer
	encoders *Encoders
	foot     Foot
	next     uint64

	fields, payloads []byte
	messages         int
	before           place
}

func newOldWriter(to io.Writer, e *Encoders, h Head) (*oldWriter, error) {
	w := &oldWriter{to: to, encoders: e}
	h.Version = 1
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return w, w.block(text, false)
}

func (w *oldWriter) Add(r *Record) error {
	w.fields, w.payloads = appendRecord(w.fields, w.payloads, &w.before, r)
	w.messages++
	w.foot.Last = r.Sequence
	w.foot.Messages++
	w.foot.PlainBytes += uint64(r.PlainLength())
	if max(len(w.fields), len(w.payloads)) < groupBytes {
		return nil
	}
	return w.flush()
}

func (w *oldWriter) Close(last uint64) (Foot, error) {
	if w.messages > 0 {
		if err := w.flush(); err != nil {
			return Foot{}, err
		}
	}
	w.foot.Last = max(w.foot.Last, last)
	text, err := json.Marshal(w.foot)
	if err != nil {
		return Foot{}, err
	}
	return w.foot, w.block(text, true)
}

func (w *oldWriter) flush() error {
	head := make([]byte, 0, groupHead+len(w.fields))
	for _, n := range []int{len(w.fields), len(w.payloads), w.messages} {
		head = binary.BigEndian.AppendUint32(head, uint32(n))
	}
	if err := w.section(append(head, w.fields...)); err != nil {
		return err
	}
	if err := w.section(w.payloads); err != nil {
		return err
	}
	w.fields, w.payloads, w.messages, w.before = w.fields[:0], w.payloads[:0], 0, place{}
	return nil
}

func (w *oldWriter) section(plain []byte) error {
	for part := range slices.Chunk(plain, frame.DefaultBlock) {
		if err := w.block(part, false); err != nil {
			return err
		}
	}
	return nil
}

func (w *oldWriter) block(plain []byte, last bool) error {
	block, _, err := w.encoders.blocks.AppendAt(nil, w.next, plain, last)
	if err != nil {
		return err
	}
	w.next++
	_, err = w.to.Write(block)
	return err
}

// appendRecord appends the fields of a record to fields, and its payload there or to payloads. Names of headers are
// sorted, so that the same message makes the same bytes.
func appendRecord(fields, payloads []byte, before *place, r *Record) (newFields, newPayloads []byte) {
	at := r.Time.UnixNano()
	fields = binary.AppendUvarint(fields, r.Sequence-before.sequence)
	fields = binary.AppendVarint(fields, at-before.time)
	*before = place{r.Sequence, at}
	fields = append(fields, byte(r.Kind))
	fields = appendString(fields, r.Suffix)
	n := 0
	for _, values := range r.Headers {
		n += len(values)
	}
	fields = binary.AppendUvarint(fields, uint64(n))
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		for _, value := range r.Headers[name] {
			fields = appendString(appendString(fields, name), value)
		}
	}
	if r.Form.Plain() {
		fields = append(fields, inFields)
		fields = binary.AppendUvarint(fields, uint64(len(r.Payload)))
		return append(fields, r.Payload...), payloads
	}
	fields = append(fields, beside)
	fields = binary.AppendUvarint(fields, uint64(len(r.Payload)))
	return fields, append(payloads, r.Payload...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
