// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
)

const exposed = `# HELP reconciles How many.
# TYPE reconciles counter
reconciles{controller="queue",result="success"} 4
reconciles{controller="transfer",result="error"} 1
reconciles{controller="transfer",result="success"} 1e+02
reconciles_seconds_bucket{controller="transfer",le="0.1"} 90
reconciles_seconds_bucket{controller="transfer",le="1"} 98
reconciles_seconds_bucket{controller="transfer",le="+Inf"} 100
up 1
`

func TestMetrics(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(exposed))
	}))
	defer server.Close()
	if _, err := scrape(t.Context(), server.Client(), server.URL, ""); err == nil {
		t.Error("what nobody may see was taken for metrics")
	}
	m, err := scrape(t.Context(), server.Client(), server.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Of("reconciles", "").Sum(); got != 105 {
		t.Errorf("%v reconciles", got)
	}
	if got := m.Of("reconciles", "controller", "transfer", "delivery").Sum(); got != 101 {
		t.Errorf("%v reconciles of Transfers", got)
	}
	grown := m.Since(Metrics{`up`: 1, `reconciles{controller="queue",result="success"}`: 3})
	if grown["up"] != 0 || grown.Of("reconciles", "controller", "queue").Sum() != 1 {
		t.Errorf("grown by %v", grown)
	}
	times := m.Of("reconciles_seconds_bucket", "controller", "transfer")
	for q, want := range map[float64]float64{0.45: 0.05, 0.94: 0.55, 0.99: 1} {
		if got := times.Quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(Metrics{}.Quantile(0.5)) || !math.IsNaN(times.Since(times).Quantile(0.5)) {
		t.Error("of nothing there is a quantile")
	}
}
