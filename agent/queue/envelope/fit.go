// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"strings"
	"unicode/utf8"
)

// What a message may look like in a queue, whatever way it is put by: it may have to leave through a channel, and
// nothing passes it there.
const (
	// MaxSuffix bounds what follows the queue's name in a subject, in bytes.
	MaxSuffix = 1024
	// MaxFieldBytes bounds the headers of a message, each with FieldSize.
	MaxFieldBytes = 64 << 10
)

type octets interface{ ~string | ~[]byte }

// FitsSuffix reports whether a queue's name may go on so in the subject of a message: with nothing, or a dot and tokens
// of UTF-8 which are no wildcards.
func FitsSuffix[T octets](suffix T) bool {
	if len(suffix) == 0 {
		return true
	}
	if len(suffix) > MaxSuffix || suffix[0] != '.' {
		return false
	}
	ascii := true
	for i, begin := 1, 1; i <= len(suffix); i++ {
		if i < len(suffix) && suffix[i] != '.' {
			if suffix[i] <= ' ' || suffix[i] == 0x7f {
				return false
			}
			ascii = ascii && suffix[i] < utf8.RuneSelf
			continue
		}
		if i == begin || i == begin+1 && (suffix[begin] == '*' || suffix[begin] == '>') {
			return false
		}
		begin = i + 1
	}
	return ascii || utf8.ValidString(string(suffix))
}

// FitsName reports whether a header may have a name: a token of HTTP. NATS allows more, but its own clients write no
// others.
func FitsName[T octets](name T) bool {
	for i := range len(name) {
		if notToken(rune(name[i])) {
			return false
		}
	}
	return len(name) > 0
}

// fittingName returns a name as near as may be to one that does not fit.
func fittingName(name string) string {
	out := []byte(name)
	for i, c := range out {
		if notToken(rune(c)) {
			out[i] = '_'
		}
	}
	return string(out)
}

// FitsValue reports whether a header may have a value, which may be of any bytes that stay on a line.
func FitsValue[T octets](value T) bool {
	for i := range len(value) {
		if value[i] == '\r' || value[i] == '\n' || value[i] == 0 {
			return false
		}
	}
	return true
}

// FieldSize is what a header counts of MaxFieldBytes.
func FieldSize(name, value int) int { return name + value + len(": \r\n") }

// Printable returns a text as the detail of a dead letter: on one line, in characters that every client can show, and
// not too long.
func Printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return strings.TrimSpace(s[:min(len(s), MaxText)])
}
