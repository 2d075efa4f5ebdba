// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package canary_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/usage"
)

var start = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func specOf(change ...func(*v1alpha1.CompressionPolicySpec)) v1alpha1.CompressionPolicySpec {
	spec := v1alpha1.CompressionPolicySpec{
		Objective: v1alpha1.ObjectiveCost, Prices: &v1alpha1.Prices{Currency: "EUR", CPUHour: "3600", NetworkGiB: "1"},
		Canary: &v1alpha1.CompressionCanary{
			Settings: v1alpha1.CanarySettings{Level: v1alpha1.CompressionHigh}, SharePercent: 30,
			Duration: &metav1.Duration{Duration: time.Hour}, MaxCostIncreasePercent: ptr.To[int32](5),
		},
	}
	for _, f := range change {
		f(&spec)
	}
	return spec
}

func of(spec v1alpha1.CompressionPolicySpec) *v1alpha1.CompressionPolicy {
	return &v1alpha1.CompressionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "policy"}, Spec: spec}
}

func policyOf(state v1alpha1.CanaryState, change ...func(*v1alpha1.CompressionPolicySpec)) *v1alpha1.CompressionPolicy {
	p := of(specOf(change...))
	p.Status.Canary = &v1alpha1.CanaryStatus{Revision: canary.Revision(p), State: state}
	return p
}

// TestOf: the share is kept, the same objects are in it whoever asks, another revision draws others.
func TestOf(t *testing.T) {
	measured := policyOf(v1alpha1.CanaryMeasuring)
	other := policyOf(v1alpha1.CanaryMeasuring, func(s *v1alpha1.CompressionPolicySpec) {
		s.Canary.Settings.Level = v1alpha1.CompressionBalanced
	})
	const all = 10000
	in, both := 0, 0
	for i := range all {
		uid := types.UID(fmt.Sprint("object-", i))
		one := canary.Of(measured, uid)
		if one == nil || one.Revision != measured.Status.Canary.Revision || *canary.Of(measured.DeepCopy(), uid) != *one {
			t.Fatalf("%s: %+v", uid, one)
		}
		if one.Applies {
			in++
			if canary.Of(other, uid).Applies {
				both++
			}
		}
		if promoted := canary.Of(policyOf(v1alpha1.CanaryPromoted), uid); promoted == nil || !promoted.Applies {
			t.Fatalf("promoted: %+v", promoted)
		}
	}
	if in < all*28/100 || in > all*32/100 {
		t.Errorf("%d of %d are in a canary of 30 %%", in, all)
	}
	if both < in*25/100 || both > in*35/100 {
		t.Errorf("%d of %d are in the next one too", both, in)
	}
	stale, none, notBegun := policyOf(v1alpha1.CanaryMeasuring), policyOf(v1alpha1.CanaryPromoted),
		policyOf(v1alpha1.CanaryMeasuring)
	stale.Spec.Mode, none.Spec.Canary, notBegun.Status.Canary = v1alpha1.CompressionNever, nil, nil
	for name, p := range map[string]*v1alpha1.CompressionPolicy{
		"another spec": stale, "without": none, "not begun": notBegun, "rolled back": policyOf(v1alpha1.CanaryRolledBack),
		"inconclusive": policyOf(v1alpha1.CanaryInconclusive),
	} {
		if got := canary.Of(p, "object-1"); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := canary.Of(policyOf(v1alpha1.CanaryPromoted), ""); got != nil {
		t.Errorf("of no object: %+v", got)
	}
}

func TestApplied(t *testing.T) {
	spec := specOf(func(s *v1alpha1.CompressionPolicySpec) {
		s.Level, s.Codecs = v1alpha1.CompressionFast, []v1alpha1.Codec{v1alpha1.CodecDeflate}
		s.Canary.Settings = v1alpha1.CanarySettings{
			Objective: v1alpha1.ObjectiveBytes, Mode: v1alpha1.CompressionAlways, Codecs: []v1alpha1.Codec{v1alpha1.CodecZstd},
		}
	})
	got := canary.Applied(spec)
	if got.Objective != v1alpha1.ObjectiveBytes || got.Mode != v1alpha1.CompressionAlways ||
		got.Codecs[0] != v1alpha1.CodecZstd || got.Level != v1alpha1.CompressionFast || got.Canary != nil {
		t.Errorf("%+v", got)
	}
	if spec.Canary == nil || spec.Codecs[0] != v1alpha1.CodecDeflate {
		t.Error("the policy was changed")
	}
}

// figure is what one object took: CPU seconds for each GiB of the bytes that it moved.
type figure struct {
	namespace string
	applies   bool
	perGiB    float64
	mib       int64
}

// add adds it as one of the kinds.
func (f figure) add(m *canary.Meter, kind int, revision string) {
	bytes := f.mib << 20
	nanos := int64(f.perGiB * float64(bytes) / (1 << 30) * 1e9)
	used := usage.Usage{Send: usage.CPU{usage.Process: nanos}, Uncompressed: bytes, Compressed: int64(f.perGiB * 1e6)}
	policy := &v1alpha1.PolicyStatus{Canary: &v1alpha1.PolicyCanary{Revision: revision, Applies: f.applies}}
	meta := metav1.ObjectMeta{Namespace: f.namespace}
	// Of objects that serve that is what they used beyond what they had used before.
	before := usage.Usage{
		Send: usage.CPU{usage.Process: 7e12, usage.Idle: 7e12}, Uncompressed: 9 << 40, Compressed: 1 << 40, Wire: 5 << 40,
	}
	baseline := &v1alpha1.CanaryBaseline{Revision: revision, Usage: *before.Status()}
	after := before.Plus(used)
	// While nothing passes they spend what does not count.
	after.Send[usage.Process] += 3e12
	after.Send[usage.Idle] += 3e12
	switch kind % 3 {
	case 0:
		transfer := &v1alpha1.Transfer{ObjectMeta: meta}
		transfer.Status.Policy, transfer.Status.Run = policy, &v1alpha1.RunStatus{ID: "r", Usage: used.Status()}
		transfer.Status.History = []v1alpha1.AttemptRecord{{
			RunID: "r", Reason: v1alpha1.ReasonSucceeded, Bytes: bytes,
			Duration: &metav1.Duration{Duration: time.Duration(nanos)},
		}}
		m.Transfer(transfer)
	case 1:
		queue := &v1alpha1.Queue{ObjectMeta: meta}
		after.Wire += 1 << 40 // with clients, which is not charged
		queue.Status.Policy, queue.Status.Usage, queue.Status.CanaryBaseline = policy, after.Status(), baseline
		m.Queue(queue)
	case 2:
		endpoint := &v1alpha1.HTTPEndpoint{ObjectMeta: meta}
		endpoint.Status.Policy, endpoint.Status.Usage, endpoint.Status.CanaryBaseline = policy, after.Status(), baseline
		m.Endpoint(endpoint)
	}
}

func meterOf(spec v1alpha1.CompressionPolicySpec, figures []figure) *canary.Meter {
	m := canary.NewMeter(of(spec), spec.Objective, func(v1alpha1.Direction, string) *v1alpha1.PricesStatus {
		if spec.Prices == nil {
			return nil
		}
		return &v1alpha1.PricesStatus{
			Currency: spec.Prices.Currency, CPUHour: spec.Prices.CPUHour, NetworkGiB: spec.Prices.NetworkGiB,
		}
	})
	for i, f := range figures {
		f.add(m, i, canary.Revision(of(spec)))
	}
	return m
}

// both are objects outside that take from 10 CPU seconds on for each GiB, and as many inside that take more by a
// factor.
func both(n int, factor float64, namespaces ...string) []figure {
	var all []figure
	for i := range n {
		namespace := namespaces[i%len(namespaces)]
		perGiB := 10 * (1 + 0.002*float64(i))
		all = append(all, figure{namespace, false, perGiB, 64}, figure{namespace, true, perGiB * factor, 64})
	}
	return all
}

func TestNext(t *testing.T) {
	hour := start.Add(time.Hour)
	rich := func(n int, namespace string, applies bool, perGiB float64) (all []figure) {
		for range n {
			all = append(all, figure{namespace, applies, perGiB, 1 << 10})
		}
		return all
	}
	join := func(lists ...[]figure) (all []figure) {
		for _, list := range lists {
			all = append(all, list...)
		}
		return all
	}
	for name, c := range map[string]struct {
		figures []figure
		at      time.Time
		state   v1alpha1.CanaryState
		reason  string
	}{
		"much worse": {
			both(6, 2, "a"), start.Add(time.Minute),
			v1alpha1.CanaryRolledBack, v1alpha1.ReasonCanaryRolledBack,
		},
		"better, too early": {
			both(6, 0.5, "a"), hour.Add(-time.Second),
			v1alpha1.CanaryMeasuring, v1alpha1.ReasonCanaryMeasuring,
		},
		"better": {
			both(6, 0.5, "a"), hour,
			v1alpha1.CanaryPromoted, v1alpha1.ReasonCanaryPromoted,
		},
		"alike": {
			both(6, 1, "a"), hour,
			v1alpha1.CanaryPromoted, v1alpha1.ReasonCanaryPromoted,
		},
		"a little worse": {
			both(6, 1.03, "a"), hour,
			v1alpha1.CanaryPromoted, v1alpha1.ReasonCanaryPromoted,
		},
		"about the bound": {
			both(6, 1.05, "a"), hour,
			v1alpha1.CanaryInconclusive, v1alpha1.ReasonCanaryUndecided,
		},
		"above the bound": {
			both(6, 1.09, "a"), hour,
			v1alpha1.CanaryRolledBack, v1alpha1.ReasonCanaryRolledBack,
		},
		// Chance has one try at the end, and many before.
		"above the bound, but not clearly": {
			both(48, 1.075, "a"), hour.Add(-time.Second),
			v1alpha1.CanaryMeasuring, v1alpha1.ReasonCanaryMeasuring,
		},
		"above the bound, but not clearly, at the end": {
			both(48, 1.075, "a"), hour,
			v1alpha1.CanaryRolledBack, v1alpha1.ReasonCanaryRolledBack,
		},
		"the first that count are one tenant's": {
			join(both(6, 2, "evil"), []figure{{"a", true, 1, 1}, {"b", false, 1, 1}}), start.Add(time.Minute),
			v1alpha1.CanaryMeasuring, v1alpha1.ReasonCanaryMeasuring,
		},
		"those that count at the end are one tenant's": {
			join(both(6, 2, "a"), []figure{{"b", true, 1, 1}, {"c", false, 1, 1}}), hour,
			v1alpha1.CanaryRolledBack, v1alpha1.ReasonCanaryRolledBack,
		},
		"nobody": {
			nil, hour,
			v1alpha1.CanaryInconclusive, v1alpha1.ReasonCanaryTooLittle,
		},
		"few, early": {
			both(3, 2, "a"), start.Add(time.Minute),
			v1alpha1.CanaryMeasuring, v1alpha1.ReasonCanaryMeasuring,
		},
		"few": {
			both(3, 2, "a"), hour,
			v1alpha1.CanaryInconclusive, v1alpha1.ReasonCanaryTooLittle,
		},
		"all on one side": {
			rich(9, "a", false, 1), hour,
			v1alpha1.CanaryInconclusive, v1alpha1.ReasonCanaryTooLittle,
		},
		"differ by their nature": {
			join(both(6, 1, "a"), rich(6, "a", true, 90)), hour,
			v1alpha1.CanaryInconclusive, v1alpha1.ReasonCanaryUndecided,
		},
		// One tenant of four, whose agents say what they like, in as many objects as it likes.
		"one says it is dear": {
			join(both(9, 0.5, "a", "b", "c"), rich(500, "evil", true, 1e9)), hour,
			v1alpha1.CanaryPromoted, v1alpha1.ReasonCanaryPromoted,
		},
		"one says others are dear": {
			join(both(9, 1.5, "a", "b", "c"), rich(500, "evil", false, 1e9)), hour,
			v1alpha1.CanaryRolledBack, v1alpha1.ReasonCanaryRolledBack,
		},
		"one says it is cheap": {
			join(both(9, 1.5, "a", "b", "c"), rich(500, "evil", true, 1e-6)), hour,
			v1alpha1.CanaryRolledBack, v1alpha1.ReasonCanaryRolledBack,
		},
		"one of two says it is cheap": {
			join(both(9, 1.5, "a"), rich(500, "evil", true, 1e-6), rich(5, "evil", false, 10)), hour,
			v1alpha1.CanaryInconclusive, v1alpha1.ReasonCanaryUndecided,
		},
		"one of two says it is dear": {
			join(both(9, 1, "a"), rich(500, "evil", true, 1e9), rich(5, "evil", false, 10)), hour,
			v1alpha1.CanaryInconclusive, v1alpha1.ReasonCanaryUndecided,
		},
		"one of many says it is cheap": {
			join(both(48, 1.5, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"), rich(500, "evil", true, 1e-6)),
			start.Add(time.Minute), v1alpha1.CanaryRolledBack, v1alpha1.ReasonCanaryRolledBack,
		},
		"one is alone inside": {
			join(rich(500, "evil", true, 1e9), rich(5, "a", false, 1), rich(5, "b", false, 1)), hour,
			v1alpha1.CanaryInconclusive, v1alpha1.ReasonCanaryTooLittle,
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specOf()
			begun := canary.Next(nil, of(spec), meterOf(spec, c.figures), start)
			got := canary.Next(begun, of(spec), meterOf(spec, c.figures), c.at)
			said, ok := canary.Condition(got, spec.Canary)
			if got.State != c.state || !ok || said.Reason != c.reason {
				t.Fatalf("%+v, %s: %s", got, said.Reason, said.Message)
			}
			finished := got.State != v1alpha1.CanaryMeasuring
			if (got.EndTime != nil) != finished || (said.Status == metav1.ConditionTrue) != finished {
				t.Errorf("%+v, %+v", got, said)
			}
			if next := canary.Next(got, of(spec), meterOf(spec, c.figures), c.at); next != got {
				t.Errorf("the same is written again: %+v", next)
			}
			later := canary.Next(got, of(spec), meterOf(spec, both(8, 1, "a")), c.at.Add(time.Hour))
			if finished && later != got {
				t.Errorf("after the end: %+v", later)
			}
		})
	}
}

// TestObjectives: each compares by what it minimises, and what says nothing of it does not count.
func TestObjectives(t *testing.T) {
	for objective, c := range map[v1alpha1.CompressionObjective]struct {
		objects int32
		cost    string
	}{
		v1alpha1.ObjectiveCost:    {12, "10.05"}, // at 1 EUR for a CPU second
		v1alpha1.ObjectiveCPU:     {12, "10.05"},
		v1alpha1.ObjectiveBytes:   {12, "160900000"},
		v1alpha1.ObjectiveElapsed: {4, "10.04"}, // Transfers alone
	} {
		spec := specOf(func(s *v1alpha1.CompressionPolicySpec) { s.Objective = objective })
		begun := canary.Next(nil, of(spec), meterOf(spec, nil), start)
		var figures []figure
		for i := range 12 {
			figures = append(figures, figure{"a", false, 10 * (1 + 0.001*float64(i)), 64})
		}
		got := canary.Next(begun, of(spec), meterOf(spec, figures), start.Add(time.Minute))
		if got.Objective != objective || got.Outside.Objects != c.objects || got.Inside.Objects != 0 {
			t.Errorf("%s: %+v", objective, got)
		}
		if got.Outside.CostPerGiB != c.cost {
			t.Errorf("%s: a GiB takes %s, want %s", objective, got.Outside.CostPerGiB, c.cost)
		}
		if want := map[bool]string{true: "EUR"}[objective == v1alpha1.ObjectiveCost]; got.Currency != want {
			t.Errorf("%s: in %q", objective, got.Currency)
		}
	}
}

// TestWhatDoesNotCount: runs and baselines of another canary, small ones, those without a price, and within a pod.
func TestWhatDoesNotCount(t *testing.T) {
	spec := specOf()
	unpriced := specOf(func(s *v1alpha1.CompressionPolicySpec) { s.Prices = nil })
	big := figure{"a", true, 10, 64}
	old, pod, bare := meterOf(spec, nil), meterOf(spec, nil), meterOf(spec, nil)
	for kind := range 3 {
		big.add(old, kind, "another")
	}
	within := &v1alpha1.Transfer{}
	within.Status.Policy = &v1alpha1.PolicyStatus{Canary: &v1alpha1.PolicyCanary{Revision: canary.Revision(of(spec))}}
	used := usage.Usage{Send: usage.CPU{usage.Process: 1e9}, Uncompressed: 1 << 30}
	within.Status.Run = &v1alpha1.RunStatus{Route: v1alpha1.RoutePod, Usage: used.Status()}
	pod.Transfer(within)
	queue := &v1alpha1.Queue{}
	queue.Status.Policy, queue.Status.Usage = within.Status.Policy, used.Status()
	bare.Queue(queue) // has no baseline yet
	queue.Status.CanaryBaseline = &v1alpha1.CanaryBaseline{Revision: "the one before"}
	bare.Queue(queue)
	for name, m := range map[string]*canary.Meter{
		"another revision": old, "within a pod": pod, "no baseline": bare,
		"small":         meterOf(spec, []figure{{"a", true, 10, 15}, {"a", true, 10, 15}, {"a", true, 10, 15}}),
		"took nothing":  meterOf(spec, []figure{{"a", true, 0, 64}, {"a", true, 0, 64}, {"a", true, 0, 64}}),
		"has no prices": meterOf(unpriced, []figure{big, big, big}),
	} {
		measured := spec
		if name == "has no prices" {
			measured = unpriced
		}
		begun := canary.Next(nil, of(measured), m, start)
		got := canary.Next(begun, of(measured), m, start.Add(time.Minute))
		if got.Inside.Objects != 0 || got.Outside.Objects != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// What the other cluster claims of its side does not count either.
	used.Receive[usage.Process] = 1e15
	within.Status.Run = &v1alpha1.RunStatus{Usage: used.Status()}
	within.Spec.Destination.Peer = "west"
	m := meterOf(spec, nil)
	m.Transfer(within)
	got := canary.Next(canary.Next(nil, of(spec), m, start), of(spec), m, start.Add(time.Minute))
	if got.Outside.CostPerGiB != "1" {
		t.Errorf("%+v", got)
	}
}

// TestTurns: figures are written by turns, a change of the spec begins again, and what cannot be used waits.
func TestTurns(t *testing.T) {
	spec := specOf()
	begun := canary.Next(nil, of(spec), meterOf(spec, nil), start)
	if begun.State != v1alpha1.CanaryMeasuring || !begun.StartTime.Time.Equal(start) || begun.EndTime != nil {
		t.Fatalf("%+v", begun)
	}
	first := canary.Next(begun, of(spec), meterOf(spec, both(4, 1, "a")), start.Add(time.Minute))
	if first == begun || first.Inside.Objects != 4 || first.ChangePercent != "0.0" {
		t.Fatalf("%+v", first)
	}
	turn := canary.Turn(spec.Canary)
	if turn != 3*time.Minute || canary.Wait(first, spec.Canary, start.Add(time.Minute)) != turn ||
		canary.Wait(first, spec.Canary, start.Add(59*time.Minute)) != time.Minute {
		t.Errorf("turns of %s", turn)
	}
	more := meterOf(spec, both(5, 1, "a"))
	if got := canary.Next(first, of(spec), more, start.Add(time.Minute+turn-time.Second)); got != first {
		t.Errorf("before its turn: %+v", got)
	}
	if got := canary.Next(first, of(spec), more, start.Add(time.Minute+turn)); got == first || got.Inside.Objects != 5 {
		t.Errorf("at its turn: %+v", got)
	}
	if got := canary.Next(first, of(spec), more, start.Add(-time.Hour)); !got.StartTime.Time.Equal(start.Add(-time.Hour)) {
		t.Errorf("a clock that was set back makes it longer: %+v", got)
	}
	if got := canary.Next(first, of(spec), more, start.Add(time.Second)); got == first {
		t.Error("a clock that was set back stops it")
	}
	if got := canary.Wait(first, spec.Canary, start.Add(2*time.Hour)); got != turn {
		t.Errorf("one whose policy cannot be used at its end is looked at after %s", got)
	}
	if got := canary.Next(first, of(spec), nil, start.Add(2*time.Hour)); got != first {
		t.Errorf("while it cannot be used: %+v", got)
	}
	changed := specOf(func(s *v1alpha1.CompressionPolicySpec) { s.Canary.MaxCostIncreasePercent = nil })
	rolled := canary.Next(first, of(spec), meterOf(spec, both(6, 3, "a")), start.Add(2*time.Minute))
	if rolled.State != v1alpha1.CanaryRolledBack || canary.Wait(rolled, spec.Canary, start) != 0 {
		t.Errorf("%+v", rolled)
	}
	for _, before := range []*v1alpha1.CanaryStatus{first, rolled} {
		got := canary.Next(before, of(changed), meterOf(changed, both(6, 3, "a")), start.Add(9*time.Minute))
		if got.State != v1alpha1.CanaryMeasuring || got.Revision == before.Revision || got.Inside.Objects != 0 ||
			!got.StartTime.Time.Equal(start.Add(9*time.Minute)) {
			t.Errorf("after a change: %+v", got)
		}
		if got := canary.Next(before, of(changed), nil, start); got != nil {
			t.Errorf("one that cannot be used: %+v", got)
		}
	}
	spec.Canary = nil
	if got := canary.Next(first, of(spec), nil, start); got != nil {
		t.Errorf("without a canary: %+v", got)
	}
	if _, ok := canary.Condition(first, nil); ok {
		t.Error("without a canary there is a condition")
	}
}

// TestPricesOfQueues: what a Queue moves has the prices that it is charged.
func TestPricesOfQueues(t *testing.T) {
	spec := specOf()
	peer := func(name string) *v1alpha1.QueueChannel { return &v1alpha1.QueueChannel{Peer: name} }
	for want, channel := range map[string]*v1alpha1.QueueChannel{"3": nil, "5": peer("west"), "7": peer("east")} {
		m := canary.NewMeter(of(spec), spec.Objective, func(d v1alpha1.Direction, peer string) *v1alpha1.PricesStatus {
			prices := map[v1alpha1.Direction]map[string]string{
				v1alpha1.DirectionReceive: {"": "3"}, v1alpha1.DirectionSend: {"": "4", "west": "5", "east": "7"},
			}
			return &v1alpha1.PricesStatus{Currency: "EUR", CPUHour: "0", NetworkGiB: prices[d][peer]}
		})
		queue := &v1alpha1.Queue{Spec: v1alpha1.QueueSpec{Channel: channel}}
		revision := canary.Revision(of(spec))
		queue.Status.Policy = &v1alpha1.PolicyStatus{Canary: &v1alpha1.PolicyCanary{Revision: revision}}
		queue.Status.CanaryBaseline = &v1alpha1.CanaryBaseline{Revision: revision}
		queue.Status.Usage = usage.Usage{Uncompressed: 1 << 30, Wire: 9 << 30, Channel: 1 << 30}.Status()
		m.Queue(queue)
		got := canary.Next(canary.Next(nil, of(spec), m, start), of(spec), m, start.Add(time.Minute))
		if got.Outside.CostPerGiB != want {
			t.Errorf("a GiB costs %s, want %s", got.Outside.CostPerGiB, want)
		}
	}
}

func TestBaseline(t *testing.T) {
	policy := &v1alpha1.PolicyStatus{Canary: &v1alpha1.PolicyCanary{Revision: "one"}}
	used := &v1alpha1.UsageStatus{WireBytes: 5}
	first := canary.Baseline(nil, policy, used)
	if first == nil || first.Revision != "one" || first.Usage.WireBytes != 5 {
		t.Fatalf("%+v", first)
	}
	if got := canary.Baseline(first, policy, &v1alpha1.UsageStatus{WireBytes: 9}); got != first {
		t.Errorf("it moved: %+v", got)
	}
	next := &v1alpha1.PolicyStatus{Canary: &v1alpha1.PolicyCanary{Revision: "two"}}
	if got := canary.Baseline(first, next, nil); got == nil || got.Revision != "two" || got.Usage.WireBytes != 0 {
		t.Errorf("of another canary: %+v", got)
	}
	for _, none := range []*v1alpha1.PolicyStatus{nil, {}} {
		if got := canary.Baseline(first, none, used); got != nil {
			t.Errorf("without a canary: %+v", got)
		}
	}
}
