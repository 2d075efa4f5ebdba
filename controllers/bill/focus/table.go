// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package focus

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"
)

// tagPrefix is that of all tag keys and of the names of services.
const tagPrefix = "lighterage.dev/"

// columns in their order: those of the specification by name, then custom ones by name.
var columns = []struct {
	Column
	value func(Source, *Charge) *string
}{
	{Column{"BilledCost", Decimal}, cost},
	{Column{"BillingAccountId", String}, cluster},
	{Column{"BillingAccountName", String}, cluster},
	{Column{"BillingCurrency", String}, func(_ Source, c *Charge) *string { return text(c.Currency) }},
	{Column{"BillingPeriodEnd", DateTime}, func(_ Source, c *Charge) *string {
		return moment(month(c.Begin).AddDate(0, 1, 0))
	}},
	{Column{"BillingPeriodStart", DateTime}, func(_ Source, c *Charge) *string { return moment(month(c.Begin)) }},
	{Column{"ChargeCategory", String}, always("Usage")},
	{Column{"ChargeClass", String}, never},
	{Column{"ChargeDescription", String}, description},
	{Column{"ChargeFrequency", String}, always("Usage-Based")},
	{Column{"ChargePeriodEnd", DateTime}, func(_ Source, c *Charge) *string { return moment(c.End) }},
	{Column{"ChargePeriodStart", DateTime}, func(_ Source, c *Charge) *string { return moment(c.Begin) }},
	{Column{"ConsumedQuantity", Decimal}, func(_ Source, c *Charge) *string { return number(c.Quantity) }},
	{Column{"ConsumedUnit", String}, func(_ Source, c *Charge) *string { return text(c.Meter.ConsumedUnit) }},
	{Column{"ContractedCost", Decimal}, cost},
	{Column{"ContractedUnitPrice", Decimal}, unitPrice},
	{Column{"EffectiveCost", Decimal}, cost},
	{Column{"HostProviderName", String}, provider},
	{Column{"InvoiceIssuerName", String}, provider},
	{Column{"ListCost", Decimal}, cost},
	{Column{"ListUnitPrice", Decimal}, unitPrice},
	{Column{"PricingCategory", String}, always("Standard")},
	{Column{"PricingQuantity", Decimal}, func(_ Source, c *Charge) *string { return number(c.priced()) }},
	{Column{"PricingUnit", String}, func(_ Source, c *Charge) *string { return text(c.Meter.PricingUnit) }},
	{Column{"ServiceCategory", String}, func(_ Source, c *Charge) *string { return text(service(c.Kind).category) }},
	{Column{"ServiceName", String}, func(_ Source, c *Charge) *string { return text("Lighterage " + c.Kind) }},
	{Column{"ServiceProviderName", String}, provider},
	{Column{"ServiceSubcategory", String}, func(_ Source, c *Charge) *string {
		return text(service(c.Kind).subcategory)
	}},
	{Column{"SkuId", String}, func(_ Source, c *Charge) *string { return text(c.Meter.ID) }},
	{Column{"SkuMeter", String}, func(_ Source, c *Charge) *string { return text(c.Meter.Name) }},
	{Column{"SkuPriceDetails", JSON}, func(_ Source, c *Charge) *string { return object("x_", c.priceProperties()) }},
	{Column{"SkuPriceId", String}, skuPrice},
	{Column{"SubAccountId", String}, func(s Source, c *Charge) *string { return text(s.Cluster + "/" + c.Namespace) }},
	{Column{"SubAccountName", String}, func(_ Source, c *Charge) *string { return text(c.Namespace) }},
	{Column{"Tags", JSON}, tags},
	{Column{"x_Avoided", Decimal}, func(_ Source, c *Charge) *string { return number(c.Avoided) }},
	{Column{"x_Engine", String}, func(_ Source, c *Charge) *string { return text(c.Engine) }},
	{Column{"x_Estimated", Boolean}, func(_ Source, c *Charge) *string { return text(fmt.Sprint(c.Estimated)) }},
	{Column{"x_Peer", String}, func(_ Source, c *Charge) *string { return text(c.Peer) }},
	{Column{"x_PriceSource", String}, func(_ Source, c *Charge) *string { return text(c.PriceSource) }},
	{Column{"x_Side", String}, func(_ Source, c *Charge) *string { return text(c.Side) }},
}

// NewTable makes a row of each charge, ordered by period, namespace, kind, peer, side, engine, node, currency, meter
// and price.
func NewTable(source Source, charges []Charge) Table {
	var t Table
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Column)
	}
	for _, charge := range slices.SortedFunc(slices.Values(charges), compare) {
		var row []*string
		for _, c := range columns {
			row = append(row, c.value(source, &charge))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// WriteCSV writes the table with a header. Null is an empty field.
func (t Table) WriteCSV(to io.Writer) error {
	out := csv.NewWriter(to)
	record := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		record[i] = c.Name
	}
	if err := out.Write(record); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			record[i] = ""
			if cell != nil {
				record[i] = *cell
			}
		}
		if err := out.Write(record); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

func compare(a, b Charge) int {
	return cmp.Or(
		a.Begin.Compare(b.Begin), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Side, b.Side), cmp.Compare(a.Engine, b.Engine),
		cmp.Compare(a.Node, b.Node), cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Meter.ID, b.Meter.ID),
		cmp.Compare(a.PriceSource, b.PriceSource), a.price().Cmp(b.price()),
	)
}

// classified is where the specification files a service.
type classified struct{ category, subcategory string }

// service classifies a kind. One that is not named moves data over a network, as Transfers do.
func service(kind string) classified {
	switch kind {
	case "Queue":
		return classified{"Integration", "Messaging"}
	case "HTTPEndpoint":
		return classified{"Networking", "Application Networking"}
	}
	return classified{"Networking", "Other (Networking)"}
}

// priced is the quantity in the unit that prices are for.
func (c *Charge) priced() *big.Rat { return new(big.Rat).Quo(c.Quantity, big.NewRat(c.Meter.Ratio, 1)) }

// property of a price.
type property struct{ key, value string }

// priceProperties are those that its price depends on, apart from the time.
func (c *Charge) priceProperties() []property {
	var all []property
	if c.Meter.ByNode && c.Node != "" {
		all = append(all, property{"NodeClass", c.Node})
	}
	if c.Meter.ByPeer && c.Peer != "" {
		all = append(all, property{"Peer", c.Peer})
	}
	if c.Meter.ByPeer && c.Side != "" {
		all = append(all, property{"Side", c.Side})
	}
	return all
}

func skuPrice(_ Source, c *Charge) *string {
	id := c.Meter.ID
	for _, p := range c.priceProperties() {
		id += "/" + p.key + "=" + p.value
	}
	return text(id)
}

func unitPrice(_ Source, c *Charge) *string { return number(c.price()) }

// price is the one that is stated, or the mean; 0 where there was nothing to pay for.
func (c *Charge) price() *big.Rat {
	switch {
	case c.UnitPrice != nil:
		return c.UnitPrice
	case c.Quantity.Sign() == 0:
		return new(big.Rat)
	}
	return new(big.Rat).Quo(c.Cost, c.priced())
}

func description(_ Source, c *Charge) *string {
	said := c.Meter.Name + " for kind " + c.Kind
	if c.Peer != "" {
		said += " with peer " + c.Peer
	}
	if c.Estimated {
		said += ", estimated"
	}
	return text(said)
}

func tags(_ Source, c *Charge) *string {
	all := []property{{"kind", c.Kind}}
	if c.Node != "" {
		all = append(all, property{"node-class", c.Node})
	}
	return object(tagPrefix, all)
}

// object is a flat one, its keys after a prefix; null without any.
func object(prefix string, properties []property) *string {
	if len(properties) == 0 {
		return nil
	}
	values := map[string]string{}
	for _, p := range properties {
		values[prefix+p.key] = p.value
	}
	encoded, err := json.Marshal(values)
	if err != nil {
		panic(err) // a map of strings
	}
	return text(string(encoded))
}

func cost(_ Source, c *Charge) *string     { return number(c.Cost) }
func cluster(s Source, _ *Charge) *string  { return text(s.Cluster) }
func provider(s Source, _ *Charge) *string { return text(s.Provider) }
func never(Source, *Charge) *string        { return nil }

func always(value string) func(Source, *Charge) *string {
	return func(Source, *Charge) *string { return text(value) }
}

// text is null where there is none.
func text(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

func moment(t time.Time) *string { return text(t.UTC().Format(time.RFC3339)) }

func month(day time.Time) time.Time {
	return time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// number rounds to scale digits, and has no zeros at the end.
func number(value *big.Rat) *string {
	if value == nil {
		return nil
	}
	digits := strings.TrimSuffix(strings.TrimRight(value.FloatString(scale), "0"), ".")
	if digits == "-0" {
		digits = "0"
	}
	return &digits
}
