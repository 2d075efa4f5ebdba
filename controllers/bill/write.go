// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/controllers/table"
)

// names of figures in JSON and CSV, and in messages.
var names = [figures]string{
	"operations", "plainBytes", "wireBytes", "storedBytes", "avoidedBytes", "storageByteHours",
	"storeWriteRequests", "storeReadRequests", "storeSentBytes", "storeReceivedBytes", "cpuSeconds",
	"compressSeconds", "decompressSeconds", "idleSeconds", "networkCPUSeconds", "cpu", "networkCPU", "network", "storage",
	"storeWrites", "storeReads", "storeEgress", "avoided",
}

// isMoney is true of figures that have a currency, isCount of integers.
func (f figure) isMoney() bool { return f >= cpuCost }
func (f figure) isCount() bool { return f < cpuSeconds }

// total is the name of the sum of all that is paid, and estimated that of what says that estimates are in it.
const (
	total     = "cost"
	estimated = "estimated"
)

// estimated reports whether the cost or the CPU time has an estimate in it.
func (e *Entry) estimated() bool { return e.sums.of(networkCPUSeconds, networkCPUCost).Sign() != 0 }

// text of a figure with all of its digits; empty for money without a currency.
func (e *Entry) text(f figure) string {
	if f.isMoney() && e.currency == "" {
		return ""
	}
	return digits(e.sums.of(f))
}

// MarshalJSON writes the dimensions that are not empty, the currency, and the figures: counts as numbers, all else as
// decimals in strings.
func (e Entry) MarshalJSON() ([]byte, error) {
	object := map[string]any{estimated: e.estimated()}
	for i, d := range e.by {
		if e.keys[i] != "" {
			object[string(d)] = e.keys[i]
		}
	}
	if e.currency != "" {
		object["currency"], object[total] = e.currency, digits(e.sums.cost())
	}
	for f := range figures {
		text := e.text(f)
		switch {
		case f.isCount():
			object[names[f]] = json.Number(text)
		case text != "":
			object[names[f]] = text
		}
	}
	return json.Marshal(object)
}

// WriteCSV writes the entries with a header, without totals. Money of what was not charged is empty.
func (b Bill) WriteCSV(to io.Writer) error {
	out := csv.NewWriter(to)
	var header []string
	for _, d := range b.By {
		header = append(header, string(d))
	}
	header = append(append(header, "currency", total, estimated), names[:]...)
	records := [][]string{header}
	for _, e := range b.Entries {
		cost := ""
		if e.currency != "" {
			cost = digits(e.sums.cost())
		}
		record := append(slices.Clone(e.keys), e.currency, cost, fmt.Sprint(e.estimated()))
		for f := range figures {
			record = append(record, e.text(f))
		}
		records = append(records, record)
	}
	if err := out.WriteAll(records); err != nil {
		return fmt.Errorf("writing the bill: %w", err)
	}
	return nil
}

// WriteText writes a table with the totals below.
func (b Bill) WriteText(to io.Writer) error {
	var header []string
	for _, d := range b.By {
		header = append(header, strings.ToUpper(string(d)))
	}
	rows := table.Rows{append(
		header, "CURRENCY", "COST", "CPU", "NETWORK-CPU", "NETWORK", "STORAGE", "STORES", "AVOIDED", "CPU-TIME", "PLAIN",
		"WIRE",
	)}
	anyEstimate := false
	for _, e := range b.Entries {
		rows.Add(append(dashes(e.keys), e.cells()...)...)
		anyEstimate = anyEstimate || e.estimated()
	}
	for _, e := range b.Totals {
		keys := make([]string, len(b.By))
		if len(keys) > 0 {
			keys[0] = "TOTAL"
		}
		rows.Add(append(keys, e.cells()...)...)
	}
	said := rows.Text("")
	if anyEstimate {
		said += "\n~ includes CPU time of the network stack, which is estimated.\n"
	}
	if slices.ContainsFunc(b.Totals, func(e Entry) bool { return e.currency == "" }) {
		said += "\nRows without a currency were not charged: no prices were in force.\n"
	}
	if _, err := io.WriteString(to, said); err != nil {
		return fmt.Errorf("writing the bill: %w", err)
	}
	return nil
}

// cells of an entry in the table.
func (e *Entry) cells() []string {
	mark := ""
	if e.estimated() {
		mark = "~"
	}
	cells := []string{
		e.currency, mark + money(e.sums.cost()), money(e.sums.of(cpuCost)), mark + money(e.sums.of(networkCPUCost)),
	}
	for _, f := range [][]figure{
		{networkCost}, {storageCost}, {storeWritesCost, storeReadsCost, storeEgressCost}, {avoided},
	} {
		cells = append(cells, money(e.sums.of(f...)))
	}
	if e.currency == "" {
		cells = dashes(make([]string, len(cells)))
	}
	return append(
		cells, mark+duration(e.sums.of(cpuSeconds, networkCPUSeconds)), bytes(e.sums.of(plainBytes)),
		bytes(e.sums.of(wireBytes)),
	)
}

// dashes stand for what is empty.
func dashes(cells []string) []string {
	all := slices.Clone(cells)
	for i, cell := range all {
		if cell == "" {
			all[i] = "-"
		}
	}
	return all
}

// digits writes all digits: figures of Statements have 9 after the point at most.
func digits(value *big.Rat) string {
	text := value.FloatString(9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// cent is what is written with four digits; what is less has all of them.
var cent = big.NewRat(1, 100)

func money(amount *big.Rat) string {
	if amount.Sign() == 0 || new(big.Rat).Abs(amount).Cmp(cent) < 0 {
		return digits(amount)
	}
	return amount.FloatString(4)
}

func bytes(n *big.Rat) string {
	value, _ := n.Float64()
	return table.Bytes(value)
}

// duration writes CPU time in the unit that suits it.
func duration(seconds *big.Rat) string {
	value, _ := seconds.Float64()
	switch {
	case value >= 3600:
		return fmt.Sprintf("%.2fh", value/3600)
	case value >= 60:
		return fmt.Sprintf("%.2fmin", value/60)
	}
	return fmt.Sprintf("%.3gs", value)
}
