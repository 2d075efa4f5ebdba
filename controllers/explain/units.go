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

func size64(n int64) string { return size(new(float64(n))) }

// size writes bytes for people.
func size(n *float64) string {
	if n == nil {
		return unknown
	}
	value := *n
	for _, unit := range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 && unit == "B" {
			return fmt.Sprintf("%.0f B", value)
		}
		if value < 1024 {
			return fmt.Sprintf("%.2f %s", value, unit)
		}
		value /= 1024
	}
	return fmt.Sprintf("%.2f PiB", value)
}

// rate writes bytes a second for people, in decimal units as networks have them.
func rate(perSecond float64) string {
	switch {
	case perSecond >= 1e9:
		return fmt.Sprintf("%.2f GB/s", perSecond/1e9)
	case perSecond >= 1e6:
		return fmt.Sprintf("%.1f MB/s", perSecond/1e6)
	default:
		return fmt.Sprintf("%.1f kB/s", perSecond/1e3)
	}
}

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
