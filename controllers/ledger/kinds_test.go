// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/ledger"
)

// accountOf an object as the manager makes it.
func (w *world) accountOf(kind string, object client.Object, tariffs ...v1alpha1.Tariff) ledger.Account {
	object.SetUID("uid")
	object.SetResourceVersion(w.nextVersion())
	i := slices.IndexFunc(ledger.Kinds, func(k ledger.Kind) bool { return k.Name == kind })
	return ledger.Kinds[i].Account(object, ledger.Facts{
		Now: w.now, Tariffs: tariffs, Node: func(string) ledger.Node { return ledger.Node{} },
	})
}

// bytesOf what has been booked, after booking a Transfer.
func (w *world) bytesOf(t *v1alpha1.Transfer) int64 {
	w.t.Helper()
	return sumOf(w.step(w.accountOf("Transfer", t)))[2]
}

// end the attempt of a Transfer as the Transfer controller does, which may move its number on.
func end(t *v1alpha1.Transfer, next int32) {
	run := t.Status.Run
	t.Status.History = slices.Insert(t.Status.History, 0, v1alpha1.AttemptRecord{
		RunID: run.ID, Attempt: run.Attempt, Usage: t.Status.Usage.DeepCopy(),
	})
	t.Status.History = t.Status.History[:min(len(t.Status.History), 10)]
	run.Attempt, run.NextAttemptTime = next, &metav1.Time{Time: time.Unix(1, 0)}
}

// begin the next attempt, which has used so much.
func begin(t *v1alpha1.Transfer, bytes int64) {
	run := t.Status.Run
	run.Attempt, run.NextAttemptTime = run.Attempt+1, nil
	t.Status.Usage = &v1alpha1.UsageStatus{WireBytes: bytes}
}

// TestSuperseded: the receiving cluster knows of a newer attempt, and the run goes on after that.
func TestSuperseded(t *testing.T) {
	w := newWorld(t, 1)
	transfer := &v1alpha1.Transfer{Status: v1alpha1.TransferStatus{Run: &v1alpha1.RunStatus{ID: "run"}}}
	begin(transfer, 100)
	for i, step := range []struct {
		change func()
		want   int64
	}{
		{func() {}, 100},
		{func() { end(transfer, 7) }, 100},
		{func() { begin(transfer, 30) }, 130},
		{func() { end(transfer, 8) }, 130},
		{func() { transfer.Status.Run.CompletionTime = transfer.Status.Run.NextAttemptTime }, 130},
		{func() {
			transfer.Status.Run = &v1alpha1.RunStatus{ID: "next"}
			begin(transfer, 5)
		}, 135},
	} {
		step.change()
		if got := w.bytesOf(transfer); got != step.want {
			t.Errorf("step %d: %d bytes, want %d", i, got, step.want)
		}
	}
	if c := condition(*w.open(), v1alpha1.ConditionComplete); c.Reason != v1alpha1.ReasonBooked {
		t.Errorf("%+v", c)
	}
}

// TestRecordsAreWhole: an attempt that ends before it is booked is booked whole, although the next one has begun.
func TestRecordsAreWhole(t *testing.T) {
	w := newWorld(t, 1)
	packed := func(operations, stored int64) *v1alpha1.CompressionStatus {
		return &v1alpha1.CompressionStatus{
			Software: v1alpha1.Operations{Operations: operations}, Stored: v1alpha1.Operations{Operations: 1, Bytes: stored},
		}
	}
	transfer := &v1alpha1.Transfer{Status: v1alpha1.TransferStatus{
		Run: &v1alpha1.RunStatus{ID: "run", Attempt: 2}, Usage: &v1alpha1.UsageStatus{WireBytes: 1},
		Compression: packed(4, 50),
	}}
	transfer.Status.History = []v1alpha1.AttemptRecord{{
		RunID: "run", Attempt: 1, Usage: &v1alpha1.UsageStatus{WireBytes: 1}, Operations: 20, StoredBytes: 300,
	}}
	sum := sumOf(w.step(w.accountOf("Transfer", transfer)))
	if sum[0] != 25 || sum[3] != 350 {
		t.Errorf("%d operations and %d stored bytes are booked", sum[0], sum[3])
	}
}

// TestRestored: what an object shows of its predecessor, whose status was restored, is not booked again; what it uses
// itself is.
func TestRestored(t *testing.T) {
	w := newWorld(t, 1)
	at := func(minutes int) *metav1.Time {
		return &metav1.Time{Time: w.now.Add(time.Duration(minutes) * time.Minute)}
	}
	bytes := func(n int64) *v1alpha1.UsageStatus { return &v1alpha1.UsageStatus{WireBytes: n, ChannelBytes: n} }
	past := []v1alpha1.AttemptRecord{
		{RunID: "run", Attempt: 1, StartTime: at(-60), CompletionTime: at(-50), Usage: bytes(100)},
	}
	made := func(object client.Object) client.Object {
		object.SetCreationTimestamp(*at(-10))
		return object
	}
	queue := func(n int64) client.Object {
		return made(&v1alpha1.Queue{Status: v1alpha1.QueueStatus{
			Usage:        bytes(n),
			ReplicaUsage: []v1alpha1.ReplicaUsage{{UID: "new", StartTime: at(-9)}, {UID: "old", StartTime: at(-60)}},
		}})
	}
	transfer := func(run v1alpha1.RunStatus, n int64, history ...v1alpha1.AttemptRecord) client.Object {
		return made(&v1alpha1.Transfer{Status: v1alpha1.TransferStatus{
			Run: &run, Usage: bytes(n), History: append(history, past...),
		}})
	}
	for name, c := range map[string]struct {
		kind          string
		object, later client.Object
		want          int64
	}{
		"its own attempt": {"Transfer", transfer(v1alpha1.RunStatus{ID: "next", Attempt: 1, StartTime: at(-9)}, 7), nil, 7},
		"an attempt that the predecessor began": {
			"Transfer", transfer(v1alpha1.RunStatus{ID: "run", Attempt: 2, StartTime: at(-60)}, 7),
			transfer(v1alpha1.RunStatus{ID: "run", Attempt: 2, StartTime: at(-60)}, 9), 2,
		},
		"one that ended after the restore": {
			"Transfer", transfer(v1alpha1.RunStatus{ID: "run", Attempt: 2, NextAttemptTime: at(1)}, 0, v1alpha1.AttemptRecord{
				RunID: "run", Attempt: 2, StartTime: at(-60), CompletionTime: at(-5), Usage: bytes(50),
			}), nil, 0,
		},
		"its own, a clock some seconds behind": {
			"Transfer", made(&v1alpha1.Transfer{Status: v1alpha1.TransferStatus{History: []v1alpha1.AttemptRecord{{
				RunID: "run", Attempt: 1, Usage: bytes(5),
				StartTime: &metav1.Time{Time: w.now.Add(-10*time.Minute - 30*time.Second)},
			}}}}), nil, 5,
		},
		"a Queue": {"Queue", queue(100), queue(103), 3},
	} {
		w := newWorld(t, 1)
		w.step(w.accountOf(c.kind, c.object))
		if c.later == nil {
			c.later = c.object
		}
		if got := sumOf(w.step(w.accountOf(c.kind, c.later)))[2]; got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}

// TestLostAttempt: when an object does not show any more the attempt that was booked last, nothing is booked twice.
func TestLostAttempt(t *testing.T) {
	begun := func() (*world, *v1alpha1.Transfer) {
		w := newWorld(t, 1)
		transfer := &v1alpha1.Transfer{Status: v1alpha1.TransferStatus{Run: &v1alpha1.RunStatus{ID: "run"}}}
		for range 3 {
			begin(transfer, 100)
			w.bytesOf(transfer)
			end(transfer, transfer.Status.Run.Attempt)
		}
		return w, transfer
	}
	var book func(*v1alpha1.Transfer)
	for name, c := range map[string]struct {
		change func(*v1alpha1.Transfer)
		want   int64
		reason string
	}{
		"nothing": {func(*v1alpha1.Transfer) {}, 307, v1alpha1.ReasonBooked},
		"the last record is removed": {func(t *v1alpha1.Transfer) {
			t.Status.History = t.Status.History[1:]
		}, 307, v1alpha1.ReasonMarksLost},
		"another run": {func(t *v1alpha1.Transfer) {
			t.Status.Run.ID = "other"
			for i := range t.Status.History {
				t.Status.History[i].RunID = "other"
			}
		}, 307, v1alpha1.ReasonMarksLost},
		"as many attempts as history holds": {func(t *v1alpha1.Transfer) {
			for range 9 { // the one that was booked last while it ran has ended since
				begin(t, 1)
				end(t, t.Status.Run.Attempt)
			}
		}, 316, v1alpha1.ReasonBooked},
		"as many attempts since one that was booked to its end": {func(t *v1alpha1.Transfer) {
			book(t)
			for range 10 {
				begin(t, 1)
				end(t, t.Status.Run.Attempt)
			}
		}, 317, v1alpha1.ReasonBooked},
		"more attempts than history holds": {func(t *v1alpha1.Transfer) {
			for range 10 { // what was used last of the one that was booked while it ran may be missing
				begin(t, 1)
				end(t, t.Status.Run.Attempt)
			}
		}, 317, v1alpha1.ReasonMarksLost},
		"one more": {func(t *v1alpha1.Transfer) {
			book(t)
			for range 11 {
				begin(t, 1)
				end(t, t.Status.Run.Attempt)
			}
		}, 317, v1alpha1.ReasonMarksLost},
		"more runs since than history holds": {func(t *v1alpha1.Transfer) {
			for n := range 11 {
				t.Status.Run = &v1alpha1.RunStatus{ID: strconv.Itoa(n)}
				begin(t, 1)
				end(t, t.Status.Run.Attempt)
			}
		}, 317, v1alpha1.ReasonMarksLost},
		"more attempts without figures than history holds": {func(t *v1alpha1.Transfer) {
			for range 30 {
				begin(t, 0)
				t.Status.Usage = nil
				end(t, t.Status.Run.Attempt)
				book(t)
			}
		}, 307, v1alpha1.ReasonBooked},
	} {
		w, transfer := begun()
		book = func(t *v1alpha1.Transfer) { w.bytesOf(t) }
		c.change(transfer)
		begin(transfer, 7)
		for range 2 {
			if got := w.bytesOf(transfer); got != c.want {
				t.Errorf("%s: %d bytes, want %d", name, got, c.want)
			}
		}
		if got := condition(*w.open(), v1alpha1.ConditionComplete); got.Reason != c.reason {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestQueueCharges: a Queue is charged for bytes with other clusters, at the prices that its status.cost is of.
func TestQueueCharges(t *testing.T) {
	const gib = 1 << 30
	w := newWorld(t, 1)
	tariff := v1alpha1.Tariff{Spec: v1alpha1.TariffSpec{Currency: "EUR"}}
	tariff.Name = "default"
	tariff.Spec.CPUHour.Price, tariff.Spec.NetworkGiB.Price = "0", "7"
	tariff.Spec.NetworkGiB.Rules = []v1alpha1.NetworkGiBRule{{Price: "0.5", Direction: v1alpha1.DirectionReceive}}
	queue := &v1alpha1.Queue{Status: v1alpha1.QueueStatus{
		Policy:      &v1alpha1.PolicyStatus{TariffName: "default"},
		Usage:       &v1alpha1.UsageStatus{UncompressedBytes: 9 * gib, WireBytes: 5 * gib, ChannelBytes: 2 * gib},
		Compression: &v1alpha1.CompressionStatus{},
	}}
	s := w.step(w.accountOf("Queue", queue, tariff))
	if len(s.Status.Rows) != 1 {
		t.Fatalf("%+v", s.Status.Rows)
	}
	if r := s.Status.Rows[0]; r.WireBytes != 2*gib || r.Cost.Network != "1" || r.Direction != "" ||
		r.EngineClass != v1alpha1.EngineClassNone {
		t.Errorf("%+v", r)
	}
}

// TestSeveralPeersCharge: with channels to several Peers a Queue is charged the mean of their prices.
func TestSeveralPeersCharge(t *testing.T) {
	const gib = 1 << 30
	w := newWorld(t, 1)
	tariff := v1alpha1.Tariff{Spec: v1alpha1.TariffSpec{Currency: "EUR"}}
	tariff.Name = "default"
	tariff.Spec.CPUHour.Price, tariff.Spec.NetworkGiB.Price = "0", "7"
	tariff.Spec.NetworkGiB.Rules = []v1alpha1.NetworkGiBRule{{Price: "2", Peers: []string{"west"}}, {Price: "4", Peers: []string{"north"}}}
	queue := &v1alpha1.Queue{
		Spec: v1alpha1.QueueSpec{Channels: []v1alpha1.QueueChannel{{Peer: "west", Queue: "x"}, {Peer: "north", Queue: "x"}}},
		Status: v1alpha1.QueueStatus{
			Policy: &v1alpha1.PolicyStatus{TariffName: "default"}, Usage: &v1alpha1.UsageStatus{ChannelBytes: 2 * gib},
		},
	}
	s := w.step(w.accountOf("Queue", queue, tariff))
	if len(s.Status.Rows) != 1 || s.Status.Rows[0].Cost.Network != "6" || s.Status.Rows[0].Peer != "" {
		t.Errorf("%+v", s.Status.Rows)
	}
}

// TestObjectStoreCharges: requests to stores and bytes read from them are priced by the Tariff, for Transfers, hand-offs
// and archives, and booked once.
func TestObjectStoreCharges(t *testing.T) {
	const gib = 1 << 30
	tariff := v1alpha1.Tariff{Spec: v1alpha1.TariffSpec{Currency: "EUR", ObjectStore: v1alpha1.ObjectStorePrices{
		WriteRequests: "5", ReadRequests: "0.4", EgressGiB: "0.09",
	}}}
	tariff.Name = "default"
	tariff.Spec.CPUHour.Price, tariff.Spec.NetworkGiB.Price = "0", "0"
	policy := &v1alpha1.PolicyStatus{TariffName: "default"}
	used := func(scale int64) *v1alpha1.UsageStatus {
		return &v1alpha1.UsageStatus{ObjectStore: v1alpha1.ObjectStoreUsage{
			WriteRequests: 200 * scale, ReadRequests: 1000 * scale, SentBytes: 7 * gib * scale, ReceivedBytes: 10 * gib * scale,
		}}
	}
	handOff := v1alpha1.TransferSpec{Destination: v1alpha1.TransferDestination{Peer: "west", Via: &v1alpha1.TransferVia{}}}
	for name, c := range map[string]struct {
		kind   string
		object func(scale int64) client.Object
	}{
		"a Transfer": {"Transfer", func(scale int64) client.Object {
			return &v1alpha1.Transfer{Status: v1alpha1.TransferStatus{
				Policy: policy, Run: &v1alpha1.RunStatus{ID: "run", Attempt: 1}, Usage: used(scale),
			}}
		}},
		"a hand-off": {"Transfer", func(scale int64) client.Object {
			return &v1alpha1.Transfer{Spec: handOff, Status: v1alpha1.TransferStatus{
				Policy: policy, Run: &v1alpha1.RunStatus{ID: "run", Attempt: 1}, Usage: used(scale),
			}}
		}},
		"archives": {"Queue", func(scale int64) client.Object {
			return &v1alpha1.Queue{Status: v1alpha1.QueueStatus{
				Policy: policy, Usage: used(scale), Compression: &v1alpha1.CompressionStatus{},
			}}
		}},
	} {
		w := newWorld(t, 1)
		w.step(w.accountOf(c.kind, c.object(1), tariff))
		s := w.step(w.accountOf(c.kind, c.object(2), tariff))
		if len(s.Status.Rows) != 1 {
			t.Fatalf("%s: %+v", name, s.Status.Rows)
		}
		r := s.Status.Rows[0]
		if r.ObjectStore != used(2).ObjectStore || r.Cost.StoreWrites != "2" || r.Cost.StoreReads != "0.8" ||
			r.Cost.StoreEgress != "1.8" || s.Status.Totals[0].Cost != "4.6" {
			t.Errorf("%s: %+v, %+v", name, r, s.Status.Totals)
		}
	}
}

// TestNodeThatIsGone: what was used on a node costs what it cost there, although nobody knows its labels any more.
func TestNodeThatIsGone(t *testing.T) {
	tariff := v1alpha1.Tariff{Spec: v1alpha1.TariffSpec{Currency: "EUR"}}
	tariff.Name = "default"
	tariff.Spec.CPUHour.Price, tariff.Spec.NetworkGiB.Price = "9", "0"
	cost := &v1alpha1.CostStatus{Currency: "EUR", Periods: []v1alpha1.CostPeriod{{Prices: v1alpha1.PricesStatus{
		Currency: "EUR", CPUHour: "2", NetworkGiB: "0", Source: v1alpha1.PricesOfTariff, Name: "default",
	}}}}
	hour := func() *v1alpha1.UsageStatus {
		return &v1alpha1.UsageStatus{
			Send: &v1alpha1.CPUUsage{ProcessSeconds: "3600"}, Receive: &v1alpha1.CPUUsage{ProcessSeconds: "3600"},
		}
	}
	policy := &v1alpha1.PolicyStatus{TariffName: "default"}
	present := v1alpha1.TransferStatus{
		Policy: policy, Run: &v1alpha1.RunStatus{ID: "run", Attempt: 1, Node: "gone"}, Usage: hour(), Cost: cost,
	}
	past := v1alpha1.TransferStatus{Policy: policy, History: []v1alpha1.AttemptRecord{{
		RunID: "run", Attempt: 1, Node: "gone", Usage: hour(), Cost: cost,
	}}}
	uncharged := *present.DeepCopy()
	uncharged.Cost = nil
	remote := v1alpha1.TransferSpec{Destination: v1alpha1.TransferDestination{Peer: "west"}}
	for name, c := range map[string]struct {
		kind   string
		object client.Object
		want   string
	}{
		"an attempt":                {"Transfer", &v1alpha1.Transfer{Spec: remote, Status: present}, "2"},
		"an attempt in history":     {"Transfer", &v1alpha1.Transfer{Spec: remote, Status: past}, "2"},
		"one that cost nothing yet": {"Transfer", &v1alpha1.Transfer{Spec: remote, Status: uncharged}, "9"},
		"a Delivery": {"Delivery", &v1alpha1.Delivery{
			Spec:   v1alpha1.DeliverySpec{Peer: "west"},
			Status: v1alpha1.DeliveryStatus{Run: &v1alpha1.RunStatus{Node: "gone"}, Usage: hour(), Cost: cost},
		}, "4"},
	} {
		w := newWorld(t, 1)
		s := w.step(w.accountOf(c.kind, c.object, tariff))
		if len(s.Status.Rows) != 1 || s.Status.Rows[0].Cost.CPU != c.want {
			t.Errorf("%s: %+v, want %s", name, s.Status.Rows, c.want)
		}
	}
}

// TestArchivesAreStored: what is at rest are both copies of an archive, whichever there are.
func TestArchivesAreStored(t *testing.T) {
	w := newWorld(t, 1)
	queue := &v1alpha1.Queue{Status: v1alpha1.QueueStatus{StoreArchive: &v1alpha1.QueueArchiveStatus{RangeBytes: 700}}}
	if a := w.accountOf("Queue", queue); a.StoredBytes != 700 {
		t.Errorf("%d bytes are stored", a.StoredBytes)
	}
	queue.Status.Archive = &v1alpha1.QueueArchiveStatus{RangeBytes: 900}
	if a := w.accountOf("Queue", queue); a.StoredBytes != 1600 {
		t.Errorf("%d bytes are stored", a.StoredBytes)
	}
}

// TestEngineClassOfNothing: before anything was sent nobody knows what will work on it.
func TestEngineClassOfNothing(t *testing.T) {
	for bytes, want := range map[int64]v1alpha1.EngineClass{0: "", 1: v1alpha1.EngineClassNone} {
		transfer := &v1alpha1.Transfer{Status: v1alpha1.TransferStatus{
			Run: &v1alpha1.RunStatus{ID: "run", Attempt: 1}, Usage: &v1alpha1.UsageStatus{UncompressedBytes: bytes},
		}}
		if got := newWorld(t, 1).accountOf("Transfer", transfer).Lives[0].EngineClass; got != want {
			t.Errorf("%d bytes: %q, want %q", bytes, got, want)
		}
	}
}
