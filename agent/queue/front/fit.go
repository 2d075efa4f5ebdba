// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"fmt"

	"github.com/lighterage/lighterage/agent/queue/envelope"
)

// unfit says why a put has a subject or headers that no other way out of the queue could carry, a channel above all;
// empty: it has not.
func (f *Front) unfit(op *operation) string {
	if suffix := op.subject[len(f.access.queue):]; !envelope.FitsSuffix(suffix) {
		return fmt.Sprintf(
			"subject %.40q: behind the name of the queue, use up to %d bytes of UTF-8, and neither wildcards nor empty tokens",
			op.subject, envelope.MaxSuffix,
		)
	}
	_, rest, _ := bytes.Cut(op.header, lineEnd) // the version
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
