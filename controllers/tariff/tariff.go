// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tariff turns CPU time and bytes into money: it finds the Tariff that applies and the prices that are in force
// in it for a node, a time, a Peer and a direction, and it prices what was used. It is pure.
//
// Rules of a Tariff may overlap: the first that matches applies. They cannot leave a gap, since each list of rules has
// a price beside it for all else.
package tariff

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// NotFoundError is returned when the Tariff that is named does not exist.
type NotFoundError struct {
	Name string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("Tariff %q does not exist; create it, or name another in spec.tariffName", e.Name)
}

// InvalidError is returned for a value of a Tariff that cannot be used.
type InvalidError struct {
	// Tariff is its name.
	Tariff string
	// Field is the path of the value.
	Field string
	// Fix says what it must be.
	Fix string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("Tariff %q: %s %s", e.Tariff, e.Field, e.Fix)
}

// Find returns the Tariff with a name, or the default one where the name is empty, and nil if that does not exist
// either. The error is a *NotFoundError or an *InvalidError.
func Find(tariffs []v1alpha1.Tariff, name string) (*v1alpha1.Tariff, error) {
	found, _ := FindDefault(tariffs)
	if name != "" {
		i := slices.IndexFunc(tariffs, func(t v1alpha1.Tariff) bool { return t.Name == name })
		if i < 0 {
			return nil, &NotFoundError{Name: name}
		}
		found = &tariffs[i]
	}
	if found == nil {
		return nil, nil
	}
	if err := Validate(found); err != nil {
		return nil, err
	}
	return found, nil
}

// FindDefault returns the Tariff that applies where none is named, nil if there is none. Of several the oldest is it
// (the first by name among those of one second); several is true then.
func FindDefault(tariffs []v1alpha1.Tariff) (chosen *v1alpha1.Tariff, several bool) {
	for i := range tariffs {
		candidate := &tariffs[i]
		if !IsDefault(candidate) {
			continue
		}
		several = chosen != nil
		if chosen == nil || older(candidate, chosen) {
			chosen = candidate
		}
	}
	return chosen, several
}

// IsDefault reports whether the Tariff is annotated as the default, of which there may be more.
func IsDefault(t *v1alpha1.Tariff) bool {
	return t.Annotations[v1alpha1.DefaultTariffAnnotation] == "true"
}

func older(a, b *v1alpha1.Tariff) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// Query is for the prices of one thing.
type Query struct {
	// Tariffs of the cluster.
	Tariffs []v1alpha1.Tariff
	// Name of the Tariff that the policy names; empty for the default one.
	Name string
	// Stated are prices that the policy states itself; nil if it does not. They are in force at all times.
	Stated *v1alpha1.PricesStatus
	// Node has the labels of the node; nil while that is not known, and then rules for nodes do not match.
	Node map[string]string
	// Peer is the other side's; empty for this cluster and for clients.
	Peer string
	// Direction of the traffic.
	Direction v1alpha1.Direction
	// Time that is asked about.
	Time time.Time
}

// Resolve returns the prices in force and where they come from; nil if there are none. The error is a *NotFoundError or
// an *InvalidError.
func Resolve(q Query) (*v1alpha1.PricesStatus, error) {
	if q.Stated != nil {
		return q.Stated.DeepCopy(), nil
	}
	found, err := Find(q.Tariffs, q.Name)
	if found == nil || err != nil {
		return nil, err
	}
	zone, err := location(found)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.PricesStatus{
		Currency: found.Spec.Currency, CPUHour: cpuHour(found.Spec.CPUHour, q.Node, q.Time.In(zone)),
		NetworkGiB: networkGiB(found.Spec.NetworkGiB, q.Peer, q.Direction),
		Source:     v1alpha1.PricesOfTariff, Name: found.Name, UID: found.UID, Generation: found.Generation,
	}, nil
}

// Stated are the prices of a CompressionPolicy as Query takes them; nil when it states none.
func Stated(prices *v1alpha1.Prices, name string, uid types.UID, generation int64) *v1alpha1.PricesStatus {
	if prices == nil {
		return nil
	}
	return &v1alpha1.PricesStatus{
		Currency: prices.Currency, CPUHour: prices.CPUHour, NetworkGiB: prices.NetworkGiB,
		Source: v1alpha1.PricesOfPolicy, Name: name, UID: uid, Generation: generation,
	}
}

func cpuHour(price v1alpha1.CPUHourPrice, node map[string]string, local time.Time) string {
	for _, rule := range price.Rules {
		if selects(rule.NodeSelector, node) && (len(rule.Windows) == 0 || slices.ContainsFunc(
			rule.Windows, func(w v1alpha1.TariffWindow) bool { return includes(w, local) },
		)) {
			return rule.Price
		}
	}
	return price.Price
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

func networkGiB(price v1alpha1.NetworkGiBPrice, peer string, direction v1alpha1.Direction) string {
	for _, rule := range price.Rules {
		if (len(rule.Peers) == 0 || slices.Contains(rule.Peers, peer)) &&
			(rule.Direction == "" || rule.Direction == direction) {
			return rule.Price
		}
	}
	return price.Price
}

// Mean are prices with the mean of several prices of a CPU hour and of a GiB, all else being as in the first; nil for
// none.
func Mean(all []*v1alpha1.PricesStatus) *v1alpha1.PricesStatus {
	if len(all) == 0 {
		return nil
	}
	mean := all[0].DeepCopy()
	for _, price := range []func(*v1alpha1.PricesStatus) *string{
		func(p *v1alpha1.PricesStatus) *string { return &p.CPUHour },
		func(p *v1alpha1.PricesStatus) *string { return &p.NetworkGiB },
	} {
		if !slices.ContainsFunc(all, func(p *v1alpha1.PricesStatus) bool { return *price(p) != *price(mean) }) {
			continue
		}
		sum := uint64(0)
		for _, prices := range all {
			nanos, err := ParsePrice(*price(prices))
			if err != nil {
				return nil
			}
			sum += nanos
		}
		*price(mean) = billionths(sum / uint64(len(all)))
	}
	return mean
}
