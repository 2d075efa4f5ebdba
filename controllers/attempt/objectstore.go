// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// credentialsVolume and credentialsPath are those of a pod's Secret number i with credentials.
func credentialsVolume(i int) string { return numbered("credentials", i) }

func credentialsPath(i int) string { return numbered("/etc/lighterage-store", i) }

func numbered(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i)
}

// AddStore has the agent's pod mount the credentials of a store and dial it, and returns what the agent is told of it.
// The directory is below the store's prefix; empty: the prefix itself. service is the one that the endpoint names; nil:
// none.
func (s *Spec) AddStore(
	spec v1alpha1.ObjectStoreSpec, directory string, service *corev1.Service,
) *wirev1.ObjectStoreConfig {
	config := StoreConfig(spec, directory)
	if spec.Credentials != nil {
		config.CredentialsDirectory = credentialsPath(len(s.credentials))
		s.credentials = append(s.credentials, spec.Credentials.SecretName)
	}
	s.stores = append(s.stores, StoreTraffic{Address: StoreAddress(config), Service: service})
	return config
}

// Reach has the agent's pod dial another address beside its stores. service is the one that it names; nil: none.
func (s *Spec) Reach(address string, service *corev1.Service) {
	s.stores = append(s.stores, StoreTraffic{Address: address, Service: service})
}

// StoreConfig is what agents are told of a directory below a store's prefix, but for its credentials.
func StoreConfig(spec v1alpha1.ObjectStoreSpec, directory string) *wirev1.ObjectStoreConfig {
	config := &wirev1.ObjectStoreConfig{
		Endpoint: spec.Endpoint, Bucket: spec.Bucket, Region: spec.Region,
		Prefix:      strings.Trim(strings.Trim(spec.Prefix, "/")+"/"+strings.Trim(directory, "/"), "/"),
		VirtualHost: spec.Addressing == v1alpha1.StoreAddressingVirtualHost, CaBundle: spec.CABundle,
		StorageClass: spec.StorageClass,
	}
	if e := spec.Encryption; e != nil {
		config.EncryptS3 = e.Type == v1alpha1.StoreEncryptionServerKeys
		if e.Type == v1alpha1.StoreEncryptionKeyService {
			config.KmsKeyId = e.KeyID
		}
	}
	return config
}

// storeCredentials mounts the keys that are read, and no others. The Secret may be missing: the agent says so.
func storeCredentials(i int, secret string) corev1.Volume {
	source := &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To[int32](0o440), Optional: ptr.To(true)}
	for _, key := range wirev1.ObjectStoreKeys() {
		source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return corev1.Volume{Name: credentialsVolume(i), VolumeSource: corev1.VolumeSource{Secret: source}}
}

// identitiesVolume and IdentitiesPath are those of the Secret with age identities.
const (
	identitiesVolume = "identities"
	// IdentitiesPath is where an agent finds them.
	IdentitiesPath = "/etc/lighterage-identities"
)

// AddIdentities has the agent's pod mount age identities of a Secret at IdentitiesPath.
func (s *Spec) AddIdentities(secret string) { s.identities = secret }

// mountIdentities mounts them. The Secret may be missing: the agent says so.
func (a *Attempt) mountIdentities(pod *corev1.PodSpec) {
	if a.spec.identities == "" {
		return
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{
		Name: identitiesVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: a.spec.identities, DefaultMode: ptr.To[int32](0o440), Optional: ptr.To(true),
			Items: []corev1.KeyToPath{{Key: wirev1.AgeIdentitiesKey, Path: wirev1.AgeIdentitiesKey}},
		}},
	})
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{
		Name: identitiesVolume, MountPath: IdentitiesPath, ReadOnly: true,
	})
}

// StoreHost is the host and port that agents dial for a store: with VirtualHost the bucket is a part of the host's
// name, which another server may have than that of the endpoint. Both are empty if the endpoint is none.
func StoreHost(spec v1alpha1.ObjectStoreSpec) (host, port string) {
	return WireStoreHost(StoreConfig(spec, ""))
}

// WireStoreHost is the same for what agents are told.
func WireStoreHost(config *wirev1.ObjectStoreConfig) (host, port string) {
	u, err := url.Parse(config.GetEndpoint())
	if err != nil || u.Hostname() == "" {
		return "", ""
	}
	if host = u.Hostname(); config.GetVirtualHost() {
		host = config.GetBucket() + "." + host
	}
	if port = u.Port(); port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return host, port
}

// StoreAddress is what agents dial as host:port.
func StoreAddress(config *wirev1.ObjectStoreConfig) string {
	host, port := WireStoreHost(config)
	if host == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
}
