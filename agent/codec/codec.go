// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package codec names the formats in which blocks of data travel and describes
// the engines that execute them.
//
// A codec is a format on the wire and has a permanent number. An engine is one
// way to execute a codec: every engine of a codec reads what every other engine
// of it wrote. The engines live in packages of their own; package engines lists
// those that a build contains.
package codec

import "fmt"

// ID is the permanent number of a codec on the wire and on disk.
type ID uint8

// The codecs. A number is never given a second meaning. 0 is invalid, so that a
// header of zeros is.
const (
	// None is the plain bytes themselves.
	None ID = 1
	// Deflate is raw DEFLATE (RFC 1951, no zlib or gzip wrapping) with a window of
	// 32 KiB, one complete stream per block.
	Deflate ID = 2
	// Zstd is Zstandard (RFC 8878), one frame per block with its content size and
	// without a dictionary (see DictionaryEngine) or a checksum of its own.
	Zstd ID = 3
)

// String returns the codec's name as users write it.
func (id ID) String() string {
	switch id {
	case None:
		return "none"
	case Deflate:
		return "deflate"
	case Zstd:
		return "zstd"
	default:
		return fmt.Sprintf("codec %d", uint8(id))
	}
}

// Valid reports whether the number is that of a codec this version knows.
func (id ID) Valid() bool {
	return id == None || id == Deflate || id == Zstd
}

// ParseID returns the codec of a name that String returns for a valid ID.
func ParseID(name string) (ID, error) {
	for _, id := range []ID{None, Deflate, Zstd} {
		if name == id.String() {
			return id, nil
		}
	}
	return 0, fmt.Errorf("unknown codec %q: use none, deflate or zstd", name)
}

// Class says what kind of machinery an engine uses. It travels with each block,
// because the receiver counts what it inflates in software although hardware
// deflated it. The numbers are permanent.
type Class uint8

const (
	// NoClass is the class of a block that no engine compressed: its codec is None.
	NoClass Class = 0
	// Software is code that runs on a general-purpose processor.
	Software Class = 1
	// Hardware is an accelerator.
	Hardware Class = 2
)

// String returns the class in lower case, as metrics label it.
func (c Class) String() string {
	switch c {
	case NoClass:
		return "none"
	case Software:
		return "software"
	case Hardware:
		return "hardware"
	default:
		return fmt.Sprintf("class %d", uint8(c))
	}
}

// Level is how much effort an encoder makes. Each engine maps it to the setting
// of its own that fits best. It does not travel: any decoder reads any level.
type Level uint8

const (
	// Fast is the least effort that still makes ordinary text a good deal smaller.
	Fast Level = iota + 1
	// Balanced is the most that is gained before effort grows faster than savings.
	Balanced
	// High is for data compressed once and sent or kept many times.
	High
)

// Levels returns all levels, the least effort first.
func Levels() []Level {
	return []Level{Fast, Balanced, High}
}

// String returns the level's name as users write it.
func (l Level) String() string {
	switch l {
	case Fast:
		return "Fast"
	case Balanced:
		return "Balanced"
	case High:
		return "High"
	default:
		return fmt.Sprintf("level %d", uint8(l))
	}
}

// ParseLevel returns the level of a name that String returns.
func ParseLevel(name string) (Level, error) {
	for _, l := range Levels() {
		if name == l.String() {
			return l, nil
		}
	}
	return 0, fmt.Errorf("unknown compression level %q: use Fast, Balanced or High", name)
}
