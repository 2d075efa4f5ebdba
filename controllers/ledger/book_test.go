// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/ledger"
)

func condition(s v1alpha1.Statement, of string) *metav1.Condition {
	return meta.FindStatusCondition(s.Status.Conditions, of)
}

func at(p v1alpha1.StatementPrices) func() v1alpha1.StatementPrices {
	return func() v1alpha1.StatementPrices { return p }
}

// used is an account with figures of plain and wire bytes, and of so many hours of CPU time.
func used(uid, version string, bytes, hours int64, p v1alpha1.StatementPrices) ledger.Account {
	life := ledger.Life{ID: "run/1", Prices: at(p), Dimensions: ledger.Dimensions{Kind: "Transfer", NodeClass: "amd64"}}
	life.Figures = ledger.Figures{1, 2 * bytes, bytes, 0, bytes, hours * int64(time.Hour)}
	return ledger.Account{UID: types.UID(uid), ResourceVersion: version, Lives: []ledger.Life{life}}
}

// step takes steps until all is booked, and returns the open Statement.
func (w *world) step(accounts ...ledger.Account) v1alpha1.Statement {
	w.t.Helper()
	for range 50 {
		m := &manager{read: map[string]string{}}
		for _, s := range w.all() {
			m.read[s.Name] = s.ResourceVersion
		}
		step := ledger.Next(w.all(), ledger.Booking{Accounts: accounts, NamespaceUID: "namespace", Now: w.now}, 13)
		if step.Booked != nil {
			return *step.Booked
		}
		m.step = &step
		m.take(w)
	}
	w.t.Fatal("the Statements do not come to rest")
	return v1alpha1.Statement{}
}

func TestMoney(t *testing.T) {
	w := newWorld(t, 1)
	const gib = 1 << 30
	w.step(used("a", "1", gib, 1, prices[1]))
	s := w.step(used("a", "2", 3*gib, 2, prices[2]), used("b", "3", gib, 1, prices[3]), used("c", "4", 9, 0, prices[0]))
	if len(s.Status.Rows) != 4 || len(s.Status.Prices) != 3 {
		t.Fatalf("%+v", s.Status.Rows)
	}
	for i, want := range []v1alpha1.StatementCost{
		{}, {CPU: "0.031", Network: "0.05"}, {CPU: "0.01", Network: "0.04"}, {CPU: "0.04", Network: "0.09"},
	} {
		if got := s.Status.Rows[i].Cost; got != want {
			t.Errorf("row %d: %+v, want %+v", i, got, want)
		}
	}
	if r := s.Status.Rows[2]; r.Avoided.Network != "0.04" || r.Avoided.Bytes != 2*gib || r.Day != "2026-11-28" {
		t.Errorf("%+v", r)
	}
	totals := s.Status.Totals
	if len(totals) != 3 || totals[0].Currency != "EUR" || totals[0].Cost != "0.131" || totals[1].Cost != "0.13" ||
		totals[2].Currency != "" || totals[2].Cost != "" {
		t.Errorf("%+v", totals)
	}
}

// TestStale: what a cache has from before the mark is not booked, and counters that restarted are.
func TestStale(t *testing.T) {
	w := newWorld(t, 1)
	w.step(used("a", "20", 100, 0, prices[0]))
	if s := w.step(used("a", "9", 50, 0, prices[0])); sumOf(s)[2] != 100 {
		t.Errorf("a stale object is booked: %v", sumOf(s))
	}
	if s := w.step(used("a", "30", 50, 0, prices[0])); sumOf(s)[2] != 150 {
		t.Errorf("a restarted counter is not booked: %v", sumOf(s))
	}
}

// TestBookedIsNotPriced: prices are looked up for what is booked, and not for what is booked already.
func TestBookedIsNotPriced(t *testing.T) {
	w, asked := newWorld(t, 1), 0
	a := used("a", "1", 100, 1, prices[1])
	a.Lives[0].Prices = func() v1alpha1.StatementPrices {
		asked++
		return prices[1]
	}
	w.step(a)
	if asked != 1 {
		t.Errorf("prices were looked up %d times for a booking", asked)
	}
	a.ResourceVersion = "100"
	next := used("a", "1", 5, 0, prices[2]).Lives[0]
	next.ID = "run/2"
	a.Lives[0].Ended, a.Lives = true, append(a.Lives, next)
	w.step(a)
	if asked != 1 {
		t.Errorf("prices of what is booked were looked up %d times more", asked-1)
	}
}

// TestStored: bytes at rest are booked for the time that passed, once, whatever the clock does, and for a day at most.
func TestStored(t *testing.T) {
	w := newWorld(t, 1)
	const gib = 1 << 30
	life := ledger.Life{Dimensions: ledger.Dimensions{Kind: "Queue"}, Prices: at(v1alpha1.StatementPrices{
		Currency: "EUR", CPUHour: "0", NetworkGiB: "0", StorageGiBMonth: "0.73",
	})}
	a := ledger.Account{UID: "q", ResourceVersion: "1", StoredBytes: gib, Stored: life}
	at := func(hours int, want int64) {
		t.Helper()
		w.now = time.Date(2026, 11, 10, hours, 0, 0, 0, time.UTC)
		s := w.step(a)
		var got int64
		for _, r := range s.Status.Rows {
			got += r.StorageByteHours
		}
		if got != want*gib {
			t.Errorf("%d GiB hours at hour %d, want %d", got/gib, hours, want)
		}
		if cost := s.Status.Totals; want == 10 && cost[0].Cost != "0.01" {
			t.Errorf("%+v", cost)
		}
	}
	at(0, 0)
	at(1, 1)
	at(10, 10)
	at(34, 34) // the clock is a day ahead
	at(11, 34) // and is set right
	at(30, 34) // until the time that was counted has passed
	at(36, 36)
	at(200, 60) // a manager that was away
}

// TestMonths: marks are carried over, days of older months are summed up, and old months are removed.
func TestMonths(t *testing.T) {
	w := newWorld(t, 1)
	var bytes int64
	for month := range 20 {
		for day := range 2 {
			bytes += 1000
			w.now = time.Date(2026, time.Month(1+month), 5+day, 0, 0, 0, 0, time.UTC)
			statements := w.all()
			if len(statements) > 12 { // The model refuses deletions: the oldest is removed as the API server would.
				step := ledger.Next(statements, ledger.Booking{
					Accounts: []ledger.Account{used("a", strconv.Itoa(int(bytes)), bytes, 0, prices[1])}, Now: w.now,
				}, 13)
				if step.Delete != nil {
					delete(w.statements, step.Delete.Name)
				}
			}
			w.stepDeleting(used("a", strconv.Itoa(int(bytes)), bytes, 0, prices[1]))
		}
	}
	all := w.all()
	if len(all) != 13 {
		t.Errorf("%d Statements are kept", len(all))
	}
	for _, s := range all {
		days := 0
		for _, r := range s.Status.Rows {
			if r.Day != "" {
				days++
			}
		}
		recent := s.Name >= "2027-07"
		if got := sumOf(s)[2]; got != 2000 || recent != (days == 2) || recent != (len(s.Status.Marks) > 0) {
			t.Errorf("%s has %d bytes, %d days and %d marks", s.Name, got, days, len(s.Status.Marks))
		}
		if c := condition(s, v1alpha1.ConditionComplete); c.Status != metav1.ConditionTrue {
			t.Errorf("%s: %+v", s.Name, c)
		}
	}
}

// TestClockAhead: a manager whose clock is years ahead deletes no Statement that is not old.
func TestClockAhead(t *testing.T) {
	w := newWorld(t, 1)
	w.step(used("a", "1", 1000, 0, prices[1]))
	w.created = w.now
	w.now = w.now.AddDate(3, 0, 0)
	w.step(used("a", "2", 2000, 0, prices[1])) // which fails for a deletion
	w.now = w.created.AddDate(0, 1, 0)
	w.step(used("a", "3", 3000, 0, prices[1]))
	if got := sumOf(w.all()...)[2]; got != 3000 || len(w.all()) != 2 {
		t.Errorf("%d Statements have %d bytes", len(w.all()), got)
	}
}

func (w *world) stepDeleting(a ledger.Account) {
	for range 50 {
		step := ledger.Next(w.all(), ledger.Booking{Accounts: []ledger.Account{a}, NamespaceUID: "namespace", Now: w.now}, 13)
		switch {
		case step.Booked != nil:
			return
		case step.Delete != nil:
			delete(w.statements, step.Delete.Name)
		default:
			m := &manager{read: map[string]string{}, step: &step}
			for _, s := range w.all() {
				m.read[s.Name] = s.ResourceVersion
			}
			m.take(w)
		}
	}
}

// TestHands: Statements that people edit or delete are rebuilt where that is possible, and say so.
func TestHands(t *testing.T) {
	november, december := time.Date(2026, 11, 10, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 10, 0, 0, 0, 0, time.UTC)
	begin := func() *world {
		w := newWorld(t, 1)
		w.now = november
		w.step(used("a", "1", 100, 0, prices[0]))
		w.now = december
		w.step(used("a", "2", 150, 0, prices[0]))
		return w
	}
	check := func(s v1alpha1.Statement, bytes int64, reason string) {
		t.Helper()
		if c := condition(s, v1alpha1.ConditionComplete); sumOf(s)[2] != bytes || c.Reason != reason {
			t.Errorf("%d bytes, %+v; want %d and %s", sumOf(s)[2], c, bytes, reason)
		}
	}
	w := begin()
	delete(w.statements, "2026-12")
	check(w.step(used("a", "3", 170, 0, prices[0])), 70, v1alpha1.ReasonRebuilt)
	check(w.step(used("a", "4", 180, 0, prices[0])), 80, v1alpha1.ReasonRebuilt)

	w = begin()
	w.now = december.AddDate(0, 1, 0)
	w.step(used("a", "3", 170, 0, prices[0]))
	delete(w.statements, "2027-01")
	delete(w.statements, "2026-12")
	check(w.step(used("a", "4", 180, 0, prices[0])), 0, v1alpha1.ReasonMarksLost)
	check(w.step(used("a", "5", 190, 0, prices[0])), 10, v1alpha1.ReasonMarksLost)

	w = begin()
	s := w.statements["2026-12"]
	s.Status.Rows[0].WireBytes = 1000
	w.statements["2026-12"] = s
	check(w.step(used("a", "2", 150, 0, prices[0])), 1000, v1alpha1.ReasonEdited)
	check(w.step(used("a", "3", 151, 0, prices[0])), 1001, v1alpha1.ReasonEdited)

	w = begin()
	s = w.statements["2026-12"]
	s.Status.NamespaceUID = "another"
	w.statements["2026-12"] = s
	check(w.step(used("b", "9", 7, 0, prices[0])), 57, v1alpha1.ReasonNamespaceReplaced)
}

// TestFirst: what ended before the first Statement of a namespace is of no month.
func TestFirst(t *testing.T) {
	w := newWorld(t, 1)
	old, recent := used("a", "1", 100, 0, prices[0]), used("b", "2", 10, 0, prices[0])
	old.Lives[0].Ended, old.Lives[0].EndTime = true, w.now.AddDate(0, -2, 0)
	recent.Lives[0].Ended, recent.Lives[0].EndTime = true, w.now.AddDate(0, 0, -3)
	if s := w.step(old, recent); sumOf(s)[2] != 10 {
		t.Errorf("%v", sumOf(s))
	}
}

// TestPricesOfNoRow: rows of the kind Other name no prices, so that a set of prices that no other row names is not
// kept.
func TestPricesOfNoRow(t *testing.T) {
	w := newWorld(t, 1)
	var accounts []ledger.Account
	for i := range 420 {
		a := used(fmt.Sprint("uid-", i), "1", 1, 1, prices[1])
		a.Lives[0].Peer = fmt.Sprint("peer-", i)
		if i >= 416 {
			a.Lives[0].Prices = at(prices[2])
		}
		accounts = append(accounts, a)
	}
	s := w.step(accounts...)
	if n := len(s.Status.Prices); n != 1 {
		t.Errorf("%d sets of prices are kept", n)
	}
	if n := len(s.Status.Rows); n != 417 {
		t.Errorf("%d rows", n)
	}
	if cost := s.Status.Totals[0].Cost; !strings.HasPrefix(cost, "12.936") { // 416 hours at 0.031 and 4 at 0.01
		t.Errorf("the cost is %s", cost)
	}
}

// TestLargest: a Statement in which everything is as long as it can be fits into etcd, whose requests have 1.5 MiB.
func TestLargest(t *testing.T) {
	const most = math.MaxInt64
	seconds, money, name := "9223372036.854775807", "999999999999999.999999999", strings.Repeat("n", 253)
	when := metav1.NewTime(time.Date(2026, 11, 28, 23, 0, 0, 0, time.UTC))
	uid := types.UID("00000000-0000-4000-8000-000000000000")
	s := v1alpha1.Statement{Spec: v1alpha1.StatementSpec{Month: "2026-11"}}
	for i := range 64 {
		s.Status.Totals = append(s.Status.Totals, v1alpha1.StatementTotal{
			Currency: "EUR", PlainBytes: most, WireBytes: most, CPUSeconds: seconds, Cost: money, Avoided: money,
		})
		s.Status.Prices = append(s.Status.Prices, v1alpha1.StatementPrices{
			Name: fmt.Sprint("p", i), Currency: "EUR", CPUHour: money, NetworkGiB: money, StorageGiBMonth: money,
			StoreWriteRequests: money, StoreReadRequests: money, StoreEgressGiB: money,
			Source: v1alpha1.PricesOfPolicy, SourceName: name, SourceUID: uid, SourceGeneration: most,
		})
	}
	for range 512 {
		s.Status.Rows = append(s.Status.Rows, v1alpha1.StatementRow{
			Day: "2026-11-28", Kind: "HTTPEndpoint", Peer: name, Direction: "Receive", EngineClass: "Hardware",
			NodeClass: "ppc64le-accelerated", Prices: "p64", Currency: "EUR", Operations: most, PlainBytes: most,
			WireBytes: most, StoredBytes: most, StorageByteHours: most,
			ObjectStore: v1alpha1.ObjectStoreUsage{
				WriteRequests: most, ReadRequests: most, SentBytes: most, ReceivedBytes: most,
			},
			CPU: v1alpha1.StatementCPU{
				SendSeconds: seconds, ReceiveSeconds: seconds, CompressSeconds: seconds, DecompressSeconds: seconds,
				IdleSeconds: seconds, NetworkSeconds: seconds,
			},
			Cost: v1alpha1.StatementCost{
				CPU: money, NetworkCPU: money, Network: money, Storage: money, StoreWrites: money, StoreReads: money,
				StoreEgress: money,
			},
			Avoided: v1alpha1.StatementAvoided{Bytes: most, Network: money},
		})
	}
	figures := make([]int64, len(ledger.Figures{}))
	for i := range figures {
		figures[i] = most
	}
	for i := range 1756 {
		mark := v1alpha1.StatementMark{
			UID: uid, Life: "abcde/2147483647", ResourceVersion: strconv.Itoa(most), Figures: figures,
		}
		if i%2 == 0 { // of what is gone, or has bytes at rest and one life
			mark.GoneTime = &when
		}
		s.Status.Marks = append(s.Status.Marks, mark)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(text))
	if len(text) > 3<<19-32<<10 { // managedFields and conditions come on top
		t.Errorf("%d bytes are too many for etcd", len(text))
	}
}

// TestRowsWithoutDays: when rows with a day are used up, the day is what goes first: kind, peer and classes stay until
// there is no space for these, either.
func TestRowsWithoutDays(t *testing.T) {
	w := newWorld(t, 1)
	w.now = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var accounts []ledger.Account
	add := func(n int) {
		for range n {
			a := used(fmt.Sprint("uid-", len(accounts)), "1", 0, 0, prices[1])
			a.Lives[0].Peer = fmt.Sprint("peer-", len(accounts))
			accounts = append(accounts, a)
		}
	}
	var s v1alpha1.Statement
	day := func() (with, without, other int) {
		for i := range accounts {
			w.version++
			accounts[i].ResourceVersion = strconv.Itoa(w.version)
			accounts[i].Lives[0].Figures[2] += 10
		}
		s = w.step(accounts...)
		w.now = w.now.AddDate(0, 0, 1)
		for _, r := range s.Status.Rows {
			switch {
			case r.Kind == v1alpha1.StatementKindOther:
				other++
			case r.Day == "":
				without++
			default:
				with++
			}
		}
		return with, without, other
	}
	add(90)
	for n := range 30 {
		with, without, other := day()
		message := condition(s, v1alpha1.ConditionReady).Message
		if wanted := n > 2; wanted != (without > 0) || wanted != strings.Contains(message, "several days") || other > 0 {
			t.Fatalf("day %d: %d rows with a day, %d without, %d of the kind Other: %s", n+1, with, without, other, message)
		}
	}
	if got, want := sumOf(s)[2], int64(90*30*10); got != want {
		t.Errorf("%d of %d bytes are booked", got, want)
	}
	w.now = w.now.AddDate(0, 0, -1)
	add(20)
	if with, without, other := day(); with != 320 || without != 96 || other != 1 || sumOf(s)[2] != 90*31*10+20*10 {
		t.Errorf("%d rows with a day, %d without, %d of the kind Other, %d bytes", with, without, other, sumOf(s)[2])
	}
}

// TestBounds: a Statement has a bounded size, whatever there is to book, and loses nothing of what it has space for.
func TestBounds(t *testing.T) {
	w := newWorld(t, 1)
	var accounts []ledger.Account
	for i := range 3000 {
		a := used(fmt.Sprintf("00000000-0000-4000-8000-%012d", i), strconv.Itoa(1000000+i), 1<<40, 1000, prices[1+i%3])
		a.Lives[0].Peer = fmt.Sprintf("peer-%057d", i)
		p := prices[1+i%3]
		p.SourceGeneration = int64(i % 100)
		a.Lives[0].Prices = at(p)
		for n := range a.Lives[0].Figures {
			a.Lives[0].Figures[n] = 1 << 50
		}
		accounts = append(accounts, a)
	}
	var s v1alpha1.Statement
	const days = 12
	for range days {
		w.now = w.now.Add(24 * time.Hour)
		if ledger.MonthOf(w.now) != "2026-11" {
			w.now = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		}
		s = w.step(accounts...)
		for i := range accounts {
			accounts[i].ResourceVersion = strconv.Itoa(1000000 + w.version + i)
			accounts[i].Lives[0].Figures[2]++
		}
	}
	if c := condition(s, v1alpha1.ConditionComplete); s.Status.UnbookedObjects != 3000-1500 ||
		c.Reason != v1alpha1.ReasonNoSpace {
		t.Errorf("%d objects are not booked: %+v", s.Status.UnbookedObjects, c)
	}
	if got, want := sumOf(s)[2], int64(1500)*(1<<50+days-1); got != want {
		t.Errorf("%d of %d bytes are booked", got, want)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows, %d marks and %d sets of prices are %d bytes", len(s.Status.Rows), len(s.Status.Marks),
		len(s.Status.Prices), len(text))
	if len(text) > 1_200_000 || len(s.Status.Rows) > 512 {
		t.Error("the API server would reject it")
	}
	// One that is deleted does not wait for space.
	accounts[2999].Deleting = true
	if open := w.open(); ledger.Pending(w.openAfter(accounts), accounts[2999], w.now) {
		t.Errorf("an object that is deleted waits: %+v", open.Status.Conditions)
	}
}

func (w *world) openAfter(accounts []ledger.Account) *v1alpha1.Statement {
	s := w.step(accounts...)
	return &s
}
