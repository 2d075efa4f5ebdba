// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// records resembles binary accounting data: fixed fields, of which some count,
// some repeat and some are noise.
func records(n int) []byte {
	return fill(n, streamRecords, recorder())
}

// recorder returns what appends one record after the other.
func recorder() func(r *rand.Rand, b []byte) []byte {
	number, clock := uint32(0), uint64(1_790_000_000_000_000)
	return func(r *rand.Rand, b []byte) []byte {
		number++
		clock += r.Uint64N(5_000)
		start := len(b)
		b = append(b, 0, 0, 0, 0) // length and segment
		b = append(b, 0x5e, byte(30+skewed(r, 6)))
		b = binary.BigEndian.AppendUint64(b, clock)
		b = append(b, "SYS1"...)
		b = fmt.Appendf(b, "%-8.8s%-8.8s", vocabulary[600+skewed(r, 400)], vocabulary[skewed(r, 60)])
		b = binary.BigEndian.AppendUint32(b, number)
		for range 6 + r.IntN(6) {
			b = append(b, byte(1+skewed(r, 12)), byte(r.IntN(2)), 0, 8)
			b = binary.BigEndian.AppendUint32(b, uint32(skewed(r, 1<<24)))
			b = binary.BigEndian.AppendUint32(b, uint32(r.IntN(1<<16)))
		}
		b = binary.BigEndian.AppendUint64(b, r.Uint64())
		b = append(b, make([]byte, 12)...)
		binary.BigEndian.PutUint16(b[start:], uint16(len(b)-start))
		return b
	}
}

// runLength holds records whose runs of equal bytes were counted: a count below
// 128 and that many bytes and one, or 257 less the length of a run and its byte.
func runLength(n int) []byte {
	record := recorder()
	var plain []byte
	return fill(n, streamRecords, func(r *rand.Rand, b []byte) []byte {
		plain = record(r, plain[:0])
		length := len(b)
		b = append(b, 0, 0)
		for at := 0; at < len(plain); {
			if run := runAt(plain, at); run >= 3 {
				b = append(b, byte(257-run), plain[at])
				at += run
				continue
			}
			start := at
			for at < len(plain) && at-start < 128 && runAt(plain, at) < 3 {
				at++
			}
			b = append(append(b, byte(at-start-1)), plain[start:at]...)
		}
		binary.BigEndian.PutUint16(b[length:], uint16(len(b)-length))
		return b
	})
}

// runAt returns how many equal bytes stand at a place, at most 128.
func runAt(b []byte, at int) int {
	n := 1
	for at+n < len(b) && n < 128 && b[at+n] == b[at] {
		n++
	}
	return n
}

// encoded has six bits of information in each byte and no repetition.
func encoded(n int) []byte {
	return []byte(base64.StdEncoding.EncodeToString(random(n + 3)))[:n:n]
}

func random(n int) []byte {
	return fill(n, streamRandom, func(r *rand.Rand, b []byte) []byte {
		return binary.LittleEndian.AppendUint64(b, r.Uint64())
	})
}

// packed holds messages that were compressed one by one, so that each begins
// without a history and with a code of its own.
func packed(n int) []byte {
	w, err := flate.NewWriter(io.Discard, 6)
	if err != nil {
		panic(err) // the level is a constant
	}
	var out bytes.Buffer
	var plain []byte
	return fill(n, streamXML, func(r *rand.Rand, b []byte) []byte {
		plain = message(r, plain[:0])
		out.Reset()
		w.Reset(&out)
		finish(w, plain)
		b = binary.BigEndian.AppendUint16(b, uint16(out.Len()))
		return append(b, out.Bytes()...)
	})
}

func gzipped(n int) []byte {
	return files(n, func(out *bytes.Buffer) io.WriteCloser {
		w, err := gzip.NewWriterLevel(out, 6)
		if err != nil {
			panic(err) // the level is a constant
		}
		return w
	})
}

func zstandard(n int) []byte {
	return files(n, func(out *bytes.Buffer) io.WriteCloser {
		// One goroutine, so that the division into blocks is always the same.
		w, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
		if err != nil {
			panic(err) // the options are constants
		}
		return w
	})
}

// files strings together files of 256 KiB, half xml and half json, that a program
// compressed.
func files(n int, compress func(*bytes.Buffer) io.WriteCloser) []byte {
	var out bytes.Buffer
	for i := uint64(0); out.Len() < n; i++ {
		plain := fill(256<<10, streamFiles+i, message)
		if i%2 == 1 {
			clock := 1_790_000_000_000 + i*1_000_000
			plain = fill(256<<10, streamFiles+i, func(r *rand.Rand, b []byte) []byte { return logLine(r, &clock, b) })
		}
		finish(compress(&out), plain)
	}
	return out.Bytes()[:n:n]
}

// finish compresses plain into a buffer, which cannot fail.
func finish(w io.WriteCloser, plain []byte) {
	if _, err := w.Write(plain); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
}
