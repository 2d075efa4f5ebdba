// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package share_test

import (
	"math"
	"testing"

	"github.com/lighterage/lighterage/agent/share"
)

var all = math.Inf(1)

func weightsOf(weights map[string]float64) func(string) float64 {
	return func(namespace string) float64 {
		if w, has := weights[namespace]; has {
			return w
		}
		return 100
	}
}

func TestDivide(t *testing.T) {
	weighted := map[string]float64{"bank": 300, "shop": 200}
	for name, c := range map[string]struct {
		claims []share.Claim
		want   []float64
	}{
		"nobody":          {nil, nil},
		"alone":           {[]share.Claim{{"bank", all}}, []float64{900}},
		"alone and idle":  {[]share.Claim{{"bank", 0}}, []float64{900}},
		"two by weight":   {[]share.Claim{{"bank", all}, {"shop", all}}, []float64{540, 360}},
		"three by weight": {[]share.Claim{{"bank", all}, {"shop", all}, {"web", all}}, []float64{450, 300, 150}},
		"one wants little": {
			[]share.Claim{{"bank", 100}, {"shop", all}, {"web", all}}, []float64{100, 1600 / 3.0, 800 / 3.0},
		},
		"two want little":   {[]share.Claim{{"bank", 100}, {"shop", 50}, {"web", all}}, []float64{100, 50, 750}},
		"nobody wants much": {[]share.Claim{{"bank", 90}, {"shop", 90}, {"web", 120}}, []float64{390, 290, 220}},
		"many of one namespace": {
			[]share.Claim{{"bank", all}, {"shop", all}, {"shop", all}, {"shop", all}}, []float64{540, 120, 120, 120},
		},
		"one of a namespace wants little": {
			[]share.Claim{{"bank", all}, {"shop", 60}, {"shop", all}}, []float64{540, 60, 300},
		},
	} {
		got := share.Divide(900, c.claims, weightsOf(weighted))
		if len(got) != len(c.want) {
			t.Errorf("%s: %v", name, got)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-6 {
				t.Errorf("%s: %v, want %v", name, got, c.want)
				break
			}
		}
	}
}

// FuzzDivide: shares are never negative, sum up to the capacity, and give nobody who wants more than its part less than
// that.
func FuzzDivide(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 0, 255, 7, 9}, uint16(900))
	f.Fuzz(func(t *testing.T, raw []byte, capacity uint16) {
		var claims []share.Claim
		weights := map[string]float64{}
		sum := 0.0
		for i := 0; i+1 < len(raw) && len(claims) < 64; i += 2 {
			namespace := string('a' + rune(raw[i]%5))
			if weights[namespace] == 0 {
				weights[namespace] = float64(1 + int(raw[i])*40)
				sum += weights[namespace]
			}
			wants := float64(raw[i+1]) * 8
			if raw[i+1] == 255 {
				wants = all
			}
			claims = append(claims, share.Claim{Namespace: namespace, Wants: wants})
		}
		got := share.Divide(float64(capacity), claims, weightsOf(weights))
		total := 0.0
		parts, wanted := map[string]float64{}, map[string]float64{}
		for i, s := range got {
			if s < 0 || math.IsNaN(s) || math.IsInf(s, 0) {
				t.Fatalf("shares %v of %+v", got, claims)
			}
			total += s
			parts[claims[i].Namespace] += s
			wanted[claims[i].Namespace] += claims[i].Wants
		}
		if len(claims) > 0 && math.Abs(total-float64(capacity)) > 1e-6*float64(capacity)+1e-6 {
			t.Fatalf("%v are given of %d", total, capacity)
		}
		for namespace, part := range parts {
			fair := float64(capacity) * weights[namespace] / sum
			if part < min(fair, wanted[namespace])*(1-1e-9)-1e-9 {
				t.Fatalf("namespace %s has %v, its part is %v, and it wants %v", namespace, part, fair, wanted[namespace])
			}
		}
	})
}
