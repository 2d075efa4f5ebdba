// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// QueueOperation is what a client may do.
// +kubebuilder:validation:Enum=Put;Get
type QueueOperation string

const (
	// QueueOperationPut publishes messages.
	QueueOperationPut QueueOperation = "Put"
	// QueueOperationGet consumes messages, which includes to acknowledge them, browses them without, and looks at the
	// queue and its consumers.
	QueueOperationGet QueueOperation = "Get"
)

// QueueTokenRole is what the client with a token may do.
type QueueTokenRole struct {
	// token is a key of the Secret, which is the client's name. * stands for all keys that no role names.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^(\*|[-._a-zA-Z0-9]+)$`
	Token string `json:"token,omitempty"`
	// operations of the client: Put, Get or both.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Operations []QueueOperation `json:"operations,omitempty"`
}

// QueueTokens are what clients show in place of a certificate.
type QueueTokens struct {
	// secretName of a Secret in the Queue's namespace. Each of its keys is a client's name, and the value that client's
	// token. When it changes, clients are judged by what it holds then within about two minutes: connections of a token
	// that is gone are ended.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	SecretName string `json:"secretName,omitempty"`
	// roles say what the client with each token may do. Absent: every token may put and get. Given, a token that no
	// role names, and * does not stand for, authenticates nobody. A change applies within about two minutes:
	// connections of clients whose operations change are ended.
	// +optional
	// +listType=map
	// +listMapKey=token
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Roles []QueueTokenRole `json:"roles,omitempty"`
}

// QueueCertificateRole is what a client with a certificate may do.
type QueueCertificateRole struct {
	// certificate is a name in it: CN: and the subject's common name, DNS: and a DNS name, or URI: and a URI of its
	// alternative names, such as URI:spiffe://shop.example/till. * stands for all certificates of which no role has a
	// name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == '*' || self.matches('^(CN|DNS|URI):.')",message="certificate must be CN:, DNS: or URI: and the name, or *; write for example CN:till"
	Certificate string `json:"certificate,omitempty"`
	// operations of the client: Put, Get or both.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Operations []QueueOperation `json:"operations,omitempty"`
}

// QueueClientCertificates are those with which clients authenticate.
type QueueClientCertificates struct {
	// caBundle is who vouches for clients, as PEM in base64: whoever shows a certificate of one of these CAs may do
	// what roles say. Connections of certificates of a CA that is taken out are ended.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`
	// roles say what the client with each certificate may do. Absent: every certificate may put and get. Given, one of
	// which no role has a name, and * does not stand for, authenticates nobody. Of several names all operations count:
	// the CA vouches for each of them. A change applies within about two minutes: connections of clients whose
	// operations change are ended.
	// +optional
	// +listType=map
	// +listMapKey=certificate
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Roles []QueueCertificateRole `json:"roles,omitempty"`
}

// QueueAuthentication says who may put and get. A client has to satisfy one of them; who satisfies both has the
// operations of both.
//
// +kubebuilder:validation:XValidation:rule="has(self.tokens) || has(self.clientCertificates)",message="at least one of tokens and clientCertificates must be given"
type QueueAuthentication struct {
	// tokens authenticate clients that show one.
	// +optional
	Tokens *QueueTokens `json:"tokens,omitempty"`
	// clientCertificates authenticate clients that show one.
	// +optional
	ClientCertificates *QueueClientCertificates `json:"clientCertificates,omitempty"`
}
