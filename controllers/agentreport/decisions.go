// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentreport

import (
	"cmp"
	"slices"
	"strconv"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// maxClasses bounds the classes of decisions that status shows.
	maxClasses = 32
	mibOfGiB   = 1024
)

// DecisionsStatus is what status shows of the decisions of several agents, nil where none reports any. Counters are
// sums; of all else network and disk are the middle ones, what choices lose is of the agent that measured most, and the
// rest of the agent that sent most. before is what status shows now.
func DecisionsStatus(reports []*wirev1.Decisions, before *v1alpha1.DecisionsStatus) *v1alpha1.DecisionsStatus {
	type class struct{ content, size, codec string }
	type sums struct {
		operations, bytes, trials, most int64
		by                              *wirev1.ClassDecision
		choice                          v1alpha1.ClassChoice
		reason                          string
	}
	var status *v1alpha1.DecisionsStatus
	var links, disks []int64
	var most uint64
	found := map[class]*sums{}
	for _, r := range reports {
		if r == nil {
			continue
		}
		var all uint64
		for _, d := range r.GetClasses() {
			key := class{word(d.GetContent()), word(d.GetSize()), word(d.GetCodec())}
			s := found[key]
			if s == nil {
				s = &sums{most: -1}
				found[key] = s
			}
			choice := v1alpha1.ClassCompressed
			if d.GetReason() != "" {
				choice = v1alpha1.ClassUncompressed
				s.reason = cmp.Or(s.reason, word(d.GetReason()))
			}
			if s.choice = cmp.Or(s.choice, choice); s.choice != choice {
				s.choice = v1alpha1.ClassMixed
			}
			s.operations = Saturated(s.operations, Clamp(d.GetOperations()))
			s.bytes = Saturated(s.bytes, Clamp(d.GetBytes()))
			s.trials = Saturated(s.trials, Clamp(d.GetTrials()))
			if n := Clamp(d.GetOperations()); n > s.most {
				s.most, s.by = n, d
			}
			all += d.GetBytes()
		}
		if link := Clamp(r.GetLinkBytesPerSecond()); link > 0 {
			links = append(links, link)
		}
		if disk := Clamp(r.GetDiskBytesPerSecond()); disk > 0 {
			disks = append(disks, disk)
		}
		if status == nil || all > most {
			most = all
			status = &v1alpha1.DecisionsStatus{Objective: objective(r.GetObjective())}
			if n := r.GetSendNanosPerMib(); n > 0 {
				status.SendCPUSecondsPerGiB = secondsPerGiB(n)
			}
			if n := r.GetInflateNanosPerMib(); n > 0 {
				status.InflateCPUSecondsPerGiB = secondsPerGiB(n)
			}
		}
	}
	if status == nil {
		return nil
	}
	status.LinkBytesPerSecond, status.DiskBytesPerSecond = middle(links), middle(disks)
	regretOf(status, reports, before)
	for key, s := range found {
		d := v1alpha1.ClassDecision{
			Content: key.content, Size: key.size, Codec: key.codec, Choice: s.choice, Reason: s.reason,
			Operations: s.operations, Bytes: s.bytes, Trials: s.trials,
		}
		if p := s.by.GetCompressedPermille(); p > 0 {
			d.Ratio = strconv.FormatFloat(1000/float64(p), 'f', 2, 64)
			d.CompressCPUSecondsPerGiB = secondsPerGiB(s.by.GetCompressNanosPerMib())
		}
		if s.by.GetKnown() {
			d.OtherPercent = strconv.FormatFloat(float64(s.by.GetOtherPermille())/10, 'f', 1, 64)
		}
		status.Classes = append(status.Classes, d)
	}
	slices.SortFunc(status.Classes, func(a, b v1alpha1.ClassDecision) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Content, b.Content), cmp.Compare(a.Size, b.Size),
			cmp.Compare(a.Codec, b.Codec))
	})
	status.Classes = status.Classes[:min(len(status.Classes), maxClasses)]
	return status
}

// middle is 0 of nothing.
func middle(figures []int64) int64 {
	if len(figures) == 0 {
		return 0
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// objective is empty where an agent names none that status may show.
func objective(name string) v1alpha1.CompressionObjective {
	switch o := v1alpha1.CompressionObjective(name); o {
	case v1alpha1.ObjectiveCost, v1alpha1.ObjectiveElapsed, v1alpha1.ObjectiveCPU, v1alpha1.ObjectiveBytes:
		return o
	}
	return ""
}

// word bounds what an agent says: there are none as long as that.
func word(text string) string { return Plain(text, maxReason) }

func secondsPerGiB(nanosPerMiB uint64) string {
	return strconv.FormatFloat(float64(nanosPerMiB)*mibOfGiB/1e9, 'f', 3, 64)
}
