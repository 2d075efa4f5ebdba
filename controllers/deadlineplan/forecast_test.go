// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package deadlineplan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/deadlineplan"
	"github.com/lighterage/lighterage/controllers/windows"
)

func TestForecast(t *testing.T) {
	mi := resource.MustParse("1Mi")
	night := v1alpha1.ScheduleWindow{Start: "22:00", End: "06:00"}
	slow := v1alpha1.ScheduleWindow{Start: "23:00", End: "01:00", BandwidthLimit: &mi}
	type list = []v1alpha1.ScheduleWindow
	nights, both := list{night}, list{night, slow}
	hours := func(active, wire int) deadlineplan.Work {
		return deadlineplan.Work{Active: time.Duration(active) * time.Hour, WireBytes: int64(wire) * 3600 << 20}
	}
	for name, c := range map[string]struct {
		work    deadlineplan.Work
		limit   *resource.Quantity
		zone    string
		windows list
		from    string
		end     string // empty: never
	}{
		"at any time":             {hours(1, 0), nil, "", nil, "05-04 12:00", "05-04 13:00"},
		"limited":                 {hours(0, 2), &mi, "", nil, "05-04 12:00", "05-04 14:00"},
		"slower than its limit":   {hours(3, 2), &mi, "", nil, "05-04 12:00", "05-04 15:00"},
		"when a window opens":     {hours(1, 0), nil, "", nights, "05-04 12:00", "05-04 23:00"},
		"nothing, in a window":    {hours(0, 0), nil, "", nights, "05-04 23:00", "05-04 23:00"},
		"nothing, before one":     {hours(0, 0), nil, "", nights, "05-04 12:00", "05-04 22:00"},
		"over the next window":    {hours(10, 0), nil, "", nights, "05-04 12:00", "05-06 00:00"},
		"a night of seven hours":  {hours(8, 0), nil, "Europe/Berlin", nights, "03-28 20:00", "03-29 21:00"},
		"a night of nine hours":   {hours(9, 0), nil, "Europe/Berlin", nights, "10-24 18:00", "10-25 05:00"},
		"slow for two hours":      {hours(1, 2), nil, "", both, "05-04 22:30", "05-05 00:00"},
		"slower than that":        {hours(1, 8), nil, "", both, "05-04 22:30", "05-05 01:15"},
		"more than a year":        {hours(9000, 0), nil, "", nil, "05-04 12:00", ""},
		"more than windows carry": {hours(8000, 0), nil, "", nights, "05-04 12:00", ""},
		"absurd":                  {deadlineplan.Work{Active: math.MaxInt64}, &mi, "", nights, "05-04 12:00", ""},
		"absurd bytes":            {deadlineplan.Work{WireBytes: math.MaxInt64}, &mi, "", nights, "05-04 12:00", ""},
		"less than nothing": {
			deadlineplan.Work{Active: math.MinInt64, WireBytes: -1}, &mi, "", nil, "05-04 12:00", "05-04 12:00",
		},
		"an unknown zone":      {hours(1, 0), nil, "Mars/Olympus", nights, "05-04 12:00", ""},
		"shorter than a start": {hours(1, 0), nil, "", list{{Start: "22:00", End: "22:01"}}, "05-04 12:00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := v1alpha1.TransferSpec{BandwidthLimit: c.limit}
			if c.windows != nil {
				spec.Schedule = &v1alpha1.TransferSchedule{TimeZone: c.zone, Windows: c.windows}
			}
			end, ok := deadlineplan.Forecast(&spec, c.work, minute(t, c.from))
			got := ""
			if ok {
				got = end.UTC().Format("01-02 15:04")
			}
			if got != c.end {
				t.Errorf("it ends at %q, want %q", got, c.end)
			}
		})
	}
}

func minute(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04", "2026-"+text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestForecastOracle compares forecasts with the sum of what each minute carries.
func TestForecastOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // The same numbers each time.
	for name, begin := range map[string]string{
		"UTC": "05-04 00:00", "Europe/Berlin": "03-27 12:00", "America/New_York": "10-30 07:00",
		"Australia/Lord_Howe": "04-03 00:00",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			var chosen []v1alpha1.ScheduleWindow
			for range 1 + random.IntN(4) {
				from := random.IntN(24 * 60)
				to := (from + 5 + random.IntN(24*60-5)) % (24 * 60)
				w := v1alpha1.ScheduleWindow{
					Start: fmt.Sprintf("%02d:%02d", from/60, from%60), End: fmt.Sprintf("%02d:%02d", to/60, to%60),
				}
				if random.IntN(2) > 0 {
					w.BandwidthLimit = resource.NewQuantity(int64(1+random.IntN(3))<<20, resource.BinarySI)
				}
				chosen = append(chosen, w)
			}
			spec := v1alpha1.TransferSpec{Schedule: &v1alpha1.TransferSchedule{TimeZone: name, Windows: chosen}}
			work := deadlineplan.Work{
				Active:    time.Duration(1+random.IntN(30*60)) * time.Minute,
				WireBytes: int64(random.IntN(30*3600)) << 20,
			}
			start := minute(t, begin).Add(time.Duration(random.IntN(48*60)) * time.Minute)
			end, ok := deadlineplan.Forecast(&spec, work, start)
			if !ok {
				t.Fatalf("%s %+v: no end of %+v", name, chosen, work)
			}
			at := start
			for left := 1.0; left > 1e-9 && at.Before(start.Add(90*24*time.Hour)); at = at.Add(time.Minute) {
				whole, open := work.Active, false
				for _, w := range chosen {
					if !windows.Includes(w, at.In(zone)) {
						continue
					}
					open = true
					if q := w.BandwidthLimit; q != nil {
						whole = max(whole, time.Duration(float64(work.WireBytes)/float64(q.Value())*float64(time.Second)))
					}
				}
				if open {
					left -= float64(time.Minute) / float64(whole)
				}
			}
			if end.After(at.Add(time.Second)) || end.Before(at.Add(-time.Minute-time.Second)) {
				t.Fatalf("%s %+v from %s: %+v ends at %s, and by the minute at %s", name, chosen, start, work, end, at)
			}
		}
	}
}
