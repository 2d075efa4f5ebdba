// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/controllers/bill/focus"
)

// placeholders must not stand for values that are absent. None of them can be the name of an object.
var placeholders = []string{"Not Applicable", "N/A", "NULL", "Null", "None", "Undefined", "Unknown", "-"}

// skuProperties are the keys of SkuPriceDetails that the specification defines. Others begin with x_.
var skuProperties = []string{
	"CoreCount", "DiskMaxIops", "DiskSpace", "DiskType", "GpuCount", "InstanceType", "InstanceSeries", "MemorySize",
	"NetworkMaxIops", "NetworkMaxThroughput", "OperatingSystem", "Redundancy", "StorageClass",
}

// tolerance is that of a product of rounded factors: a part of the product, and an amount of the currency, since costs
// are sums of rounded ones.
var tolerance = struct{ part, amount *big.Rat }{big.NewRat(1, 1_000_000_000), big.NewRat(1, 10_000_000)}

// checkValue holds one value to the rules of its column.
func (r *row) checkValue(c focus.Column) {
	known, ok := columns[c.Name]
	value := r.cells[c.Name]
	if value == nil {
		r.demand(!ok || known.nulls, c.Name, "must not be null")
		return
	}
	r.demand(
		strings.TrimSpace(*value) != "" && (!ok || !slices.Contains(placeholders, *value) ||
			c.Name == "HostProviderName" && *value == "Not Applicable"),
		c.Name, "must be null, not an empty string or a placeholder, where there is no value",
	)
	switch c.Type {
	case focus.Decimal:
		r.demand(decimal.MatchString(*value), c.Name, "must be a decimal without sign +, exponent, separators or unit")
	case focus.DateTime:
		_, err := time.Parse(time.RFC3339, *value)
		r.demand(
			err == nil && moment.MatchString(*value), c.Name, "must be a time in UTC of the form YYYY-MM-DDTHH:MM:SSZ",
		)
	case focus.JSON:
		keys, err := flatKeys(*value)
		r.demand(err == nil, c.Name, "must be a JSON object of unique keys and plain values (%v)", err)
		for _, key := range keys {
			r.demand(
				c.Name != "SkuPriceDetails" || strings.HasPrefix(key, "x_") || slices.Contains(skuProperties, key), c.Name,
				"must have keys that FOCUS defines, or that begin with x_, not %s", key,
			)
		}
	case focus.Boolean:
		r.demand(*value == "true" || *value == "false", c.Name, "must be true or false")
	case focus.String:
	}
	r.demand(known.allowed == nil || slices.Contains(known.allowed, *value), c.Name, "must be one of the allowed values")
	r.demand(known.format == nil || known.format.MatchString(*value), c.Name, "must be a unit such as GiB or Core-Hours")
}

// flatKeys are the keys of a JSON object, which are unique and have neither objects nor arrays as values.
func flatKeys(object string) ([]string, error) {
	decoder := json.NewDecoder(strings.NewReader(object))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.New("it is no object")
	}
	var keys []string
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok || slices.Contains(keys, name) {
			return nil, fmt.Errorf("key %v occurs twice", key)
		}
		keys = append(keys, name)
		value, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		if _, nested := value.(json.Delim); nested {
			return nil, fmt.Errorf("the value of %s is not plain", name)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return keys, nil
}

// checkRelations holds a row to the rules between columns.
func (r *row) checkRelations() {
	usage := r.is("ChargeCategory", "Usage")
	regular := (usage || r.is("ChargeCategory", "Purchase")) && !r.is("ChargeClass", "Correction")
	tax := r.is("ChargeCategory", "Tax")
	for _, name := range []string{
		"SkuId", "SkuPriceId", "ListUnitPrice", "ContractedUnitPrice", "PricingCategory", "PricingQuantity",
	} {
		if _, present := r.cells[name]; !present {
			continue
		}
		r.demand(!regular || !r.null(name), name, "must not be null for usage and purchases")
		r.demand(!tax || r.null(name), name, "must be null for taxes")
		if name != "SkuId" && name != "SkuPriceId" {
			r.demand(!r.null("SkuPriceId") || r.null(name), name, "must be null where SkuPriceId is")
		}
	}
	for _, name := range []string{"ListUnitPrice", "ContractedUnitPrice"} {
		if price := r.decimal(name); price != nil {
			r.demand(price.Sign() >= 0, name, "must not be negative")
		}
	}
	r.nullTogether("PricingUnit", "PricingQuantity")
	r.nullTogether("ConsumedUnit", "ConsumedQuantity")
	if _, present := r.cells["ConsumedQuantity"]; present {
		r.demand(usage || r.null("ConsumedQuantity"), "ConsumedQuantity", "must be null where ChargeCategory is not Usage")
		r.demand(!usage || !regular || !r.null("ConsumedQuantity"), "ConsumedQuantity", "must not be null for usage")
	}
	r.demand(!r.null("SkuId") || r.null("SkuMeter"), "SkuMeter", "must be null where SkuId is")
	r.demand(!r.null("SkuPriceId") || r.null("SkuPriceDetails"), "SkuPriceDetails", "must be null where SkuPriceId is")
	r.nullTogether("SubAccountName", "SubAccountId")
	r.demand(
		!r.is("ChargeCategory", "Purchase") || !r.is("ChargeFrequency", "Usage-Based"), "ChargeFrequency",
		"must not be Usage-Based for purchases",
	)
	r.product("ListCost", "ListUnitPrice")
	r.product("ContractedCost", "ContractedUnitPrice")
	r.after("BillingPeriodEnd", "BillingPeriodStart")
	r.after("ChargePeriodEnd", "ChargePeriodStart")
	if category, sub := r.cells["ServiceCategory"], r.cells["ServiceSubcategory"]; sub != nil {
		r.demand(
			*sub == other(*category) || slices.Contains(services[*category], *sub), "ServiceSubcategory",
			"must be one of those of its ServiceCategory",
		)
	}
}

// nullTogether holds a column to be null where another is, and only there.
func (r *row) nullTogether(column, other string) {
	r.demand(r.null(column) == r.null(other), column, "must be null where %s is, and only there", other)
}

// after holds a time to be after another.
func (r *row) after(column, other string) {
	r.demand(r.time(column).After(r.time(other)), column, "must be after %s", other)
}

// product holds a cost to the product of unit price and quantity.
func (r *row) product(cost, price string) {
	perUnit, quantity := r.decimal(price), r.decimal("PricingQuantity")
	if perUnit == nil || quantity == nil {
		return
	}
	product, is := new(big.Rat).Mul(perUnit, quantity), r.decimal(cost)
	off := new(big.Rat).Sub(product, is)
	most := new(big.Rat).Add(tolerance.amount, new(big.Rat).Mul(tolerance.part, new(big.Rat).Abs(is)))
	r.demand(off.Abs(off).Cmp(most) <= 0, cost, "must be %s times PricingQuantity, %s", price, product.FloatString(9))
}

// checkPromises holds a row to what package focus promises beyond the specification.
func (r *row) checkPromises() {
	for _, cost := range []string{"ListCost", "ContractedCost", "EffectiveCost"} {
		r.demand(r.decimal(cost).Cmp(r.decimal("BilledCost")) == 0, cost, "must equal BilledCost")
	}
	r.demand(r.is("ChargeCategory", "Usage"), "ChargeCategory", "must be Usage: what is avoided is no credit")
	begin, end := r.time("ChargePeriodStart"), r.time("ChargePeriodEnd")
	month := time.Date(begin.Year(), begin.Month(), 1, 0, 0, 0, 0, time.UTC)
	r.demand(
		begin.Equal(begin.Truncate(24*time.Hour)) && end.Equal(begin.AddDate(0, 0, 1)) ||
			begin.Equal(month) && end.Equal(month.AddDate(0, 1, 0)),
		"ChargePeriodStart", "must begin a charge period of one UTC day or month",
	)
	r.demand(
		r.time("BillingPeriodStart").Equal(month) && r.time("BillingPeriodEnd").Equal(month.AddDate(0, 1, 0)),
		"BillingPeriodStart", "must begin the UTC month of the charge period",
	)
	for _, name := range []string{"BilledCost", "PricingQuantity", "ConsumedQuantity"} {
		if value := r.decimal(name); value != nil {
			r.demand(value.Sign() >= 0, name, "must not be negative")
		}
	}
}

// decimal is nil for null.
func (r *row) decimal(column string) *big.Rat {
	if r.cells[column] == nil {
		return nil
	}
	value, _ := new(big.Rat).SetString(*r.cells[column])
	return value
}

// time of a column that is not null.
func (r *row) time(column string) time.Time {
	at, _ := time.Parse(time.RFC3339, *r.cells[column])
	return at
}

// checkRows holds rows to each other: one value determines another, and no row occurs twice.
func checkRows(t focus.Table) []Violation {
	var found []Violation
	at := func(name string) int {
		return slices.IndexFunc(t.Columns, func(c focus.Column) bool { return c.Name == name })
	}
	for _, pair := range [][2]string{
		{"SkuPriceId", "SkuId"}, {"SkuPriceId", "SkuPriceDetails"}, {"SkuId", "SkuMeter"},
		{"ServiceName", "ServiceCategory"},
	} {
		key, value := at(pair[0]), at(pair[1])
		if key < 0 || value < 0 {
			continue
		}
		first := map[string]string{}
		for i, cells := range t.Rows {
			if cells[key] == nil {
				continue
			}
			is, seen := quoted(cells[value]), first[*cells[key]]
			if seen == "" {
				first[*cells[key]] = is
			} else if seen != is {
				rule := "must be the same for the same " + pair[0] + ", " + seen
				found = append(found, Violation{i, pair[1], rule, cells[value]})
			}
		}
	}
	rows := map[string]int{}
	for i, cells := range t.Rows {
		var key strings.Builder
		for c, cell := range cells {
			if t.Columns[c].Type != focus.Decimal || t.Columns[c].Name == "ListUnitPrice" {
				key.WriteString(quoted(cell) + ",")
			}
		}
		if first, seen := rows[key.String()]; seen {
			rule := fmt.Sprintf("must not be of the charge that row %d is of", first)
			found = append(found, Violation{i, "ChargeDescription", rule, cells[slices.IndexFunc(t.Columns, isDescription)]})
			continue
		}
		rows[key.String()] = i
	}
	return found
}

func isDescription(c focus.Column) bool { return c.Name == "ChargeDescription" }

func quoted(cell *string) string {
	if cell == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *cell)
}
