// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/lighterage/lighterage/controllers/bill/focus"
	"github.com/lighterage/lighterage/controllers/bill/focus/conformance"
)

var source = focus.Source{Cluster: "east", Provider: "Platform team"}

// charges are one of each meter, two of one with different prices, and one of a whole month.
func charges() []focus.Charge {
	day := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	transfer := focus.Charge{
		Namespace: "bank", Begin: day, End: day.AddDate(0, 0, 1), Kind: "Transfer", Peer: "west", Side: "Send",
		Engine: "None", Node: "s390x-accelerated", Currency: "EUR",
	}
	var all []focus.Charge
	add := func(meter focus.Meter, quantity int64, cost, price *big.Rat, change func(*focus.Charge)) {
		c := transfer
		c.Meter, c.Quantity, c.Cost, c.UnitPrice = meter, big.NewRat(quantity, 1), cost, price
		if change != nil {
			change(&c)
		}
		all = append(all, c)
	}
	add(focus.CPU, 7200, big.NewRat(62, 1000), big.NewRat(31, 1000), nil)
	add(focus.CPU, 7, big.NewRat(1, 1000), nil, func(c *focus.Charge) { c.PriceSource = "Tariff/night" })
	add(focus.NetworkCPU, 1, new(big.Rat), nil, func(c *focus.Charge) { c.Estimated = true })
	add(focus.Wire, 1<<40, big.NewRat(512, 10), big.NewRat(5, 100), func(c *focus.Charge) {
		c.Avoided = big.NewRat(-3, 7)
	})
	add(focus.Storage, 3<<30, big.NewRat(1, 3), nil, func(c *focus.Charge) {
		c.Kind, c.Peer, c.Side, c.Engine, c.Node = "Queue", "", "", "", ""
	})
	add(focus.Wire, 1, new(big.Rat), nil, func(c *focus.Charge) {
		c.Kind, c.Begin, c.End = "HTTPEndpoint", day.AddDate(0, 0, -29), day.AddDate(0, 0, 1)
	})
	return all
}

// TestConforms: what package focus makes breaks no rule.
func TestConforms(t *testing.T) {
	table := focus.NewTable(source, charges())
	if len(table.Rows) != 6 {
		t.Errorf("%d rows", len(table.Rows))
	}
	for _, violation := range conformance.Check(table) {
		t.Error(violation)
	}
}

// TestViolations breaks each rule in the first row, and expects it to be found in that column.
func TestViolations(t *testing.T) {
	null := (*string)(nil)
	type change map[string]*string
	for name, test := range map[string]struct {
		change change
		column string
	}{
		"null":                       {change{"BilledCost": null}, "BilledCost"},
		"empty":                      {change{"BillingAccountName": new("")}, "BillingAccountName"},
		"blank":                      {change{"ServiceName": new(" ")}, "ServiceName"},
		"placeholder":                {change{"InvoiceIssuerName": new("Not Applicable")}, "InvoiceIssuerName"},
		"exponent":                   {change{"BilledCost": new("1e3")}, "BilledCost"},
		"positive sign":              {change{"ListCost": new("+1")}, "ListCost"},
		"separator":                  {change{"EffectiveCost": new("1,000")}, "EffectiveCost"},
		"currency sign":              {change{"ContractedCost": new("$1")}, "ContractedCost"},
		"not a number":               {change{"PricingQuantity": new("NaN")}, "PricingQuantity"},
		"fraction":                   {change{"x_Avoided": new("1/3")}, "x_Avoided"},
		"currency unknown":           {change{"BillingCurrency": new("ABC")}, "BillingCurrency"},
		"currency in small letters":  {change{"BillingCurrency": new("eur")}, "BillingCurrency"},
		"currency withdrawn":         {change{"BillingCurrency": new("DEM")}, "BillingCurrency"},
		"no currency":                {change{"BillingCurrency": new("XXX")}, "BillingCurrency"},
		"offset":                     {change{"ChargePeriodStart": new("2026-11-30T00:00:00+00:00")}, "ChargePeriodStart"},
		"fraction of a second":       {change{"ChargePeriodStart": new("2026-11-30T00:00:00.0Z")}, "ChargePeriodStart"},
		"no such day":                {change{"ChargePeriodEnd": new("2026-11-31T00:00:00Z")}, "ChargePeriodEnd"},
		"date alone":                 {change{"BillingPeriodStart": new("2026-11-01")}, "BillingPeriodStart"},
		"category":                   {change{"ChargeCategory": new("usage")}, "ChargeCategory"},
		"class":                      {change{"ChargeClass": new("Refund")}, "ChargeClass"},
		"frequency":                  {change{"ChargeFrequency": new("Daily")}, "ChargeFrequency"},
		"pricing category":           {change{"PricingCategory": new("On-Demand")}, "PricingCategory"},
		"service category":           {change{"ServiceCategory": new("Network")}, "ServiceCategory"},
		"service subcategory":        {change{"ServiceSubcategory": new("Messages")}, "ServiceSubcategory"},
		"subcategory of another":     {change{"ServiceSubcategory": new("Messaging")}, "ServiceSubcategory"},
		"other of another":           {change{"ServiceSubcategory": new("Other (Storage)")}, "ServiceSubcategory"},
		"unit in words":              {change{"PricingUnit": new("core hours")}, "PricingUnit"},
		"unit with an unknown size":  {change{"ConsumedUnit": new("GiBs")}, "ConsumedUnit"},
		"tags: no object":            {change{"Tags": new(`["a"]`)}, "Tags"},
		"tags: broken":               {change{"Tags": new(`{"a":`)}, "Tags"},
		"tags: nested":               {change{"Tags": new(`{"a":{"b":"c"}}`)}, "Tags"},
		"tags: array":                {change{"Tags": new(`{"a":[1]}`)}, "Tags"},
		"tags: twice":                {change{"Tags": new(`{"a":1,"a":2}`)}, "Tags"},
		"tags: two":                  {change{"Tags": new(`{"a":1}{}`)}, "Tags"},
		"price property":             {change{"SkuPriceDetails": new(`{"Colour":"red"}`)}, "SkuPriceDetails"},
		"boolean":                    {change{"x_Estimated": new("1")}, "x_Estimated"},
		"usage without SKU":          {change{"SkuId": null, "SkuMeter": null}, "SkuId"},
		"usage without SKU price":    {change{"SkuPriceId": null}, "SkuPriceId"},
		"usage without price":        {change{"ListUnitPrice": null}, "ListUnitPrice"},
		"without contracted price":   {change{"ContractedUnitPrice": null}, "ContractedUnitPrice"},
		"without pricing category":   {change{"PricingCategory": null}, "PricingCategory"},
		"without pricing quantity":   {change{"PricingQuantity": null, "PricingUnit": null}, "PricingQuantity"},
		"pricing unit missing":       {change{"PricingUnit": null}, "PricingUnit"},
		"consumed unit missing":      {change{"ConsumedUnit": null}, "ConsumedUnit"},
		"without consumed quantity":  {change{"ConsumedQuantity": null, "ConsumedUnit": null}, "ConsumedQuantity"},
		"consumed by a purchase":     {change{"ChargeCategory": new("Purchase")}, "ConsumedQuantity"},
		"purchase by usage":          {change{"ChargeCategory": new("Purchase")}, "ChargeFrequency"},
		"SKU of a tax":               {change{"ChargeCategory": new("Tax")}, "SkuId"},
		"meter without SKU":          {change{"SkuId": null}, "SkuMeter"},
		"details without SKU price":  {change{"SkuPriceId": null}, "SkuPriceDetails"},
		"price without SKU price":    {change{"SkuPriceId": null}, "ListUnitPrice"},
		"sub account without name":   {change{"SubAccountName": null}, "SubAccountName"},
		"name without sub account":   {change{"SubAccountId": null}, "SubAccountName"},
		"negative price":             {change{"ListUnitPrice": new("-1")}, "ListUnitPrice"},
		"list cost is not product":   {change{"ListUnitPrice": new("1000")}, "ListCost"},
		"contracted is not product":  {change{"ContractedUnitPrice": new("1000")}, "ContractedCost"},
		"billed differs":             {change{"BilledCost": new("1")}, "EffectiveCost"},
		"effective differs":          {change{"EffectiveCost": new("1")}, "EffectiveCost"},
		"negative":                   {change{"ConsumedQuantity": new("-1")}, "ConsumedQuantity"},
		"credit":                     {change{"ChargeCategory": new("Credit")}, "ChargeCategory"},
		"billing period ends before": {change{"BillingPeriodEnd": new("2026-11-01T00:00:00Z")}, "BillingPeriodEnd"},
		"charge period ends before":  {change{"ChargePeriodEnd": new("2026-10-01T00:00:00Z")}, "ChargePeriodEnd"},
		"period of an hour":          {change{"ChargePeriodEnd": new("2026-11-01T01:00:00Z")}, "ChargePeriodStart"},
		"another month":              {change{"BillingPeriodStart": new("2026-10-01T00:00:00Z")}, "BillingPeriodStart"},
		"SKU price of two SKUs":      {change{"SkuPriceId": new("cpu/NodeClass=s390x-accelerated")}, "SkuId"},
		"two details":                {change{"SkuPriceDetails": new(`{"x_Peer":"north"}`)}, "SkuPriceDetails"},
		"two meters":                 {change{"SkuMeter": new("other")}, "SkuMeter"},
		"service of two categories": {
			change{"ServiceName": new("Lighterage Queue")}, "ServiceCategory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := charges()
			// The first row is of the whole month; another one of the same price follows.
			more := c[5]
			more.Namespace = "shop"
			table := focus.NewTable(source, append(c, more))
			for column, value := range test.change {
				table.Rows[0][at(t, table, column)] = value
			}
			found := conformance.Check(table)
			if !slices.ContainsFunc(found, func(v conformance.Violation) bool { return v.Column == test.column }) {
				t.Errorf("found %v", found)
			}
		})
	}
}

// TestColumns breaks what is demanded of columns.
func TestColumns(t *testing.T) {
	mandatory := []string{
		"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
		"ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost",
		"EffectiveCost", "HostProviderName", "InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit",
		"ServiceCategory", "ServiceName", "ServiceProviderName",
	}
	for _, name := range append(mandatory, "ConsumedUnit", "SkuPriceId", "SkuMeter", "SubAccountName") {
		table := focus.NewTable(source, charges())
		i := at(t, table, name)
		table.Columns = slices.Delete(table.Columns, i, i+1)
		for r, cells := range table.Rows {
			table.Rows[r] = slices.Delete(cells, i, i+1)
		}
		expect(t, table, name)
	}
	for name, column := range map[string]focus.Column{
		"removed in 1.4": {Name: "ProviderName", Type: focus.String},
		"twice":          {Name: "BilledCost", Type: focus.Decimal},
		"no prefix":      {Name: "Avoided", Type: focus.Decimal},
		"special":        {Name: "x_avoided-cost", Type: focus.Decimal},
		"display name":   {Name: "Billed Cost", Type: focus.Decimal},
	} {
		t.Run(name, func(t *testing.T) {
			table := focus.NewTable(source, charges())
			table.Columns = append(table.Columns, column)
			expect(t, table, column.Name)
		})
	}
	table := focus.NewTable(source, charges())
	table.Columns[at(t, table, "BilledCost")].Type = focus.String
	expect(t, table, "BilledCost")

	table = focus.NewTable(source, charges())
	table.Rows[2] = table.Rows[2][1:]
	expect(t, table, "")
}

// TestSameCharge finds a charge that is there twice, whatever it costs.
func TestSameCharge(t *testing.T) {
	again := charges()[4]
	again.UnitPrice = new(big.Rat).Quo(again.Cost, big.NewRat(3, 1))
	table := focus.NewTable(source, append(charges(), again))
	expect(t, table, "ChargeDescription")
}

// TestZero: nothing that has a cost has no price.
func TestZero(t *testing.T) {
	c := charges()
	c[0].Quantity, c[0].UnitPrice = new(big.Rat), nil
	expect(t, focus.NewTable(source, c), "ListCost")
}

func at(t *testing.T, table focus.Table, column string) int {
	t.Helper()
	i := slices.IndexFunc(table.Columns, func(c focus.Column) bool { return c.Name == column })
	if i < 0 {
		t.Fatalf("there is no column %s", column)
	}
	return i
}

func expect(t *testing.T, table focus.Table, column string) {
	t.Helper()
	found := conformance.Check(table)
	if !slices.ContainsFunc(found, func(v conformance.Violation) bool { return v.Column == column }) {
		t.Errorf("%s: found %s", column, fmt.Sprint(found))
	}
}
