// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/table"
)

const (
	managerDeployment = "lighterage-manager"
	agentImageFlag    = "--agent-image="
	watchFlag         = "--watch-namespaces="
	// fillMounted is where the pod that writes test data has the claim.
	fillMounted = "/data"
)

// verifiable checks that the manager of the cluster sees namespaces that verify makes, and returns the image that it
// gives agents.
func (s *side) verifiable(ctx context.Context) (image string, err error) {
	var manager appsv1.Deployment
	key := client.ObjectKey{Namespace: s.operator, Name: managerDeployment}
	if err := s.cluster.Get(ctx, key, &manager); err != nil {
		return "", s.failed("reading Deployment "+key.String(), err)
	}
	for _, container := range manager.Spec.Template.Spec.Containers {
		for _, argument := range container.Args {
			if names, found := strings.CutPrefix(argument, watchFlag); found && names != "" {
				return "", fmt.Errorf("cluster %s: the operator watches only namespaces of its chart value watchNamespaces, and "+
					"verify makes one of its own; nothing was made. Move a claim of a namespace that it watches "+
					"(docs/how-to/move-a-claim.md)", s.context)
			}
			if named, found := strings.CutPrefix(argument, agentImageFlag); found {
				image = named
			}
		}
	}
	if image == "" {
		return "", fmt.Errorf("cluster %s: Deployment %s has no argument %s", s.context, key, agentImageFlag)
	}
	return image, nil
}

// throwAway is a namespace for verify.
func throwAway(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		link.MadeByLabel: link.MadeByVerify, "pod-security.kubernetes.io/enforce": "restricted",
	}}}
}

// claim is one with a tenth more than the data need, for the file system.
func claim(namespace, name, class string, bytes int64) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	if class != "" {
		c.Spec.StorageClassName = &class
	}
	c.Spec.Resources.Requests = corev1.ResourceList{
		corev1.ResourceStorage: *resource.NewQuantity(bytes+bytes/10+32<<20, resource.BinarySI),
	}
	return c
}

// filler is the pod that writes test data into the claim source.
func filler(namespace, image string, bytes int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fill"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
			EnableServiceLinks: new(false), SecurityContext: agentpod.PodSecurity(),
			Containers: []corev1.Container{{
				Name: "fill", Image: image, SecurityContext: agentpod.Security(nil, nil),
				Args: []string{"fill", "--directory", fillMounted, "--bytes", strconv.FormatInt(bytes, 10)},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("128Mi"),
				}},
				VolumeMounts: []corev1.VolumeMount{{Name: "source", MountPath: fillMounted}},
			}},
			Volumes: []corev1.Volume{{Name: "source", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "source"},
			}}},
		},
	}
}

// grantFor lets the namespace of the same name of the Peer write the claim destination.
func grantFor(namespace, peer string) *v1alpha1.PeerGrant {
	return link.Grant{Namespace: namespace, Claim: "destination", From: namespace}.For(peer)
}

// moving is the Transfer.
func moving(namespace, peer string) *v1alpha1.Transfer {
	t := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "verify"}}
	t.Spec.Source.PersistentVolumeClaim.ClaimName = "source"
	t.Spec.Destination.Peer = peer
	t.Spec.Destination.PersistentVolumeClaim.ClaimName = "destination"
	t.Spec.Verify = v1alpha1.VerifyDigest
	return t
}

// filled reports whether test data are written.
func filled(pod *corev1.Pod) (done bool, state string, err error) {
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return true, "", nil
	case corev1.PodFailed:
		for _, s := range pod.Status.ContainerStatuses {
			if end := s.State.Terminated; end != nil && end.ExitCode == 2 {
				return false, "", errors.New("the agent of this cluster is older than the plugin and writes no test data; " +
					"upgrade the operator, or use the plugin of its version")
			}
		}
		return false, "", fmt.Errorf("writing test data failed: %s",
			table.Printable(pod.Status.Reason+" "+pod.Status.Message))
	}
	state = "pod fill: " + string(pod.Status.Phase)
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			state += ", " + c.Message
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if waiting := s.State.Waiting; waiting != nil {
			state += ", " + waiting.Reason
		}
	}
	return false, state, nil
}
