// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tariff

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/windows"
)

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// Validate checks what the API server cannot, and again what it can, since objects may be older than a rule. The error
// is an *InvalidError.
func Validate(t *v1alpha1.Tariff) error {
	if !currency.MatchString(t.Spec.Currency) {
		return &InvalidError{t.Name, "spec.currency", fmt.Sprintf(
			"must be a code of ISO 4217, not %q; write for example EUR", t.Spec.Currency,
		)}
	}
	prices := map[string]string{
		"spec.cpuHour.price": t.Spec.CPUHour.Price, "spec.networkGiB.price": t.Spec.NetworkGiB.Price,
	}
	for field, price := range map[string]string{
		"spec.storageGiBMonth":           t.Spec.StorageGiBMonth,
		"spec.objectStore.writeRequests": t.Spec.ObjectStore.WriteRequests,
		"spec.objectStore.readRequests":  t.Spec.ObjectStore.ReadRequests,
		"spec.objectStore.egressGiB":     t.Spec.ObjectStore.EgressGiB,
	} {
		if price != "" {
			prices[field] = price
		}
	}
	for i, rule := range t.Spec.CPUHour.Rules {
		prices[fmt.Sprintf("spec.cpuHour.rules[%d].price", i)] = rule.Price
		for j, window := range rule.Windows {
			if fix := windows.Invalid(times(window)); fix != "" {
				return &InvalidError{t.Name, fmt.Sprintf("spec.cpuHour.rules[%d].windows[%d]", i, j), fix}
			}
		}
	}
	for i, rule := range t.Spec.NetworkGiB.Rules {
		prices[fmt.Sprintf("spec.networkGiB.rules[%d].price", i)] = rule.Price
	}
	for _, field := range slices.Sorted(maps.Keys(prices)) {
		if _, err := ParsePrice(prices[field]); err != nil {
			return &InvalidError{t.Name, field, err.Error() + "; write for example \"0.031\""}
		}
	}
	_, err := location(t)
	return err
}

// Unreachable names a rule that never applies because an earlier one matches all that it does; empty if there is none
// that is seen at once. It is no error: the first that matches applies.
func Unreachable(t *v1alpha1.Tariff) string {
	const message = "spec.%s.rules[%d] never applies, because rules[%d] before it matches all that it does; put it " +
		"first, or remove it"
	for i, rule := range t.Spec.CPUHour.Rules {
		for j, before := range t.Spec.CPUHour.Rules[:i] {
			if selects(before.NodeSelector, rule.NodeSelector) &&
				(len(before.Windows) == 0 || reflect.DeepEqual(before.Windows, rule.Windows)) {
				return fmt.Sprintf(message, "cpuHour", i, j)
			}
		}
	}
	for i, rule := range t.Spec.NetworkGiB.Rules {
		for j, before := range t.Spec.NetworkGiB.Rules[:i] {
			all := len(before.Peers) == 0 || len(rule.Peers) > 0 && !slices.ContainsFunc(rule.Peers, func(peer string) bool {
				return !slices.Contains(before.Peers, peer)
			})
			if all && (before.Direction == "" || before.Direction == rule.Direction) {
				return fmt.Sprintf(message, "networkGiB", i, j)
			}
		}
	}
	return ""
}
