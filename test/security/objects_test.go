// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
)

func newTransfer(namespace, name string, asked *corev1.SecurityContext) *v1alpha1.Transfer {
	t := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
			Destination: v1alpha1.TransferDestination{
				Peer: "west", PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy"},
				},
			},
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
			Destination: v1alpha1.DeliveryDestination{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "salaries"},
			},
		},
	}
}

// sending are the arguments of an agent that sends a claim.
var sending = []string{"send", "--config-dir", "/etc/lighterage"}

// attemptSecret is the Secret of the Job "agent".
var attemptSecret = attempt.SecretName("agent", &metav1.ObjectMeta{UID: "6e0e7b0a-1f6c-4a3e-9d3b-2f1f4f0f9a11"})

// template is the pod of an agent that needs no privilege.
func template() corev1.PodTemplateSpec {
	agent := agentpod.Container(agentpod.Image{Name: agentImage}, v1alpha1.AgentPodTemplate{})
	agent.Args = slices.Clone(sending)
	agent.VolumeMounts = []corev1.VolumeMount{
		{Name: "config", MountPath: "/etc/lighterage", ReadOnly: true},
		{Name: "data", MountPath: "/volume", SubPath: "2026", ReadOnly: true},
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "agent"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false),
			SecurityContext: agentpod.PodSecurity(), Containers: []corev1.Container{agent},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: attemptSecret}}},
				{
					Name: "data",
					VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "ledger"},
					},
				},
			},
		},
	}
}

func job(namespace string, pod corev1.PodTemplateSpec) client.Object {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}, Spec: batchv1.JobSpec{Template: pod},
	}
}

// serving is the pod of an agent that serves, in place of one that ends.
func serving(pod corev1.PodTemplateSpec, mode string) corev1.PodTemplateSpec {
	if slices.Equal(first(&pod).Args, sending) {
		first(&pod).Args = []string{mode, "--config-dir", "/etc/lighterage"}
	}
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return pod
}

func deployment(namespace string, pod corev1.PodTemplateSpec) client.Object {
	pod = serving(pod, "http")
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "agent",
	}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod,
	}}
}

func statefulSet(namespace string, pod corev1.PodTemplateSpec) client.Object {
	pod = serving(pod, "queue")
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "agent",
	}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod,
	}}
}

// workloads are what the operator runs pods by.
var workloads = map[string]func(string, corev1.PodTemplateSpec) client.Object{
	"Job": job, "Deployment": deployment, "StatefulSet": statefulSet,
}

// hostilePod changes the pod of an agent into one that must be refused, with a message that says fix.
type hostilePod struct {
	name, fix string
	change    func(*corev1.PodTemplateSpec)
}

func first(p *corev1.PodTemplateSpec) *corev1.Container { return &p.Spec.Containers[0] }

// neverAllowed are pods that the operator may not run anywhere.
var neverAllowed = []hostilePod{
	{"image", "run the image " + agentImage, func(p *corev1.PodTemplateSpec) { first(p).Image = "evil.example/miner" }},
	{
		"older image", "run the image",
		func(p *corev1.PodTemplateSpec) { first(p).Image = "registry.example/team/lighterage/agent:v0.0.1" },
	},
	{"second container", "one container", func(p *corev1.PodTemplateSpec) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: agentImage})
	}},
	{"init container", "one container", func(p *corev1.PodTemplateSpec) {
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: agentImage}}
	}},
	{
		"token", "automountServiceAccountToken",
		func(p *corev1.PodTemplateSpec) { p.Spec.AutomountServiceAccountToken = nil },
	},
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
	{"renamed key of a Secret", "under the names of their keys", func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes[0].Secret.Items = []corev1.KeyToPath{
			{Key: "tls.crt", Path: "tls.crt"},
			{Key: "password", Path: "tls.key"},
		}
	}},
	{
		"subPath of a Secret", "under the names of their keys",
		func(p *corev1.PodTemplateSpec) { first(p).VolumeMounts[0].SubPath = "password" },
	},
	{
		"subPathExpr of a Secret", "under the names of their keys",
		func(p *corev1.PodTemplateSpec) { first(p).VolumeMounts[0].SubPathExpr = "$(KEY)" },
	},
	{
		"Secret where data is", "under the names of their keys",
		func(p *corev1.PodTemplateSpec) { first(p).VolumeMounts[0].MountPath = "/volume/secret" },
	},
	{"Secret in two places", "under the names of their keys", func(p *corev1.PodTemplateSpec) {
		first(p).VolumeMounts = append(
			first(p).VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/etc/lighterage/secret"},
		)
	}},
	{
		"another command", "start by the command /agent",
		func(p *corev1.PodTemplateSpec) { first(p).Command = []string{"/agent", "send"} },
	},
	{"the image's command", "start by the command /agent", func(p *corev1.PodTemplateSpec) { first(p).Command = nil }},
	{"command of a probe", "start by the command /agent", func(p *corev1.PodTemplateSpec) {
		first(p).StartupProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/agent", "send"}}},
		}
	}},
	{"command of a hook", "start by the command /agent", func(p *corev1.PodTemplateSpec) {
		first(p).Lifecycle = &corev1.Lifecycle{
			PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/agent", "send"}}},
		}
	}},
	{"privileged", "no agent is privileged", func(p *corev1.PodTemplateSpec) {
		first(p).SecurityContext.Privileged, first(p).SecurityContext.AllowPrivilegeEscalation = ptr.To(true), nil
	}},
	{"SYS_ADMIN", "add no capabilities but", func(p *corev1.PodTemplateSpec) {
		first(p).SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
	}},
}

// otherSecrets change the pod of a Job's agent into one with a Secret that was not made for it.
var otherSecrets = map[string]func(*corev1.PodTemplateSpec){
	"another Secret": func(p *corev1.PodTemplateSpec) { p.Spec.Volumes[0].Secret.SecretName = "payroll" },
	"Secret that it is a prefix of": func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes[0].Secret.SecretName = "agent-credentials"
	},
	"Secret with a longer suffix": func(p *corev1.PodTemplateSpec) {
		p.Spec.Volumes[0].Secret.SecretName = attemptSecret + "0"
	},
	"Secret in the directory of tokens": func(p *corev1.PodTemplateSpec) {
		first(p).VolumeMounts[0].MountPath = "/etc/lighterage-tokens"
	},
}

// jobsOnly are arguments of agents that read the directory that their configuration names, which in a Deployment may
// hold any Secret, and such as no agent has.
var jobsOnly = [][]string{
	{"send", "--config-dir", "/etc/lighterage", "--termination-log", "/dev/termination-log"},
	{"trial", "--config-dir", "/etc/lighterage"},
	{"http", "--config-dir", "/etc/lighterage-tokens"}, nil,
}

// allowedByConsent are pods that the operator may run where the namespace consents.
var allowedByConsent = []hostilePod{
	{"root", "allow-privileged-agents", func(p *corev1.PodTemplateSpec) {
		first(p).SecurityContext.RunAsUser, first(p).SecurityContext.RunAsNonRoot = ptr.To[int64](0), ptr.To(false)
		first(p).SecurityContext.Capabilities.Add = []corev1.Capability{"CHOWN", "DAC_OVERRIDE"}
	}},
	{
		"another user", "allow-privileged-agents",
		func(p *corev1.PodTemplateSpec) { first(p).SecurityContext.RunAsUser = ptr.To[int64](1000) },
	},
	{
		"another group", "allow-privileged-agents",
		func(p *corev1.PodTemplateSpec) { p.Spec.SecurityContext.SupplementalGroups = []int64{1000} },
	},
	{"unconfined", "allow-privileged-agents", func(p *corev1.PodTemplateSpec) {
		first(p).SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	}},
	{"SELinux", "allow-privileged-agents", func(p *corev1.PodTemplateSpec) {
		first(p).SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
	}},
}
