// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/ledger"
)

// maxLives are what the history of a Transfer and its present attempt hold.
const maxLives = 11

// world is a namespace, its API server and its clock.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	version int
	objects map[types.UID]*ledger.Account
	// reported is what agents said over all.
	reported   ledger.Figures
	statements map[string]v1alpha1.Statement
	attempts   int
	kills      int
	// late: nobody books before history loses an attempt.
	late bool
	// created is the time of the API server where that is not the manager's.
	created time.Time
}

// manager has a cache of objects, which may be stale, and a step that it has computed and not taken.
type manager struct {
	cache []ledger.Account
	at    time.Time
	step  *ledger.Step
	// read are the versions that the step was computed from.
	read map[string]string
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 11, 28, 23, 0, 0, 0, time.UTC),
		objects: map[types.UID]*ledger.Account{}, statements: map[string]v1alpha1.Statement{},
	}
}

func (w *world) nextVersion() string {
	w.version++
	return strconv.Itoa(w.version)
}

func copied(a ledger.Account) ledger.Account {
	a.Lives = slices.Clone(a.Lives)
	return a
}

func (w *world) accounts() []ledger.Account {
	var all []ledger.Account
	for _, uid := range slices.Sorted(maps.Keys(w.objects)) {
		all = append(all, copied(*w.objects[uid]))
	}
	return all
}

func (w *world) all() []v1alpha1.Statement {
	var all []v1alpha1.Statement
	for _, s := range w.statements {
		all = append(all, *s.DeepCopy())
	}
	return all
}

// open is nil while no Statement is.
func (w *world) open() *v1alpha1.Statement {
	for _, s := range w.statements {
		if s.Status.State == v1alpha1.StatementOpen {
			return s.DeepCopy()
		}
	}
	return nil
}

// pending: a finalizer would not let the object go, or its history would lose an attempt that is not booked.
func (w *world) pending(a ledger.Account) bool {
	open := w.open()
	return open == nil || ledger.Pending(open, a, w.now)
}

var prices = []v1alpha1.StatementPrices{
	{},
	{Currency: "EUR", CPUHour: "0.031", NetworkGiB: "0.05", Source: v1alpha1.PricesOfTariff, SourceName: "day"},
	{Currency: "EUR", CPUHour: "0.01", NetworkGiB: "0.02", Source: v1alpha1.PricesOfTariff, SourceName: "night"},
	{Currency: "USD", CPUHour: "0.04", NetworkGiB: "0.09", Source: v1alpha1.PricesOfPolicy, SourceName: "fast"},
}

func (w *world) begin(a *ledger.Account) {
	w.attempts++
	number := 1
	if n := len(a.Lives); n > 0 {
		_, text, _ := strings.Cut(a.Lives[n-1].ID, "/")
		number, _ = strconv.Atoi(text)
		number++
	}
	a.Lives = append(a.Lives, ledger.Life{ID: fmt.Sprintf("run/%d", number)})
}

// end the last attempt of an object and begin the next one. It returns false, and does neither, where history would
// lose an attempt that is not booked, unless the test is of that.
func (w *world) end(a *ledger.Account) bool {
	last := &a.Lives[len(a.Lives)-1]
	if w.late {
		last.Kind = "Transfer"
		last.Figures[2]++
		w.reported[2]++
	}
	last.Ended, last.EndTime = true, w.now
	w.begin(a)
	if len(a.Lives) < maxLives {
		return true
	}
	if first := copied(*a); !w.late && w.pending(ledger.Account{
		UID: first.UID, ResourceVersion: strconv.Itoa(w.version + 1), Lives: first.Lives[:len(first.Lives)-1],
	}) {
		a.Lives = a.Lives[:len(a.Lives)-1]
		a.Lives[len(a.Lives)-1].Ended = false
		return false
	}
	a.Lives, a.Trimmed = a.Lives[len(a.Lives)-maxLives+1:], true
	return true
}

// agents do something.
func (w *world) work() {
	if len(w.objects) == 0 || w.random.IntN(10) == 0 {
		// An object of the same name has another UID.
		uid := types.UID(fmt.Sprintf("uid-%d", w.attempts))
		a := &ledger.Account{UID: uid, ResourceVersion: w.nextVersion()}
		w.begin(a)
		w.objects[uid] = a
	}
	uids := slices.Sorted(maps.Keys(w.objects))
	uid := uids[w.random.IntN(len(uids))]
	a := w.objects[uid]
	life := &a.Lives[len(a.Lives)-1]
	switch w.random.IntN(12) {
	case 0:
		ends := 1
		if w.late && w.random.IntN(2) == 0 {
			ends = maxLives + 1
		}
		for range ends {
			if !w.end(a) {
				return
			}
		}
	case 1:
		if !w.pending(*a) {
			delete(w.objects, uid)
			return
		}
	default:
		life.Dimensions = ledger.Dimensions{
			Kind: "Transfer", Peer: []string{"", "west"}[w.random.IntN(2)],
			EngineClass: []v1alpha1.EngineClass{"Hardware", "Software"}[w.random.IntN(2)],
		}
		life.Prices = at(prices[w.random.IntN(len(prices))])
		for i := range life.Figures {
			more := w.random.Int64N(1 << 40)
			life.Figures[i] += more
			w.reported[i] += more
		}
	}
	a.ResourceVersion = w.nextVersion()
}

// compute has a manager decide, from its cache, which it may refresh first, and from what the API server has.
func (m *manager) compute(w *world) {
	// No manager goes on for an hour without hearing from the API server.
	if m.cache == nil || w.now.Sub(m.at).Abs() > time.Hour || w.random.IntN(2) == 0 {
		m.cache, m.at = w.accounts(), w.now
	}
	all := w.all()
	m.read = map[string]string{}
	for _, s := range all {
		m.read[s.Name] = s.ResourceVersion
	}
	step := ledger.Next(all, ledger.Booking{Accounts: m.cache, NamespaceUID: "namespace", Now: w.now}, 120)
	m.step = &step
}

// take writes what was computed, unless the API server has something newer.
func (m *manager) take(w *world) {
	step := m.step
	m.step = nil
	switch {
	case step == nil:
	case step.Create != "":
		if _, there := w.statements[step.Create]; !there {
			s := v1alpha1.Statement{Spec: v1alpha1.StatementSpec{Month: step.Create}}
			s.Name, s.ResourceVersion, s.CreationTimestamp = step.Create, w.nextVersion(), metav1.NewTime(w.now)
			if !w.created.IsZero() {
				s.CreationTimestamp = metav1.NewTime(w.created)
			}
			w.statements[step.Create] = s
		}
	case step.Write != nil:
		before, name := w.statements[step.Write.Name], step.Write.Name
		if before.ResourceVersion != m.read[name] {
			return // a conflict
		}
		w.compare(&before, step.Write)
		after := *step.Write.DeepCopy()
		after.ResourceVersion = w.nextVersion()
		w.statements[name] = after
	case step.Delete != nil:
		w.t.Fatalf("Statement %s is deleted", step.Delete.Name)
	}
}

// compare fails for a figure that decreases.
func (w *world) compare(before, after *v1alpha1.Statement) {
	if was, is := sumOf(*before), sumOf(*after); !atLeast(is, was) {
		w.t.Fatalf("figures of %s decrease from %v to %v", before.Name, was, is)
	}
	for _, b := range before.Status.Totals {
		for _, a := range after.Status.Totals {
			if a.Currency == b.Currency && (a.WireBytes < b.WireBytes || ledger.Parse(a.Cost).Cmp(ledger.Parse(b.Cost)) < 0 ||
				ledger.Parse(a.Avoided).Cmp(ledger.Parse(b.Avoided)) < 0) {
				w.t.Fatalf("the total in %q decreases from %+v to %+v", a.Currency, b, a)
			}
		}
	}
}

// sumOf the rows of Statements.
func sumOf(all ...v1alpha1.Statement) ledger.Figures {
	var sum ledger.Figures
	for _, s := range all {
		for _, r := range s.Status.Rows {
			figures := [...]int64{
				r.Operations, r.PlainBytes, r.WireBytes, r.StoredBytes, r.Avoided.Bytes, ledger.NanosOf(r.CPU.SendSeconds),
				ledger.NanosOf(r.CPU.ReceiveSeconds), ledger.NanosOf(r.CPU.CompressSeconds),
				ledger.NanosOf(r.CPU.DecompressSeconds), ledger.NanosOf(r.CPU.IdleSeconds),
				ledger.NanosOf(r.CPU.NetworkSeconds), r.ObjectStore.WriteRequests, r.ObjectStore.ReadRequests,
				r.ObjectStore.SentBytes, r.ObjectStore.ReceivedBytes,
			}
			for i, n := range figures {
				sum[i] += n
			}
		}
	}
	return sum
}

func atLeast(a, b ledger.Figures) bool {
	for i := range a {
		if a[i] < b[i] {
			return false
		}
	}
	return true
}

// settle books all that there is.
func (w *world) settle() {
	for range 100 {
		m := &manager{cache: w.accounts()}
		m.compute(w)
		if m.step.Booked != nil {
			return
		}
		m.take(w)
	}
	w.t.Fatal("the Statements do not come to rest")
}

// TestHistories: whoever is killed between whichever steps, the sum of Statements is what agents reported. Managers
// alternate with stale caches and stale steps, objects are deleted and created again, clocks jump by a day, months
// pass, prices and currencies change.
//
// In every other history attempts end faster than they are booked. Then figures are missing from Statements that say
// so, and none is there twice.
func TestHistories(t *testing.T) {
	kills, lost := 0, 0
	for seed := range uint64(120) {
		w := newWorld(t, seed)
		w.late = seed%2 == 1
		managers := []*manager{{}, {}}
		for range 400 {
			m := &managers[w.random.IntN(len(managers))]
			switch w.random.IntN(10) {
			case 0, 1, 2:
				w.work()
			case 3, 4, 5:
				(*m).compute(w)
			case 6, 7:
				(*m).take(w)
			case 8:
				if (*m).step != nil {
					w.kills++
				}
				*m = &manager{}
			case 9:
				w.now = w.now.Add(time.Duration(w.random.IntN(40)) * time.Minute)
				if w.random.IntN(4) == 0 {
					w.now = w.now.Add([]time.Duration{-24 * time.Hour, 24 * time.Hour, 9 * 24 * time.Hour}[w.random.IntN(3)])
				}
			}
		}
		w.settle()
		got, said := sumOf(w.all()...), false
		if got != w.reported && !(w.late && atLeast(w.reported, got)) {
			t.Fatalf("seed %d: Statements have %v of %v", seed, got, w.reported)
		}
		for _, s := range w.all() {
			c := condition(s, v1alpha1.ConditionComplete)
			said = said || c != nil && c.Reason == v1alpha1.ReasonMarksLost
			if c == nil || c.Reason != v1alpha1.ReasonBooked && !w.late {
				t.Fatalf("seed %d: %s: %+v", seed, s.Name, c)
			}
		}
		if got != w.reported {
			if lost++; !said {
				t.Fatalf("seed %d: Statements have %v of %v, and none says so", seed, got, w.reported)
			}
		}
		before := w.version
		w.settle()
		if w.version != before {
			t.Fatalf("seed %d: what is booked is written again", seed)
		}
		kills += w.kills
	}
	if kills < 200 {
		t.Errorf("only %d kills between a decision and its write", kills)
	}
	if lost < 10 {
		t.Errorf("figures were lost in %d histories", lost)
	}
}
