// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package command

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// tryProve has nodes measured again: one with an accelerator, one without, and one whose agent does not come back.
func tryProve(t *testing.T, cluster *controllertest.Cluster, run func(...string) (string, string, error)) {
	t.Helper()
	profilePoll = 10 * time.Millisecond
	if _, _, err := run("prove", "worker"); err == nil || !strings.Contains(err.Error(), "kubectl get nodeprofiles") {
		t.Errorf("no profile: %v", err)
	}
	for i, state := range []v1alpha1.AcceleratorState{v1alpha1.AcceleratorVerified, v1alpha1.AcceleratorNotUsed} {
		node := "z" + string(rune('0'+i))
		profile := &v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: node}}
		cluster.Create(t, profile)
		measure(t, cluster, node, state, time.Now().Add(-time.Hour))
		if _, _, err := run("prove", node); err == nil || !strings.Contains(err.Error(), "no node agent runs on node "+node) {
			t.Errorf("%s without an agent: %v", node, err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: controllertest.OperatorNamespace, Name: "agent-" + node,
			Labels: map[string]string{componentLabel: nodeAgentLabel},
		}}
		pod.Spec.NodeName, pod.Spec.Containers = node, []corev1.Container{{Name: "agent", Image: "agent"}}
		cluster.Create(t, pod)
		if i == 0 {
			if _, _, err := run("prove", node, "--wait", "50ms"); err == nil ||
				!strings.Contains(err.Error(), "not measured again") {
				t.Errorf("%s is not measured again: %v", node, err)
			}
			cluster.Create(t, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "again-" + node, Labels: pod.Labels}, Spec: pod.Spec,
			})
		}
		go func() {
			for !restarted(t, cluster, node) && t.Context().Err() == nil {
				time.Sleep(profilePoll)
			}
			measure(t, cluster, node, state, time.Now())
		}()
		out, _, err := run("prove", node)
		if (err == nil) != (state == v1alpha1.AcceleratorVerified) || !strings.Contains(out, string(state)) ||
			!strings.Contains(out, "evidence [2J") || !strings.Contains(out, "120.0 MB/s") {
			t.Errorf("%s %s: %v\n%s", node, state, err, out)
		}
	}
	// Rights that its help does not name are not used.
	if _, _, err := run("prove", "z0", "--context", "east-nobody"); err == nil ||
		!strings.Contains(err.Error(), "get on nodeprofiles") {
		t.Errorf("without rights: %v", err)
	}
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if _, _, err := run("gather", "--file", file); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, file)
	if !strings.Contains(files["objects/nodeprofiles.yaml"], "name: z0") ||
		strings.Contains(files["index.yaml"], "not read") ||
		!strings.Contains(files["operator/services.yaml"], gatewayService) {
		t.Errorf("bundle: %s\n%s", files["index.yaml"], files["objects/nodeprofiles.yaml"])
	}
}

// measure is what the node agent and the manager do.
func measure(t *testing.T, cluster *controllertest.Cluster, node string, state v1alpha1.AcceleratorState,
	at time.Time) {
	t.Helper()
	var profile v1alpha1.NodeProfile
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: node}, &profile); err != nil {
		t.Error(err)
		return
	}
	profile.Status.MeasuredTime = &metav1.Time{Time: at}
	profile.Status.Engines = []v1alpha1.EngineProfile{{Name: "dfltcc", Verified: true, CompressBytesPerSecond: 120e6}}
	profile.Status.Accelerator = &v1alpha1.NodeAccelerator{AcceleratorProfile: v1alpha1.AcceleratorProfile{
		State: state, Reason: "Proved", Message: "evidence\x1b[2J",
	}}
	meta.SetStatusCondition(&profile.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Measured",
	})
	if err := cluster.Client.Status().Update(t.Context(), &profile); err != nil {
		t.Error(err)
	}
}

// restarted reports whether prove has deleted all agents of the node.
func restarted(t *testing.T, cluster *controllertest.Cluster, node string) bool {
	t.Helper()
	var pods corev1.PodList
	err := cluster.Client.List(t.Context(), &pods, client.MatchingLabels{componentLabel: nodeAgentLabel})
	return err == nil && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Spec.NodeName == node && p.DeletionTimestamp == nil
	})
}
