// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestResume kills the sender's agent in the middle of a file, and then the receiver's. Each time the next attempt
// sends the rest.
func TestResume(t *testing.T) {
	t.Parallel()
	const size, interval = 700 << 20, 8 << 20
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "1Gi")
	west.claim(t, namespace, "copy", "", "1Gi")
	east.sh(
		t, namespace, "source",
		fmt.Sprintf("head -c %d /dev/urandom > /data/large; echo small > /data/small; ln -s large /data/link", size),
	)
	grant(t, namespace, "copy")

	transfer := newTransfer(namespace, "ledger")
	checkpoint := resource.NewQuantity(interval, resource.BinarySI)
	transfer.Spec.CheckpointInterval = checkpoint
	// Slow enough to be met in the middle.
	transfer.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{Resources: &corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
	}}
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	staged := func() int64 {
		text := strings.Fields(
			west.sh(t, namespace, "copy", "du -k /data/.lighterage-staging 2>/dev/null | tail -n1; echo 0"),
		)
		n, err := strconv.ParseInt(text[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n << 10
	}
	for _, step := range []struct {
		cluster *cluster
		mode    string
		after   int64
	}{{east, "send", 150 << 20}, {west, "receive", 400 << 20}} {
		eventually(t, 6*time.Minute, "the destination to have a part of the file", func() (bool, string) {
			n := staged()
			return n > step.after, fmt.Sprintf("%d bytes are staged", n)
		})
		step.cluster.KillAgent(t, namespace, step.mode)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, namespace, "source", listing), west.sh(t, namespace, "copy", listing); want != got {
		t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
	if got := west.sh(t, namespace, "copy", "ls -A /data"); got != "large\nlink\nsmall\n" {
		t.Errorf("the destination has %q", got)
	}
	s := transfer.Status
	if len(s.History) != 3 {
		t.Fatalf("want three attempts, got %+v", s.History)
	}
	const streams = 16 // at most
	for i, least := range []int64{350 << 20, 100 << 20, 0} {
		h := s.History[i]
		if h.Attempt != int32(3-i) || h.ResumedBytes < least || h.ResentBytes > streams*interval || h.Node == "" ||
			h.Duration == nil {
			t.Errorf("attempt %d is recorded as %+v", 3-i, h)
		}
		t.Logf("attempt %d: %s after %s, %d bytes sent, %d resumed, %d sent again",
			h.Attempt, h.Reason, h.Duration.Duration, h.Bytes, h.ResumedBytes, h.ResentBytes)
	}
	if last := s.History[0]; last.Bytes+last.ResumedBytes < size || last.Bytes+last.ResumedBytes > size+100 {
		t.Errorf("the last attempt sent %d bytes and resumed %d of %d", last.Bytes, last.ResumedBytes, size)
	}
	if s.Progress.ResumedBytes != s.History[0].ResumedBytes {
		t.Errorf("progress is %+v", s.Progress)
	}
}
