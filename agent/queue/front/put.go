// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/ids"
)

const (
	formPrefix   = "Lighterage-"
	rollupHeader = "Nats-Rollup"
	batchHeader  = "Nats-Batch-Id"

	// How lines with these headers begin, with the end of the line before.
	idField    = "\r\n" + nats.MsgIdHdr + ":"
	batchField = "\r\n" + batchHeader + ":"
)

// put judges a put of a client that may, and counts what it makes the server remember.
func (in *inbound) put(g *generation, s *step) *rejection {
	f := in.front
	formed := false
	if why := unfit(f.options.Queue, s.subject, s.header); why != "" {
		return &rejection{code: badRequest, why: why}
	}
	if s.header != nil {
		id := exactHeader(s.header, idField)
		formed = bytes.Contains(s.header, []byte(formPrefix))
		switch {
		case hasHeader(s.header, rollupHeader):
			return &rejection{code: badRequest, why: rollupHeader + " is not for clients of a queue"}
		case bytes.HasPrefix(id, []byte(envelope.DeadIDPrefix)):
			return &rejection{code: badRequest, why: "ids that begin with " + envelope.DeadIDPrefix +
				" are those of dead letters: put the message with another " + nats.MsgIdHdr}
		case formed && hasHeaderOf(s.header, envelope.DeadPrefix):
			return &rejection{code: badRequest, why: "headers that begin with " + envelope.DeadPrefix +
				" are those of dead letters: put the message without them"}
		}
		if sequence, ok := ids.Known(f.options.IDs, id); ok {
			return f.duplicate(s, sequence)
		}
		if why := f.options.Quota.Admit(id); why != "" {
			return &rejection{code: unavailable, why: why}
		}
		if why := f.batches.admit(s.header, len(s.header)+len(s.payload)); why != "" {
			return &rejection{code: unavailable, why: why}
		}
	}
	if formed {
		s.becomes(verify, len(s.payload))
	} else if reason, skips := g.Encoding.Skips(len(s.payload)); skips {
		in.stored.add(reason, len(s.payload))
	} else if s.choice = f.classes.Choose(g.Encoding, s.subject, s.payload); s.choice.Reason != "" {
		in.stored.add(s.choice.Reason, len(s.payload))
	} else {
		s.becomes(compress, len(s.payload))
	}
	return nil
}

// errDuplicateInBatch is what the server says of such a message.
const errDuplicateInBatch = 10201

// duplicate has a put of a message that was stored before answered.
func (f *Front) duplicate(s *step, sequence uint64) *rejection {
	if hasHeader(s.header, batchHeader) {
		// A batch that lacks it is not stored.
		return &rejection{
			code: badRequest, errCode: errDuplicateInBatch, why: "atomic publish batch contains duplicate message id",
		}
	}
	s.replaceWith(nil)
	if s.reply != nil {
		ack := fmt.Appendf(nil, `%s,"seq":%d,"duplicate":true}`, f.putAck, sequence)
		s.instead = appendPublish(nil, s.reply, nil, nil, ack)
	}
	return nil
}

// unfit says why a put has a subject or headers that no other way out of the queue could carry, a channel above all;
// empty: it has not.
func unfit(queue string, subject, header []byte) string {
	if !envelope.FitsSuffix(subject[len(queue):]) {
		return fmt.Sprintf(
			"subject %.40q: behind the name of the queue, use up to %d bytes of UTF-8, and neither wildcards nor empty tokens",
			subject, envelope.MaxSuffix,
		)
	}
	_, rest, _ := bytes.Cut(header, lineEnd) // the version
	size := 0
	for len(rest) > 0 {
		var line []byte
		if line, rest, _ = bytes.Cut(rest, lineEnd); len(line) == 0 {
			break
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		switch {
		case !found || !envelope.FitsName(name):
			return fmt.Sprintf("header %.40q: use letters, digits and hyphens for the name, and a colon behind it", name)
		case !envelope.FitsValue(value):
			return fmt.Sprintf("header %.40s: its value does not fit on a line", name)
		}
		size += envelope.FieldSize(len(name), len(bytes.Trim(value, " \t")))
	}
	if size > maxFields {
		return fmt.Sprintf("headers of %d bytes; the limit is %d: put what is long into the message itself", size, maxFields)
	}
	return ""
}

// maxFields leaves space for the longer name that a message's id has behind a channel.
const maxFields = envelope.MaxFieldBytes - 64

var lineEnd = []byte("\r\n")

// exactHeader returns the value of a header as the server reads it, empty if there is none.
func exactHeader(block []byte, field string) []byte {
	_, value, _ := bytes.Cut(block, []byte(field))
	value, _, _ = bytes.Cut(value, lineEnd)
	return bytes.TrimLeft(value, " ")
}

// acceptsStored reports whether a request asks for messages as they are stored.
func acceptsStored(header []byte) bool {
	value, ok := headerValue(header, AcceptHeader)
	return ok && strings.EqualFold(string(value), "stored")
}

// hasHeader reports whether a block has a header of a name, in any case.
func hasHeader(block []byte, name string) bool {
	_, ok := headerValue(block, name)
	return ok
}

// headerValue returns the value of the first header of a name, in any case.
func headerValue(block []byte, name string) ([]byte, bool) {
	for len(block) > 0 {
		var line []byte
		line, block, _ = bytes.Cut(block, []byte("\n"))
		if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name) {
			return bytes.TrimSpace(line[len(name)+1:]), true
		}
	}
	return nil, false
}

// hasHeaderOf reports whether a block has a header whose name begins so, in any case.
func hasHeaderOf(block []byte, prefix string) bool {
	for line := range bytes.SplitSeq(block, []byte("\n")) {
		if len(line) >= len(prefix) && strings.EqualFold(string(line[:len(prefix)]), prefix) {
			return true
		}
	}
	return false
}
