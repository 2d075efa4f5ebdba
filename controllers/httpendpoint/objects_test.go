// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/placement"
)

var image = agentpod.Image{Name: "registry.example/agent:test"}

// find returns the object of a type, the zero value if there is none.
func find[T client.Object](objects []client.Object) (found T) {
	for _, object := range objects {
		if one, ok := object.(T); ok {
			return one
		}
	}
	return found
}

func TestObjects(t *testing.T) {
	endpoint := newEndpoint(func(s *v1alpha1.HTTPEndpointSpec) {
		s.Listener.DrainTimeout = &metav1.Duration{Duration: 20 * time.Second}
		s.Compression = &v1alpha1.HTTPCompression{Placement: v1alpha1.PlacementRequireHardware}
	})
	wanted := want(t, endpoint)
	where := placement.Decide(wanted.Placement([]string{"s390x"}), placement.Facts{})
	objects := wanted.Objects(nil, where.Affinity, image)
	for _, object := range objects {
		if !metav1.IsControlledBy(object, endpoint) || object.GetNamespace() != "bank" ||
			object.GetLabels()[v1alpha1.HTTPEndpointLabel] != "uid-1" {
			t.Errorf("%T %s is not marked as the endpoint's: %+v", object, object.GetName(), object.GetLabels())
		}
	}
	if len(objects) != 3 {
		t.Errorf("%d objects, want Service, budget and Deployment", len(objects))
	}

	service := find[*corev1.Service](objects)
	port := service.Spec.Ports[0]
	if service.Name != "front" || port.Port != 443 || port.Name != "https" ||
		service.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("unexpected Service: %+v", service)
	}
	budget := find[*policyv1.PodDisruptionBudget](objects)
	if budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("unexpected budget: %+v", budget.Spec)
	}

	deployment := find[*appsv1.Deployment](objects)
	if *deployment.Spec.Replicas != 2 || deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("unexpected Deployment: %+v", deployment.Spec)
	}
	if deployment.Name == "front" {
		t.Error("the Deployment, and with it the Secret, bears a name that others may have chosen")
	}
	pod := deployment.Spec.Template.Spec
	for key, value := range service.Spec.Selector {
		if deployment.Spec.Template.Labels[key] != value {
			t.Errorf("the Service selects %s=%s, which replicas do not bear", key, value)
		}
	}
	if *pod.TerminationGracePeriodSeconds <= 20+pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds {
		t.Errorf("a grace period of %d s leaves no time for a drain of 20 s", *pod.TerminationGracePeriodSeconds)
	}
	if *pod.AutomountServiceAccountToken {
		t.Error("replicas have a service account token")
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		t.Error("the placement of the policy is not in the pod's affinity")
	}
	if len(pod.TopologySpreadConstraints) != 1 || pod.TopologySpreadConstraints[0].TopologyKey != corev1.LabelHostname ||
		pod.Affinity.PodAntiAffinity == nil {
		t.Errorf("replicas are not spread: %+v, %+v", pod.TopologySpreadConstraints, pod.Affinity)
	}
	serving := pod.Volumes[1].Secret
	if serving.SecretName != "api-tls" || !*serving.Optional {
		t.Errorf("unexpected volume of the certificate: %+v; a missing Secret must not keep replicas from saying so", serving)
	}
	checkRestricted(t, pod)
}

// checkRestricted checks what the restricted Pod Security Standard wants.
func checkRestricted(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	security := pod.Containers[0].SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || len(security.Capabilities.Drop) != 1 ||
		security.Capabilities.Drop[0] != "ALL" || len(security.Capabilities.Add) != 0 {
		t.Errorf("replicas are not restricted: %+v %+v", pod.SecurityContext, security)
	}
}

func TestPlainListener(t *testing.T) {
	endpoint := newEndpoint(func(s *v1alpha1.HTTPEndpointSpec) {
		s.Listener = v1alpha1.HTTPListener{ServiceType: v1alpha1.HTTPServiceLoadBalancer}
	})
	objects := want(t, endpoint).Objects(nil, nil, image)
	service := find[*corev1.Service](objects)
	if port := service.Spec.Ports[0]; port.Port != 80 || port.Name != "http" ||
		service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		t.Errorf("unexpected Service: %+v", service.Spec)
	}
	if volumes := find[*appsv1.Deployment](objects).Spec.Template.Spec.Volumes; len(volumes) != 1 {
		t.Errorf("%d volumes without TLS, want the configuration alone", len(volumes))
	}
}

// TestAutoscaling: the autoscaler's number of replicas is left alone within the bounds.
func TestAutoscaling(t *testing.T) {
	endpoint := newEndpoint(func(s *v1alpha1.HTTPEndpointSpec) {
		s.Autoscaling = &v1alpha1.HTTPAutoscaling{MinReplicas: 3, MaxReplicas: 6, TargetCPUPercent: 70}
	})
	wanted := want(t, endpoint)
	scaler := find[*autoscalingv2.HorizontalPodAutoscaler](wanted.Objects(nil, nil, image))
	if scaler == nil || *scaler.Spec.MinReplicas != 3 || scaler.Spec.MaxReplicas != 6 ||
		*scaler.Spec.Metrics[0].Resource.Target.AverageUtilization != 70 ||
		scaler.Spec.ScaleTargetRef.Name != find[*appsv1.Deployment](wanted.Objects(nil, nil, image)).Name {
		t.Fatalf("unexpected autoscaler: %+v", scaler)
	}
	for present, expected := range map[int32]int32{1: 3, 5: 5, 9: 6} {
		deployment := find[*appsv1.Deployment](wanted.Objects(&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "8"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(present)},
		}, nil, image))
		if *deployment.Spec.Replicas != expected {
			t.Errorf("of %d replicas become %d, want %d", present, *deployment.Spec.Replicas, expected)
		}
		if deployment.ResourceVersion != "8" {
			t.Error("a number that the autoscaler changes meanwhile would be overwritten")
		}
	}
}
