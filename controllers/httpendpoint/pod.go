// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// pod is a replica. It has no service account token and needs no privilege.
func (w Wanted) pod(affinity *corev1.Affinity, image plan.AgentImage) corev1.PodSpec {
	spec := w.Endpoint.Spec
	template := v1alpha1.AgentPodTemplate{}
	if spec.PodTemplate != nil {
		template = *spec.PodTemplate
	}
	return corev1.PodSpec{
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To(int64((endpointPause + drainTimeout(spec) + stopReserve).Seconds())),
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		Affinity:                      affinity,
		TopologySpreadConstraints:     spread(selector(w.Endpoint.UID)),
		Tolerations:                   template.Tolerations,
		PriorityClassName:             template.PriorityClassName,
		SecurityContext:               plan.PodSecurity(),
		Containers:                    []corev1.Container{container(spec, template, image)},
		Volumes:                       volumes(objectName(w.Endpoint), spec.Listener.TLS),
	}
}

// spread asks for replicas on different nodes and in different zones, and rather has two beside each other than one too few.
func spread(selector map[string]string) []corev1.TopologySpreadConstraint {
	constraint := func(key string) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: selector},
			// Replicas that a rolling update is about to remove do not count.
			MatchLabelKeys: []string{"pod-template-hash"},
		}
	}
	return []corev1.TopologySpreadConstraint{constraint(corev1.LabelHostname), constraint(corev1.LabelTopologyZone)}
}

func container(spec v1alpha1.HTTPEndpointSpec, template v1alpha1.AgentPodTemplate, image plan.AgentImage) corev1.Container {
	c := plan.Container(image, template)
	c.Args = []string{"http", "--config-dir", configDirectory}
	c.Ports = []corev1.ContainerPort{
		{Name: "http", ContainerPort: httpPort, Protocol: corev1.ProtocolTCP},
		{Name: "control", ContainerPort: controlPort, Protocol: corev1.ProtocolTCP},
		{Name: "health", ContainerPort: healthPort, Protocol: corev1.ProtocolTCP},
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: configDirectory, ReadOnly: true}}
	if spec.Listener.TLS != nil {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "serving", MountPath: servingDirectory, ReadOnly: true})
	}
	c.ReadinessProbe = probe("/readyz", 2, 2)
	c.LivenessProbe = probe("/livez", 10, 6)
	// Requests keep coming for a moment after the pod has begun to stop; they are served as ever.
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(endpointPause.Seconds())}}}
	return c
}

func probe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(healthPort), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: period, TimeoutSeconds: 2, SuccessThreshold: 1, FailureThreshold: failures,
	}
}

// volumes hold the configuration and the certificate for clients. The latter may be missing: a replica that runs can say so, and begins
// to serve when the kubelet brings it.
func volumes(secret string, tls *v1alpha1.HTTPListenerTLS) []corev1.Volume {
	list := []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, DefaultMode: ptr.To[int32](0o440),
	}}}}
	if tls == nil {
		return list
	}
	return append(list, corev1.Volume{Name: "serving", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: tls.SecretName, DefaultMode: ptr.To[int32](0o440), Optional: ptr.To(true),
		Items: []corev1.KeyToPath{
			{Key: corev1.TLSCertKey, Path: corev1.TLSCertKey}, {Key: corev1.TLSPrivateKeyKey, Path: corev1.TLSPrivateKeyKey},
		},
	}}})
}
