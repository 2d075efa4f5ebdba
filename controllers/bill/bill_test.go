// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bill_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/bill"
	"github.com/lighterage/lighterage/controllers/bill/focus"
	"github.com/lighterage/lighterage/controllers/bill/focus/conformance"
)

const gib = 1 << 30

func period(t *testing.T, month, from, to string) bill.Period {
	t.Helper()
	p, err := bill.NewPeriod(month, from, to, time.Date(2026, 11, 23, 23, 59, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// statement has two days of a Transfer, the second at two prices, a Queue, an HTTPEndpoint in another currency, and a
// row that was not charged.
func statement(namespace string, change func(*v1alpha1.Statement)) *v1alpha1.Statement {
	transfer := v1alpha1.StatementRow{
		Day: "2026-11-22", Kind: "Transfer", Peer: "west", Direction: v1alpha1.DirectionSend,
		EngineClass: v1alpha1.EngineClassHardware, NodeClass: "s390x-accelerated", Prices: "p1", Currency: "EUR",
		Operations: 10, PlainBytes: 8 * gib, WireBytes: 2 * gib, StoredBytes: 1,
		CPU: v1alpha1.StatementCPU{
			SendSeconds: "3600", ReceiveSeconds: "0.000000001", CompressSeconds: "1800.5", NetworkSeconds: "720",
		},
		Cost: v1alpha1.StatementCost{
			CPU: "0.031", NetworkCPU: "0.0062", Network: "0.1", Storage: "0",
		},
		Avoided: v1alpha1.StatementAvoided{Bytes: 6 * gib, Network: "0.3"},
	}
	day, night := *transfer.DeepCopy(), *transfer.DeepCopy()
	day.Day, night.Day, night.Prices = "2026-11-23", "2026-11-23", "p2"
	night.Cost.CPU, night.Cost.NetworkCPU = "0.018", "0.0036"
	s := &v1alpha1.Statement{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "2026-11"},
		Spec:       v1alpha1.StatementSpec{Month: "2026-11"},
		Status: v1alpha1.StatementStatus{
			State: v1alpha1.StatementOpen,
			Prices: []v1alpha1.StatementPrices{
				{
					Name: "p1", Currency: "EUR", CPUHour: "0.031", NetworkGiB: "0.05", StorageGiBMonth: "0.023",
					Source: v1alpha1.PricesOfTariff, SourceName: "datacentre", SourceGeneration: 3,
				},
				{
					Name: "p2", Currency: "EUR", CPUHour: "0.018", NetworkGiB: "0.05", StorageGiBMonth: "0.023",
					Source: v1alpha1.PricesOfTariff, SourceName: "datacentre", SourceGeneration: 3,
				},
			},
			Rows: []v1alpha1.StatementRow{transfer, day, night, {
				Day: "2026-11-23", Kind: "Queue", Prices: "p1", Currency: "EUR", StorageByteHours: 730 * gib,
				Cost: v1alpha1.StatementCost{Storage: "0.023"},
			}, {
				Day: "2026-11-23", Kind: "HTTPEndpoint", Currency: "USD", WireBytes: gib,
				Cost: v1alpha1.StatementCost{Network: "7"},
			}, {
				Day: "2026-11-23", Kind: "Delivery", Peer: "north", CPU: v1alpha1.StatementCPU{ReceiveSeconds: "5"},
			}},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

func account(t *testing.T, p bill.Period, statements ...*v1alpha1.Statement) *bill.Account {
	t.Helper()
	a := bill.NewAccount(p)
	for _, s := range statements {
		if err := a.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// records are the lines of a bill as CSV, as columns by their names.
func records(t *testing.T, b bill.Bill) []map[string]string {
	t.Helper()
	var out bytes.Buffer
	if err := b.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]string
	for _, line := range lines[1:] {
		record := map[string]string{}
		for i, name := range lines[0] {
			record[name] = line[i]
		}
		all = append(all, record)
	}
	return all
}

// TestBy: sums by dimensions are exact, and of one currency each.
func TestBy(t *testing.T) {
	november := period(t, "2026-11", "", "")
	both := account(t, november, statement("bank", nil), statement("shop", nil))
	for name, test := range map[string]struct {
		account *bill.Account
		by      []bill.Dimension
		want    []string // of each entry
	}{
		"kind": {account(t, november, statement("bank", nil)), []bill.Dimension{bill.ByKind}, []string{
			"kind=Delivery currency= cost= cpuSeconds=5 cpu= wireBytes=0 avoided= estimated=false",
			"kind=HTTPEndpoint currency=USD cost=7 cpuSeconds=0 cpu=0 wireBytes=1073741824 avoided=0 estimated=false",
			"kind=Queue currency=EUR cost=0.023 cpuSeconds=0 cpu=0 wireBytes=0 avoided=0 estimated=false",
			"kind=Transfer currency=EUR cost=0.396 cpuSeconds=10800.000000003 cpu=0.08 wireBytes=6442450944 avoided=0.9 " +
				"estimated=true",
		}},
		"namespace": {both, []bill.Dimension{bill.ByNamespace}, []string{
			"namespace=bank currency= cost=", "namespace=bank currency=EUR cost=0.419", "namespace=bank currency=USD cost=7",
			"namespace=shop currency= cost=", "namespace=shop currency=EUR cost=0.419", "namespace=shop currency=USD cost=7",
		}},
		"day and peer": {both, []bill.Dimension{bill.ByDay, bill.ByPeer}, []string{
			"day=2026-11-22 peer=west currency=EUR cost=0.2744",
			"day=2026-11-23 peer= currency=EUR cost=0.046", "day=2026-11-23 peer= currency=USD cost=14",
			"day=2026-11-23 peer=north currency= cost=", "day=2026-11-23 peer=west currency=EUR cost=0.5176",
		}},
		"class": {both, []bill.Dimension{bill.ByNodeClass, bill.ByEngine, bill.ByDirection}, []string{
			"nodeclass= engine= direction= currency=", "nodeclass= engine= direction= currency=EUR",
			"nodeclass= engine= direction= currency=USD",
			"nodeclass=s390x-accelerated engine=Hardware direction=Send currency=EUR cost=0.792",
		}},
		"of a day": {
			account(t, period(t, "", "2026-11-22", "2026-11-22"), statement("bank", nil)), []bill.Dimension{bill.ByKind},
			[]string{"kind=Transfer currency=EUR cost=0.1372 operations=10 plainBytes=8589934592 storedBytes=1"},
		},
		"since a day": {
			account(t, period(t, "", "2026-11-23", ""), statement("bank", nil)), []bill.Dimension{bill.ByPeer},
			[]string{
				"peer= currency=EUR cost=0.023", "peer= currency=USD cost=7", "peer=north currency=",
				"peer=west currency=EUR cost=0.2588",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := records(t, test.account.By(test.by))
			if len(got) != len(test.want) {
				t.Fatalf("%d entries: %v", len(got), got)
			}
			for i, want := range test.want {
				for field := range strings.FieldsSeq(want) {
					if name, value, _ := strings.Cut(field, "="); got[i][name] != value {
						t.Errorf("entry %d: %s is %q, want %q", i, name, got[i][name], value)
					}
				}
			}
		})
	}
}

// TestJSON: counts are numbers, decimals are strings, and totals are by currency.
func TestJSON(t *testing.T) {
	var got struct {
		Period  struct{ From, To string }
		By      []string
		Entries []struct {
			Peer, Currency, Cost, Avoided string
			WireBytes                     int64
		}
		Totals []struct {
			Currency, Cost string
			PlainBytes     int64
		}
		Gaps []bill.Gap
	}
	s := statement("bank", func(s *v1alpha1.Statement) {
		s.Status.Conditions = []metav1.Condition{{Type: "Complete", Status: "False", Reason: "Edited", Message: "m"}}
	})
	encoded, err := json.Marshal(account(t, period(t, "", "", ""), s).By([]bill.Dimension{bill.ByPeer}))
	if err == nil {
		err = json.Unmarshal(encoded, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got.Period.From != "2026-11-01" || got.Period.To != "2026-11-30" || fmt.Sprint(got.By) != "[peer]" ||
		fmt.Sprint(got.Entries) != "[{ EUR 0.023 0 0} { USD 7 0 1073741824} {north    0} "+
			"{west EUR 0.396 0.9 6442450944}]" ||
		fmt.Sprint(got.Totals) != "[{  0} {EUR 0.419 25769803776} {USD 7 0}]" ||
		fmt.Sprint(got.Gaps) != "[{bank/2026-11 Edited m}]" {
		t.Errorf("%s", encoded)
	}
}

// TestText: the table has a total for each currency, and marks estimates.
func TestText(t *testing.T) {
	var out bytes.Buffer
	b := account(t, period(t, "2026-11", "", ""), statement("bank", nil)).By([]bill.Dimension{bill.ByKind})
	if err := b.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Fields(line))
	}
	for i, want := range map[int]string{
		0: "[KIND CURRENCY COST CPU NETWORK-CPU NETWORK STORAGE STORES AVOIDED CPU-TIME PLAIN WIRE]",
		1: "[Delivery - - - - - - - - 5s 0 B 0 B]",
		2: "[HTTPEndpoint USD 7.0000 0 0 7.0000 0 0 0 0s 0 B 1.00 GiB]",
		3: "[Queue EUR 0.0230 0 0 0 0.0230 0 0 0s 0 B 0 B]",
		4: "[Transfer EUR ~0.3960 0.0800 ~0.0160 0.3000 0 0 0.9000 ~3.60h 24.00 GiB 6.00 GiB]",
		6: "[TOTAL EUR ~0.4190 0.0800 ~0.0160 0.3000 0.0230 0 0.9000 ~3.60h 24.00 GiB 6.00 GiB]",
		7: "[TOTAL USD 7.0000 0 0 7.0000 0 0 0 0s 0 B 1.00 GiB]",
	} {
		if got := fmt.Sprint(lines[i]); got != want {
			t.Errorf("line %d is %s, want %s", i, got, want)
		}
	}
}

// TestCharges: every amount of a bill is in one charge, and they conform.
func TestCharges(t *testing.T) {
	a := account(t, period(t, "2026-11", "", ""), statement("bank", nil), statement("shop", nil))
	charges, uncharged := a.Charges()
	if uncharged != 2 {
		t.Errorf("%d rows were not charged", uncharged)
	}
	for _, v := range conformance.Check(focus.NewTable(focus.Source{Cluster: "east", Provider: "us"}, charges)) {
		t.Error(v)
	}
	sums, avoided, of := map[string]*big.Rat{}, new(big.Rat), map[string]int{}
	for _, c := range charges {
		if sums[c.Currency] == nil {
			sums[c.Currency] = new(big.Rat)
		}
		sums[c.Currency].Add(sums[c.Currency], c.Cost)
		if c.Avoided != nil {
			avoided.Add(avoided, c.Avoided)
		}
		if c.Estimated != (c.Meter == focus.NetworkCPU) {
			t.Errorf("%s: estimated is %v", c.Meter.ID, c.Estimated)
		}
		if c.Namespace == "bank" && c.Kind == "Transfer" {
			of[c.Begin.Format("02 ")+c.Meter.ID]++
		}
	}
	if got := fmt.Sprint([]string{sums["EUR"].FloatString(3), sums["USD"].FloatString(3), avoided.FloatString(3)}); got !=
		"[0.838 14.000 1.800]" {
		t.Errorf("the sums are %s", got)
	}
	// Day and night have one price of bytes and two of CPU time.
	if fmt.Sprint(of) != "map[22 cpu:1 22 network:1 22 network-cpu:1 23 cpu:2 23 network:1 23 network-cpu:2]" {
		t.Errorf("charges %v", of)
	}
}

// TestMonths: rows without a day are of their whole month.
func TestMonths(t *testing.T) {
	old := statement("bank", func(s *v1alpha1.Statement) {
		s.Spec.Month, s.Status.State = "2026-09", v1alpha1.StatementClosed
		s.Status.Rows = s.Status.Rows[:1]
		s.Status.Rows[0].Day = ""
	})
	a := account(t, period(t, "", "2026-08-01", "2026-11-23"), old, statement("bank", nil))
	got := records(t, a.By([]bill.Dimension{bill.ByDay}))
	if got[0]["day"] != "2026-09" || got[1]["day"] != "2026-11-22" {
		t.Errorf("entries %v", got)
	}
	charges, _ := a.Charges()
	for _, v := range conformance.Check(focus.NewTable(focus.Source{Cluster: "east", Provider: "us"}, charges)) {
		t.Error(v)
	}
	for _, days := range [][2]string{{"2026-09-02", "2026-09-30"}, {"2026-08-01", "2026-09-29"}} {
		if err := bill.NewAccount(period(t, "", days[0], days[1])).Add(old); err == nil ||
			!strings.Contains(err.Error(), "2026-09-01") || !strings.Contains(err.Error(), "2026-09-30") {
			t.Errorf("%v: %v", days, err)
		}
	}
}

// TestEmpty: Statements of other months, and those that are not opened yet, have no figures.
func TestEmpty(t *testing.T) {
	a := account(
		t, period(t, "2026-10", "", ""), statement("bank", nil),
		statement("bank", func(s *v1alpha1.Statement) { s.Spec.Month, s.Status.State = "2026-10", "" }),
	)
	charges, _ := a.Charges()
	if b := a.By(nil); a.Statements != 0 || len(charges) != 0 || len(b.Entries) != 0 || len(b.Totals) != 0 {
		t.Errorf("%d Statements, %v", a.Statements, b)
	}
}

// TestEdited: values that no manager writes are named, and not summed up.
func TestEdited(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Statement){
		"rows[1]: day":     func(s *v1alpha1.Statement) { s.Status.Rows[1].Day = "yesterday" },
		"rows[2]: day":     func(s *v1alpha1.Statement) { s.Status.Rows[2].Day = "2026-12-01" },
		"rows[0]: prices":  func(s *v1alpha1.Statement) { s.Status.Rows[0].Prices = "p9" },
		"wireBytes":        func(s *v1alpha1.Statement) { s.Status.Rows[0].WireBytes = -1 },
		"rows[0]: cpu:":    func(s *v1alpha1.Statement) { s.Status.Rows[0].Cost.CPU = "1e999999999" },
		"networkCPU:":      func(s *v1alpha1.Statement) { s.Status.Rows[0].Cost.NetworkCPU = "-1" },
		"avoided":          func(s *v1alpha1.Statement) { s.Status.Rows[0].Avoided.Network = "1/3" },
		"idleSeconds":      func(s *v1alpha1.Statement) { s.Status.Rows[0].CPU.IdleSeconds = strings.Repeat("9", 99) },
		"status.prices[1]": func(s *v1alpha1.Statement) { s.Status.Prices[1].NetworkGiB = "cheap" },
		"spec.month":       func(s *v1alpha1.Statement) { s.Spec.Month = "November" },
	} {
		err := bill.NewAccount(period(t, "2026-11", "", "")).Add(statement("bank", change))
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "bank/") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPeriod reads months and days.
func TestPeriod(t *testing.T) {
	for words, want := range map[[3]string]string{
		{"", "", ""}:                      "2026-11-01 to 2026-11-30 [2026-11]",
		{"2024-02", "", ""}:               "2024-02-01 to 2024-02-29 [2024-02]",
		{"", "2026-10-31", "2026-12-01"}:  "2026-10-31 to 2026-12-01 [2026-10 2026-11 2026-12]",
		{"", "2026-11-23", ""}:            "2026-11-23 to 2026-11-23 [2026-11]",
		{"2026-13", "", ""}:               "",
		{"11/2026", "", ""}:               "",
		{"2026-11", "2026-11-01", ""}:     "",
		{"", "", "2026-11-01"}:            "",
		{"", "2026-11-31", ""}:            "",
		{"", "2026-11-02", "2026-11-01"}:  "",
		{"", "2026-11-02", "tomorrow"}:    "",
		{"", "1026-11-02", "2026-11-02"}:  "",
		{"", "2026-11-24", ""}:            "",
		{"", "2016-12-01", "2026-11-30"}:  "2016-12-01 to 2026-11-30",
		{"", "2016-11-30", "2026-11-30"}:  "",
		{"2026-1", "", ""}:                "",
		{"", "2026-11-1", "2026-11-30"}:   "",
		{"", "2026-11-01Z", "2026-11-30"}: "",
	} {
		p, err := bill.NewPeriod(words[0], words[1], words[2], time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC))
		got := ""
		if err == nil {
			got = fmt.Sprint(p, " ", p.Months())
		}
		if want == "" != (err != nil) || !strings.HasPrefix(got, want) {
			t.Errorf("%v: %s, %v; want %s", words, got, err, want)
		}
	}
}

func TestDimensions(t *testing.T) {
	if got, err := bill.ParseDimensions([]string{"day", "nodeclass"}); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	for _, names := range [][]string{{"object"}, {"day", "day"}, {""}} {
		if _, err := bill.ParseDimensions(names); err == nil {
			t.Errorf("%v is valid", names)
		}
	}
}

// TestUnwritable passes on what a writer says.
func TestUnwritable(t *testing.T) {
	b := account(t, period(t, "2026-11", "", ""), statement("bank", nil)).By([]bill.Dimension{bill.ByKind})
	for name, err := range map[string]error{"text": b.WriteText(full{}), "CSV": b.WriteCSV(full{})} {
		if !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
