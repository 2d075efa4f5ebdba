// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
)

// dataPath is what carries the data of an attempt by a route whose agent reports something; nil if that is not known.
func dataPath(route v1alpha1.Route, reported *wirev1.DataPath) *v1alpha1.DataPath {
	switch route {
	case v1alpha1.RoutePod:
		return &v1alpha1.DataPath{Type: v1alpha1.DataPathPod, Reason: v1alpha1.DataPathOnePod}
	case v1alpha1.RouteStorage:
		return &v1alpha1.DataPath{Type: v1alpha1.DataPathStorage, Reason: v1alpha1.DataPathConfigured}
	case v1alpha1.RouteObjectStore:
		return nil
	}
	return agentreport.DataPath(reported)
}

const (
	// leastPathBytes is what an attempt must have moved for its CPU time to say something of the path. What starting an
	// agent takes is little of the rest.
	leastPathBytes = 256 << 20
	// leastFileBytes is how long its files must be by the mean: what each file takes is not the path's.
	leastFileBytes = 1 << 20
)

// PathCost is what moving data over a path took an agent on a node. It follows from what the agent reports, so it may
// be anything.
type PathCost struct {
	// Node that the agent ran on, by its pod.
	Node string
	Type v1alpha1.DataPathType
	// Bytes that took the path, and the CPU time of the agent for them: without compressing and reading files, and, where
	// both ends are in one pod, without inflating and writing them.
	Bytes int64
	CPU   time.Duration
	// Took is how long the run has lasted by this cluster's clock, of which the attempt is a part.
	Took time.Duration
}

// pathCost is what an attempt that ended says of its path; nil: nothing. It says something if it succeeded, all of its
// connections had one path, and the agent moved enough and had no other receivers.
func (d *transferDecision) pathCost(report *wirev1.Report, reason string) *PathCost {
	run := d.transfer.Status.Run
	if reason != v1alpha1.ReasonSucceeded || d.shares() || run.Node == "" || run.StartTime == nil ||
		run.DataPath == nil || run.DataPath.Reason == v1alpha1.DataPathFellBack { // Others may not have fallen back.
		return nil
	}
	cpu := report.GetCpu()
	bytes := agentreport.Clamp(report.GetWireBytes())
	spent := agentreport.Clamp(cpu.GetSendNanos())
	other := agentreport.Saturated(agentreport.Clamp(cpu.GetCompressNanos()), agentreport.Clamp(cpu.GetReadNanos()))
	if run.DataPath.Type == v1alpha1.DataPathPod {
		bytes = agentreport.Clamp(report.GetCompression().GetUncompressedBytes())
		other = agentreport.Saturated(other, agentreport.Saturated(
			agentreport.Clamp(cpu.GetDecompressNanos()), agentreport.Clamp(cpu.GetWriteNanos()),
		))
	}
	progress, plain := report.GetProgress(), agentreport.Clamp(report.GetCompression().GetUncompressedBytes())
	if progress.GetReusedBytes() > 0 || progress.GetHoleBytes() > 0 { // What was read to find these took no path.
		return nil
	}
	if bytes < leastPathBytes || agentreport.Clamp(progress.GetFilesTotal()) > max(bytes, plain)/leastFileBytes ||
		spent <= other {
		return nil
	}
	return &PathCost{
		Node: run.Node, Type: run.DataPath.Type, Bytes: bytes, CPU: time.Duration(spent - other),
		Took: d.facts.Now.Sub(run.StartTime.Time),
	}
}
