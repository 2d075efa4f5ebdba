// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"math"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// most bounds each figure that is reported, so that sums of some of them do not overflow: 73 years of CPU time, or
// 2 EiB.
const most = math.MaxInt64 / 4

// Stage of the work on one side, as an index of CPU.
type Stage int

// The stages. Process is the whole process, of which the others but Network are parts.
const (
	Process Stage = iota
	Idle
	Compress
	Decompress
	Read
	Write
	// Network is an estimate of what the network stack spent on no process's account.
	Network

	stages
)

// CPU is the CPU time of one side by stage, in nanoseconds.
type CPU [stages]int64

// Spent is the time of the process and of the network stack on its behalf.
func (c CPU) Spent() int64 { return sum(c[Process], c[Network]) }

// Usage is what work used. No figure is negative.
type Usage struct {
	Send, Receive CPU
	// Uncompressed, Compressed and Wire are bytes before compression, after it, and on the network. Channel is the part
	// of Wire with Queues of other clusters.
	Uncompressed, Compressed, Wire, Channel int64
	// Store is what was asked of object stores.
	Store Store
}

// Store counts requests to object stores that write and that read, and bytes that were sent and received.
type Store struct{ Writes, Reads, Sent, Received int64 }

func storeOf(t *wirev1.StoreTraffic) Store {
	return Store{
		bounded(t.GetWriteRequests()), bounded(t.GetReadRequests()), bounded(t.GetSentBytes()),
		bounded(t.GetReceivedBytes()),
	}
}

func (s Store) status() v1alpha1.ObjectStoreUsage {
	return v1alpha1.ObjectStoreUsage{
		WriteRequests: s.Writes, ReadRequests: s.Reads, SentBytes: s.Sent, ReceivedBytes: s.Received,
	}
}

func storeFrom(s v1alpha1.ObjectStoreUsage) Store {
	return Store{max(0, s.WriteRequests), max(0, s.ReadRequests), max(0, s.SentBytes), max(0, s.ReceivedBytes)}
}

func (s Store) with(o Store, f func(a, b int64) int64) Store {
	return Store{f(s.Writes, o.Writes), f(s.Reads, o.Reads), f(s.Sent, o.Sent), f(s.Received, o.Received)}
}

// Of is what a report says was used by the side that sends and by the one that receives. oneProcess: it does both, and
// all counts as the sending one's. Otherwise nothing that a receiver reports counts as the sender's. network is that of
// the reporting node, nil when it is not known. It counts on the side whose process reports for itself: the sending
// one, if that has spent anything; the other one as its receiver says.
func Of(report *wirev1.Report, oneProcess bool, network *NetworkCost) Usage {
	cpu, packed := report.GetCpu(), report.GetCompression()
	u := Usage{
		Send: CPU{
			Process: bounded(cpu.GetSendNanos()), Idle: bounded(cpu.GetIdleNanos()),
			Compress: bounded(cpu.GetCompressNanos()), Read: bounded(cpu.GetReadNanos()),
		},
		Receive: CPU{
			Process: bounded(cpu.GetReceiveNanos()), Decompress: bounded(cpu.GetDecompressNanos()),
			Write: bounded(cpu.GetWriteNanos()),
		},
		Uncompressed: bounded(packed.GetUncompressedBytes()), Compressed: bounded(packed.GetCompressedBytes()),
		Wire: bounded(report.GetWireBytes()), Store: storeOf(report.GetStore()),
	}
	if oneProcess {
		u.Send[Decompress], u.Receive[Decompress] = u.Receive[Decompress], 0
		u.Send[Write], u.Receive[Write] = u.Receive[Write], 0
	}
	if nanos := network.Nanos(report); nanos != nil {
		side := &u.Send
		if u.Send[Process] == 0 && u.Receive[Process] > 0 {
			side = &u.Receive
		}
		side[Network] = *nanos
		if side == &u.Send && !oneProcess {
			u.Receive[Network] = network.peerNanos(report)
		}
	}
	return u
}

// OneProcess reports whether one agent does the work of both sides on a route.
func OneProcess(route v1alpha1.Route) bool {
	return route == v1alpha1.RoutePod || route == v1alpha1.RouteObjectStore
}

func bounded(n uint64) int64 { return int64(min(n, most)) }

// sum of two figures that are not negative, or the greatest number there is.
func sum(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// Plus adds up two usages.
func (u Usage) Plus(o Usage) Usage { return u.with(o, sum) }

// Since is by how much each figure exceeds another; 0 where it does not.
func (u Usage) Since(before Usage) Usage {
	return u.with(before, func(a, b int64) int64 { return max(0, a-b) })
}

// Reached is the greater of both in each figure: what a counter shows that never decreases.
func (u Usage) Reached(o Usage) Usage {
	return u.with(o, func(a, b int64) int64 { return max(a, b) })
}

// base is the mark to count from: that of the last report, but 0 for each counter that is smaller now, because it began
// again. Of the bytes on the wire those with other clusters are a counter of their own, which also begins again with
// the channel of a Queue. The estimate for the network stack is no counter: it follows the node's coefficient, and
// begins again with the bytes that it is for.
func (u Usage) base(mark Usage) Usage {
	counter := func(was, is int64) int64 {
		if is < was {
			return 0
		}
		return was
	}
	base := mark.with(u, counter)
	base.Wire = sum(base.Channel, counter(max(0, mark.Wire-mark.Channel), max(0, u.Wire-u.Channel)))
	part := 1.0
	if base.Wire < mark.Wire {
		part = float64(base.Wire) / float64(mark.Wire)
	}
	base.Send[Network] = int64(float64(mark.Send[Network]) * part)
	base.Receive[Network] = int64(float64(mark.Receive[Network]) * part)
	return base
}

func (u Usage) with(o Usage, f func(a, b int64) int64) Usage {
	for stage := range stages {
		u.Send[stage], u.Receive[stage] = f(u.Send[stage], o.Send[stage]), f(u.Receive[stage], o.Receive[stage])
	}
	u.Uncompressed, u.Compressed = f(u.Uncompressed, o.Uncompressed), f(u.Compressed, o.Compressed)
	u.Wire, u.Channel = f(u.Wire, o.Wire), f(u.Channel, o.Channel)
	u.Store = u.Store.with(o.Store, f)
	return u
}

// Report is a report that says what was used, but for idle time and estimates.
func (u Usage) Report() *wirev1.Report {
	return &wirev1.Report{
		Cpu: &wirev1.CPU{
			SendNanos: uint64(u.Send[Process]), ReceiveNanos: uint64(u.Receive[Process]),
			CompressNanos:   uint64(u.Send[Compress]),
			DecompressNanos: uint64(sum(u.Send[Decompress], u.Receive[Decompress])),
			ReadNanos:       uint64(u.Send[Read]), WriteNanos: uint64(sum(u.Send[Write], u.Receive[Write])),
		},
		Compression: &wirev1.Compression{
			UncompressedBytes: uint64(u.Uncompressed), CompressedBytes: uint64(u.Compressed),
		},
		WireBytes: uint64(u.Wire),
	}
}
