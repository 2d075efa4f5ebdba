// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// The records resemble those of System Management Facilities: a record descriptor word, a header, and sections of the
// type. They are made by these rules alone, which were set before anything was measured:
//
//   - A header has the type, the time, the date and the names of system and subsystem.
//   - A type has a layout: so many names, clocks, timers and counters, like the records after which it is called.
//   - A name is of 8 characters in EBCDIC, filled with blanks, of a vocabulary: the i-th most frequent one comes 1/i
//     times as often as the first (Zipf). The first one is the program's.
//   - A clock is the time of day in units of 2^-12 us. Records follow one another after 0 to 2 ms.
//   - A program uses one timer or counter of four, always the same ones; the others are for features that it does not
//     use, and 0. Half of what it uses has the same value each time.
//   - A counter of 4 bytes is as likely of any number of bits up to 16.
//   - A timer is such a counter and 4 bytes of microseconds, which are different each time and as likely of any number
//     of bits up to 20.
//   - Reserved bytes are 0.
const (
	headerLength = 28 // with the record descriptor word; the application does not compress it
	flagAt       = 4
	typeAt       = 5
	// flagCompressed is in the flags of a record whose sections the application compressed.
	flagCompressed = 0x01
	flagBase       = 0x5e
)

// recordType is a layout of sections.
type recordType struct {
	number                                   byte
	name                                     string
	names, clocks, timers, counters, reserve int
	// share of the records in percent.
	share int
}

var recordTypes = []recordType{
	{number: 110, name: "transaction monitor", names: 6, clocks: 2, timers: 40, counters: 60, reserve: 64, share: 60},
	{number: 101, name: "database accounting", names: 8, clocks: 4, timers: 20, counters: 80, reserve: 96, share: 20},
	{number: 30, name: "job step", names: 7, clocks: 3, timers: 10, counters: 50, reserve: 80, share: 10},
	{number: 14, name: "data set activity", names: 4, clocks: 1, timers: 0, counters: 24, reserve: 48, share: 10},
}

const (
	nameLength = 8
	vocabulary = 500 // names
	// programAt is where the first name of a record's sections is, by which reports sum up.
	programAt = headerLength
)

// amountAt is where the first counter of a type is.
func (t recordType) amountAt() int {
	return headerLength + t.names*nameLength + t.clocks*8 + t.timers*8
}

// generator makes one record after the other; equal seeds make equal ones.
type generator struct {
	random *rand.Rand
	clock  uint64 // us
	names  [vocabulary][nameLength]byte
	weight [vocabulary]float64 // sums
	// usual are the fields of programs, by type and program.
	usual map[[2]int][]uint32
}

// What a program's field is, if it is no value that it has each time.
const (
	unused uint32 = 0
	varies uint32 = 1 << 31
)

func newGenerator(seed uint64) *generator {
	g := &generator{random: rand.New(rand.NewPCG(seed, 110)), clock: 8 * 3600 * 1e6, usual: map[[2]int][]uint32{}}
	sum := 0.0
	for i := range g.names {
		for at := range g.names[i] {
			g.names[i][at] = 0x40 // a blank
		}
		for at := range 4 + g.random.IntN(5) {
			g.names[i][at] = letter(g.random.IntN(36))
		}
		sum += 1 / float64(i+1)
		g.weight[i] = sum
	}
	return g
}

// letter is one of A to Z and 0 to 9 in EBCDIC.
func letter(n int) byte {
	switch {
	case n < 9:
		return 0xc1 + byte(n)
	case n < 18:
		return 0xd1 + byte(n-9)
	case n < 26:
		return 0xe2 + byte(n-18)
	default:
		return 0xf0 + byte(n-26)
	}
}

// pick is the number of a name.
func (g *generator) pick() int {
	at := g.random.Float64() * g.weight[vocabulary-1]
	low, high := 0, vocabulary-1
	for low < high {
		if middle := (low + high) / 2; g.weight[middle] < at {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// number is as likely of any number of bits from 1 up to most.
func (g *generator) number(most int) uint32 {
	n := g.random.IntN(most)
	return 1<<n | uint32(g.random.Uint64N(1<<n))
}

// fields are those of a program, timers first.
func (g *generator) fields(kind recordType, program int) []uint32 {
	key := [2]int{int(kind.number), program}
	fields := g.usual[key]
	if fields == nil {
		fields = make([]uint32, kind.timers+kind.counters)
		for i := range fields {
			switch g.random.IntN(8) {
			case 0:
				fields[i] = g.number(16)
			case 1:
				fields[i] = varies
			default:
				fields[i] = unused
			}
		}
		g.usual[key] = fields
	}
	return fields
}

// value is that of a field this time.
func (g *generator) value(usual uint32) uint32 {
	if usual == varies {
		return g.number(16)
	}
	return usual
}

// append appends the next record.
func (g *generator) append(dst []byte) []byte {
	g.clock += g.random.Uint64N(2000)
	kind, share := recordTypes[0], g.random.IntN(100)
	for _, t := range recordTypes {
		if share -= t.share; share < 0 {
			kind = t
			break
		}
	}
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, flagBase, kind.number)
	dst = binary.BigEndian.AppendUint32(dst, uint32(g.clock/10_000)) // hundredths of a second
	dst = append(dst, 0x01, 0x26, 0x32, 0x9f)                        // the date, packed
	dst = append(dst, 0xe2, 0xe8, 0xe2, 0xf1)                        // SYS1
	dst = append(dst, 0xd7, 0xd9, 0xd6, 0xc4)                        // PROD
	dst = append(dst, 0, 2, 0, 0, 0, 0)                              // subtype
	program := g.pick()
	for i := range kind.names {
		name := program
		if i > 0 {
			name = g.pick()
		}
		dst = append(dst, g.names[name][:]...)
	}
	for range kind.clocks {
		dst = binary.BigEndian.AppendUint64(dst, (g.clock-g.random.Uint64N(1<<20))<<12)
	}
	for i, usual := range g.fields(kind, program) {
		count := g.value(usual)
		dst = binary.BigEndian.AppendUint32(dst, count)
		if i < kind.timers {
			elapsed := uint32(0)
			if count > 0 {
				elapsed = g.number(20)
			}
			dst = binary.BigEndian.AppendUint32(dst, elapsed)
		}
	}
	dst = append(dst, make([]byte, kind.reserve)...)
	return describe(dst, start)
}

// describe writes the length of the record that begins at a place.
func describe(dst []byte, start int) []byte {
	binary.BigEndian.PutUint16(dst[start:], uint16(len(dst)-start))
	return dst
}

// summary is what reading and reporting find.
type summary struct {
	// Types counts records by type.
	Types [256]int64
	// Amounts sum up the first counter by program.
	Amounts map[string]uint64
}

// count adds a record.
func (s *summary) count(record []byte) { s.Types[record[typeAt]]++ }

// add adds a record whose sections are expanded.
func (s *summary) add(record []byte) {
	s.count(record)
	for _, t := range recordTypes {
		if t.number == record[typeAt] {
			s.Amounts[string(record[programAt:programAt+nameLength])] += uint64(binary.BigEndian.Uint32(record[t.amountAt():]))
		}
	}
}

// digest is a figure that two equal summaries have.
func (s *summary) digest() (sum uint64) {
	for kind, n := range s.Types {
		sum += uint64(kind+1) * uint64(n)
	}
	for name, n := range s.Amounts {
		sum += bits.RotateLeft64(binary.BigEndian.Uint64([]byte(name)), 7) * (n + 1)
	}
	return sum
}
