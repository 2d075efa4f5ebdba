// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attempt is the frame of attempts: runs of an agent to an end, for a Transfer, Delivery, CompressionTrial or
// ObjectStore. It has their names, Job and Secret, what a Job and its pod tell, and the waits between attempts. It is
// pure: agentjob reads and writes the cluster.
package attempt

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
)

// Attempt is an attempt that is to be made.
type Attempt struct{ spec Spec }

// New returns the attempt that consists of what spec says.
func New(spec Spec) *Attempt { return &Attempt{spec: spec} }

// Name of the Job.
func (a *Attempt) Name() string { return a.spec.Name }

// Config is the agent's configuration as JSON.
func (a *Attempt) Config() ([]byte, error) {
	config, err := wirev1.MarshalConfig(a.spec.Config)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration of agent %s: %w", a.spec.Name, err)
	}
	return config, nil
}

// NeedsArchiveKey reports whether the agent encrypts archives.
func (a *Attempt) NeedsArchiveKey() bool {
	config, ok := a.spec.Config.(*wirev1.LocalConfig)
	return ok && config.GetEncryption() != nil
}

const (
	// LocalMode is the value of agentpod.ComponentLabel of a pod with both claims of a Transfer.
	LocalMode = "local"

	// VolumePath is where an agent finds its claim.
	VolumePath = "/volume"
	// DestinationPath is that of the second claim, in a pod that has both.
	DestinationPath = "/destination"
)

// Spec is what an attempt consists of.
type Spec struct {
	// Name of the Job.
	Name       string
	SecretName string
	Namespace  string
	// Mode of the agent, which is the value of agentpod.ComponentLabel.
	Mode   string
	Labels map[string]string
	// JobLabels are of the Job alone, beside Labels.
	JobLabels map[string]string
	Owner     metav1.OwnerReference
	Mounts    []Mount
	// credentials are Secrets of the user's, which may be missing.
	credentials []string
	// identities is one with age identities; empty: none.
	identities string
	// stores are the object stores that the agent dials, and what else it does.
	stores   []StoreTraffic
	Template v1alpha1.AgentPodTemplate
	Where    placement.Plan
	// Beside are labels of pods on whose node this one is to be, if it has space: they mount the same claim. nil: none.
	Beside map[string]string
	// Capabilities make the agent root; without any it is an ordinary user.
	Capabilities []corev1.Capability
	Image        agentpod.Image
	// Config of the agent.
	Config proto.Message
	// SenderNamespace is that of the sender of a receiving agent, if it is of this cluster.
	SenderNamespace string
}

// Mount is a claim in an agent's pod, or a volume that goes with the pod.
type Mount struct {
	Claim string
	// Ephemeral takes the place of Claim.
	Ephemeral *v1alpha1.EphemeralVolume
	Path      string
	ReadOnly  bool
	// Block: a device is at Path.
	Block bool
}

// Secret is what an agent's Secret holds.
type Secret struct {
	// Config is the agent's configuration as JSON.
	Config []byte
	// KeyPair is the agent's own.
	KeyPair pki.KeyPair
	// ArchiveKey is what an agent that encrypts archives reads indexes with; nil for others. See NeedsArchiveKey.
	ArchiveKey []byte
	// ClusterCA and PeerCA are PEM.
	ClusterCA, PeerCA []byte
	// Receivers have what is the agent's own for each of several receivers, KeyPair and PeerCA, by name; it has no other.
	Receivers map[string]Secret
}

// Certificates are the files of a Secret without the configuration.
func (s Secret) Certificates() map[string][]byte {
	files := map[string][]byte{pki.ClusterCAKey: s.ClusterCA}
	add := func(prefix string, of Secret) {
		files[prefix+corev1.TLSCertKey], files[prefix+corev1.TLSPrivateKeyKey] = of.KeyPair.CertificatePEM, of.KeyPair.KeyPEM
		files[prefix+pki.PeerCAKey] = of.PeerCA
	}
	if len(s.Receivers) == 0 {
		add("", s)
	}
	for name, of := range s.Receivers {
		add(name+".", of)
	}
	return files
}

// Labels of what belongs to the agent of an attempt. The UID of their owner is in ownerLabel.
func Labels(mode, ownerLabel string, owner metav1.Object, run string) map[string]string {
	own := agentpod.Labels(mode, ownerLabel, owner.GetUID())
	own[v1alpha1.RunLabel] = run
	return own
}
