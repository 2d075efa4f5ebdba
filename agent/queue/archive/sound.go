// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/message"
)

// fit makes a message such that a reader takes it, and reports whether it was. Clients that write the protocol
// themselves get more into a queue than any library would give out; one such message must spoil neither the archive nor
// what is restored of it.
func fit(r *Record) (was bool) {
	was = true
	if !soundSuffix(r.Kind, r.Suffix) {
		r.Suffix, was = "", false
	}
	for name, values := range r.Headers {
		if !soundHeaders(nats.Header{name: values}) {
			delete(r.Headers, name)
			was = false
		}
	}
	var err error
	if r.Form, err = message.FormOf(r.Headers); err == nil && !r.Form.Plain() {
		err = r.Form.Check(len(r.Payload), message.MaxLength)
	}
	if err != nil || r.Form.Dictionary != 0 {
		// Nobody can get it, but it is in the queue. Without its form it is bytes.
		r.Form, was = message.Form{}, false
		for _, name := range message.FormHeaders {
			delete(r.Headers, name)
		}
	}
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	return was
}

// soundSuffix reports whether something can follow a queue's name in the subject of a message.
func soundSuffix(kind Kind, suffix string) bool {
	if suffix == "" {
		return true
	}
	if kind != Ordinary || len(suffix) > maxSuffix || suffix[0] != '.' {
		return false
	}
	for token := range strings.SplitSeq(suffix[1:], ".") {
		if token == "" || token == "*" || token == ">" ||
			strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return false
		}
	}
	return true
}

// soundHeaders reports whether NATS could carry headers as they are.
func soundHeaders(h nats.Header) bool {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == ':' }) {
			return false
		}
		for _, value := range values {
			if strings.ContainsAny(value, "\r\n") {
				return false
			}
		}
	}
	return true
}

// sendable reports whether the library sends a header of such a name. NATS has more names than it does.
func sendable(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"()/,:;<=>?@[\\]{}", r)
	})
}
