// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func seconds(s *float64) string {
	switch {
	case s == nil:
		return unknown
	case *s >= 100:
		return fmt.Sprintf("%.0f s", *s)
	case *s >= 1 || *s == 0:
		return fmt.Sprintf("%.1f s", *s)
	default:
		return fmt.Sprintf("%.3g s", *s)
	}
}

func money(amount *float64) string {
	switch {
	case amount == nil:
		return unknown
	case *amount != 0 && math.Abs(*amount) < 0.01:
		return strconv.FormatFloat(*amount, 'f', 6, 64)
	default:
		return fmt.Sprintf("%.4f", *amount)
	}
}

func when(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}
