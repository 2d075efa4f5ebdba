// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tariff

import (
	"slices"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/windows"
)

// Course is how the prices of one thing change with time.
type Course struct {
	// Currency of the prices.
	Currency string
	network  float64
	// rules in the order in which they apply; the last one has no windows.
	rules []priced
}

// priced is a price of a CPU hour within windows; nil: at all times.
type priced struct {
	cpuHour float64
	within  *windows.Windows
}

// Follow returns the course of the prices of a query, whose Time means nothing; nil if there are none. The error is a
// *NotFoundError or an *InvalidError.
func Follow(q Query) (*Course, error) {
	prices, err := Resolve(q)
	if prices == nil || err != nil {
		return nil, err
	}
	rates, ok := Parse(prices)
	if !ok {
		return nil, &InvalidError{prices.Name, "prices", "cannot be used; write for example \"0.031\""}
	}
	course := &Course{Currency: prices.Currency, network: rates.NetworkGiB}
	if q.Stated != nil {
		course.rules = []priced{{cpuHour: rates.CPUHour}}
		return course, nil
	}
	found, err := Find(q.Tariffs, q.Name)
	if err != nil {
		return nil, err
	}
	zone, err := location(found)
	if err != nil {
		return nil, err
	}
	// Validate has checked prices and windows.
	for _, rule := range append(slices.Clone(found.Spec.CPUHour.Rules), v1alpha1.CPUHourRule{Price: found.Spec.CPUHour.Price}) {
		if !selects(rule.NodeSelector, q.Node) {
			continue
		}
		nanos, err := ParsePrice(rule.Price)
		if err != nil {
			return nil, &InvalidError{found.Name, "spec.cpuHour", err.Error()}
		}
		next := priced{cpuHour: float64(nanos) / nanosPerUnit}
		if len(rule.Windows) > 0 {
			var all []v1alpha1.ScheduleWindow
			for _, w := range rule.Windows {
				all = append(all, times(w))
			}
			if next.within, err = windows.Of(all, zone); err != nil {
				return nil, &InvalidError{found.Name, "spec.cpuHour.rules", err.Error()}
			}
		}
		if course.rules = append(course.rules, next); next.within == nil {
			break
		}
	}
	return course, nil
}

// At are the rates of a time, and until when they certainly stay so: zero for ever.
func (c *Course) At(at time.Time) (rates Rates, until time.Time) {
	rates.NetworkGiB = c.network
	for _, rule := range c.rules {
		open := true
		if rule.within != nil {
			var end time.Time
			if open, end = rule.within.At(at); !end.IsZero() && (until.IsZero() || end.Before(until)) {
				until = end
			}
		}
		if open {
			rates.CPUHour = rule.cpuHour
			break // what comes after does not apply until then
		}
	}
	return rates, until
}
