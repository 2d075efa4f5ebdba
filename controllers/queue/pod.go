// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// startAnnotation on a pod is a digest of what of the configuration counts at the start only, so that members begin
// again when it changes.
const startAnnotation = "lighterage.dev/start-digest"

// externalVolume is the name of the one with externalDirectory.
const externalVolume = "external"

// preparedMessageSize is up to which longest message every member is prepared from its start.
const preparedMessageSize = 7 << 20

func (w Wanted) startDigest() string {
	c := w.Config
	sum := sha256.New()
	// A hash never fails to take what is written.
	_, _ = fmt.Fprintln(
		sum, c.GetListenAddress(), c.GetServiceAddress(), c.GetRouteAddress(), c.GetControlAddress(),
		c.GetHealthAddress(), c.GetStorage().GetCapacity(), max(c.GetLimits().GetMaxMessageSize(), preparedMessageSize),
		c.GetAcceptance().GetAddress(),
	)
	for _, member := range c.GetMembers() {
		_, _ = fmt.Fprintln(sum, member.GetName(), member.GetRouteAddress())
	}
	if path := c.GetAcceptance().GetDataPath(); path != "" {
		_, _ = fmt.Fprintln(sum, "data path", path)
	}
	if spill := c.GetStorage().GetSpill(); spill != nil {
		_, _ = fmt.Fprintln(sum, "spill", spill.GetMemoryBytes(), spill.GetVolumeBytes())
	}
	if storage := c.GetStorage(); storage.GetSyncAlways() || storage.GetSyncInterval() != nil {
		_, _ = fmt.Fprintln(sum, "sync", storage.GetSyncAlways(), storage.GetSyncInterval().AsDuration())
	}
	if external := c.GetExternal(); external != nil {
		_, _ = fmt.Fprintf(
			sum, "%q %q %q\n", external.GetServers(), external.GetCaBundle(), external.GetCredentialsDirectory(),
		)
	}
	digestStores(sum, c)
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// pod is a member. It has no service account token and needs no privilege.
func (w Wanted) pod(affinity *corev1.Affinity, image agentpod.Image) corev1.PodSpec {
	spec := w.Queue.Spec
	template := v1alpha1.AgentPodTemplate{}
	if spec.PodTemplate != nil {
		template = *spec.PodTemplate
	}
	security := agentpod.PodSecurity()
	// A volume with many files is not walked through at each start.
	security.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	main, own := container(spec, template, image), volumes(objectName(w.Queue), spec)
	credentials, mounts := w.storeVolumes()
	main.VolumeMounts = append(main.VolumeMounts, mounts...)
	return corev1.PodSpec{
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To(int64((endpointPause + drainTimeout + stopReserve).Seconds())),
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		Affinity:                      replicas.Apart(affinity, selector(w.Queue.UID)),
		TopologySpreadConstraints:     replicas.Spread(selector(w.Queue.UID)),
		Tolerations:                   template.Tolerations,
		PriorityClassName:             template.PriorityClassName,
		SecurityContext:               security,
		Containers:                    []corev1.Container{main},
		Volumes:                       append(own, credentials...),
	}
}

func container(spec v1alpha1.QueueSpec, template v1alpha1.AgentPodTemplate, image agentpod.Image) corev1.Container {
	if template.Resources == nil && spec.Storage.Type == v1alpha1.QueueStorageMemory && spec.Engine.External == nil {
		template.Resources = memoryResources(spec.Storage.Size)
	}
	c := agentpod.Container(image, template)
	if spill := spec.Storage.Spill; spill != nil {
		c.Resources = withDisk(c.Resources, spillLimit(spill.Size))
	}
	c.Args = []string{"queue", "--config-dir", configDirectory}
	port := func(name string, number int32) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
	}
	c.Ports = []corev1.ContainerPort{
		port("nats", clientPort), port("service", messagesPort), port("control", controlPort), port("health", healthPort),
		port("channel", channelPort),
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: configDirectory, ReadOnly: true}}
	switch external := spec.Engine.External; {
	case external == nil:
		c.Ports = append(c.Ports, port("routes", routePort))
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: dataVolume, MountPath: dataDirectory})
	case external.Credentials != nil:
		c.VolumeMounts = append(
			c.VolumeMounts, corev1.VolumeMount{Name: externalVolume, MountPath: externalDirectory, ReadOnly: true},
		)
	}
	_, mounts := archiveVolumes(spec)
	c.VolumeMounts = append(c.VolumeMounts, mounts...)
	if spec.TLS != nil {
		c.VolumeMounts = append(
			c.VolumeMounts, corev1.VolumeMount{Name: "serving", MountPath: servingDirectory, ReadOnly: true},
		)
	}
	if spec.Authentication.Tokens != nil {
		c.VolumeMounts = append(
			c.VolumeMounts, corev1.VolumeMount{Name: "tokens", MountPath: tokensDirectory, ReadOnly: true},
		)
	}
	// A member that reads a large volume at its start is alive, but not ready for long.
	c.ReadinessProbe = replicas.Probe("/readyz", healthPort, 2, 2)
	c.LivenessProbe = replicas.Probe("/livez", healthPort, 10, 6)
	// Requests keep coming for a moment after the pod has begun to stop; they are served as ever.
	c.Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(endpointPause.Seconds())}},
	}
	return c
}

// memoryResources have space for all messages, and for what it takes to keep and compress them.
func memoryResources(size resource.Quantity) *corev1.ResourceRequirements {
	limit := resource.NewQuantity(plus(size.Value(), size.Value()/2, 512<<20), resource.BinarySI)
	return &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: *limit},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: *limit},
	}
}

// spillLimit is how much of a node's disk a member may take before kubelet evicts it, in place of rejecting messages: a
// member sees what its files take some moments after it was written.
func spillLimit(size resource.Quantity) resource.Quantity {
	return *resource.NewQuantity(plus(size.Value(), size.Value()/8), resource.BinarySI)
}

// plus adds figures of 0 or more. A sum that is too great is the greatest quantity.
func plus(sum int64, more ...int64) int64 {
	for _, n := range more {
		if sum > math.MaxInt64-n {
			return math.MaxInt64
		}
		sum += n
	}
	return sum
}

// withDisk asks for so much of the node's disk, unless somebody else has said what to ask for.
func withDisk(r corev1.ResourceRequirements, size resource.Quantity) corev1.ResourceRequirements {
	const disk = corev1.ResourceEphemeralStorage
	if _, ok := r.Requests[disk]; ok {
		return r
	}
	if _, ok := r.Limits[disk]; ok {
		return r // The API server takes it as the request.
	}
	r.Requests = maps.Clone(r.Requests)
	if r.Requests == nil {
		r.Requests = make(corev1.ResourceList)
	}
	r.Requests[disk] = size
	return r
}

// volumes are those that are not the member's own claim.
func volumes(secret string, spec v1alpha1.QueueSpec) []corev1.Volume {
	list := []corev1.Volume{replicas.SecretVolume("config", secret)}
	archives, _ := archiveVolumes(spec)
	list = append(list, archives...)
	if spec.TLS != nil {
		list = append(
			list, replicas.OptionalSecretVolume("serving", spec.TLS.SecretName, corev1.TLSCertKey, corev1.TLSPrivateKeyKey),
		)
	}
	if spec.Authentication.Tokens != nil {
		list = append(
			list,
			replicas.OptionalSecretVolume("tokens", spec.Authentication.Tokens.SecretName, tokenKeys(
				spec.Authentication.Tokens,
			)...),
		)
	}
	if external := spec.Engine.External; external != nil {
		if external.Credentials != nil {
			list = append(
				list, replicas.OptionalSecretVolume(externalVolume, external.Credentials.SecretName, wirev1.ExternalKeys()...),
			)
		}
		return list
	}
	if spec.Storage.Type == v1alpha1.QueueStorageMemory {
		directory := &corev1.EmptyDirVolumeSource{}
		if spill := spec.Storage.Spill; spill != nil {
			directory.SizeLimit = ptr.To(spillLimit(spill.Size))
		}
		list = append(list, corev1.Volume{Name: dataVolume, VolumeSource: corev1.VolumeSource{EmptyDir: directory}})
	}
	return list
}
