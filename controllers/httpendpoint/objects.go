// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/owned"
)

// component is the value of agentpod.ComponentLabel.
const component = "http"

// objectName is that of everything but the Service. The UID keeps it from being the name of what is not ours: the
// Secret under this name is overwritten unseen.
func objectName(endpoint *v1alpha1.HTTPEndpoint) string {
	uid := sha256.Sum256([]byte(endpoint.UID))
	return endpoint.Name + "-http-" + hex.EncodeToString(uid[:4])
}

func selector(uid types.UID) map[string]string {
	return map[string]string{v1alpha1.HTTPEndpointLabel: string(uid)}
}

func labels(uid types.UID) map[string]string {
	return agentpod.Labels(component, v1alpha1.HTTPEndpointLabel, uid)
}

// Objects are what is to exist, the Secret excepted, in the order in which it is made. present is the Deployment that
// there is, nil if none: with autoscaling the number of replicas is not ours to set. affinity is that of the replicas.
func (w Wanted) Objects(present *appsv1.Deployment, affinity *corev1.Affinity, image agentpod.Image) []client.Object {
	objects := []client.Object{w.service(), w.budget(), w.deployment(present, affinity, image)}
	if w.Endpoint.Spec.Autoscaling != nil {
		objects = append(objects, w.autoscaler())
	}
	return objects
}

func (w Wanted) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: w.Endpoint.Namespace, Labels: labels(w.Endpoint.UID),
		OwnerReferences: []metav1.OwnerReference{agentpod.OwnerReference(kind, w.Endpoint)},
	}
}

// listenerPort is that of the Service.
func listenerPort(listener v1alpha1.HTTPListener) int32 {
	switch {
	case listener.Port != 0:
		return listener.Port
	case listener.TLS != nil:
		return 443
	}
	return 80
}

func (w Wanted) service() *corev1.Service {
	listener := w.Endpoint.Spec.Listener
	scheme := "http"
	if listener.TLS != nil {
		scheme = "https"
	}
	serviceType := corev1.ServiceType(listener.ServiceType)
	if serviceType == "" {
		serviceType = corev1.ServiceTypeClusterIP
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: w.meta(w.Endpoint.Name),
		Spec: corev1.ServiceSpec{
			Type:     serviceType,
			Selector: selector(w.Endpoint.UID),
			Ports: []corev1.ServicePort{{
				Name: scheme, AppProtocol: ptr.To(scheme), Protocol: corev1.ProtocolTCP,
				Port: listenerPort(listener), TargetPort: intstr.FromInt32(httpPort),
			}},
		},
	}
}

// budget bears the record, too. On the Deployment each change of it would make a generation that its controller has to
// see.
func (w Wanted) budget() *policyv1.PodDisruptionBudget {
	meta := w.meta(objectName(w.Endpoint))
	meta.Annotations = owned.GenerationOf(w.Endpoint)
	maps.Copy(meta.Annotations, w.record)
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: meta,
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             ptr.To(intstr.FromInt32(1)),
			Selector:                   &metav1.LabelSelector{MatchLabels: selector(w.Endpoint.UID)},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}

func (w Wanted) autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	scaling := w.Endpoint.Spec.Autoscaling
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: w.meta(objectName(w.Endpoint)),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: "apps/v1", Kind: "Deployment", Name: objectName(w.Endpoint),
			},
			MinReplicas: ptr.To(minReplicas(scaling)),
			MaxReplicas: scaling.MaxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To(orDefault(scaling.TargetCPUPercent, 80)),
					},
				},
			}},
		},
	}
}

func minReplicas(scaling *v1alpha1.HTTPAutoscaling) int32 {
	return orDefault(scaling.MinReplicas, defaultReplicas)
}

func orDefault(value, built int32) int32 {
	if value == 0 {
		return built
	}
	return value
}

// replicas is what the Deployment is to have.
func (w Wanted) replicas(present *appsv1.Deployment) int32 {
	spec := w.Endpoint.Spec
	if spec.Autoscaling == nil {
		return ptr.Deref(spec.Replicas, defaultReplicas)
	}
	now := minReplicas(spec.Autoscaling)
	if present != nil {
		now = ptr.Deref(present.Spec.Replicas, now)
	}
	return max(min(now, spec.Autoscaling.MaxReplicas), minReplicas(spec.Autoscaling))
}

func (w Wanted) deployment(
	present *appsv1.Deployment, affinity *corev1.Affinity, image agentpod.Image,
) *appsv1.Deployment {
	deployment := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: w.meta(objectName(w.Endpoint)),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(w.replicas(present)),
			Selector: &metav1.LabelSelector{MatchLabels: selector(w.Endpoint.UID)},
			// A replica goes when one that serves has taken its place.
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromInt32(1)),
				},
			},
			RevisionHistoryLimit: ptr.To[int32](2),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(w.Endpoint.UID)},
				Spec:       w.pod(affinity, image),
			},
		},
	}
	if present != nil && w.Endpoint.Spec.Autoscaling != nil {
		// If the autoscaler has changed the number since, this write is refused and what it says is read first.
		deployment.ResourceVersion = present.ResourceVersion
	}
	return deployment
}
