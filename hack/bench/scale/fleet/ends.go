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
	var ending []*agent
	f.mu.RLock()
	for _, a := range f.agents {
		if left[a.kind] > 0 {
			left[a.kind]--
			ending = append(ending, a)
		}
	}
	f.mu.RUnlock()
	for _, a := range ending {
		if err := f.end(ctx, a); err != nil {
			return err
		}
	}
	return nil
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
