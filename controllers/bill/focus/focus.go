// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package focus writes charges in the dataset Cost and Usage of FOCUS, the FinOps Open Cost and Usage Specification, as
// CSV and as Parquet. It is pure apart from the writers that it is given. Package conformance checks what it makes.
//
// Each row is one charge: what one meter counted on one UTC day for a namespace, a kind, a peer, a direction, a class
// of engines, a class of nodes and a price. All rows are usage at the price of a Tariff or CompressionPolicy, so the
// four costs are equal. What was avoided is a column of its own and lowers no cost.
package focus

import (
	"math/big"
	"time"
)

// Version of the specification.
const Version = "1.4"

// scale is the number of digits after the point of all decimals, and precision that of all digits: the most that
// readers of Parquet agree on. It is fine enough that the product of unit price and quantity is the cost.
const (
	scale     = 18
	precision = 38
)

// Meter is what is counted.
type Meter struct {
	// ID is the SKU.
	ID string
	// Name is for people.
	Name string
	// ConsumedUnit is what quantities are counted in, PricingUnit what prices are for.
	ConsumedUnit, PricingUnit string
	// Ratio is how many of the first make one of the second.
	Ratio int64
	// ByNode says that the price depends on the class of the node, ByPeer that it depends on peer and direction.
	ByNode, ByPeer bool
}

const gib = 1 << 30

// The meters.
var (
	// CPU is the CPU time of agents, which the kernel charged to them.
	CPU = Meter{
		ID: "cpu", Name: "CPU time of agents", ConsumedUnit: "Core-Seconds", PricingUnit: "Core-Hours",
		Ratio: 3600, ByNode: true,
	}
	// NetworkCPU is the CPU time of the network stack, which is estimated.
	NetworkCPU = Meter{
		ID: "network-cpu", Name: "CPU time of the network stack", ConsumedUnit: "Core-Seconds", PricingUnit: "Core-Hours",
		Ratio: 3600, ByNode: true,
	}
	// Wire is bytes on the wire.
	Wire = Meter{
		ID: "network", Name: "Bytes on the wire", ConsumedUnit: "B", PricingUnit: "GiB", Ratio: gib, ByPeer: true,
	}
	// Storage is bytes that were stored for a time.
	Storage = Meter{
		ID: "storage", Name: "Stored bytes", ConsumedUnit: "B-Hours", PricingUnit: "GiB-Hours", Ratio: gib,
	}
	// StoreWrites and StoreReads are requests to object stores.
	StoreWrites = Meter{
		ID: "store-writes", Name: "Requests that write to object stores", ConsumedUnit: "Requests",
		PricingUnit: "1000 Requests", Ratio: 1000,
	}
	StoreReads = Meter{
		ID: "store-reads", Name: "Requests that read object stores", ConsumedUnit: "Requests",
		PricingUnit: "1000 Requests", Ratio: 1000,
	}
	// StoreEgress is bytes that were read from object stores.
	StoreEgress = Meter{
		ID: "store-egress", Name: "Bytes read from object stores", ConsumedUnit: "B", PricingUnit: "GiB", Ratio: gib,
	}
)

// Charge is what one meter counted in one period.
type Charge struct {
	Meter Meter
	// Namespace that the work was for.
	Namespace string
	// Begin is 00:00 UTC of a day, and End that of the next one or, where days are not known, of the next month.
	Begin, End time.Time
	// Kind of the objects, such as Transfer.
	Kind string
	// Peer is empty within the cluster and with clients. Side is Send or Receive; empty where there is neither.
	Peer, Side string
	// Engine is the class of the engines that compressed, Node the class of the nodes; empty where unknown.
	Engine, Node string
	// Currency is a code of ISO 4217.
	Currency string
	// Quantity in the meter's ConsumedUnit.
	Quantity *big.Rat
	// Cost in the currency.
	Cost *big.Rat
	// UnitPrice of the meter's PricingUnit; nil for the mean where several applied.
	UnitPrice *big.Rat
	// PriceSource names the object that states the price; empty where several do.
	PriceSource string
	// Avoided is the price of the bytes that compression kept off the wire. What compression cost is not deducted: it is
	// in charges. nil where the meter has no such figure.
	Avoided *big.Rat
	// Estimated says that the quantity was not measured.
	Estimated bool
}

// PeriodName is the day as YYYY-MM-DD, or the month as YYYY-MM.
func (c *Charge) PeriodName() string {
	if c.Begin.AddDate(0, 0, 1).Equal(c.End) {
		return c.Begin.Format(time.DateOnly)
	}
	return c.Begin.Format("2006-01")
}

// Source says whose charges they are.
type Source struct {
	// Cluster is its name, the billing account.
	Cluster string
	// Provider is the name of who runs the cluster and charges for it.
	Provider string
}

// Table is a dataset. Its columns and rows are in the order in which they are written.
type Table struct {
	Columns []Column
	// Rows have one cell for each column; nil is null.
	Rows [][]*string
}

// Column of a Table.
type Column struct {
	// Name is the Column ID of the specification, or begins with x_.
	Name string
	Type Type
}

// Type of the values of a column.
type Type string

// The types of the specification, and what custom columns have besides.
const (
	String   Type = "String"
	Decimal  Type = "Decimal"
	DateTime Type = "Date/Time"
	JSON     Type = "JSON"
	Boolean  Type = "Boolean"
)
