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

// way is how the answer of a backend is sent.
type way uint8

const (
	// noBody: it has no body.
	noBody way = iota
	// notAcceptable: it is not sent, since the client refuses it as it is and it must not be compressed.
	notAcceptable
	// asItIs: the body is not compressed, and sent as it arrives.
	asItIs
	// inOnePiece: the body is read to its end and compressed whole.
	inOnePiece
	// inParts: the body is compressed as it arrives.
	inParts
	// byFirstBlock: the length of the body is not known; its first block decides, see generation.resolve.
	byFirstBlock
)

// plan is what is done with the answer of a backend. It is made once, before anything of the answer is sent.
type plan struct {
	way way
	// coding is what the body is compressed to; Identity: it is not. Of an answer to HEAD, that of the answer to GET.
	coding negotiate.Coding
	// forced says that the client refuses what is not compressed, refusable that it may be told so, because asking
	// changed nothing at the backend. The answer to any other request is sent even where the client refuses its coding:
	// it must learn what became of the request.
	forced, refusable bool
	// decision says by which codec, class of engine and level the body is compressed, and the reason; or why it is not.
	decision policy.Decision

	// class is that of the body where classes are decided about (classed), see exchange.judge. trial says that it is
	// compressed to see what that takes.
	class          int
	classed, trial bool
}

// preference is what a client says of codings.
type preference struct {
	accepted negotiate.Accepted
	// coding is what the client gets if the body is compressed; Identity: it is not.
	coding negotiate.Coding
	// forced says that the client refuses what is not compressed.
	forced bool
}

// plan decides by the header of an answer, and by the settings and engines of the generation alone.
func (g *generation) plan(r *http.Request, c preference, res *http.Response) plan {
	size, head := res.ContentLength, false
	if !hasBody(r.Method, res.StatusCode) {
		// The header of an answer to HEAD is that of the answer to GET, as far as it is known without the body.
		if head = r.Method == http.MethodHead && hasBody(http.MethodGet, res.StatusCode); !head {
			return plan{way: noBody}
		}
		if size < 0 {
			size = unknownSize
		}
	}
	p := g.planBody(r, c, res, size)
	if head {
		p.way = noBody
	}
	return p
}

// planBody is plan for an answer with a body of a size, negative if that is not known.
func (g *generation) planBody(r *http.Request, c preference, res *http.Response, size int64) plan {
	p := plan{way: asItIs, forced: c.forced, refusable: c.forced && repeatable(r.Method)}
	if p.decision.Reason = g.skip(r, c, res); p.decision.Reason != "" {
		if p.refusable && p.decision.Reason == CrossSiteCookie {
			p.way = notAcceptable
		}
		return p
	}
	if size < 0 {
		p.way, p.coding = byFirstBlock, c.coding
		return p
	}
	if p.decision = g.decide(c.coding, size, c.forced); p.decision.Class == codec.NoClass {
		return p
	}
	p.way, p.coding = inParts, c.coding
	if size <= maxWhole {
		p.way = inOnePiece
	}
	return p
}

// resolve completes the plan for a body of unknown length of which so many bytes were seen, which may be all.
func (g *generation) resolve(p plan, seen int, all bool) plan {
	size := int64(seen)
	p.way = inOnePiece
	if !all {
		// It goes on, so it is not below the minimum; hardware has to see enough of it.
		size = max(size, g.settings.Policy.SoftwareMinSize, 1)
		p.way = inParts
	}
	if p.decision = g.decide(p.coding, size, p.forced); p.decision.Class == codec.NoClass {
		p.way, p.coding = asItIs, negotiate.Identity
	}
	return p
}

// skip returns why a body is not compressed whatever its length and content, or "".
func (g *generation) skip(r *http.Request, c preference, res *http.Response) policy.Reason {
	if len(g.offered) == 0 {
		if g.settings.Policy.SoftwareDisabled && g.settings.Policy.Mode != policy.Never && len(g.settings.Codings) > 0 {
			return policy.SoftwareDisabled
		}
		return policy.PolicyNever
	}
	if reason := untouchable(r.Header, res.StatusCode, res.Header); reason != "" {
		return reason
	}
	switch {
	case c.coding == negotiate.Identity:
		return policy.PeerRefused
	case g.settings.SparesCrossSiteCookies && setsCrossSiteCookie(r.Header, res.Header):
		return CrossSiteCookie
	case !c.forced && !g.types.Match(res.Header.Get("Content-Type")):
		return OtherContentType
	default:
		return ""
	}
}

// repeatable reports whether a request changed nothing at the backend, so that the client may be told to ask again.
func repeatable(method string) bool { return method == http.MethodGet || method == http.MethodHead }

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

// share has software compress a body of a size that was to be compressed by the accelerator, where that yields it. It
// may wait for the accelerator where no software may have the body.
func (g *generation) share(p plan, size int64) plan {
	id := coding.Codec(p.coding)
	encoders := g.hardware[id]
	if p.decision.Class != codec.Hardware || encoders == nil {
		return p
	}
	settings := g.settings.Policy
	settings.SoftwareDisabled = settings.SoftwareDisabled || g.software[id] == nil
	if p.forced {
		settings.Mode, settings.HardwareMinSize, settings.SoftwareMinSize = policy.Always, 0, 0
	}
	if reason := policy.Yield(settings, encoders.engine, size); reason != "" {
		p.decision.Class, p.decision.Reason = codec.Software, reason
	}
	return p
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
