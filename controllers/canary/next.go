// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Next is what status is to show of the canary of a policy, given what it showed before, which is not changed. It is
// before itself where nothing is to be written, and nil where the policy has no canary. m is nil while objects cannot
// use the policy.
func Next(
	before *v1alpha1.CanaryStatus, policy *v1alpha1.CompressionPolicy, m *Meter, now time.Time,
) *v1alpha1.CanaryStatus {
	c := policy.Spec.Canary
	if c == nil {
		return nil
	}
	if revision := Revision(policy); before == nil || before.Revision != revision || before.StartTime == nil ||
		m != nil && before.State == v1alpha1.CanaryMeasuring && now.Before(before.StartTime.Time) { // the clock was set back
		if m == nil {
			return nil
		}
		return &v1alpha1.CanaryStatus{
			Revision: revision, State: v1alpha1.CanaryMeasuring, Objective: m.objective,
			StartTime: &metav1.Time{Time: now.Truncate(time.Second)},
		}
	}
	if m == nil || before.State != v1alpha1.CanaryMeasuring {
		return before
	}
	after := before.DeepCopy()
	low, high, ok := m.show(after)
	switch over := now.Sub(before.StartTime.Time) >= duration(c); {
	case over && ok && low > increase(c), !over && m.above(increase(c)):
		after.State = v1alpha1.CanaryRolledBack
	case !over && !due(before, c, now):
		return before
	case !over && equality.Semantic.DeepEqual(before, after):
		return before
	case !over:
	case ok && high <= increase(c):
		after.State = v1alpha1.CanaryPromoted
	default:
		after.State = v1alpha1.CanaryInconclusive
	}
	after.Time = &metav1.Time{Time: now.Truncate(time.Second)}
	if after.State != v1alpha1.CanaryMeasuring {
		after.EndTime = after.Time.DeepCopy()
	}
	return after
}

// show puts the figures into status, and returns the interval of the change in percent.
func (m *Meter) show(status *v1alpha1.CanaryStatus) (low, high float64, ok bool) {
	status.Inside, status.Outside, status.Currency = m.inside.status(), m.outside.status(), m.currency
	status.ChangePercent, status.LowPercent, status.HighPercent = "", "", ""
	low, middle, high, ok := m.change(normal, m.namespaces)
	if ok {
		status.LowPercent, status.ChangePercent, status.HighPercent = percentText(low), percentText(middle), percentText(high)
	}
	return low, high, ok
}

// due: a turn has passed, or somebody has set the clock back.
func due(before *v1alpha1.CanaryStatus, c *v1alpha1.CompressionCanary, now time.Time) bool {
	return before.Time == nil || now.Sub(before.Time.Time) >= Turn(c) || now.Before(before.Time.Time)
}

// Wait is until the next figures are due; 0 where none are.
func Wait(status *v1alpha1.CanaryStatus, c *v1alpha1.CompressionCanary, now time.Time) time.Duration {
	if c == nil || status == nil || status.State != v1alpha1.CanaryMeasuring || status.StartTime == nil {
		return 0
	}
	left := status.StartTime.Add(duration(c)).Sub(now)
	if left <= 0 { // it ends when objects can use the policy again
		left = Turn(c)
	}
	return max(time.Second, min(Turn(c), left))
}

// Condition says what became of a canary; ok is false where there is none.
func Condition(status *v1alpha1.CanaryStatus, c *v1alpha1.CompressionCanary) (condition metav1.Condition, ok bool) {
	if status == nil || c == nil {
		return metav1.Condition{}, false
	}
	condition = metav1.Condition{Type: v1alpha1.ConditionCanaryFinished, Status: metav1.ConditionTrue}
	took := fmt.Sprintf(
		"the cost of a GiB changes by %s %% in the canary (95 %% interval %s to %s); the bound is %+g %%",
		signed(status.ChangePercent), signed(status.LowPercent), signed(status.HighPercent), increase(c))
	switch {
	case status.State == v1alpha1.CanaryMeasuring:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonCanaryMeasuring
		condition.Message = fmt.Sprintf("%d %% of the objects use the canary's settings until %s", share(c),
			status.StartTime.Add(duration(c)).UTC().Format(time.RFC3339))
	case status.State == v1alpha1.CanaryPromoted:
		condition.Reason = v1alpha1.ReasonCanaryPromoted
		condition.Message = took + ". All objects use its settings until the spec changes: write spec.canary.settings " +
			"into the spec and remove spec.canary in one change"
	case status.State == v1alpha1.CanaryRolledBack:
		condition.Reason = v1alpha1.ReasonCanaryRolledBack
		condition.Message = took + ". No object uses its settings: remove spec.canary, or change it to try others"
	case status.ChangePercent == "":
		condition.Reason = v1alpha1.ReasonCanaryTooLittle
		condition.Message = fmt.Sprintf("%d objects in %d namespaces inside and %d in %d outside moved enough; %d are "+
			"needed on each side, in up to %d namespaces. Change spec.canary.duration or sharePercent to measure again",
			status.Inside.Objects, status.Inside.Namespaces, status.Outside.Objects, status.Outside.Namespaces, leastObjects,
			leastNamespaces)
	default:
		condition.Reason = v1alpha1.ReasonCanaryUndecided
		condition.Message = took + ". Objects differ too much to tell: change spec.canary.duration, sharePercent or " +
			"maxCostIncreasePercent to measure again"
	}
	return condition, true
}

// signed is a decimal of status with its sign.
func signed(decimal string) string {
	if strings.HasPrefix(decimal, "-") {
		return decimal
	}
	return "+" + decimal
}
