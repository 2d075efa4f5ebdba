// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"encoding/csv"
	"fmt"
	"io"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/table"
)

// Object is what one object cost, as its status shows it: of its last run, or since it was created.
type Object struct {
	// Object as KIND NAMESPACE/NAME.
	Object string `json:"object"`
	// Run that it is of; empty for kinds that have none.
	Run  string              `json:"run,omitempty"`
	Cost v1alpha1.CostStatus `json:"cost"`
}

// WriteCSV writes a line for each set of prices, newest first, without totals.
func (o Object) WriteCSV(to io.Writer) error {
	records := [][]string{{"since", "prices", "currency", "cpu", "network", "saved", "cpuSeconds", "wireBytes"}}
	for i := range o.Cost.Periods {
		p := &o.Cost.Periods[i]
		records = append(records, []string{
			since(p), source(&p.Prices), p.Prices.Currency, p.CPU, p.Network, p.Saved, p.CPUSeconds, fmt.Sprint(p.WireBytes),
		})
	}
	if err := csv.NewWriter(to).WriteAll(records); err != nil {
		return fmt.Errorf("writing the cost: %w", err)
	}
	return nil
}

// WriteText writes a table of the same lines, and the total of those that have the currency in force.
func (o Object) WriteText(to io.Writer) error {
	title := o.Object
	if o.Run != "" {
		title += ", run " + o.Run
	}
	rows := table.Rows{{"SINCE", "PRICES", "CURRENCY", "CPU", "NETWORK", "SAVED", "CPU-TIME", "WIRE"}}
	for i := range o.Cost.Periods {
		p := &o.Cost.Periods[i]
		seconds, err := parseDecimal(p.CPUSeconds)
		if err != nil {
			return fmt.Errorf("%s: cpuSeconds: %w", o.Object, err)
		}
		rows.Add(append(dashes([]string{
			since(p), source(&p.Prices), p.Prices.Currency, p.CPU, p.Network, p.Saved,
		}), "~"+duration(seconds), table.Bytes(p.WireBytes))...)
	}
	rows.Add("TOTAL", "", o.Cost.Currency, o.Cost.CPU, o.Cost.Network, o.Cost.Saved)
	said := table.Printable(title) + "\n\n" + rows.Text("") +
		"\n~ CPU includes the network stack's, which is estimated. SAVED is in no cost.\n"
	if _, err := io.WriteString(to, said); err != nil {
		return fmt.Errorf("writing the cost: %w", err)
	}
	return nil
}

func since(p *v1alpha1.CostPeriod) string {
	if p.StartTime == nil {
		return ""
	}
	return p.StartTime.UTC().Format(time.RFC3339)
}

// source names the object that states prices.
func source(p *v1alpha1.PricesStatus) string {
	name := string(p.Source)
	if p.Name != "" {
		name += "/" + p.Name
	}
	if p.Generation > 0 {
		name += fmt.Sprintf("@%d", p.Generation)
	}
	return name
}
