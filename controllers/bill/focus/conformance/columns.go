// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"regexp"

	"github.com/lighterage/lighterage/controllers/bill/focus"
)

// custom are names of custom columns: Pascal case after x_, at most 50 characters.
var custom = regexp.MustCompile(`^x_[A-Z][A-Za-z0-9]{0,47}$`)

type presence int

const (
	mandatory presence = iota
	optional           // recommended, or demanded where the operating model has what it is about
)

// column is what the specification says of one.
type column struct {
	presence presence
	of       focus.Type
	nulls    bool
	// with are columns that must be present where it is.
	with []string
	// allowed are its values where these are enumerated.
	allowed []string
	// format of values that are not null.
	format *regexp.Regexp
}

var (
	decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)([.][0-9]+)?$`)
	moment  = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$`)
	unit    = regexp.MustCompile(
		`^([1-9][0-9]* )?` + baseUnit + `(-` + baseUnit + `)?(/([1-9][0-9]* )?` + baseUnit + `)?$`,
	)
)

// baseUnit is a data size, or a capitalised noun, which times and counts are as well.
const baseUnit = `([KMGTPE]i?[bB]|[bB]|[A-Z][a-z]+)`

// columns are those of the specification of which the rules are known here.
var columns = map[string]column{
	"BilledCost":         {of: focus.Decimal},
	"BillingAccountId":   {of: focus.String},
	"BillingAccountName": {of: focus.String, nulls: true},
	"BillingCurrency":    {of: focus.String, allowed: currencies},
	"BillingPeriodEnd":   {of: focus.DateTime},
	"BillingPeriodStart": {of: focus.DateTime},
	"ChargeCategory": {
		of: focus.String, allowed: []string{"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
	},
	"ChargeClass":       {of: focus.String, nulls: true, allowed: []string{"Correction"}},
	"ChargeDescription": {of: focus.String, nulls: true},
	"ChargeFrequency": {
		presence: optional, of: focus.String, allowed: []string{"One-Time", "Recurring", "Usage-Based"},
	},
	"ChargePeriodEnd":   {of: focus.DateTime},
	"ChargePeriodStart": {of: focus.DateTime},
	"ConsumedQuantity": {
		presence: optional, of: focus.Decimal, nulls: true, with: []string{"ConsumedUnit", "SkuPriceId"},
	},
	"ConsumedUnit": {
		presence: optional, of: focus.String, nulls: true, with: []string{"ConsumedQuantity"}, format: unit,
	},
	"ContractedCost":      {of: focus.Decimal},
	"ContractedUnitPrice": {presence: optional, of: focus.Decimal, nulls: true, with: []string{"ListUnitPrice"}},
	"EffectiveCost":       {of: focus.Decimal},
	"HostProviderName":    {of: focus.String},
	"InvoiceIssuerName":   {of: focus.String},
	"ListCost":            {of: focus.Decimal},
	"ListUnitPrice":       {presence: optional, of: focus.Decimal, nulls: true, with: []string{"SkuPriceId"}},
	"PricingCategory": {
		presence: optional, of: focus.String, nulls: true, with: []string{"SkuPriceId"},
		allowed: []string{"Standard", "Dynamic", "Committed", "Other"},
	},
	"PricingQuantity":     {of: focus.Decimal, nulls: true},
	"PricingUnit":         {of: focus.String, nulls: true, format: unit},
	"ServiceCategory":     {of: focus.String, allowed: categories()},
	"ServiceName":         {of: focus.String},
	"ServiceProviderName": {of: focus.String},
	"ServiceSubcategory":  {presence: optional, of: focus.String, allowed: subcategories()},
	"SkuId": {
		presence: optional, of: focus.String, nulls: true, with: []string{"SkuMeter", "SkuPriceDetails", "SkuPriceId"},
	},
	"SkuMeter":        {presence: optional, of: focus.String, nulls: true, with: []string{"SkuId"}},
	"SkuPriceDetails": {presence: optional, of: focus.JSON, nulls: true, with: []string{"SkuId"}},
	"SkuPriceId":      {presence: optional, of: focus.String, nulls: true, with: []string{"SkuId"}},
	"SubAccountId":    {presence: optional, of: focus.String, nulls: true, with: []string{"SubAccountName"}},
	"SubAccountName":  {presence: optional, of: focus.String, nulls: true, with: []string{"SubAccountId"}},
	"Tags":            {presence: optional, of: focus.JSON, nulls: true},
}
