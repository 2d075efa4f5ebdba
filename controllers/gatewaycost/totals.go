// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gatewaycost is what gateways spend on passing bytes. The gateways of a cluster add it up in a ConfigMap, and
// the manager reads from there what a GiB costs.
package gatewaycost

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Name of the ConfigMap in the operator's namespace. It is installed with the gateway.
	Name = "lighterage-gateway-cost"

	cpuKey, bytesKey = "cpuNanoseconds", "passedBytes"

	gib = 1 << 30
	// enough bytes to tell a rate from.
	enough = 64 << 20
	// remembered bytes: when there are more, what was before counts half.
	remembered = 1 << 40
	// maxPerGiB in seconds: what exceeds it is not believed.
	maxPerGiB = 100
)

// Totals are what passing so many bytes has taken.
type Totals struct {
	CPU   time.Duration
	Bytes int64
}

// Plus adds up two totals, of which neither is negative.
func (t Totals) Plus(o Totals) Totals {
	t.CPU, t.Bytes = t.CPU+o.CPU, t.Bytes+o.Bytes
	for t.Bytes > remembered {
		t.CPU, t.Bytes = t.CPU/2, t.Bytes/2
	}
	return t
}

// SecondsPerGiB is 0 when too little has passed to tell, and when it is implausible.
func (t Totals) SecondsPerGiB() float64 {
	if t.Bytes < enough {
		return 0
	}
	rate := t.CPU.Seconds() / float64(t.Bytes) * gib
	if rate > maxPerGiB {
		return 0
	}
	return rate
}

// read is zero for what none of the gateways can have written.
func read(from *corev1.ConfigMap) Totals {
	nanos, err := strconv.ParseInt(from.Data[cpuKey], 10, 64)
	bytes, err2 := strconv.ParseInt(from.Data[bytesKey], 10, 64)
	if err != nil || err2 != nil || nanos < 0 || bytes < 0 || bytes > remembered ||
		nanos > maxPerGiB*remembered/gib*int64(time.Second) {
		return Totals{}
	}
	return Totals{CPU: time.Duration(nanos), Bytes: bytes}
}

// Add adds to what is in the ConfigMap of a namespace. It fails with a conflict where another gateway does so at the
// same time.
func Add(ctx context.Context, c client.Client, reader client.Reader, namespace string, spent Totals) error {
	totals := &corev1.ConfigMap{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, totals); err != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, Name, err)
	}
	sum := read(totals).Plus(spent)
	totals.Data = map[string]string{
		cpuKey: strconv.FormatInt(int64(sum.CPU), 10), bytesKey: strconv.FormatInt(sum.Bytes, 10),
	}
	if err := c.Update(ctx, totals); err != nil {
		return fmt.Errorf("updating ConfigMap %s/%s: %w", namespace, Name, err)
	}
	return nil
}
