// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestAgentsTakeFigures: agents of both ends find the figures of their nodes in their configuration.
func TestAgentsTakeFigures(t *testing.T) {
	for _, c := range []*cluster{east, west} {
		c.profiled(t)
	}
	t.Parallel()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	west.claim(t, namespace, "copy", "", "100Mi")
	east.sh(t, namespace, "source", "head -c 6000000 /dev/urandom > /data/noise")
	grant(t, namespace, "copy")
	transfer := newTransfer(namespace, "ledger")
	limit := resource.MustParse("512Ki") // so that it takes long enough to read what the agents log
	transfer.Spec.BandwidthLimit = &limit
	if err := east.Create(context.Background(), transfer); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*cluster{east, west} {
		eventually(t, 2*time.Minute, "an agent's choice of engines in "+c.name, func() (bool, string) {
			log, err := c.command("-n", namespace, "logs", "-l", "app.kubernetes.io/name=lighterage-agent").CombinedOutput()
			return strings.Contains(string(log), `"measuredBy":"a node agent"`), fmt.Sprintf("%s, %v", log, err)
		})
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, "True", "")
}
