// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/usage"
)

func TestOf(t *testing.T) {
	both := &wirev1.Report{
		Cpu: &wirev1.CPU{
			SendNanos: 100, CompressNanos: 30, ReadNanos: 20, ReceiveNanos: 50, DecompressNanos: 10, WriteNanos: 5,
		},
		Compression: &wirev1.Compression{UncompressedBytes: 8, CompressedBytes: 4}, WireBytes: 1 << 30,
	}
	pod := &wirev1.Report{Cpu: &wirev1.CPU{SendNanos: 100, DecompressNanos: 10, WriteNanos: 5}}
	receiver := &wirev1.Report{Cpu: &wirev1.CPU{ReceiveNanos: 50, DecompressNanos: 10}, WireBytes: 1 << 29}
	for name, c := range map[string]struct {
		report     *wirev1.Report
		oneProcess bool
		network    *usage.NetworkCost
		want       usage.Usage
	}{
		"nothing": {nil, false, &usage.NetworkCost{PerGiB: 1}, usage.Usage{}},
		"sender": {both, false, &usage.NetworkCost{PerGiB: 1e-9}, usage.Usage{
			Send:         usage.CPU{usage.Process: 100, usage.Compress: 30, usage.Read: 20, usage.Network: 1},
			Receive:      usage.CPU{usage.Process: 50, usage.Decompress: 10, usage.Write: 5},
			Uncompressed: 8, Compressed: 4, Wire: 1 << 30,
		}},
		"one process": {pod, true, nil, usage.Usage{
			Send: usage.CPU{usage.Process: 100, usage.Decompress: 10, usage.Write: 5},
		}},
		"a receiver that claims part of the sender's time": {pod, false, nil, usage.Usage{
			Send: usage.CPU{usage.Process: 100}, Receive: usage.CPU{usage.Decompress: 10, usage.Write: 5},
		}},
		"receiver": {receiver, false, &usage.NetworkCost{PerGiB: 2e-9}, usage.Usage{
			Receive: usage.CPU{usage.Process: 50, usage.Decompress: 10, usage.Network: 1}, Wire: 1 << 29,
		}},
		"both sides": {
			&wirev1.Report{
				Cpu: &wirev1.CPU{SendNanos: 100, ReceiveNanos: 50}, WireBytes: 8,
				Traffic: &wirev1.Traffic{Acknowledgements: 3}, PeerTraffic: &wirev1.Traffic{DataSegments: 5},
			},
			false, &usage.NetworkCost{PerGiB: 1, Segments: &usage.SegmentCost{Acknowledgement: 2e-9, Segment: 3e-9}},
			usage.Usage{
				Send: usage.CPU{usage.Process: 100, usage.Network: 6}, Receive: usage.CPU{usage.Process: 50, usage.Network: 15},
				Wire: 8,
			},
		},
		"a receiver before it": {
			&wirev1.Report{Cpu: &wirev1.CPU{SendNanos: 100}, WireBytes: 8, Traffic: &wirev1.Traffic{Acknowledgements: 3}},
			false, &usage.NetworkCost{PerGiB: 1, Segments: &usage.SegmentCost{Acknowledgement: 2e-9, Segment: 3e-9}},
			usage.Usage{Send: usage.CPU{usage.Process: 100, usage.Network: 6}, Wire: 8},
		},
		"absurd": {
			&wirev1.Report{Cpu: &wirev1.CPU{SendNanos: math.MaxUint64}, WireBytes: math.MaxUint64}, false,
			&usage.NetworkCost{PerGiB: 1e6},
			usage.Usage{
				Send: usage.CPU{usage.Process: math.MaxInt64 / 4, usage.Network: math.MaxInt64 / 4},
				Wire: math.MaxInt64 / 4,
			},
		},
	} {
		got := usage.Of(c.report, c.oneProcess, c.network)
		if name == "absurd" { // a float has fewer digits
			got.Send[usage.Network] = c.want.Send[usage.Network]
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(got, usage.FromStatus(got.Status())); diff != "" {
			t.Errorf("%s is not read as it was written: %s", name, diff)
		}
	}
}

// TestWithin: neither side of a Transfer within a cluster is believed to have used what its node does not have.
func TestWithin(t *testing.T) {
	network := &usage.NetworkCost{Segments: &usage.SegmentCost{Acknowledgement: 1e-9, Segment: 1e-9, PerGiB: 1}}
	honest := &wirev1.Report{
		Cpu: &wirev1.CPU{SendNanos: 100, CompressNanos: 30, ReceiveNanos: 50, DecompressNanos: 10}, WireBytes: 1 << 30,
		Traffic:     &wirev1.Traffic{DataSegments: 10, Acknowledgements: 900_000, ReceivedBytes: 4096},
		PeerTraffic: &wirev1.Traffic{DataSegments: 1_800_000, ReceivedBytes: 1 << 30},
	}
	limits := usage.Limits{Elapsed: 30 * time.Second, SendCores: 8, ReceiveCores: 2}
	if diff := cmp.Diff(usage.Of(honest, false, network), usage.Within(honest, network, limits)); diff != "" {
		t.Errorf("an honest report is cut: %s", diff)
	}
	const most = math.MaxUint64
	everything := &wirev1.Traffic{DataSegments: most, Acknowledgements: most, ReceivedBytes: most}
	absurd := &wirev1.Report{
		Cpu:       &wirev1.CPU{SendNanos: most, ReceiveNanos: most, DecompressNanos: most, WriteNanos: most},
		WireBytes: 1 << 30, Traffic: everything, PeerTraffic: everything,
	}
	const minute, segments = int64(time.Minute), 1<<30/512 + 4096
	if diff := cmp.Diff(usage.Usage{
		Send: usage.CPU{usage.Process: 8 * minute, usage.Network: 2*segments + 1e9},
		Receive: usage.CPU{
			usage.Process: 2 * minute, usage.Decompress: 2 * minute, usage.Write: 2 * minute,
			usage.Network: 2*segments + 1e9,
		},
		Wire: 1 << 30,
	}, usage.Within(absurd, network, limits)); diff != "" {
		t.Error(diff)
	}
	network.Segments.Segment = 1
	if got := usage.Within(absurd, network, limits).Receive[usage.Network]; got != 2*minute {
		t.Errorf("the network stack spent %d ns on two cores in a minute", got)
	}
	for _, limits := range []usage.Limits{{Elapsed: math.MaxInt64}, {Elapsed: -time.Hour}} {
		if got := usage.Within(honest, network, limits).Receive[usage.Process]; got != 50 {
			t.Errorf("%+v: %d", limits, got)
		}
	}
}

func TestNetworkCost(t *testing.T) {
	segments := &usage.SegmentCost{Acknowledgement: 2e-6, Segment: 3e-6, PerGiB: 4}
	counted := &wirev1.Traffic{DataSegments: 1000, Acknowledgements: 500, ReceivedBytes: 1 << 29}
	for name, c := range map[string]struct {
		cost    *usage.NetworkCost
		traffic *wirev1.Traffic
		want    int64
	}{
		"segments":           {&usage.NetworkCost{PerGiB: 7, Segments: segments}, counted, 1e6 + 3e6 + 2e9},
		"an agent before it": {&usage.NetworkCost{PerGiB: 7, Segments: segments}, nil, 14e9},
		"a node before it":   {&usage.NetworkCost{PerGiB: 7}, counted, 14e9},
		"a node that spends nothing": {
			&usage.NetworkCost{PerGiB: 7, Segments: &usage.SegmentCost{}}, counted, 0,
		},
		"absurd": {
			&usage.NetworkCost{Segments: segments},
			&wirev1.Traffic{DataSegments: math.MaxUint64, Acknowledgements: math.MaxUint64, ReceivedBytes: math.MaxUint64},
			math.MaxInt64 / 4,
		},
	} {
		got := c.cost.Nanos(&wirev1.Report{WireBytes: 2 << 30, Traffic: c.traffic})
		if got == nil || *got != c.want {
			t.Errorf("%s: %v, want %d", name, got, c.want)
		}
	}
	ends := &wirev1.Report{
		Traffic: &wirev1.Traffic{Acknowledgements: 2}, PeerTraffic: &wirev1.Traffic{DataSegments: 1}, WireBytes: 7,
	}
	if got := (&usage.NetworkCost{Segments: segments}).Both(ends); *got != 7000 {
		t.Errorf("both ends: %d", *got)
	}
	if got := (&usage.NetworkCost{Gateway: 0.5}).Gateways(3 << 30); got != 15e8 {
		t.Errorf("gateways: %d", got)
	}
	var unknown *usage.NetworkCost
	if got := unknown.Gateways(1 << 30); got != 0 {
		t.Errorf("nothing is known of gateways: %d", got)
	}
	if got := unknown.Both(ends); got != nil {
		t.Errorf("nothing is known: %d", *got)
	}
	if got := unknown.Nanos(&wirev1.Report{WireBytes: 1}); got != nil {
		t.Errorf("nothing is known: %d", *got)
	}
}

func TestSeconds(t *testing.T) {
	for text, nanos := range map[string]int64{
		"0": 0, "0.000000001": 1, "1": 1e9, "12.5": 125e8, "9223372035.854775807": math.MaxInt64 - 1e9,
	} {
		if got := usage.Seconds(nanos); got != text || usage.Nanos(text) != nanos {
			t.Errorf("%d is %q, and %q is %d", nanos, got, text, usage.Nanos(text))
		}
	}
	for _, text := range []string{"", "-1", "x", "99999999999999999999", "NaN"} {
		if got := usage.Nanos(text); got != 0 {
			t.Errorf("%q is %d", text, got)
		}
	}
}

var epoch = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

func replica(uid string, since int, nanos int64) usage.Replica {
	return usage.Replica{
		UID: uid, Node: "n", Since: epoch.Add(time.Duration(since) * time.Second),
		Usage: usage.Usage{Send: usage.CPU{usage.Process: nanos}, Wire: 2 * nanos},
	}
}

func silent(uid string) usage.Replica { return usage.Replica{UID: uid, Node: "n"} }

// TestCount: what replicas use counts once, whatever becomes of them.
func TestCount(t *testing.T) {
	var status *v1alpha1.UsageStatus
	var marks []v1alpha1.ReplicaUsage
	for i, step := range []struct {
		what     string
		replicas []usage.Replica
		want     int64
		marks    int
	}{
		{"two replicas", []usage.Replica{replica("a", 0, 10), replica("b", 0, 5)}, 15, 2},
		{"the same again", []usage.Replica{replica("a", 0, 10), replica("b", 0, 5)}, 15, 2},
		{"they go on", []usage.Replica{replica("a", 0, 12), replica("b", 0, 6)}, 18, 2},
		{"one is silent", []usage.Replica{silent("a"), replica("b", 0, 7)}, 19, 2},
		{"it answers again", []usage.Replica{replica("a", 0, 15), replica("b", 0, 7)}, 22, 2},
		{"one is gone", []usage.Replica{replica("b", 0, 8)}, 23, 1},
		{"another starts", []usage.Replica{replica("b", 0, 8), silent("c")}, 23, 1},
		{"and reports", []usage.Replica{replica("b", 0, 8), replica("c", 9, 4)}, 27, 2},
		{"a reset", []usage.Replica{replica("b", 20, 3), replica("c", 20, 1)}, 31, 2},
		{"a counter that is smaller", []usage.Replica{replica("b", 20, 2), replica("c", 20, 1)}, 33, 2},
		{"all are gone", nil, 33, 0},
	} {
		kept, had := status.DeepCopy(), len(marks)
		status, marks = usage.Count(status, marks, step.replicas)
		got := usage.FromStatus(status)
		if got.Send[usage.Process] != step.want || got.Wire != 2*step.want || len(marks) != step.marks {
			t.Errorf("%d, %s: %+v and %d marks after %d", i, step.what, got, len(marks), had)
		}
		if kept != nil && usage.FromStatus(kept).Since(got) != (usage.Usage{}) {
			t.Errorf("%s: a figure has become smaller", step.what)
		}
	}
}

// TestCountOfChannel: a counter that begins again alone, as that of a Queue's channel does, has no other counted again.
func TestCountOfChannel(t *testing.T) {
	one := func(rest, channel, nanos int64) []usage.Replica {
		r := replica("a", 0, nanos)
		r.Usage.Wire, r.Usage.Channel = rest+channel, channel
		r.Usage.Send[usage.Network] = r.Usage.Wire
		return []usage.Replica{r}
	}
	status, marks := usage.Count(nil, nil, one(1000, 500, 10))
	status, marks = usage.Count(status, marks, one(1001, 20, 12))
	status, _ = usage.Count(status, marks, one(1001, 30, 12))
	got := usage.FromStatus(status)
	if got.Wire != 1531 || got.Channel != 530 || got.Send[usage.Process] != 12 ||
		got.Send[usage.Network] < 1529 || got.Send[usage.Network] > 1533 {
		t.Errorf("%+v", got)
	}
}

// TestCountOfStores: requests and bytes of object stores add up over replicas and resets, and survive status.
func TestCountOfStores(t *testing.T) {
	one := func(since time.Duration, n uint64) []usage.Replica {
		return []usage.Replica{{UID: "a", Since: time.Unix(100, 0).Add(since), Usage: usage.Of(&wirev1.Report{
			Store: &wirev1.StoreTraffic{WriteRequests: n, ReadRequests: 2 * n, SentBytes: 3 * n, ReceivedBytes: 4 * n},
		}, true, nil)}}
	}
	status, marks := usage.Count(nil, nil, one(0, 10))
	status, marks = usage.Count(status, marks, one(0, 15))
	status, _ = usage.Count(status, marks, one(time.Hour, 2))
	if got := usage.FromStatus(status).Store; got != (usage.Store{Writes: 17, Reads: 34, Sent: 51, Received: 68}) {
		t.Errorf("%+v", got)
	}
	most := usage.Of(&wirev1.Report{Store: &wirev1.StoreTraffic{WriteRequests: math.MaxUint64}}, false, nil).Store.Writes
	if most <= 0 || most > math.MaxInt64/4 {
		t.Errorf("an absurd report counts as %d", most)
	}
}

// TestBegin: what replicas used before anything was counted is not counted, whenever they report it.
func TestBegin(t *testing.T) {
	status, marks := usage.Begin([]usage.Replica{replica("a", 0, 1000), silent("b")})
	if status == nil || usage.FromStatus(status) != (usage.Usage{}) {
		t.Errorf("%+v", status)
	}
	status, marks = usage.Count(status, marks, []usage.Replica{replica("a", 0, 1002), silent("b")})
	status, marks = usage.Count(status, marks, []usage.Replica{replica("a", 0, 1002), replica("b", 0, 2000)})
	status, _ = usage.Count(
		status, marks, []usage.Replica{replica("a", 0, 1002), replica("b", 0, 2003), replica("c", 7, 4)},
	)
	if got := usage.FromStatus(status); got.Send[usage.Process] != 9 || got.Wire != 18 {
		t.Errorf("%+v", got)
	}
}

// TestCountIsBounded: replicas beyond what status holds are counted when others are gone, and then once.
func TestCountIsBounded(t *testing.T) {
	var many []usage.Replica
	for i := range 1025 {
		many = append(many, replica(string(rune('a'+i)), 0, 1))
	}
	status, marks := usage.Count(nil, nil, many)
	if usage.FromStatus(status).Wire != 2*1024 || len(marks) != 1024 {
		t.Errorf("%+v, %d marks", status, len(marks))
	}
	status, marks = usage.Count(status, marks, many[1:])
	if usage.FromStatus(status).Wire != 2*1025 || len(marks) != 1024 {
		t.Errorf("%+v, %d marks", status, len(marks))
	}
}

// TestCountOfAnyHistory: whatever replicas report in whatever order, the sum is what their agents counted, and a
// restart of the manager, which knows what is in status alone, changes nothing.
func TestCountOfAnyHistory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var status *v1alpha1.UsageStatus
		var marks []v1alpha1.ReplicaUsage
		now, truth := map[string]usage.Replica{}, int64(0)
		for step := range 50 {
			uid := string(rune('a' + random.IntN(4)))
			one, exists := now[uid]
			switch action := random.IntN(5); {
			case !exists:
				uid += string(rune('A' + step)) // a pod that is gone does not come back
				now[uid] = replica(uid, step, 0)
			case action == 0:
				delete(now, uid)
			case action == 1:
				now[uid] = replica(uid, step, 0)
			default:
				more := random.Int64N(1000)
				one.Usage = one.Usage.Plus(usage.Usage{Send: usage.CPU{usage.Process: more}, Wire: 2 * more})
				now[uid], truth = one, truth+more
			}
			var list []usage.Replica
			for _, r := range now {
				list = append(list, r)
			}
			status, marks = usage.Count(status.DeepCopy(), marks, list)
		}
		if got := usage.FromStatus(status).Send[usage.Process]; got != truth {
			t.Fatalf("%d, want %d", got, truth)
		}
	}
}
