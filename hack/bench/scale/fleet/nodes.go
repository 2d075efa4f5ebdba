// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/node"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/test/render"
)

// heartbeat is how often a kubelet writes the status of its node when nothing has changed.
const heartbeat = 5 * time.Minute

func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

// architecture of a node: one in ten has an accelerator.
func architecture(name string) string {
	if name[len(name)-1] == '7' {
		return s390x
	}
	return amd64
}

// join adds a node, with its node agent.
func (f *Fleet) join(ctx context.Context, i int) error {
	name := nodeName(i)
	made, err := f.typed.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelArchStable: architecture(name), corev1.LabelOSStable: "linux",
			corev1.LabelTopologyZone: zones[i%len(zones)], corev1.LabelTopologyRegion: "fleet",
			"node.kubernetes.io/instance-type": "large",
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	made.Spec.Taints = nil
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}
	made.Status = corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity, Conditions: nodeConditions(),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.10", 16+i/250, i%250)},
			{Type: corev1.NodeHostName, Address: name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			Architecture: architecture(name), OperatingSystem: "linux", KernelVersion: "6.12.0", OSImage: "Linux",
			ContainerRuntimeVersion: "containerd://2.1.0",
			KubeletVersion:          "v1.36.0",
		},
		Images: images,
	}
	if made, err = f.typed.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write the status of node %s: %w", name, err)
	}
	if len(made.Spec.Taints) > 0 { // nodes begin with one that a controller takes away
		made.Spec.Taints = nil
		if _, err = f.typed.CoreV1().Nodes().Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("take the taints of node %s away: %w", name, err)
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: render.Namespace, Name: "lighterage-node-agent-" + name,
			Labels: map[string]string{agentpod.AppLabel: "lighterage", node.ComponentLabel: node.NodeAgent},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "DaemonSet", Name: "lighterage-node-agent", UID: uuid.NewUUID(),
				Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			NodeName: name, Containers: []corev1.Container{{Name: "agent", Image: "registry.example/lighterage/agent"}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: pki.NodeAgentSecret},
			}}},
		},
	}
	return f.run(ctx, pod, &agent{kind: nodeAgent})
}

// images are what a kubelet lists of those that its node has.
var images = func() []corev1.ContainerImage {
	var all []corev1.ContainerImage
	for i := range 20 {
		name := fmt.Sprintf("registry.example/library/image-%d@sha256:%064d", i, i)
		all = append(all, corev1.ContainerImage{Names: []string{name}, SizeBytes: 1e8})
	}
	return all
}()

func nodeConditions() []corev1.NodeCondition {
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: "kubelet says " + reason, LastHeartbeatTime: now,
			LastTransitionTime: now,
		}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
	}
}

// heartbeats writes what kubelets write when nothing happens.
func (f *Fleet) heartbeats(ctx context.Context) {
	pace := time.NewTicker(heartbeat / time.Duration(f.World.Nodes))
	defer pace.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		if !f.populated.Load() {
			continue
		}
		conditions := nodeConditions()
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
		if err != nil {
			continue
		}
		name := nodeName(i % f.World.Nodes)
		f.work <- func(ctx context.Context) error {
			_, err := f.typed.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch,
				metav1.PatchOptions{}, "status")
			if err != nil {
				return fmt.Errorf("write the heartbeat of node %s: %w", name, err)
			}
			return nil
		}
	}
}
