// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewaycost

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Interval is how often gateways write what they spent, and the manager reads it.
const Interval = time.Minute

// Watch tells what a GiB costs that passes a gateway. It is a manager.Runnable.
type Watch struct {
	// Reader reads without a cache.
	Reader client.Reader
	// Namespace of the operator.
	Namespace string
	Clock     clock.WithTicker
	// Tell is called with the seconds for a GiB whenever they have changed. They are 0 at first.
	Tell func(perGiB float64)
}

// +kubebuilder:rbac:groups="",namespace=lighterage-system,resources=configmaps,verbs=get

// Start is of manager.Runnable.
func (w *Watch) Start(ctx context.Context) error {
	ticker := w.Clock.NewTicker(Interval)
	defer ticker.Stop()
	known := 0.0
	for {
		if rate, err := w.look(ctx); err != nil {
			log.FromContext(ctx).Error(err, "What gateways spend is not known; the last known rate stays")
		} else if rate != known {
			known = rate
			w.Tell(rate)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// look returns 0 where there is no gateway.
func (w *Watch) look(ctx context.Context) (float64, error) {
	totals := &corev1.ConfigMap{}
	err := w.Reader.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: Name}, totals)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading ConfigMap %s/%s: %w", w.Namespace, Name, err)
	}
	return read(totals).SecondsPerGiB(), nil
}
