// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"math"
	"strconv"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/usage"
)

// maxReasons bounds what is taken of a report; there are fewer reasons.
const maxReasons = 32

// Sum adds up what replicas report. The zero value is ready to use.
type Sum struct {
	// Report has compression, decompression, CPU and bytes on the wire.
	Report wirev1.Report
	// Count of the replicas that were added.
	Count int
	// Reset is what every replica has acted upon; ResetOK is false when they do not agree or there is none.
	Reset   string
	ResetOK bool

	most    uint64
	network int64
	unknown bool
}

// Add adds a replica's. Its operations decide which codec, engine and reason are those of most of them. network is that
// of its node, nil when it is not known.
func (s *Sum) Add(report *wirev1.Report, reset string, network *usage.NetworkCost) {
	all := &s.Report
	if s.Count == 0 {
		all.Compression = &wirev1.Compression{
			Hardware: &wirev1.Operations{}, Software: &wirev1.Operations{}, Stored: &wirev1.Operations{},
			Skipped: map[string]uint64{}, Reasons: map[string]uint64{},
		}
		all.Decompression = &wirev1.Decompression{
			Hardware: &wirev1.Operations{}, Software: &wirev1.Operations{}, Fallback: &wirev1.Operations{},
		}
		all.Cpu = &wirev1.CPU{}
	}
	c, d, cpu := report.GetCompression(), report.GetDecompression(), report.GetCpu()
	s.addCompression(c)
	if done := c.GetHardware().GetOperations() + c.GetSoftware().GetOperations() +
		c.GetStored().GetOperations(); s.Count == 0 || done > s.most {
		all.Compression.Codec, all.Compression.Engine, all.Compression.Reason = c.GetCodec(), c.GetEngine(), c.GetReason()
		all.Compression.Level = c.GetLevel()
		all.Decompression.Reason = d.GetReason()
		s.most = done
	}
	addOperations(all.Decompression.Hardware, d.GetHardware())
	addOperations(all.Decompression.Software, d.GetSoftware())
	addOperations(all.Decompression.Fallback, d.GetFallback())
	all.Cpu.SendNanos += cpu.GetSendNanos()
	all.Cpu.IdleNanos += cpu.GetIdleNanos()
	all.Cpu.CompressNanos += cpu.GetCompressNanos()
	all.Cpu.DecompressNanos += cpu.GetDecompressNanos()
	all.WireBytes += report.GetWireBytes()
	if nanos := network.Nanos(report); nanos == nil {
		s.unknown = true
	} else {
		s.network += min(*nanos, math.MaxInt64-s.network)
	}
	s.ResetOK = s.Count == 0 || s.ResetOK && s.Reset == reset
	s.Reset = reset
	s.Count++
}

// NewReset reports whether every replica has acted upon a reset other than the one that is shown.
func (s *Sum) NewReset(shown string) bool { return s.ResetOK && s.Reset != shown }

// Network is what the network stacks of the replicas' nodes spent, in nanoseconds; nil when it is not known of each.
func (s *Sum) Network() *int64 {
	if s.unknown || s.Report.GetWireBytes() == 0 {
		return nil
	}
	return &s.network
}

func (s *Sum) addCompression(c *wirev1.Compression) {
	all := s.Report.GetCompression()
	all.UncompressedBytes += c.GetUncompressedBytes()
	all.CompressedBytes += c.GetCompressedBytes()
	addOperations(all.Hardware, c.GetHardware())
	addOperations(all.Software, c.GetSoftware())
	addOperations(all.Stored, c.GetStored())
	addReasons(all.Skipped, c.GetSkipped())
	addReasons(all.Reasons, c.GetReasons())
	if one := c.GetEstimate(); one != nil {
		if all.Estimate == nil {
			all.Estimate = &wirev1.Estimate{}
		}
		addEstimates(all.GetEstimate(), one)
	}
}

func addEstimates(all, one *wirev1.Estimate) {
	all.Blocks += one.GetBlocks()
	all.Bytes += one.GetBytes()
	all.ErrorBytes += one.GetErrorBytes()
	all.Wasted += one.GetWasted()
	all.Probes += one.GetProbes()
	all.Missed += one.GetMissed()
	all.Nanos += one.GetNanos()
}

func addOperations(all, one *wirev1.Operations) {
	all.Operations += one.GetOperations()
	all.Bytes += one.GetBytes()
}

func addReasons(all, one map[string]uint64) {
	for reason, n := range one {
		if _, known := all[reason]; known || len(all) < maxReasons {
			all[reason] += n
		}
	}
}

// Clamp is n, or as much of it as a status holds.
func Clamp(n uint64) int64 {
	return int64(min(n, 1<<63-1))
}

// Ratio of uncompressed to compressed bytes as a decimal, empty when there is none of either.
func Ratio(plain, compressed uint64) string {
	if plain == 0 || compressed == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(plain)/float64(compressed), 'f', 2, 64)
}

// AverageSeconds of count things that took nanos together. It has microseconds: each takes hundreds of them, where
// whole totals take seconds.
func AverageSeconds(nanos, count uint64) string {
	return strconv.FormatFloat(float64(nanos)/float64(count)/1e9, 'f', 6, 64)
}
