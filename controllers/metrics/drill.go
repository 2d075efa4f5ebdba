// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/drillplan"
)

var (
	drillsDescription = describe("lighterage_drills",
		"Drills by what the last one proved: recoverable is True, False, or Unknown before the first has ended.", "namespace",
		"recoverable")
	drillFlawedDescription = describe("lighterage_drill_flawed",
		"Files, objects, archives and indexes that are damaged, missing or unusable by the last drill of each Drill with scrub: "+
			"the sum of a namespace.", "namespace")
	drillAgeDescription = describe("lighterage_drill_last_recoverable_age_seconds",
		"Time since the last drill that restored its copy, or verified it, within the objective, or since the Drill was "+
			"created if none has: the longest of a namespace's Drills.", "namespace")
	drillDurationDescription = describe("lighterage_drill_duration_seconds",
		"Duration of the last drill that ended: the longest of a namespace's Drills.", "namespace")
	drillRateDescription = describe("lighterage_drill_bytes_per_second",
		"Bytes that the last drill which ended restored or verified each second, plain ones, with scrub as they rest: "+
			"the least of a namespace's Drills.", "namespace")
	drillCPUDescription = describe("lighterage_drill_cpu_seconds_per_byte",
		"CPU time that the last drill which ended took for each plain byte, with scrub for each byte as it rests: the "+
			"most of a namespace's Drills.", "namespace")
)

// drilled is what a Drill shows.
type drilled struct {
	namespace   string
	recoverable metav1.ConditionStatus
	since       time.Time
	// ended: there is a last drill, with duration and rate.
	ended    bool
	duration time.Duration
	rate     int64
	// cpu is the CPU time of the last drill in seconds for each GiB; less than 0: nobody knows.
	cpu float64
	// flawed is how much it found to be unfit; -1: it did not scrub.
	flawed int64
}

// drillOf is that of an object; kept is false when it is no Drill.
func drillOf(object any) (shown drilled, kept bool) {
	d, ok := object.(*v1alpha1.Drill)
	if !ok {
		return shown, false
	}
	shown = drilled{namespace: d.Namespace, recoverable: metav1.ConditionUnknown, since: d.CreationTimestamp.Time}
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionRecoverable); c != nil {
		shown.recoverable = c.Status
	}
	if at := d.Status.LastRecoverableTime; at != nil {
		shown.since = at.Time
	}
	shown.flawed = -1
	if d.Spec.Scrub != "" && len(d.Status.History) > 0 {
		shown.flawed = drillplan.Flawed(d.Status.History[0])
	}
	if len(d.Status.History) > 0 && d.Status.History[0].Duration != nil {
		last := d.Status.History[0]
		shown.ended, shown.duration, shown.rate = true, last.Duration.Duration, last.BytesPerSecond
		shown.cpu = drillplan.CPUSecondsPerGiB(last)
	}
	return shown, true
}

func (i *Inventory) showDrills(out show) {
	type group struct{ namespace, recoverable string }
	ages, counts := oldest{}, map[group]int{}
	flawed := map[string]int64{}
	durations, rates, costs := map[string]time.Duration{}, map[string]int64{}, map[string]float64{}
	for _, d := range i.drills {
		counts[group{d.namespace, string(d.recoverable)}]++
		ages.note(d.namespace, d.since)
		if d.flawed >= 0 {
			flawed[d.namespace] += d.flawed
		}
		if !d.ended {
			continue
		}
		durations[d.namespace] = max(durations[d.namespace], d.duration)
		if rate, ok := rates[d.namespace]; !ok || d.rate < rate {
			rates[d.namespace] = d.rate
		}
		if d.cpu >= 0 {
			costs[d.namespace] = max(costs[d.namespace], d.cpu)
		}
	}
	for of, n := range counts {
		out(drillsDescription, float64(n), of.namespace, of.recoverable)
	}
	for namespace, n := range flawed {
		out(drillFlawedDescription, float64(n), namespace)
	}
	ages.show(out, drillAgeDescription, i.clock.Now())
	for namespace, duration := range durations {
		out(drillDurationDescription, duration.Seconds(), namespace)
	}
	for namespace, rate := range rates {
		out(drillRateDescription, float64(rate), namespace)
	}
	for namespace, cpu := range costs {
		out(drillCPUDescription, cpu/gib, namespace)
	}
}
