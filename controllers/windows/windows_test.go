// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package windows_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/windows"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loaded, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func at(t *testing.T, in *time.Location, text string) time.Time {
	t.Helper()
	parsed, err := time.ParseInLocation("2006-01-02 15:04:05", text, in)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func daily(start, end string, days ...v1alpha1.Weekday) v1alpha1.ScheduleWindow {
	return v1alpha1.ScheduleWindow{Days: days, Start: start, End: end}
}

func TestAt(t *testing.T) {
	night := daily("22:00", "06:00")
	for name, c := range map[string]struct {
		zone    string
		windows []v1alpha1.ScheduleWindow
		now     string
		open    bool
		lasts   string // empty: for ever
	}{
		"before":          {"UTC", []v1alpha1.ScheduleWindow{night}, "2026-05-04 12:00:30", false, "9h59m30s"},
		"at its start":    {"UTC", []v1alpha1.ScheduleWindow{night}, "2026-05-04 22:00:00", true, "8h0m0s"},
		"its last second": {"UTC", []v1alpha1.ScheduleWindow{night}, "2026-05-05 05:59:59", true, "1s"},
		"at its end":      {"UTC", []v1alpha1.ScheduleWindow{night}, "2026-05-05 06:00:00", false, "16h0m0s"},
		"overlapping windows are one": {
			"UTC", []v1alpha1.ScheduleWindow{night, daily("05:00", "07:00"), daily("07:00", "08:00")},
			"2026-05-04 23:00:00", true, "9h0m0s",
		},
		"no gap at all": {
			"UTC", []v1alpha1.ScheduleWindow{night, daily("06:00", "22:00")}, "2026-05-04 23:00:00", true, "",
		},
		"every day by its name": {
			"Europe/Berlin", []v1alpha1.ScheduleWindow{{Days: []v1alpha1.Weekday{
				"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
			}}}, "2026-05-04 23:00:00", true, "",
		},
		"a night that begins on Sunday ends on Monday": {
			"UTC", []v1alpha1.ScheduleWindow{daily("22:00", "06:00", v1alpha1.Sunday)}, "2026-05-04 01:00:00", true, "5h0m0s",
		},
		"whole days of a weekend": {
			"UTC", []v1alpha1.ScheduleWindow{{Days: []v1alpha1.Weekday{v1alpha1.Saturday, v1alpha1.Sunday}}},
			"2026-05-09 12:00:00", true, "36h0m0s",
		},
		"the next one is a week away": {
			"UTC", []v1alpha1.ScheduleWindow{daily("12:00", "13:00", v1alpha1.Monday)}, "2026-05-04 13:00:00", false,
			"167h0m0s",
		},
		"a day of 23 hours": {
			"Europe/Berlin", []v1alpha1.ScheduleWindow{night}, "2026-03-28 22:00:00", true, "7h0m0s",
		},
		"a day of 25 hours": {
			"Europe/Berlin", []v1alpha1.ScheduleWindow{night}, "2026-10-24 22:00:00", true, "9h0m0s",
		},
		"an hour that is left out": {
			"Europe/Berlin", []v1alpha1.ScheduleWindow{daily("02:00", "03:00")}, "2026-03-28 12:00:00", false, "37h0m0s",
		},
		"an hour that is there twice": {
			"Europe/Berlin", []v1alpha1.ScheduleWindow{daily("02:00", "03:00")}, "2026-10-25 01:59:00", false, "1m0s",
		},
		"its second time, without a gap": {
			"Europe/Berlin", []v1alpha1.ScheduleWindow{daily("02:00", "03:00")}, "2026-10-25 01:00:00", false, "1h0m0s",
		},
		"half of it is there twice": {
			"Europe/Berlin", []v1alpha1.ScheduleWindow{daily("01:00", "02:30")}, "2026-10-25 01:00:00", true, "1h30m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := zone(t, c.zone)
			all, err := windows.New(c.windows, in)
			if err != nil {
				t.Fatal(err)
			}
			now := at(t, in, c.now)
			open, until := all.At(now)
			lasts := ""
			if !until.IsZero() {
				lasts = until.Sub(now).String()
			}
			if open != c.open || lasts != c.lasts {
				t.Errorf("open %v for %q, want %v for %q", open, lasts, c.open, c.lasts)
			}
		})
	}
}

// TestOracle compares what is computed with a look at each minute of ten days, in zones whose clocks are set by an hour,
// by half of one and by a whole day.
func TestOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // The same numbers each time.
	begins := map[string]string{
		"UTC": "2026-05-04 00:00:00", "Europe/Berlin": "2026-03-25 00:00:00", "America/New_York": "2026-10-29 00:00:00",
		"Australia/Lord_Howe": "2026-04-01 00:00:00", "Pacific/Apia": "2011-12-26 00:00:00",
		"Asia/Kathmandu": "2026-01-01 00:00:00",
	}
	days := []v1alpha1.Weekday{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	for name, begin := range begins {
		in := zone(t, name)
		for range 15 {
			var chosen []v1alpha1.ScheduleWindow
			for range 1 + random.IntN(4) {
				from := random.IntN(24 * 60)
				to := (from + 5 + random.IntN(24*60-5)) % (24 * 60)
				w := daily(fmt.Sprintf("%02d:%02d", from/60, from%60), fmt.Sprintf("%02d:%02d", to/60, to%60))
				if random.IntN(3) > 0 {
					random.Shuffle(7, func(i, j int) { days[i], days[j] = days[j], days[i] })
					w.Days = append(w.Days, days[:1+random.IntN(7)]...)
				}
				if random.IntN(8) == 0 && len(w.Days) > 0 {
					w.Start, w.End = "", ""
				}
				if random.IntN(3) > 0 {
					w.BandwidthLimit = resource.NewQuantity(int64(1+random.IntN(3))<<20, resource.BinarySI)
				}
				chosen = append(chosen, w)
			}
			all, err := windows.New(chosen, in)
			if err != nil {
				t.Fatal(err)
			}
			start := at(t, in, begin)
			isOpen := func(when time.Time) bool {
				for _, w := range chosen {
					if windows.Includes(w, when.In(in)) {
						return true
					}
				}
				return false
			}
			for when := start; when.Before(start.Add(10 * 24 * time.Hour)); {
				open, until := all.At(when)
				end := until
				if until.IsZero() || until.After(start.Add(10*24*time.Hour)) {
					end = start.Add(10 * 24 * time.Hour)
				}
				for minute := when; minute.Before(end); minute = minute.Add(time.Minute) {
					if isOpen(minute) != open {
						t.Fatalf("%s %+v: at %s it is said to be %v until %s, and is not at %s", name, chosen, when, open, until, minute)
					}
				}
				if end.Equal(until) && isOpen(until) == open {
					t.Fatalf("%s %+v: from %s on it is %v for longer than until %s", name, chosen, when, open, until)
				}
				// A clock that was set in between gives the same answer.
				if middle := when.Add(end.Sub(when) / 2); middle.After(when) {
					if sameOpen, same := all.At(middle); sameOpen != open || !same.Equal(until) {
						t.Fatalf("%s %+v: at %s %v until %s, at %s %v until %s", name, chosen, when, open, until, middle, sameOpen, same)
					}
				}
				when = end
			}
			// The limit is the lowest of what a look at each window finds.
			limitAt := func(when time.Time) (lowest int64) {
				for _, w := range chosen {
					if w.BandwidthLimit != nil && windows.Includes(w, when.In(in)) &&
						(lowest == 0 || w.BandwidthLimit.Value() < lowest) {
						lowest = w.BandwidthLimit.Value()
					}
				}
				return lowest
			}
			for when, last := start, start.Add(10*24*time.Hour); when.Before(last); {
				limit, until := all.Limit(when)
				end := until
				if until.IsZero() || until.After(last) {
					end = last
				}
				for minute := when; minute.Before(end); minute = minute.Add(time.Minute) {
					if got := limitAt(minute); got != limit {
						t.Fatalf("%s %+v: at %s the limit is said to be %d until %s, and is %d at %s", name, chosen, when, limit, until, got,
							minute)
					}
				}
				if end.Equal(until) && limitAt(until) == limit {
					t.Fatalf("%s %+v: from %s on the limit is %d for longer than until %s", name, chosen, when, limit, until)
				}
				when = end
			}
		}
	}
}

func TestLimit(t *testing.T) {
	limited := func(w v1alpha1.ScheduleWindow, limit string) v1alpha1.ScheduleWindow {
		q := resource.MustParse(limit)
		w.BandwidthLimit = &q
		return w
	}
	all := []v1alpha1.ScheduleWindow{
		limited(daily("06:00", "20:00"), "10Mi"), daily("20:00", "06:00"), limited(daily("18:00", "21:00"), "5Mi"),
		limited(daily("17:00", "19:00"), "7Mi"),
	}
	for now, want := range map[string]struct {
		limit int64
		lasts string
	}{
		"2026-05-04 12:00:00": {10 << 20, "5h0m0s"},
		"2026-05-04 17:00:30": {7 << 20, "59m30s"},
		"2026-05-04 18:00:00": {5 << 20, "3h0m0s"}, // also while others end
		"2026-05-04 21:00:00": {0, "9h0m0s"},
	} {
		w, err := windows.New(all, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		limit, until := w.Limit(at(t, time.UTC, now))
		if lasts := until.Sub(at(t, time.UTC, now)).String(); limit != want.limit || lasts != want.lasts {
			t.Errorf("at %s: %d for %s, want %+v", now, limit, lasts, want)
		}
	}
	w, err := windows.New(all[1:2], time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if limit, until := w.Limit(at(t, time.UTC, "2026-05-04 12:00:00")); limit != 0 || !until.IsZero() {
		t.Errorf("%d until %s", limit, until)
	}
	for _, wrong := range []string{"1", "0", "-5Mi", "2Pi"} {
		if _, err := windows.New([]v1alpha1.ScheduleWindow{limited(daily("20:00", "21:00"), wrong)}, time.UTC); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

func TestUnusable(t *testing.T) {
	for want, w := range map[string]v1alpha1.ScheduleWindow{
		"must have days":      {},
		"not \"7:00\"":        daily("7:00", "08:00"),
		"not \"24:00\"":       daily("20:00", "24:00"),
		"that differ":         daily("20:00", "20:00"),
		"shorter than 5m":     daily("23:58", "00:02"),
		"not \"\"; write for": daily("20:00", ""),
	} {
		if _, err := windows.New([]v1alpha1.ScheduleWindow{daily("20:00", "20:05"), w}, time.UTC); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "window 1 ") {
			t.Errorf("%+v: %v, want %q", w, err, want)
		}
	}
}

func TestZone(t *testing.T) {
	for name, want := range map[string]string{
		"": "Etc/UTC", "Etc/UTC": "Etc/UTC", "Europe/Berlin": "Europe/Berlin", "Local": "", "Mars/Olympus": "",
	} {
		zone, err := windows.Zone(name)
		if (err != nil) != (want == "") || err == nil && zone.String() != want {
			t.Errorf("%q: %v, %v, want %q", name, zone, err, want)
		}
	}
}

func TestBegins(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]bool{0: false, time.Minute: false, 61 * time.Second: true} {
		if windows.Begins(now, now.Add(left)) != want {
			t.Errorf("%s before the end: want %t", left, want)
		}
	}
	if !windows.Begins(now, time.Time{}) {
		t.Error("not in what has no end")
	}
}
