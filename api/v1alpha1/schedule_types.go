// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TransferSchedule says when runs start, and when they may be under way.
// +kubebuilder:validation:XValidation:rule="has(self.cron) || has(self.windows)",message="a schedule needs cron, windows or both"
// +kubebuilder:validation:XValidation:rule="has(self.cron) || !has(self.jitter)",message="jitter puts off starts of cron; set cron, or leave jitter out"
type TransferSchedule struct {
	// cron says when runs start, as for a CronJob: minute, hour, day of month, month and day of week, or a word such as
	// @hourly. Absent: there is a run when the Transfer is created.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^ =]+( +[^ =]+){4})$')",message="cron must have five fields (minute, hour, day of month, month, day of week) or be a word such as @daily; write for example \"0 2 * * *\", and the time zone in timeZone"
	Cron string `json:"cron,omitempty"`

	// timeZone that cron and windows are meant in, as the tz database names it.
	// +optional
	// +default="Etc/UTC"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$')",message="timeZone must be a name of the tz database; write for example Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`

	// jitter is the most that a start is put off, so that Transfers with one schedule do not all start at once. How
	// much it is follows from the Transfer and the time.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="jitter must be between 0s and 24h; write for example 5m"
	Jitter *metav1.Duration `json:"jitter,omitempty"`

	// windows are the times at which runs may be under way; absent: at all times. They may overlap. A run whose window
	// ends pauses, as by spec.pause, and goes on in the next one. One that is to start outside of all windows waits for
	// the next. No attempt begins in the last minute of a window.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Windows []ScheduleWindow `json:"windows,omitempty"`
}

// A rule for the range of bandwidthLimit, in a list within a template, exceeds what the API server allows rules to
// cost; the manager checks it.

// ScheduleWindow is a time of the week, in local time of the schedule's time zone. Of an hour that is there twice
// because the clock is set back, both are in the window; one that is left out is in none.
// +kubebuilder:validation:XValidation:rule="has(self.days) || has(self.start)",message="a window needs days, or start and end; for runs at all times leave windows out"
// +kubebuilder:validation:XValidation:rule="has(self.start) == has(self.end)",message="a window needs both of start and end, or neither for whole days"
// +kubebuilder:validation:XValidation:rule="!has(self.start) || !has(self.end) || self.start != self.end",message="start and end must differ; for whole days leave both out"
type ScheduleWindow struct {
	// days on which the window starts; absent: every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`
	// start as HH:MM, included. Absent with end: the whole day.
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="start must be a time from 00:00 to 23:59; write for example 20:00"
	Start string `json:"start,omitempty"`
	// end as HH:MM, excluded, at least 5 minutes after start. One that is not after start is of the next day: 20:00 to
	// 06:00 lasts the night.
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",message="end must be a time from 00:00 to 23:59; write for example 06:00, or 00:00 for midnight"
	End string `json:"end,omitempty"`
	// bandwidthLimit is how many bytes per second the sending agent writes to the wire at most while the window is open.
	// The lowest limit of all windows that are open and of spec.bandwidthLimit is in force; absent: the others. It changes
	// within seconds, also while an attempt is under way, and status.run.windowLimit shows it. Between 256Ki and 1Pi;
	// another one is InvalidSpec.
	// +optional
	BandwidthLimit *resource.Quantity `json:"bandwidthLimit,omitempty"`
}

// TransferDeadline is when a run is to be Complete.
// +kubebuilder:validation:XValidation:rule="has(self.within) != has(self.time)",message="deadline must have exactly one of within and time"
type TransferDeadline struct {
	// within is how long after it is wanted a run is to be Complete: after the time of schedule.cron, jitter included, or
	// else after the manager has seen the Transfer or its annotation lighterage.dev/run. A wait for a window counts.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('8784h')",message="within must be between 1m and 8784h; write for example 6h"
	Within *metav1.Duration `json:"within,omitempty"`
	// time by which a run is to be Complete. Runs that start after one that was in time have no deadline.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// strategy is when and how a run starts. Absent: Soonest.
	// +optional
	Strategy DeadlineStrategy `json:"strategy,omitempty"`
}

// DeadlineStrategy is when and how a run with a deadline starts.
// +kubebuilder:validation:Enum=Soonest;Cheapest
type DeadlineStrategy string

const (
	// DeadlineSoonest: at once, or when the next window opens.
	DeadlineSoonest DeadlineStrategy = "Soonest"
	// DeadlineCheapest: when, with which objective and on which nodes it costs least by its Tariff, as long as it is
	// expected to be Complete by its deadline. It waits only if that holds even if it takes a quarter and 5 minutes longer
	// than expected, with the reason WaitingForPrice. As Soonest where there are no figures, no prices, or no time, and for
	// a VolumeGroupSnapshot; status.deadline.message says why. Not with source.peer, where the other cluster pays for what
	// is sent.
	DeadlineCheapest DeadlineStrategy = "Cheapest"
)

// DeadlineAlternativeName is what else could have been planned.
// +kubebuilder:validation:Enum=Now;NowHurried;OtherNodes;Latest
type DeadlineAlternativeName string

const (
	// DeadlineNow: to start when the plan was made, with the objective of the policy.
	DeadlineNow DeadlineAlternativeName = "Now"
	// DeadlineNowHurried: to start when the plan was made, with the objective Elapsed. It is there once a run with that
	// objective was measured.
	DeadlineNowHurried DeadlineAlternativeName = "NowHurried"
	// DeadlineOtherNodes: the best start on nodes of another price.
	DeadlineOtherNodes DeadlineAlternativeName = "OtherNodes"
	// DeadlineLatest: as planned, at the last start that is expected to be in time.
	DeadlineLatest DeadlineAlternativeName = "Latest"
)

// DeadlineAlternative is what else could have been planned.
type DeadlineAlternative struct {
	// name of the alternative.
	// +required
	Name DeadlineAlternativeName `json:"name,omitempty"`
	// startTime of its run.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`
	// predictedTime is when it would have been Complete.
	// +required
	PredictedTime metav1.Time `json:"predictedTime,omitzero"`
	// expectedCost in the currency of the plan.
	// +required
	ExpectedCost string `json:"expectedCost,omitempty"`
}

// DeadlinePlan is what strategy Cheapest has planned for a run.
//
// +structType=atomic
type DeadlinePlan struct {
	// startTime that is planned. A window, a quota or a retry may put it off.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`
	// predictedTime is when the run is expected to be Complete.
	// +required
	PredictedTime metav1.Time `json:"predictedTime,omitzero"`
	// objective that the run has in place of that of its policy.
	// +required
	Objective CompressionObjective `json:"objective,omitempty"`
	// nodeSelector has the labels of the nodes that the agent is put on if they have free space: those of a rule of the
	// Tariff. Absent: any.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// currency of costs.
	// +required
	Currency string `json:"currency,omitempty"`
	// expectedCost of CPU time of this cluster and bytes on the wire.
	// +required
	ExpectedCost string `json:"expectedCost,omitempty"`
	// alternatives that there were when the plan was made, with what they would have cost.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Alternatives []DeadlineAlternative `json:"alternatives,omitempty"`
}

// DeadlineStatus is what is expected of a run, by the figures of the last Complete one, or of its own when data move.
//
// +structType=atomic
type DeadlineStatus struct {
	// runID of the run. Absent while one is awaited.
	// +optional
	RunID string `json:"runID,omitempty"`
	// startTime since when it is wanted.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// time by which it is to be Complete.
	// +optional
	Time metav1.Time `json:"time,omitzero"`
	// predictedTime is when it is expected to be Complete, windows and limits of bandwidth included. It is brought up to
	// date when it changes by a minute, or by a twentieth of what is left if that is more. Absent while there are no
	// figures, while the Transfer is suspended or paused, where it is more than a year away, and when the run has ended.
	// +optional
	PredictedTime *metav1.Time `json:"predictedTime,omitempty"`
	// slack between predictedTime, or the end of the run, and time: negative if that is too late.
	// +optional
	Slack *metav1.Duration `json:"slack,omitempty"`
	// hurried: the run minimises its time, since it would have been late with the objective of its policy. Of the last run
	// while one is awaited.
	// +optional
	Hurried bool `json:"hurried,omitempty"`
	// plan of strategy Cheapest for the run. It changes while the run is awaited when the start, the cost or the nodes do,
	// and not after it has started. Absent with Soonest, and where message says why.
	// +optional
	Plan *DeadlinePlan `json:"plan,omitempty"`
	// message says why there is no plan with strategy Cheapest, so that the run starts as with Soonest.
	// +optional
	Message string `json:"message,omitempty"`
}

// ScheduleStatus is what the schedule did and will do.
//
// +structType=atomic
type ScheduleStatus struct {
	// cron in force.
	// +optional
	Cron string `json:"cron,omitempty"`
	// timeZone in force.
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// lastTime of the schedule that has passed, whether a run started or not, or when the schedule was set. Jitter is
	// not in it.
	// +optional
	LastTime *metav1.Time `json:"lastTime,omitempty"`
	// nextTime a run is to start, jitter included. Absent while suspended or paused.
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`
	// missedRuns counts the times that passed without a run because one was under way, could not begin, or the manager
	// was away.
	// +optional
	MissedRuns int64 `json:"missedRuns,omitempty"`
	// windowEnd is when the window ends that is open now, those that overlap with it included. Absent while none is open,
	// and where runs may be under way at all times.
	// +optional
	WindowEnd *metav1.Time `json:"windowEnd,omitempty"`
	// nextWindow is when the next window opens. Absent while one is open.
	// +optional
	NextWindow *metav1.Time `json:"nextWindow,omitempty"`
}
