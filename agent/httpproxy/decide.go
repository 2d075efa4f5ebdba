// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"net/http"
	"strings"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/httpproxy/coding"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/policy"
)

// hasBody reports whether an answer to a request with the method has a body, whatever
// its header says.
func hasBody(method string, status int) bool {
	return method != http.MethodHead && status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// untouchable returns why a response must not be transformed, or "".
func untouchable(request http.Header, status int, response http.Header) policy.Reason {
	switch {
	case status == http.StatusPartialContent || response["Content-Range"] != nil:
		return PartialContent
	case encoded(response["Content-Encoding"]):
		return AlreadyEncoded
	case negotiate.Directive(response["Cache-Control"], "no-transform"),
		negotiate.Directive(request["Cache-Control"], "no-transform"):
		return NoTransform
	default:
		return ""
	}
}

// encoded reports whether a Content-Encoding names a coding. identity, which it should
// not name, is none.
func encoded(fields []string) bool {
	for _, field := range fields {
		for name := range strings.SplitSeq(field, ",") {
			name = strings.TrimSpace(name)
			if name != "" && !strings.EqualFold(name, "identity") {
				return true
			}
		}
	}
	return false
}

// setsCrossSiteCookie reports whether a response sets a cookie that goes with requests
// from other sites, or answers one of those with any cookie: who makes a browser send
// requests can then watch the lengths of answers that depend on a secret.
func setsCrossSiteCookie(request, response http.Header) bool {
	cookies := response["Set-Cookie"]
	if len(cookies) == 0 {
		return false
	}
	for _, site := range request["Sec-Fetch-Site"] {
		if strings.EqualFold(site, "cross-site") {
			return true
		}
	}
	for _, cookie := range cookies {
		for attribute := range strings.SplitSeq(cookie, ";") {
			key, value, _ := strings.Cut(attribute, "=")
			if strings.EqualFold(strings.TrimSpace(key), "SameSite") && strings.EqualFold(strings.TrimSpace(value), "None") {
				return true
			}
		}
	}
	return false
}

// unknownSize is the size of a body that is longer than what was seen of it: long
// enough for every minimum.
const unknownSize = 1<<63 - 1

// decide says what is done with a body of a size. Forced says that the client refuses
// what is not compressed: then the answer is to compress, if that is possible at all.
func (g *generation) decide(c negotiate.Coding, size int64, forced bool) policy.Decision {
	id := coding.Codec(c)
	facts := policy.Facts{Size: size, Codec: id, Accelerator: g.accelerator(id)}
	settings := g.settings.Policy
	if forced {
		settings.Mode = policy.Always
		settings.HardwareMinSize, settings.SoftwareMinSize = 0, 0
		facts.Size = max(size, 1)
	}
	return policy.Decide(settings, facts)
}

// accelerator is what is known of hardware for a codec.
func (g *generation) accelerator(id codec.ID) policy.Accelerator {
	switch {
	case id != codec.Deflate:
		return policy.LacksCodec
	case g.hardware[id] != nil:
		return policy.Verified
	default:
		return g.settings.Accelerator
	}
}

// able are the codings of the settings that can be made: their engine is there, and the
// policy lets something be compressed with it.
func (g *generation) able() []negotiate.Coding {
	var able []negotiate.Coding
	for _, c := range g.settings.Codings {
		id := coding.Codec(c)
		if g.settings.Policy.Mode == policy.Never || g.hardware[id] == nil && (g.settings.Policy.SoftwareDisabled ||
			g.software[id] == nil) {
			continue
		}
		able = append(able, c)
	}
	return able
}
