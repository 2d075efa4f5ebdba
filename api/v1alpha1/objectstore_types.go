// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StoreAddressing is how requests name the bucket.
// +kubebuilder:validation:Enum=Path;VirtualHost
type StoreAddressing string

const (
	// StoreAddressingPath: as the first part of the path, which all servers understand.
	StoreAddressingPath StoreAddressing = "Path"
	// StoreAddressingVirtualHost: as the first part of the server's name.
	StoreAddressingVirtualHost StoreAddressing = "VirtualHost"
)

// StoreEncryptionType is whose keys a server encrypts with.
// +kubebuilder:validation:Enum=BucketDefault;ServerKeys;KeyService
type StoreEncryptionType string

const (
	// StoreEncryptionBucketDefault: as the bucket is configured. Requests ask for nothing.
	StoreEncryptionBucketDefault StoreEncryptionType = "BucketDefault"
	// StoreEncryptionServerKeys: keys that the server keeps (SSE-S3).
	StoreEncryptionServerKeys StoreEncryptionType = "ServerKeys"
	// StoreEncryptionKeyService: a key of the server's key service (SSE-KMS).
	StoreEncryptionKeyService StoreEncryptionType = "KeyService"
)

// StoreEncryption is encryption by the server of what is written.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'KeyService') == has(self.keyID)",message="keyID goes with type KeyService: name the key, or choose another type and leave keyID out"
type StoreEncryption struct {
	// type: BucketDefault, ServerKeys (SSE-S3) or KeyService (SSE-KMS).
	// +required
	Type StoreEncryptionType `json:"type,omitempty"`
	// keyID names the key of the key service.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	KeyID string `json:"keyID,omitempty"`
}

// ObjectStoreReference names an ObjectStore.
type ObjectStoreReference struct {
	// name of the ObjectStore, in the namespace of what names it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
}

// StoreHandOff says whether Transfers of other clusters come through a store.
// +kubebuilder:validation:Enum=None;Receive
type StoreHandOff string

const (
	// StoreHandOffNone: they do not; the same as none stated.
	StoreHandOffNone StoreHandOff = "None"
	// StoreHandOffReceive: an agent connects them to this cluster's gateway.
	StoreHandOffReceive StoreHandOff = "Receive"
)

// ObjectStorePath is a directory in an ObjectStore.
type ObjectStorePath struct {
	// name of the ObjectStore, in the namespace of what names it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// path from the prefix of the ObjectStore: what keys begin with, between slashes.
	// +optional
	// +default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must be absolute, from the prefix of the ObjectStore; write for example /data"
	// +kubebuilder:validation:Pattern=`^/[^\\\x00-\x1f\x7f]*$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('//')",message="path must have no empty elements; write for example /data"
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '..' || p == '.' || p.startsWith('.lighterage'))",message="path must not contain elements that are . or .. or begin with .lighterage; name the directory itself"
	Path string `json:"path,omitempty"`
}

// StoreCredentials are what agents authenticate with.
type StoreCredentials struct {
	// secretName of a Secret in this namespace with the keys lighterage-s3-access-key-id and
	// lighterage-s3-secret-access-key, and lighterage-s3-session-token where there is one. They are read for every
	// request, so a new value counts as soon as the kubelet has brought it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	SecretName string `json:"secretName,omitempty"`
}

// ObjectStoreSpec is a prefix of a bucket and how to reach it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.credentials) || self.endpoint.startsWith('https://')",message="endpoint must begin with https:// where credentials are given, which would be readable on the way; or leave credentials out"
// +kubebuilder:validation:XValidation:rule="!has(self.caBundle) || self.endpoint.startsWith('https://')",message="caBundle needs an endpoint that begins with https://; correct the endpoint or leave caBundle out"
// +kubebuilder:validation:XValidation:rule="!has(self.addressing) || self.addressing != 'VirtualHost' || !self.endpoint.matches('^https?://(\\\\[|[0-9.]+(:[0-9]+)?$)')",message="addressing VirtualHost needs an endpoint with a DNS name, before which the bucket is written; choose Path for an address"
type ObjectStoreSpec struct {
	// endpoint of the S3 interface as https://HOST or https://HOST:PORT, without the bucket. http:// is for stores that
	// take anonymous requests. A Service of this namespace is NAME.NAMESPACE.svc.
	// +required
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=300
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?|\\\\[[0-9a-fA-F:.]+\\\\])(:[0-9]{1,5})?$')",message="endpoint must be https://HOST or https://HOST:PORT, without a path; write for example https://s3.example.com"
	Endpoint string `json:"endpoint,omitempty"`

	// bucket, which must exist.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$') && !self.contains('..')",message="bucket must be the name of a bucket: 3 to 63 lower-case letters, digits, '-' and '.'; write for example backups"
	Bucket string `json:"bucket,omitempty"`

	// prefix of all keys, without slashes at its ends. Absent: the whole bucket. Stores of several clusters or
	// namespaces in one bucket need prefixes none of which begins with another.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9!_.*()/=-]+$') && !self.startsWith('/') && !self.endsWith('/') && self.split('/').all(s, s != '' && s != '.' && s != '..' && s != '.lighterage-probe')",message="prefix must be a relative path of letters, digits and !_.*()=- without empty segments, '.', '..' and '.lighterage-probe', where probes write; write for example east/bank"
	Prefix string `json:"prefix,omitempty"`

	// region that requests are signed for.
	// +optional
	// +default="us-east-1"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][a-zA-Z0-9-]*$')",message="region must be letters, digits and '-'; write for example eu-central-1"
	Region string `json:"region,omitempty"`

	// credentials of agents for the store. Absent: requests are anonymous.
	// +optional
	Credentials *StoreCredentials `json:"credentials,omitempty"`

	// caBundle is who vouches for the server's certificate, as PEM in base64. Absent: the public CAs that the agent was
	// built with.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`

	// addressing: Path or VirtualHost.
	// +optional
	// +default="Path"
	Addressing StoreAddressing `json:"addressing,omitempty"`

	// storageClass of what is written, in the server's words. Absent: that of the bucket. What is written must be
	// readable at once: no archive.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_-]+$')",message="storageClass must be letters, digits, '_' and '-'; write for example STANDARD_IA"
	StorageClass string `json:"storageClass,omitempty"`

	// encryption by the server of what is written. Absent: BucketDefault.
	// +optional
	Encryption *StoreEncryption `json:"encryption,omitempty"`

	// handOff: Receive has an agent of the namespace take up Transfers of other clusters from the store, by their
	// destination.via, and connect them to this cluster's gateway. What they may write is up to PeerGrants as with any
	// other. Whoever may write to the bucket below the prefix then reaches the gateway, which authenticates them. Each
	// receiving cluster, and each direction between two, needs a prefix of its own.
	// +optional
	HandOff StoreHandOff `json:"handOff,omitempty"`
}

// StorePromiseType is something that Transfers need of a store.
// +kubebuilder:validation:Enum=ReadAfterWrite;RangedGet;List;Multipart;ConditionalPut;ConditionalComplete;Abort;Delete
type StorePromiseType string

const (
	// StoreReadAfterWrite: what was written or overwritten is what is read next.
	StoreReadAfterWrite StorePromiseType = "ReadAfterWrite"
	// StoreRangedGet: a part of an object can be read.
	StoreRangedGet StorePromiseType = "RangedGet"
	// StoreList: what was written is listed next.
	StoreList StorePromiseType = "List"
	// StoreMultipart: parts are listed with their ETags and become one object.
	StoreMultipart StorePromiseType = "Multipart"
	// StoreConditionalPut: If-None-Match protects an object from a put.
	StoreConditionalPut StorePromiseType = "ConditionalPut"
	// StoreConditionalComplete: If-None-Match protects an object from the completion of an upload. A store can be
	// Ready without it.
	StoreConditionalComplete StorePromiseType = "ConditionalComplete"
	// StoreAbort: an upload that was aborted leaves nothing.
	StoreAbort StorePromiseType = "Abort"
	// StoreDelete: what was deleted is neither read nor listed next.
	StoreDelete StorePromiseType = "Delete"
)

// StorePromise says whether a server does what Transfers need.
type StorePromise struct {
	// type of the promise.
	// +required
	Type StorePromiseType `json:"type,omitempty"`
	// kept: the last probe that came to its end saw the server keep it.
	// +required
	Kept *bool `json:"kept,omitempty"`
	// message is why it is not kept.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// StoreProbe is the present or last probe of a store.
//
// +structType=atomic
type StoreProbe struct {
	// id of the probe.
	// +required
	ID string `json:"id,omitempty"`
	// generation of the spec that is probed.
	// +required
	Generation int64 `json:"generation,omitempty"`
	// startTime of the probe.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`
	// completionTime of the probe; absent while it runs.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// nextTime is when the store is probed again unless the spec changes before.
	// +optional
	NextTime *metav1.Time `json:"nextTime,omitempty"`
	// failures in a row, by which the next probe is put off.
	// +optional
	Failures int32 `json:"failures,omitempty"`
}

// ObjectStoreStatus is what was seen of an ObjectStore.
type ObjectStoreStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled; HandOffReady with spec.handOff.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// promises that the last probe which came to its end found.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Promises []StorePromise `json:"promises,omitempty"`
	// lastProbeTime is when that probe ended.
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`
	// probe is the present or last one.
	// +optional
	Probe *StoreProbe `json:"probe,omitempty"`
}

// ObjectStore is a prefix of a bucket of a server that speaks the S3 protocol. The manager has an agent of the
// namespace probe it with real requests: when the spec changes, every 24 hours while it is Ready, and otherwise after
// 30 seconds to 10 minutes, or 6 hours where the server or the bucket is not fit. Whoever may create an ObjectStore can have the Secret that it names sent to the server that
// it names, if the Secret has the keys for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpoint`
// +kubebuilder:printcolumn:name="Bucket",type=string,JSONPath=`.spec.bucket`
// +kubebuilder:printcolumn:name="Prefix",type=string,JSONPath=`.spec.prefix`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Hand-off",type=string,JSONPath=`.status.conditions[?(@.type=="HandOffReady")].reason`,priority=1
// +kubebuilder:printcolumn:name="Probed",type=date,JSONPath=`.status.lastProbeTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ObjectStore struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is where the store is.
	// +required
	Spec ObjectStoreSpec `json:"spec,omitzero"`
	// status is what was seen of it.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status ObjectStoreStatus `json:"status,omitzero"`
}

// ObjectStoreList is a list of ObjectStores.
// +kubebuilder:object:root=true
type ObjectStoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ObjectStore `json:"items"`
}
