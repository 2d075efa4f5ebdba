// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// pod is a replica. It has no service account token and needs no privilege.
func (w Wanted) pod(affinity *corev1.Affinity, image agentpod.Image) corev1.PodSpec {
	spec := w.Endpoint.Spec
	template := v1alpha1.AgentPodTemplate{}
	if spec.PodTemplate != nil {
		template = *spec.PodTemplate
	}
	const generation = "pod-template-hash" // those that a rolling update is about to remove do not count
	return corev1.PodSpec{
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To(int64((endpointPause + drainTimeout(spec) + stopReserve).Seconds())),
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		Affinity:                      replicas.Apart(affinity, selector(w.Endpoint.UID), generation),
		TopologySpreadConstraints:     replicas.Spread(selector(w.Endpoint.UID), generation),
		Tolerations:                   template.Tolerations,
		PriorityClassName:             template.PriorityClassName,
		SecurityContext:               agentpod.PodSecurity(),
		Containers:                    []corev1.Container{container(spec, template, image)},
		Volumes:                       volumes(objectName(w.Endpoint), spec.Listener.TLS),
	}
}

func container(
	spec v1alpha1.HTTPEndpointSpec, template v1alpha1.AgentPodTemplate, image agentpod.Image,
) corev1.Container {
	c := agentpod.Container(image, template)
	c.Args = []string{"http", "--config-dir", configDirectory}
	c.Ports = []corev1.ContainerPort{
		{Name: "http", ContainerPort: httpPort, Protocol: corev1.ProtocolTCP},
		{Name: "control", ContainerPort: controlPort, Protocol: corev1.ProtocolTCP},
		{Name: "health", ContainerPort: healthPort, Protocol: corev1.ProtocolTCP},
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: configDirectory, ReadOnly: true}}
	if spec.Listener.TLS != nil {
		c.VolumeMounts = append(
			c.VolumeMounts, corev1.VolumeMount{Name: "serving", MountPath: servingDirectory, ReadOnly: true},
		)
	}
	c.ReadinessProbe = replicas.Probe("/readyz", healthPort, 2, 2)
	c.LivenessProbe = replicas.Probe("/livez", healthPort, 10, 6)
	// Requests keep coming for a moment after the pod has begun to stop; they are served as ever.
	c.Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(endpointPause.Seconds())}},
	}
	return c
}

// volumes hold the configuration and the certificate for clients.
func volumes(secret string, tls *v1alpha1.HTTPListenerTLS) []corev1.Volume {
	list := []corev1.Volume{replicas.SecretVolume("config", secret)}
	if tls == nil {
		return list
	}
	return append(
		list, replicas.OptionalSecretVolume("serving", tls.SecretName, corev1.TLSCertKey, corev1.TLSPrivateKeyKey),
	)
}
