// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

const (
	configDirectory = "/etc/lighterage"
	configKey       = "config.json"
)

// Secret of the attempt.
func (a *Attempt) Secret(content Secret) *corev1.Secret {
	meta := a.meta()
	meta.Name = a.spec.SecretName
	data := content.Certificates()
	data[configKey] = content.Config
	if content.ArchiveKey != nil {
		data[wirev1.ArchiveKey] = content.ArchiveKey
	}
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: data}
}

func (a *Attempt) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: a.spec.Name, Namespace: a.spec.Namespace, Labels: a.spec.Labels,
		OwnerReferences: []metav1.OwnerReference{a.spec.Owner},
	}
}

// Job of the attempt.
func (a *Attempt) Job() *batchv1.Job {
	meta := a.meta()
	if len(a.spec.JobLabels) > 0 {
		meta.Labels = maps.Clone(meta.Labels)
		maps.Copy(meta.Labels, a.spec.JobLabels)
	}
	return &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			// The manager makes attempts; a Job that made its own would reuse the run's certificate and hide the
			// failure.
			BackoffLimit: ptr.To[int32](0),
			// The Job remembers of a pod that is gone that it was evicted.
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: batchv1.PodFailurePolicyActionFailJob,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				}},
			}}},
			Parallelism: ptr.To[int32](1),
			Completions: ptr.To[int32](1),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: a.spec.Labels},
				Spec:       a.pod(),
			},
		},
	}
}

func (a *Attempt) pod() corev1.PodSpec {
	// The kubelet gives a volume to that group. An agent that keeps owners wants nothing changed behind its back.
	fsGroup := ptr.To[int64](agentpod.User)
	if slices.Contains(a.spec.Capabilities, "CHOWN") {
		fsGroup = nil
	}
	security := agentpod.PodSecurity()
	security.FSGroup, security.FSGroupChangePolicy = fsGroup, ptr.To(corev1.FSGroupChangeOnRootMismatch)
	pod := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](10),
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		Affinity:                      a.affinity(),
		Tolerations:                   a.spec.Template.Tolerations,
		PriorityClassName:             a.spec.Template.PriorityClassName,
		SecurityContext:               security,
		Containers:                    []corev1.Container{a.container()},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: a.spec.SecretName, DefaultMode: ptr.To[int32](0o440),
			}}},
		},
	}
	for i, secret := range a.spec.credentials {
		pod.Volumes = append(pod.Volumes, storeCredentials(i, secret))
	}
	a.mountIdentities(&pod)
	for i, mount := range a.spec.Mounts {
		if a.volumeOf(i) != i {
			continue
		}
		if mount.Ephemeral != nil {
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volumeName(i), VolumeSource: a.ephemeral(mount.Ephemeral)})
			continue
		}
		// Read-only here too: the kubelet then leaves the owners of a source's files alone.
		readOnly := !slices.ContainsFunc(a.spec.Mounts, func(m Mount) bool { return m.Claim == mount.Claim && !m.ReadOnly })
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volumeName(i), VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: mount.Claim, ReadOnly: readOnly},
		}})
	}
	return pod
}

// affinity is that of placement, with the node of pods beside which this one is to be. A claim may be attached to one
// node at a time, and where it is nobody knows before one of them has a node.
func (a *Attempt) affinity() *corev1.Affinity {
	if a.spec.Beside == nil {
		return a.spec.Where.Affinity
	}
	affinity := &corev1.Affinity{}
	if a.spec.Where.Affinity != nil {
		affinity = a.spec.Where.Affinity.DeepCopy()
	}
	affinity.PodAffinity = &corev1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
				LabelSelector: &metav1.LabelSelector{MatchLabels: a.spec.Beside}, TopologyKey: corev1.LabelHostname,
			},
		}},
	}
	return affinity
}

// ephemeral is a volume whose claim Kubernetes makes for the pod, and removes with it.
func (a *Attempt) ephemeral(volume *v1alpha1.EphemeralVolume) corev1.VolumeSource {
	spec := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: volume.Size.DeepCopy()},
		},
	}
	if volume.StorageClassName != "" {
		spec.StorageClassName = ptr.To(volume.StorageClassName)
	}
	return corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Labels: a.spec.Labels}, Spec: spec,
		},
	}}
}

// volumeOf is the number of the first mount of the same claim: a pod that has one claim in two volumes never starts.
func (a *Attempt) volumeOf(mount int) int {
	return slices.IndexFunc(a.spec.Mounts, func(m Mount) bool {
		return m.Claim == a.spec.Mounts[mount].Claim && m.Ephemeral == a.spec.Mounts[mount].Ephemeral
	})
}

func volumeName(mount int) string {
	return [...]string{"volume", "destination"}[mount]
}

func (a *Attempt) container() corev1.Container {
	container := agentpod.Container(a.spec.Image, a.spec.Template)
	for name, quantity := range a.spec.Where.Resources() {
		// Of an extended resource both are the same.
		setQuantity(&container.Resources.Requests, name, quantity)
		setQuantity(&container.Resources.Limits, name, quantity)
	}
	container.Args = []string{
		a.spec.Mode, "--config-dir", configDirectory, "--termination-log", corev1.TerminationMessagePathDefault,
	}
	container.Ports = []corev1.ContainerPort{{Name: "control", ContainerPort: agentpod.ControlPort,
		Protocol: corev1.ProtocolTCP}}
	container.SecurityContext = agentpod.Security(a.spec.Template.SecurityContext, a.spec.Capabilities)
	container.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: configDirectory, ReadOnly: true}}
	container.TerminationMessagePath = corev1.TerminationMessagePathDefault
	container.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	for i := range a.spec.credentials {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: credentialsVolume(i), MountPath: credentialsPath(i), ReadOnly: true,
		})
	}
	for i, mount := range a.spec.Mounts {
		if mount.Block {
			container.VolumeDevices = append(container.VolumeDevices, corev1.VolumeDevice{
				Name: volumeName(a.volumeOf(i)), DevicePath: mount.Path,
			})
			continue
		}
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: volumeName(a.volumeOf(i)), MountPath: mount.Path, ReadOnly: mount.ReadOnly,
		})
	}
	if a.spec.Mode == "receive" {
		container.Ports = append(
			container.Ports, corev1.ContainerPort{Name: "data", ContainerPort: agentpod.DataPort, Protocol: corev1.ProtocolTCP},
		)
		// Started means that the sender may come. A startup probe ends with its first success; a readiness probe would go
		// on and warn of every agent that has done its work.
		container.StartupProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(agentpod.ControlPort)}},
			PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 300,
		}
	}
	return container
}

func setQuantity(list *corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = quantity
}
