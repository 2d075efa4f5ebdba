// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package focus_test

import (
	"bytes"
	"encoding/csv"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/lighterage/lighterage/controllers/bill/focus"
)

func charge(change func(*focus.Charge)) focus.Charge {
	day := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	c := focus.Charge{
		Meter: focus.Wire, Namespace: "bank", Begin: day, End: day.AddDate(0, 0, 1), Kind: "Transfer", Peer: "west",
		Side: "Send", Engine: "Hardware", Node: "s390x-accelerated", Currency: "EUR", Quantity: big.NewRat(3<<29, 1),
		Cost: big.NewRat(75, 1000), UnitPrice: big.NewRat(5, 100), PriceSource: "Tariff/datacentre",
		Avoided: big.NewRat(225, 1000),
	}
	if change != nil {
		change(&c)
	}
	return c
}

// TestRow: the columns of a row, null as "".
func TestRow(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*focus.Charge)
		want   map[string]string
	}{
		"bytes": {nil, map[string]string{
			"BilledCost": "0.075", "ListCost": "0.075", "ContractedCost": "0.075", "EffectiveCost": "0.075",
			"BillingCurrency": "EUR", "BillingAccountId": "east", "SubAccountId": "east/bank", "SubAccountName": "bank",
			"BillingPeriodStart": "2026-12-01T00:00:00Z", "BillingPeriodEnd": "2027-01-01T00:00:00Z",
			"ChargePeriodStart": "2026-12-31T00:00:00Z", "ChargePeriodEnd": "2027-01-01T00:00:00Z",
			"ChargeCategory": "Usage", "ChargeClass": "", "ChargeFrequency": "Usage-Based",
			"PricingQuantity": "1.5", "PricingUnit": "GiB", "ListUnitPrice": "0.05", "ContractedUnitPrice": "0.05",
			"ConsumedQuantity": "1610612736", "ConsumedUnit": "B",
			"ServiceCategory": "Networking", "ServiceName": "Lighterage Transfer",
			"InvoiceIssuerName": "Platform team", "HostProviderName": "Platform team", "ServiceProviderName": "Platform team",
			"SkuId": "network", "SkuPriceId": "network/Peer=west/Side=Send",
			"SkuPriceDetails": `{"x_Peer":"west","x_Side":"Send"}`,
			"Tags":            `{"lighterage.dev/kind":"Transfer","lighterage.dev/node-class":"s390x-accelerated"}`,
			"x_Avoided":       "0.225", "x_Engine": "Hardware", "x_Estimated": "false", "x_Peer": "west", "x_Side": "Send",
			"x_PriceSource": "Tariff/datacentre",
		}},
		"network stack at a mean price": {func(c *focus.Charge) {
			c.Meter, c.Quantity, c.Cost, c.UnitPrice = focus.NetworkCPU, big.NewRat(1, 1), big.NewRat(1, 10800), nil
			c.Estimated, c.Avoided, c.Peer, c.PriceSource = true, nil, "", ""
		}, map[string]string{
			"PricingUnit": "Core-Hours", "PricingQuantity": "0.000277777777777778", "ConsumedQuantity": "1",
			"ConsumedUnit": "Core-Seconds", "ListUnitPrice": "0.333333333333333333", "BilledCost": "0.000092592592592593",
			"SkuPriceId": "network-cpu/NodeClass=s390x-accelerated", "x_Estimated": "true", "x_Avoided": "", "x_Peer": "",
			"x_PriceSource": "",
		}},
		"a queue": {func(c *focus.Charge) {
			c.Meter, c.Kind, c.Node, c.Quantity = focus.Storage, "Queue", "", big.NewRat(48<<30, 1)
		}, map[string]string{
			"ServiceCategory": "Integration", "ServiceSubcategory": "Messaging", "PricingUnit": "GiB-Hours",
			"PricingQuantity": "48", "SkuPriceId": "storage", "SkuPriceDetails": "",
			"Tags": `{"lighterage.dev/kind":"Queue"}`,
		}},
		"an endpoint": {func(c *focus.Charge) { c.Kind = "HTTPEndpoint" }, map[string]string{
			"ServiceCategory": "Networking", "ServiceSubcategory": "Application Networking",
		}},
		"a loss": {func(c *focus.Charge) { c.Avoided = big.NewRat(-1, 2) }, map[string]string{"x_Avoided": "-0.5"}},
	} {
		t.Run(name, func(t *testing.T) {
			table := focus.NewTable(
				focus.Source{Cluster: "east", Provider: "Platform team"}, []focus.Charge{charge(test.change)},
			)
			got := map[string]string{}
			for i, c := range table.Columns {
				if cell := table.Rows[0][i]; cell != nil {
					got[c.Name] = *cell
				}
			}
			for column, want := range test.want {
				if got[column] != want {
					t.Errorf("%s is %q, want %q", column, got[column], want)
				}
			}
		})
	}
}

// TestOrder: rows do not depend on the order of charges, and columns are in the order that the specification
// recommends.
func TestOrder(t *testing.T) {
	charges := []focus.Charge{
		charge(nil), charge(func(c *focus.Charge) { c.Begin = c.Begin.AddDate(0, 0, -1) }),
		charge(func(c *focus.Charge) { c.Namespace = "a" }), charge(func(c *focus.Charge) { c.UnitPrice = new(big.Rat) }),
	}
	var first, second bytes.Buffer
	if err := focus.NewTable(focus.Source{}, charges).WriteCSV(&first); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(charges)
	if err := focus.NewTable(focus.Source{}, charges).WriteCSV(&second); err != nil || first.String() != second.String() {
		t.Errorf("%v:\n%s\n%s", err, first.String(), second.String())
	}
	header, _, _ := strings.Cut(first.String(), "\n")
	if names := strings.Split(header, ","); !slices.IsSorted(names) || len(names) < 40 {
		t.Errorf("columns %q", names)
	}
}

// TestFormats: CSV and Parquet have the same values.
func TestFormats(t *testing.T) {
	table := focus.NewTable(focus.Source{Cluster: "east", Provider: `a "team", here`}, []focus.Charge{
		charge(nil), charge(func(c *focus.Charge) {
			c.Meter, c.Avoided, c.Estimated, c.Cost = focus.CPU, big.NewRat(-1, 3), true, big.NewRat(1<<60, 7)
		}),
		charge(func(c *focus.Charge) { c.Meter, c.Avoided, c.Peer = focus.Storage, nil, "" }),
	})
	var text, binary bytes.Buffer
	if err := table.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	if err := table.WriteParquet(&binary); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(binary.Bytes()), int64(binary.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if version, _ := file.Lookup("FocusVersion"); version != focus.Version {
		t.Errorf("version %q", version)
	}
	reader := parquet.NewReader(bytes.NewReader(binary.Bytes()))
	rows := make([]parquet.Row, 4)
	n, err := reader.ReadRows(rows)
	if n != 3 || err != nil && err != io.EOF {
		t.Fatalf("%d rows: %v", n, err)
	}
	for i, field := range file.Schema().Fields() {
		if field.Name() != records[0][i] || !field.Optional() {
			t.Fatalf("column %d is %s, and %s in CSV", i, field.Name(), records[0][i])
		}
		for r := range n {
			if got, want := shown(rows[r][i], table.Columns[i].Type), records[r+1][i]; got != want {
				t.Errorf("row %d: %s is %q, and %q in CSV", r, field.Name(), got, want)
			}
		}
	}
}

// shown is a value of Parquet as CSV has it.
func shown(v parquet.Value, of focus.Type) string {
	switch {
	case v.IsNull():
		return ""
	case of == focus.DateTime:
		return time.UnixMilli(v.Int64()).UTC().Format(time.RFC3339)
	case of == focus.Decimal:
		unscaled := new(big.Int).SetBytes(v.ByteArray())
		if v.ByteArray()[0]&0x80 != 0 {
			unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), 128))
		}
		text := new(big.Rat).SetFrac(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil)).FloatString(18)
		return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return v.String()
}

// TestWrongValues: what does not have the type of its column is not written.
func TestWrongValues(t *testing.T) {
	for value, of := range map[string]focus.Type{
		"1.0000000000000000001": focus.Decimal, strings.Repeat("9", 21): focus.Decimal, "one": focus.Decimal,
		"yesterday": focus.DateTime, "yes": focus.Boolean,
	} {
		table := focus.Table{Columns: []focus.Column{{Name: "x_A", Type: of}}, Rows: [][]*string{{&value}}}
		if err := table.WriteParquet(io.Discard); err == nil {
			t.Errorf("%s was written as %s", value, of)
		}
	}
}
