// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/lighterage/lighterage/controllers/agentpod"
)

// controllerKey is a Job, StatefulSet or Deployment.
type controllerKey types.UID

// mountPause is how long a kubelet waits for a Secret before it looks again.
const mountPause = 50 * time.Millisecond

// watch acts on what the manager makes.
func (f *Fleet) watch(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(f.typed, 0,
		informers.WithTransform(cache.TransformStripManagedFields()))
	secrets := factory.Core().V1().Secrets().Informer()
	all := []toolscache.SharedIndexInformer{
		secrets, factory.Batch().V1().Jobs().Informer(), factory.Apps().V1().StatefulSets().Informer(),
		factory.Apps().V1().Deployments().Informer(),
	}
	for _, informer := range all {
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { f.changed(nil, object) },
			UpdateFunc: f.changed,
			DeleteFunc: f.deleted,
		}); err != nil {
			return fmt.Errorf("watch what the manager makes: %w", err)
		}
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("watch what the manager makes: %s cannot be listed", kind)
		}
	}
	return nil
}

// changed acts on an object that is new, where before is nil, or that has changed.
func (f *Fleet) changed(before, after any) {
	switch object := after.(type) {
	case *corev1.Secret:
		f.certificates.keep(object)
	case *batchv1.Job:
		if before == nil {
			f.work <- func(ctx context.Context) error { return f.startJob(ctx, object) }
		}
	case *appsv1.StatefulSet:
		old, _ := before.(*appsv1.StatefulSet)
		if old == nil {
			f.work <- func(ctx context.Context) error { return f.startSet(ctx, object) }
		} else if old.Generation != object.Generation {
			f.Templates.Add(1)
			f.work <- func(ctx context.Context) error { return f.setReady(ctx, object) }
		}
	case *appsv1.Deployment:
		old, _ := before.(*appsv1.Deployment)
		if old == nil {
			f.work <- func(ctx context.Context) error { return f.startDeployment(ctx, object) }
		} else if old.Generation != object.Generation {
			f.Templates.Add(1)
			f.work <- func(ctx context.Context) error { return f.deploymentReady(ctx, object) }
		}
	}
}

// deleted removes the pods of what was deleted, as the garbage collector does.
func (f *Fleet) deleted(object any) {
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	if job, ok := object.(*batchv1.Job); ok {
		f.work <- func(ctx context.Context) error {
			selector := metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name}
			pods, err := f.typed.CoreV1().Pods(job.Namespace).List(ctx, selector)
			if err != nil {
				return fmt.Errorf("list the pods of Job %s: %w", job.Name, err)
			}
			for i := range pods.Items {
				if address, err := netip.ParseAddr(pods.Items[i].Status.PodIP); err == nil {
					f.remove(address)
				}
			}
			now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
			err = f.typed.CoreV1().Pods(job.Namespace).DeleteCollection(ctx, now, selector)
			if err != nil {
				return fmt.Errorf("delete the pods of Job %s: %w", job.Name, err)
			}
			return nil
		}
	}
}

func (f *Fleet) startJob(ctx context.Context, job *batchv1.Job) error {
	pod := podOf(job.Namespace, job.Name+"-0", job.Spec.Template)
	pod.Labels[batchv1.JobNameLabel] = job.Name
	owner := metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))
	pod.OwnerReferences = []metav1.OwnerReference{*owner}
	a := &agent{kind: receiver}
	if pod.Labels[agentpod.ComponentLabel] == "send" {
		a.kind = sender
	}
	return f.run(ctx, pod, a)
}

func (f *Fleet) startSet(ctx context.Context, set *appsv1.StatefulSet) error {
	for i := range ptr.Deref(set.Spec.Replicas, 1) {
		pod := podOf(set.Namespace, fmt.Sprintf("%s-%d", set.Name, i), set.Spec.Template)
		owner := metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
		for _, template := range set.Spec.VolumeClaimTemplates {
			claim := template.DeepCopy()
			claim.Namespace, claim.Name = set.Namespace, template.Name+"-"+pod.Name
			if err := f.provision(ctx, claim); err != nil {
				return err
			}
			source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
				Name: template.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source},
			})
		}
		if err := f.run(ctx, pod, &agent{kind: member}); err != nil {
			return err
		}
	}
	return f.setReady(ctx, set)
}

func (f *Fleet) setReady(ctx context.Context, set *appsv1.StatefulSet) error {
	n := ptr.Deref(set.Spec.Replicas, 1)
	patch, err := statusPatch(appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, CurrentReplicas: n,
		UpdatedReplicas: n,
		CurrentRevision: set.Name + "-1", UpdateRevision: set.Name + "-1",
	})
	if err != nil {
		return fmt.Errorf("encode the status of StatefulSet %s: %w", set.Name, err)
	}
	if _, err := f.typed.AppsV1().StatefulSets(set.Namespace).Patch(
		ctx, set.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status",
	); err != nil {
		return fmt.Errorf("write the status of StatefulSet %s: %w", set.Name, err)
	}
	return nil
}

func (f *Fleet) startDeployment(ctx context.Context, deployment *appsv1.Deployment) error {
	// Nobody looks at the ReplicaSet itself.
	set := metav1.OwnerReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet", Name: deployment.Name + "-7c9f6d5b8",
		UID:        uuid.NewUUID(),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
	for i := range ptr.Deref(deployment.Spec.Replicas, 1) {
		pod := podOf(deployment.Namespace, fmt.Sprintf("%s-%d", set.Name, i), deployment.Spec.Template)
		pod.OwnerReferences = []metav1.OwnerReference{set}
		if err := f.run(ctx, pod, &agent{kind: replica}); err != nil {
			return err
		}
	}
	return f.deploymentReady(ctx, deployment)
}

func (f *Fleet) deploymentReady(ctx context.Context, deployment *appsv1.Deployment) error {
	n := ptr.Deref(deployment.Spec.Replicas, 1)
	patch, err := statusPatch(appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n,
		AvailableReplicas: n,
	})
	if err != nil {
		return fmt.Errorf("encode the status of Deployment %s: %w", deployment.Name, err)
	}
	if _, err := f.typed.AppsV1().Deployments(deployment.Namespace).Patch(
		ctx, deployment.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status",
	); err != nil {
		return fmt.Errorf("write the status of Deployment %s: %w", deployment.Name, err)
	}
	return nil
}

// statusPatch replaces a status and nothing else: an update of the status of a StatefulSet or Deployment would also put
// back the annotations that it had when it was read.
func statusPatch(status any) ([]byte, error) { return json.Marshal(map[string]any{"status": status}) }

func podOf(namespace, name string, template corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *template.DeepCopy().ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = namespace, name
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	return pod
}

// run has a pod run on a node with an agent that answers. It may be called again when it has failed.
func (f *Fleet) run(ctx context.Context, pod *corev1.Pod, a *agent) error {
	claims := claimsOf(pod)
	if pod.Spec.NodeName == "" {
		var err error
		if pod.Spec.NodeName, err = f.attach(ctx, pod.Namespace, claims); err != nil {
			return err
		}
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret != nil && !ptr.Deref(volume.Secret.Optional, false) {
			a.secret = volume.Secret.SecretName
			if err := f.mount(ctx, pod.Namespace, a.secret); err != nil {
				return err
			}
		}
	}
	made, err := f.typed.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = f.typed.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("create pod %s: %w", pod.Name, err)
	}
	if made.Status.Phase == corev1.PodRunning {
		return nil
	}
	address := f.address()
	a.namespace, a.pod, a.node = pod.Namespace, pod.Name, pod.Spec.NodeName
	a.architecture = architecture(a.node)
	a.mute = (a.kind == sender || a.kind == receiver) && address.As4()[3]%5 == 0
	f.add(address, a)
	now := metav1.Now()
	condition := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now}
	}
	made.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address.String(), PodIPs: []corev1.PodIP{{IP: address.String()}},
		StartTime: &now, QOSClass: made.Status.QOSClass,
		Conditions: []corev1.PodCondition{
			condition(corev1.PodReadyToStartContainers), condition(corev1.PodInitialized), condition(corev1.PodReady),
			condition(corev1.ContainersReady),
			condition(corev1.PodScheduled),
		},
	}
	for _, container := range pod.Spec.Containers {
		made.Status.ContainerStatuses = append(made.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image,
			ContainerID: "fleet://" + strings.Repeat("0", 64), Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	if _, err := f.typed.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write the status of pod %s: %w", pod.Name, err)
	}
	return nil
}

// mount waits for a Secret, as kubelets do.
func (f *Fleet) mount(ctx context.Context, namespace, name string) error {
	for deadline := time.Now().Add(time.Minute); !f.certificates.has(namespace, name); time.Sleep(mountPause) {
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("mount Secret %s/%s: it does not come", namespace, name)
		}
	}
	return nil
}

func claimsOf(pod *corev1.Pod) []string {
	var claims []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			claims = append(claims, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	return claims
}
