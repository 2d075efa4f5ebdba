// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"net/http"
	"strings"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/httpproxy/coding"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/regret"
)

// Mode Auto decides for classes of bodies, which are alike in content, length and codec. There is a fixed number of
// them, whatever backends send.

// content is what media types have in common.
type content uint8

// contents by name. A type that none of them names is the last.
var contents = [...]string{"html", "json", "xml", "javascript", "css", "svg", "text", "font", "image", "binary"}

const (
	contentHTML content = iota
	contentJSON
	contentXML
	contentJavaScript
	contentCSS
	contentSVG
	contentText
	contentFont
	contentImage
	contentBinary
)

// contentOf returns the content of a media type.
func contentOf(contentType string) content {
	mediaType := negotiate.MediaType(contentType)
	switch mediaType {
	case "text/html", "application/xhtml+xml":
		return contentHTML
	case "text/css":
		return contentCSS
	case "image/svg+xml":
		return contentSVG
	}
	kind, name, _ := strings.Cut(mediaType, "/")
	switch {
	case name == "json", name == "x-ndjson", strings.HasSuffix(name, "+json"):
		return contentJSON
	case name == "xml", strings.HasSuffix(name, "+xml"):
		return contentXML
	case strings.HasSuffix(name, "javascript"), name == "ecmascript":
		return contentJavaScript
	case kind == "text", name == "yaml", name == "toml", name == "sql", name == "rtf", name == "x-sh":
		return contentText
	case kind == "font":
		return contentFont
	case kind == "image":
		return contentImage
	}
	return contentBinary
}

// lengths by name. Bodies of the last are compressed part by part while they are sent: their length is not known, or
// too great to hold them.
var lengths = [...]struct {
	name  string
	below int64
}{{"<4Ki", 4 << 10}, {"<16Ki", 16 << 10}, {"<64Ki", 64 << 10}, {"<=256Ki", maxWhole + 1}, {"stream", 0}}

const streamed = len(lengths) - 1

var classCodecs = [...]codec.ID{codec.Deflate, codec.Zstd}

const classCount = len(contents) * len(lengths) * len(classCodecs)

// classOf is the number of the class of a body; a negative length is not known.
func classOf(contentType string, length int64, id codec.ID) int {
	l := streamed
	for i := range streamed {
		if length >= 0 && length < lengths[i].below {
			l = i
			break
		}
	}
	c := 0
	if id == codec.Zstd {
		c = 1
	}
	return (int(contentOf(contentType))*len(lengths)+l)*len(classCodecs) + c
}

// newClasses returns the classes of a server.
func newClasses() *adapt.Classes {
	return adapt.NewClasses(classCount, func(i int) bool {
		return i/len(classCodecs)%len(lengths) == streamed
	}, nil)
}

// Class is what a server knows of one class of bodies, and does with it.
type Class struct {
	adapt.Seen
	Content, Length string
	Codec           codec.ID
}

// Decisions are what a server in mode Auto does with the bodies that the settings let it compress.
type Decisions struct {
	// Objective that is minimised.
	Objective policy.Objective
	// Carrier is what a byte takes on its way to clients.
	Carrier policy.Carrier
	// Classes with most bytes first.
	Classes []Class
	// Lost is what choices lose against the alternative Best, if that is Known.
	Lost  policy.Lost
	Best  policy.Option
	Known bool
}

// maxClasses is how many classes Decisions show.
const maxClasses = 32

// Decisions returns what is decided now. Counters are those since the last reset. It is empty in other modes than Auto.
func (s *Server) Decisions() Decisions {
	s.mu.Lock()
	settings := s.current.settings.Policy
	s.mu.Unlock()
	if settings.Mode != policy.Auto {
		return Decisions{}
	}
	d := Decisions{Objective: s.classes.Serving().Effective(), Carrier: s.classes.Carrier()}
	for _, seen := range s.classes.Seen(maxClasses) {
		rest := seen.Class / len(classCodecs)
		d.Classes = append(d.Classes, Class{
			Seen: seen, Content: contents[rest/len(lengths)], Length: lengths[rest%len(lengths)].name,
			Codec: classCodecs[seen.Class%len(classCodecs)],
		})
	}
	d.Lost, d.Best, d.Known = s.sampler.Lost(s.classes.Value)
	return d
}

// judged reports whether a plan to compress is one that classes decide about: in mode Auto, unless the client refuses
// what is not compressed, or is behind a trusted proxy and is to have the body soon: what its network carries nobody
// here sees.
func (x *exchange) judged(p plan) bool {
	return x.generation.settings.Policy.Mode == policy.Auto && !p.forced && p.decision.Class != codec.NoClass &&
		!(x.from.trusted && x.server.classes.Serving().Effective() == policy.Elapsed)
}

// judge makes a plan to compress a body of a length one to send it as it is where that is what is done with its class.
func (x *exchange) judge(p plan, res *http.Response, length int64) plan {
	if !x.judged(p) {
		return p
	}
	p.class, p.classed = classOf(res.Header.Get("Content-Type"), length, p.decision.Codec), true
	d := x.server.classes.Choose(p.class)
	p.trial = d.Trial
	if d.Reason != "" {
		p.store(d.Reason)
	}
	return p
}

// foresee is judge for the answer to HEAD, which changes nothing.
func (x *exchange) foresee(p plan, res *http.Response) plan {
	if x.judged(p) {
		class := classOf(res.Header.Get("Content-Type"), res.ContentLength, p.decision.Codec)
		if x.server.classes.Peek(class) != "" {
			p.coding = negotiate.Identity
		}
	}
	return p
}

// store makes a plan to compress one to send the body as it is.
func (p *plan) store(reason policy.Reason) {
	p.way, p.coding, p.decision = asItIs, negotiate.Identity, policy.Decision{Codec: codec.None, Reason: reason}
}

// learn takes in what became of a body of a class.
func (x *exchange) learn(p plan, o *outcome) {
	if !p.classed {
		return
	}
	x.server.classes.Passed(p.class, int64(o.meter.PlainBytes))
	x.keep(p, o)
	switch o.meter.Reason {
	case policy.NetworkFaster, policy.CPUDearer, Busy, EngineFailed: // it was not attempted, or not to its end
		return
	}
	x.server.classes.Attempted(p.class, p.trial, policy.Attempt{
		Plain: float64(o.meter.PlainBytes), Wire: float64(o.meter.WireBytes), CPU: o.meter.CPU.Seconds(),
		Elapsed: max(o.elapsed, o.meter.CPU).Seconds(),
	})
}

// draw draws a sample of a body of a class whose parts do not travel while the next ones are compressed. It is
// compressed by the codec of the class, and by others that the client accepts equally: another order of codings would
// send those.
func (x *exchange) draw(p plan, plain []byte) *regret.Unit {
	if !p.classed || p.class/len(classCodecs)%len(lengths) == streamed {
		return nil
	}
	only := classCodecs[p.class%len(classCodecs)]
	for _, c := range x.generation.offered {
		if coding.Codec(c) != only && x.prefers.accepted.Indifferent(x.prefers.coding, c) {
			only = 0
			break
		}
	}
	return x.server.sampler.Draw(plain, only)
}

// keep has a sample measured of a body that was, or was not, compressed.
func (x *exchange) keep(p plan, o *outcome) {
	chosen := policy.Option{}
	switch o.meter.Reason {
	case Busy, EngineFailed: // that is nobody's choice
		return
	case policy.Incompressible:
	default:
		if p.way == inOnePiece {
			chosen = policy.Option{Codec: p.decision.Codec, Class: p.decision.Class, Level: p.decision.Level}
		}
	}
	x.server.sampler.Keep(o.drawn, o.meter.PlainBytes, chosen)
}
