// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

func newTransfer(namespace, name string, asked *corev1.SecurityContext) *v1alpha1.Transfer {
	t := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TransferSpec{
			Source:      v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
			Destination: v1alpha1.TransferDestination{Peer: "west", PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy"}},
		},
	}
	if asked != nil {
		t.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{SecurityContext: asked}
	}
	return t
}

func delivery(namespace, name string) *v1alpha1.Delivery {
	return &v1alpha1.Delivery{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.DeliverySpec{
			Peer: "east", Transfer: v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "abcde", Attempt: 1},
			Destination: v1alpha1.DeliveryDestination{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "salaries"}},
		},
	}
}

// template is the pod of an agent that needs no privilege.
func template() corev1.PodTemplateSpec {
	agent := plan.Container(plan.AgentImage{Name: agentImage}, v1alpha1.AgentPodTemplate{})
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "agent"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false),
			SecurityContext: plan.PodSecurity(), Containers: []corev1.Container{agent},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "agent-1234"}}},
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "ledger"}}},
			},
		},
	}
}

func job(namespace string, pod corev1.PodTemplateSpec) client.Object {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}, Spec: batchv1.JobSpec{Template: pod}}
}

func deployment(namespace string, pod corev1.PodTemplateSpec) client.Object {
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod,
	}}
}

func statefulSet(namespace string, pod corev1.PodTemplateSpec) client.Object {
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod,
	}}
}

// workloads are what the operator runs pods by.
var workloads = map[string]func(string, corev1.PodTemplateSpec) client.Object{"Job": job, "Deployment": deployment, "StatefulSet": statefulSet}

// hostilePod changes the pod of an agent into one that must be refused, with a message that says mend.
type hostilePod struct {
	name, mend string
	change     func(*corev1.PodTemplateSpec)
}

func first(p *corev1.PodTemplateSpec) *corev1.Container { return &p.Spec.Containers[0] }

// neverAllowed are pods that the operator may not run anywhere.
var neverAllowed = []hostilePod{
	{"image", "run the image " + agentImage, func(p *corev1.PodTemplateSpec) { first(p).Image = "evil.example/miner" }},
	{"older image", "run the image", func(p *corev1.PodTemplateSpec) { first(p).Image = "registry.example/team/lighterage/agent:v0.0.1" }},
	{"second container", "one container", func(p *corev1.PodTemplateSpec) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: agentImage})
	}},
	{"init container", "one container", func(p *corev1.PodTemplateSpec) {
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: agentImage}}
	}},
	{"token", "automountServiceAccountToken", func(p *corev1.PodTemplateSpec) { p.Spec.AutomountServiceAccountToken = nil }},
	{"service account", "serviceAccountName", func(p *corev1.PodTemplateSpec) { p.Spec.ServiceAccountName = "deployer" }},
	{"host path", "Secrets, claims and empty directories", func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes[1].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
	}},
	{"projected token", "Secrets, claims and empty directories", func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes[1].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}}
	}},
	{"host network", "hostNetwork", func(p *corev1.PodTemplateSpec) { p.Spec.HostNetwork = true }},
	{"host processes", "hostPID", func(p *corev1.PodTemplateSpec) { p.Spec.HostPID = true }},
	{"host port", "hostPort", func(p *corev1.PodTemplateSpec) {
		first(p).Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}},
	{"Secret in the environment", "take no environment", func(p *corev1.PodTemplateSpec) {
		first(p).Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "payroll"}, Key: "password",
		}}}}
	}},
	{"privileged", "no agent is privileged", func(p *corev1.PodTemplateSpec) {
		first(p).SecurityContext.Privileged, first(p).SecurityContext.AllowPrivilegeEscalation = ptr.To(true), nil
	}},
	{"SYS_ADMIN", "add no capabilities but", func(p *corev1.PodTemplateSpec) {
		first(p).SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
	}},
}

// allowedByConsent are pods that the operator may run where the namespace consents.
var allowedByConsent = []hostilePod{
	{"root", "allow-privileged-agents", func(p *corev1.PodTemplateSpec) {
		first(p).SecurityContext.RunAsUser, first(p).SecurityContext.RunAsNonRoot = ptr.To[int64](0), ptr.To(false)
		first(p).SecurityContext.Capabilities.Add = []corev1.Capability{"CHOWN", "DAC_OVERRIDE"}
	}},
	{"another user", "allow-privileged-agents", func(p *corev1.PodTemplateSpec) { first(p).SecurityContext.RunAsUser = ptr.To[int64](1000) }},
	{"another group", "allow-privileged-agents", func(p *corev1.PodTemplateSpec) { p.Spec.SecurityContext.SupplementalGroups = []int64{1000} }},
	{"unconfined", "allow-privileged-agents", func(p *corev1.PodTemplateSpec) {
		first(p).SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	}},
	{"SELinux", "allow-privileged-agents", func(p *corev1.PodTemplateSpec) {
		first(p).SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
	}},
}
