// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
)

const (
	// AgentContainer is the name of the one container in an agent's pod.
	AgentContainer = "agent"
	// ControlPort is where agents answer the manager.
	ControlPort = 9443
	// DataPort is where receiving agents take data.
	DataPort = 8443

	// AppLabel is on everything that belongs to agents, with the value AppName.
	AppLabel = "app.kubernetes.io/name"
	// AppName is the value of AppLabel.
	AppName = "lighterage-agent"
	// ComponentLabel holds the agent's mode: send, receive or local.
	ComponentLabel = "app.kubernetes.io/component"
	// ManagedByLabel is on everything that the manager makes, with the value ManagedBy.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of ManagedByLabel.
	ManagedBy = "lighterage-manager"

	// LocalMode is the value of ComponentLabel of a pod with both claims of a Transfer.
	LocalMode = "local"

	configDirectory = "/etc/lighterage"
	configKey       = "config.json"
	volumePath      = "/volume"
	destinationPath = "/destination" // beside volumePath, in a pod that has both
	agentUser       = 65532

	// memoryShare of the limit is what Go's collector aims to stay below; the rest is for buffers of C and stacks.
	memoryShare = 0.9
)

// AgentImage is what agents' pods run.
type AgentImage struct {
	Name       string
	PullPolicy corev1.PullPolicy
	// Architectures that it was built for, as Go names them; empty when that is not known.
	Architectures []string
}

// Spec is what an attempt consists of.
type Spec struct {
	// Name of the Job.
	Name       string
	SecretName string
	Namespace  string
	// Mode of the agent, which is the value of ComponentLabel.
	Mode   string
	Labels map[string]string
	Owner  metav1.OwnerReference
	Mounts []Mount
	// Credentials is a Secret of the user's, which may be missing; empty: none.
	Credentials string
	Template    v1alpha1.AgentPodTemplate
	Where       placement.Plan
	// Capabilities make the agent root; without any it is an ordinary user.
	Capabilities []corev1.Capability
	Image        AgentImage
	// Config of the agent.
	Config proto.Message
	// SenderNamespace is that of a sender of this cluster, of a receiving agent.
	SenderNamespace string
	// StoreService is the Service that the endpoint of an object store names; nil: none.
	StoreService *corev1.Service
}

// Mount is a claim in an agent's pod.
type Mount struct {
	Claim    string
	Path     string
	ReadOnly bool
}

// AttemptSecret is what an agent's Secret holds.
type AttemptSecret struct {
	// Config is the agent's configuration as JSON.
	Config []byte
	// KeyPair is the agent's own.
	KeyPair pki.KeyPair
	// ClusterCA and PeerCA are PEM.
	ClusterCA, PeerCA []byte
}

// Secret of the attempt.
func (a *Attempt) Secret(content AttemptSecret) *corev1.Secret {
	meta := a.meta()
	meta.Name = a.spec.SecretName
	return &corev1.Secret{
		ObjectMeta: meta,
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			configKey:               content.Config,
			corev1.TLSCertKey:       content.KeyPair.CertificatePEM,
			corev1.TLSPrivateKeyKey: content.KeyPair.KeyPEM,
			pki.ClusterCAKey:        content.ClusterCA,
			pki.PeerCAKey:           content.PeerCA,
		},
	}
}

func (a *Attempt) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: a.spec.Name, Namespace: a.spec.Namespace, Labels: a.spec.Labels, OwnerReferences: []metav1.OwnerReference{a.spec.Owner},
	}
}

// Job of the attempt.
func (a *Attempt) Job() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: a.meta(),
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
	fsGroup := ptr.To[int64](agentUser)
	if slices.Contains(a.spec.Capabilities, "CHOWN") {
		fsGroup = nil
	}
	security := PodSecurity()
	security.FSGroup, security.FSGroupChangePolicy = fsGroup, ptr.To(corev1.FSGroupChangeOnRootMismatch)
	pod := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](10),
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		Affinity:                      a.spec.Where.Affinity,
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
	if a.spec.Credentials != "" {
		pod.Volumes = append(pod.Volumes, storeCredentials(a.spec.Credentials))
	}
	for i, mount := range a.spec.Mounts {
		if a.volumeOf(i) != i {
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

// volumeOf is the number of the first mount of the same claim: a pod that has one claim in two volumes never starts.
func (a *Attempt) volumeOf(mount int) int {
	return slices.IndexFunc(a.spec.Mounts, func(m Mount) bool { return m.Claim == a.spec.Mounts[mount].Claim })
}

func volumeName(mount int) string {
	return [...]string{"volume", "destination"}[mount]
}

func (a *Attempt) container() corev1.Container {
	container := Container(a.spec.Image, a.spec.Template)
	for name, quantity := range a.spec.Where.Resources() {
		// Of an extended resource both are the same.
		setQuantity(&container.Resources.Requests, name, quantity)
		setQuantity(&container.Resources.Limits, name, quantity)
	}
	container.Args = []string{
		a.spec.Mode, "--config-dir", configDirectory, "--termination-log", corev1.TerminationMessagePathDefault,
	}
	container.Ports = []corev1.ContainerPort{{Name: "control", ContainerPort: ControlPort, Protocol: corev1.ProtocolTCP}}
	container.SecurityContext = agentSecurity(a.spec.Template.SecurityContext, a.spec.Capabilities)
	container.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: configDirectory, ReadOnly: true}}
	container.TerminationMessagePath = corev1.TerminationMessagePathDefault
	container.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	if a.spec.Credentials != "" {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: credentialsVolume, MountPath: credentialsPath, ReadOnly: true,
		})
	}
	for i, mount := range a.spec.Mounts {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: volumeName(a.volumeOf(i)), MountPath: mount.Path, ReadOnly: mount.ReadOnly,
		})
	}
	if a.spec.Mode == "receive" {
		container.Ports = append(
			container.Ports, corev1.ContainerPort{Name: "data", ContainerPort: DataPort, Protocol: corev1.ProtocolTCP},
		)
		// Ready means that the sender may come. A startup probe ends with its first success; a readiness probe would go
		// on and warn of every agent that has done its work.
		container.StartupProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(ControlPort)}},
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

// agentResources are the user's, or the default ones.
func agentResources(given *corev1.ResourceRequirements) corev1.ResourceRequirements {
	if given != nil {
		return *given.DeepCopy()
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse("128Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
	}
}

func labels(mode, ownerLabel string, owner metav1.Object, run string) map[string]string {
	own := Labels(mode, ownerLabel, owner.GetUID())
	own[v1alpha1.RunLabel] = run
	return own
}
