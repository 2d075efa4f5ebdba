// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestLogsForbidden: who may not list pods is told for which right to ask.
func TestLogsForbidden(t *testing.T) {
	p, _, _ := opened(t, func(kind string) error {
		if kind == "Transfer" {
			return nil
		}
		return apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	}, running("ledger"))
	l := &logging{plugin: p, kind: transfers, name: "ledger"}
	if _, err := l.pods(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "pods/log") {
		t.Error(err)
	}
}
