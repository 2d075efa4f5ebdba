// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// End has so many sending and so many receiving agents end, as kubelets report it. All have succeeded, and receivers
// inflated a tenth by software although hardware had compressed it.
func (f *Fleet) End(ctx context.Context, each int) error {
	left := map[kind]int{sender: each, receiver: each}
	return f.endAll(ctx, func(a *agent) bool {
		left[a.kind]--
		return left[a.kind] >= 0
	})
}

// EndSending has all sending agents end in the same way that were asked.
func (f *Fleet) EndSending(ctx context.Context) error {
	return f.endAll(ctx, func(a *agent) bool { return a.kind == sender && a.asked.Load() > 0 })
}

// endAll has agents end that have not.
func (f *Fleet) endAll(ctx context.Context, among func(*agent) bool) error {
	var ending []*agent
	f.mu.RLock()
	for _, a := range f.agents {
		if !a.ended.Load() && among(a) {
			a.ended.Store(true)
			ending = append(ending, a)
		}
	}
	f.mu.RUnlock()
	return each(ctx, len(ending), atOnce, func(ctx context.Context, i int) error { return f.end(ctx, ending[i]) })
}

func (f *Fleet) end(ctx context.Context, a *agent) error {
	now := time.Now()
	report := a.report(now)
	report.State, report.EndTime = wirev1.AgentState_AGENT_STATE_SUCCEEDED, timestamppb.New(now)
	report.Progress.BytesTotal, report.Progress.FilesTotal = report.Progress.Bytes, report.Progress.Files
	if a.kind == receiver {
		report.Decompression.Fallback = &wirev1.Operations{Operations: 10, Bytes: report.Progress.Bytes / 10}
	}
	message, err := protojson.Marshal(report)
	if err != nil {
		return fmt.Errorf("encode the last report of pod %s: %w", a.pod, err)
	}
	pods := f.typed.CoreV1().Pods(a.namespace)
	pod, err := pods.Get(ctx, a.pod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read pod %s: %w", a.pod, err)
	}
	pod.Status.Phase = corev1.PodSucceeded
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", Message: string(message), StartedAt: metav1.NewTime(a.began), FinishedAt: metav1.NewTime(now),
		}}
		pod.Status.ContainerStatuses[i].Ready = false
	}
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("end pod %s: %w", a.pod, err)
	}
	return nil
}
