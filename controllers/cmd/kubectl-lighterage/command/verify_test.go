// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCleanSays: who waits until namespaces are gone is told again and again what these wait for.
func TestCleanSays(t *testing.T) {
	poll, notice := verifyPoll, cleanNotice
	defer func() { verifyPoll, cleanNotice = poll, notice }()
	verifyPoll, cleanNotice = time.Millisecond, time.Millisecond
	stuck := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "lighterage-verify-1", Finalizers: []string{"example.com/keeps"},
	}}
	stuck.Status.Conditions = []corev1.NamespaceCondition{
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Message: "pods. has 1 resource instances"},
		{Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse, Message: "all is well"},
	}
	p, _, said := opened(t, nil, stuck)
	s := &side{plugin: p, context: "east"}
	v := &verifying{pair: pair{plugin: p, sides: [2]*side{s, s}}, namespace: stuck.Name}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- v.clean(ctx) }()
	waits := stuck.Status.Conditions[0].Message
	for deadline := time.Now().Add(time.Minute); strings.Count(said.String(), waits) < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(said.String())
		}
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("it was not gone, and that was no error")
	}
	if text := said.String(); strings.Contains(text, stuck.Status.Conditions[1].Message) {
		t.Error(text)
	}
}
