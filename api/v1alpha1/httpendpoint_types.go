// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HTTPCoding is a content coding of HTTP.
// +kubebuilder:validation:Enum=gzip;deflate;zstd
type HTTPCoding string

const (
	// CodingGzip is RFC 1952; the accelerator of s390x does it.
	CodingGzip HTTPCoding = "gzip"
	// CodingDeflate is zlib's format (RFC 1950); the accelerator of s390x does it.
	CodingDeflate HTTPCoding = "deflate"
	// CodingZstd is Zstandard (RFC 8878), always in software.
	CodingZstd HTTPCoding = "zstd"
)

// HTTPService names a port of a Service.
type HTTPService struct {
	// name of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// port of the Service, by its number.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// HTTPHost is a server that is not a Service of this namespace.
type HTTPHost struct {
	// name is a DNS name or an IP address. Replicas check the address at every connection: they dial none that is
	// loopback, link-local, a cloud's metadata service or the API server, and none of this cluster but that of a
	// Service named as NAME.NAMESPACE.svc, whose namespace has this one in its annotation
	// lighterage.dev/allow-backends-from.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?$') || self.matches('^[0-9a-fA-F:.]+$')",message="name must be a DNS name or an IP address, without a port; write for example api.bank.example"
	// +kubebuilder:validation:XValidation:rule="!isIP(self) || !(ip(self).isLoopback() || ip(self).isUnspecified() || ip(self).isLinkLocalUnicast() || ip(self).isLinkLocalMulticast())",message="name must not be a loopback, link-local or unspecified address, which agents never dial; write the name of a server, or name a Service in backend.service"
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().matches('(^|[.])localhost$')",message="name must not be localhost, which agents never dial; write the name of a server, or name a Service in backend.service"
	Name string `json:"name,omitempty"`
	// port number.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// HTTPBackendTLS says that the backend is spoken to by TLS, and whom to trust.
type HTTPBackendTLS struct {
	// serverName that the backend's certificate must hold. By default the host's name, or SERVICE.NAMESPACE.svc.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
	// caBundle is who vouches for the backend's certificate, as PEM in base64.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle []byte `json:"caBundle,omitempty"`
}

// HTTPHealthCheck is how each replica looks whether the backend answers.
type HTTPHealthCheck struct {
	// path that is asked for by GET; a status below 400 is healthy. By default a connection is opened, and nothing
	// asked.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[!-~]*$')",message="path must begin with a slash and hold no spaces; write for example /healthz"
	Path string `json:"path,omitempty"`
	// interval between two checks.
	// +optional
	// +default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('5m')",message="interval must be between 1s and 5m; write for example 10s"
	Interval *metav1.Duration `json:"interval,omitempty"`
	// timeout of one check.
	// +optional
	// +default="2s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('1m')",message="timeout must be between 100ms and 1m; write for example 2s"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// HTTPBackend is where requests go.
//
// +kubebuilder:validation:XValidation:rule="has(self.service) != has(self.host)",message="exactly one of service and host must be given"
type HTTPBackend struct {
	// service in the HTTPEndpoint's namespace. One of type ExternalName may lead out of the cluster, and not to another
	// Service.
	// +optional
	Service *HTTPService `json:"service,omitempty"`
	// host that is not a Service of this namespace.
	// +optional
	Host *HTTPHost `json:"host,omitempty"`
	// tls towards the backend. Absent: plain HTTP/1.1.
	// +optional
	TLS *HTTPBackendTLS `json:"tls,omitempty"`
	// healthCheck of the backend. A backend that fails it is answered for with 503 until it passes again.
	// +optional
	HealthCheck *HTTPHealthCheck `json:"healthCheck,omitempty"`
	// responseTimeout is how long the backend may take until its response begins; the client gets 504 then, or up to a
	// second later. How long a response takes from there on is not bounded.
	// +optional
	// +default="60s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="responseTimeout must be between 1s and 1h; write for example 60s"
	ResponseTimeout *metav1.Duration `json:"responseTimeout,omitempty"`
}

// HTTPListenerTLS is the certificate that clients see.
type HTTPListenerTLS struct {
	// secretName of a Secret of type kubernetes.io/tls in the HTTPEndpoint's namespace, such as cert-manager makes.
	// When it changes, new connections get the new certificate within about two minutes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	SecretName string `json:"secretName,omitempty"`
}

// HTTPServiceType is how the endpoint's Service is reached.
// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
type HTTPServiceType string

const (
	HTTPServiceClusterIP    HTTPServiceType = "ClusterIP"
	HTTPServiceNodePort     HTTPServiceType = "NodePort"
	HTTPServiceLoadBalancer HTTPServiceType = "LoadBalancer"
)

// HTTPListener is where clients connect.
type HTTPListener struct {
	// port of the Service, which has the name of the HTTPEndpoint. By default 443 with tls, and 80 without.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// tls that clients speak, with HTTP/2 or HTTP/1.1. Absent: plain HTTP/1.1.
	// +optional
	TLS *HTTPListenerTLS `json:"tls,omitempty"`
	// serviceType of the Service. Annotations that others put on the Service, for example for a cloud's load balancer,
	// are left alone.
	// +optional
	// +default="ClusterIP"
	ServiceType HTTPServiceType `json:"serviceType,omitempty"`
	// idleTimeout is how long a connection may wait for its next request.
	// +optional
	// +default="75s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="idleTimeout must be between 1s and 1h; write for example 75s"
	IdleTimeout *metav1.Duration `json:"idleTimeout,omitempty"`
	// trustedProxies are where connections come from, as CIDRs, whose X-Forwarded-* and Forwarded are kept and appended
	// to, such as the pods of a gateway that names this HTTPEndpoint as a backend. What others say there is replaced by
	// what the replica sees itself. Whoever can connect from one of these addresses can claim to be anybody.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(p, isCIDR(p) && cidr(p) == cidr(p).masked())",message="trustedProxies must be CIDRs without bits behind the prefix; write for example 10.0.0.0/8"
	TrustedProxies []string `json:"trustedProxies,omitempty"`
	// drainTimeout is how long requests that are under way may take when a replica is told to stop.
	// +optional
	// +default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="drainTimeout must be between 1s and 1h; write for example 30s"
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
}

// HTTPCompression is what is wanted of compression for one HTTPEndpoint. What is set here wins over the named policy,
// which wins over the default policy, which wins over what is built in. Which formats are used says spec.codings alone.
//
// +kubebuilder:validation:XValidation:rule="!has(self.software) || self.software != 'Disabled' || !has(self.softwareMinSize)",message="softwareMinSize must not be set where software is Disabled, which compresses nothing in software; leave one of the two out"
type HTTPCompression struct {
	// policyName names a LocalCompressionPolicy of the namespace, or, where there is none with that name, a
	// CompressionPolicy. When empty the default CompressionPolicy applies, if there is one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PolicyName string `json:"policyName,omitempty"`
	// objective is what mode Auto minimises. Cost needs prices of the policy or of a Tariff.
	// +optional
	Objective CompressionObjective `json:"objective,omitempty"`
	// mode says whether to compress. Auto leaves out bodies whose first block does not promise to shrink, and those of
	// which status.decisions says that compressing them does not serve the objective.
	// +optional
	Mode CompressionMode `json:"mode,omitempty"`
	// level trades CPU for ratio. Every body that is compressed is compressed at exactly this level.
	// +optional
	Level CompressionLevel `json:"level,omitempty"`
	// placement says on which nodes replicas may run.
	// +optional
	Placement Placement `json:"placement,omitempty"`
	// hardwareMinSize is the size below which a body is not compressed where the accelerator would do it. Built in:
	// 20000.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="hardwareMinSize must be between 0 and 1Gi; write for example 20000"
	HardwareMinSize *resource.Quantity `json:"hardwareMinSize,omitempty"`
	// software says whether software compresses where there is no accelerator, or where the accelerator does not have
	// the coding or level. Built in, and where the policy does not set software.disabled: Allowed.
	// +optional
	Software SoftwareUse `json:"software,omitempty"`
	// softwareMinSize is the size below which a body is not compressed where software would do it; 0: bodies of every
	// size are. To compress nothing in software set software to Disabled. Built in: 1024.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="softwareMinSize must be between 0 and 1Gi; write for example 1024"
	SoftwareMinSize *resource.Quantity `json:"softwareMinSize,omitempty"`
}

// Policy is the name of the policy that is named; empty for the default one.
func (c *HTTPCompression) Policy() string {
	if c == nil {
		return ""
	}
	return c.PolicyName
}

// HTTPLimits bound what one replica does at a time.
type HTTPLimits struct {
	// maxConnections of clients that are open at once; further ones are refused.
	// +optional
	// +default=20000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxConnections int32 `json:"maxConnections,omitempty"`
	// maxCompressions is how many bodies are compressed at the same moment; others are sent as they are meanwhile. A
	// GET whose Accept-Encoding refuses that (identity;q=0) gets 503 with Retry-After. Absent: not bounded.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxCompressions int32 `json:"maxCompressions,omitempty"`
	// compressionCPUPercent is the share of the replica's CPU, of all cores that it may use, beyond which bodies are
	// sent as they are. A GET whose Accept-Encoding refuses that (identity;q=0) gets 503 with Retry-After. Absent: not
	// bounded.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	CompressionCPUPercent int32 `json:"compressionCPUPercent,omitempty"`
}

// HTTPAutoscaling lets a HorizontalPodAutoscaler choose the number of replicas.
//
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas must not be above maxReplicas"
type HTTPAutoscaling struct {
	// minReplicas that always run.
	// +optional
	// +default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// maxReplicas that ever run.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxReplicas int32 `json:"maxReplicas,omitempty"`
	// targetCPUPercent of the CPU that the container requests, on average of the replicas.
	// +optional
	// +default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUPercent int32 `json:"targetCPUPercent,omitempty"`
}

// HTTPResponseHeader says whether responses tell how they were compressed.
// +kubebuilder:validation:Enum=Disabled;Enabled
type HTTPResponseHeader string

const (
	// HTTPResponseHeaderDisabled adds nothing.
	HTTPResponseHeaderDisabled HTTPResponseHeader = "Disabled"
	// HTTPResponseHeaderEnabled adds lighterage-compression: ENGINE;REASON.
	HTTPResponseHeaderEnabled HTTPResponseHeader = "Enabled"
)

// HTTPCrossSiteCookies says what happens to responses that set a cookie which other sites' requests carry.
// +kubebuilder:validation:Enum=DoNotCompress;Compress
type HTTPCrossSiteCookies string

const (
	// HTTPCrossSiteCookiesDoNotCompress sends as they are responses with a cookie of SameSite=None, or with any in
	// answer to another site.
	HTTPCrossSiteCookiesDoNotCompress HTTPCrossSiteCookies = "DoNotCompress"
	// HTTPCrossSiteCookiesCompress does not look at cookies.
	HTTPCrossSiteCookiesCompress HTTPCrossSiteCookies = "Compress"
)

// HTTPBreach are measures against attacks that guess a secret in a body from the body's compressed length, such as
// BREACH.
type HTTPBreach struct {
	// paddingMaxBytes is how many random bytes at most are added to a compressed body. They blur its length, which
	// makes guessing slower, not impossible. 0: none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	PaddingMaxBytes int32 `json:"paddingMaxBytes,omitempty"`
	// crossSiteCookies says whether responses are compressed that set a cookie with SameSite=None, or any cookie in
	// answer to a request from another site (Sec-Fetch-Site: cross-site).
	// +optional
	// +default="DoNotCompress"
	CrossSiteCookies HTTPCrossSiteCookies `json:"crossSiteCookies,omitempty"`
}

// HTTPEndpointSpec is what is served, from where, and how it is compressed.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.replicas) && has(self.autoscaling))",message="replicas and autoscaling exclude each other; give autoscaling.minReplicas in place of replicas"
type HTTPEndpointSpec struct {
	// backend that requests go to.
	// +required
	Backend HTTPBackend `json:"backend,omitzero"`

	// listener that clients connect to.
	// +optional
	// +default={}
	Listener HTTPListener `json:"listener,omitzero"`

	// codings in the server's order, which decides where the client has no preference. One that needs software is not
	// offered where the policy disables software.
	// +optional
	// +default=["gzip","deflate","zstd"]
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="codings must name each coding once"
	Codings []HTTPCoding `json:"codings,omitempty"`

	// contentTypes of the bodies that are compressed: media types, or type/* or */* for all of them, without
	// parameters. Built in: text and the usual types of data, code and pictures that are text inside.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=127
	// +kubebuilder:validation:XValidation:rule="self.all(t, t.matches('^([a-zA-Z0-9!#$&^_.+-]+/([a-zA-Z0-9!#$&^_.+-]+|[*])|[*]/[*])$'))",message="contentTypes must be media types without parameters, type/* or */*; write for example application/json"
	ContentTypes []string `json:"contentTypes,omitempty"`

	// compression overrides the CompressionPolicy that applies.
	// +optional
	Compression *HTTPCompression `json:"compression,omitempty"`

	// replicas that run, spread over nodes and zones. Built in: 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// autoscaling in place of a fixed number of replicas.
	// +optional
	Autoscaling *HTTPAutoscaling `json:"autoscaling,omitempty"`

	// responseHeader says whether responses bear the header lighterage-compression: ENGINE;REASON.
	// +optional
	// +default="Disabled"
	ResponseHeader HTTPResponseHeader `json:"responseHeader,omitempty"`

	// limits of each replica.
	// +optional
	// +default={}
	Limits HTTPLimits `json:"limits,omitzero"`

	// breach holds measures against attacks on compressed secrets.
	// +optional
	// +default={}
	Breach HTTPBreach `json:"breach,omitzero"`

	// podTemplate adjusts the replicas' pods. By default they ask for 100m CPU and 128Mi and are limited to 512Mi. A
	// change restarts the replicas, one after the other.
	// +optional
	PodTemplate *AgentPodTemplate `json:"podTemplate,omitempty"`
}

// HTTPCodingCount counts responses of one coding.
type HTTPCodingCount struct {
	// coding of the response: gzip, deflate, zstd, or identity for what was sent as it is.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	Coding string `json:"coding,omitempty"`
	// responses of that coding.
	// +optional
	Responses int64 `json:"responses"`
}

// HTTPStatistics are sums over the replicas that run now, each since its start or the last reset.
//
// +structType=atomic
type HTTPStatistics struct {
	// active connections of clients.
	// +optional
	Active int64 `json:"active"`
	// highWater is the sum of the most connections that each replica has had at once.
	// +optional
	HighWater int64 `json:"highWater"`
	// refused connections, because of limits.maxConnections.
	// +optional
	Refused int64 `json:"refused"`
	// reused counts requests that came on a connection which had served one before.
	// +optional
	Reused int64 `json:"reused"`
	// timedOut counts requests that the backend did not answer, and connections that sent no request, in time.
	// +optional
	TimedOut int64 `json:"timedOut"`
	// urlErrors counts responses 404 and 410.
	// +optional
	URLErrors int64 `json:"urlErrors"`
	// responses in all.
	// +optional
	Responses int64 `json:"responses"`
	// hardwareCount is the number of responses that the accelerator compressed.
	// +optional
	HardwareCount int64 `json:"hardwareCount"`
	// softwareCount is the number of responses that software compressed.
	// +optional
	SoftwareCount int64 `json:"softwareCount"`
	// uncompressedCount is the number of responses that were sent as they were; compression.skipped says why.
	// +optional
	UncompressedCount int64 `json:"uncompressedCount"`
	// codings of the responses.
	// +optional
	// +listType=map
	// +listMapKey=coding
	Codings []HTTPCodingCount `json:"codings,omitempty"`
	// averageRatio of compressed responses: uncompressed divided by compressed bytes, as a decimal.
	// +optional
	AverageRatio string `json:"averageRatio,omitempty"`
	// recentRatio is the same of the last 10 to 20 seconds in which any was compressed, as the other recent figures are.
	// +optional
	RecentRatio string `json:"recentRatio,omitempty"`
	// averageCompressSeconds is the CPU time that compressing one response took, as a decimal.
	// +optional
	AverageCompressSeconds string `json:"averageCompressSeconds,omitempty"`
	// recentCompressSeconds is the CPU time that compressing one response took lately, as a decimal.
	// +optional
	RecentCompressSeconds string `json:"recentCompressSeconds,omitempty"`
	// averageUncompressedSize of compressed responses before compression, in bytes.
	// +optional
	AverageUncompressedSize int64 `json:"averageUncompressedSize"`
	// recentUncompressedSize of the responses that were compressed lately, before compression, in bytes.
	// +optional
	RecentUncompressedSize int64 `json:"recentUncompressedSize,omitempty"`
	// lastReset is when the replica that has counted longest began: its start, or the last reset.
	// +optional
	LastReset *metav1.Time `json:"lastReset,omitempty"`
	// lastResetRequest is the value of the annotation lighterage.dev/reset-statistics that every replica has acted
	// upon.
	// +optional
	LastResetRequest string `json:"lastResetRequest,omitempty"`
}

// HTTPReplica is one pod.
type HTTPReplica struct {
	// name of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// node that it runs on.
	// +optional
	Node string `json:"node,omitempty"`
	// architecture that the agent was built for.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// engine that compressed most of what it sent.
	// +optional
	Engine string `json:"engine,omitempty"`
	// state in a word: Starting, Serving, Draining or Unreachable.
	// +optional
	State string `json:"state,omitempty"`
	// current is true when new connections get what the spec says now.
	// +optional
	Current bool `json:"current"`
}

// HTTPEndpointStatus is what was seen of an HTTPEndpoint.
type HTTPEndpointStatus struct {
	// observedGeneration of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, HardwareCompression.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// backend as the replicas dial it: host and port.
	// +optional
	Backend string `json:"backend,omitempty"`
	// ready replicas and those that are wanted, as ready/wanted.
	// +optional
	Ready string `json:"ready,omitempty"`
	// certificateExpirationTime is when the first of the certificates that replicas serve expires.
	// +optional
	CertificateExpirationTime *metav1.Time `json:"certificateExpirationTime,omitempty"`
	// policy in force.
	// +optional
	Policy *PolicyStatus `json:"policy,omitempty"`
	// placement says where replicas may and should run, and why. Where each is, is in replicas.
	// +optional
	Placement *PlacementStatus `json:"placement,omitempty"`
	// replicas that run, by name, at most 32 of them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Replicas []HTTPReplica `json:"replicas,omitempty"`
	// compression by the replicas that run now, each since its start or the last reset.
	// +optional
	Compression *CompressionStatus `json:"compression,omitempty"`
	// decisions of the replicas that run now; absent in other modes than Auto.
	// +optional
	Decisions *DecisionsStatus `json:"decisions,omitempty"`
	// cpu of the replicas that run now, each since its start or the last reset.
	// +optional
	CPU *CPUStatus `json:"cpu,omitempty"`
	// usage since the HTTPEndpoint was created. A reset of statistics does not change it. What a replica used between its
	// last report and its end or a reset is missing.
	// +optional
	Usage *UsageStatus `json:"usage,omitempty"`
	// replicaUsage is what usage has of the replicas that run, by which it goes on.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=1024
	ReplicaUsage []ReplicaUsage `json:"replicaUsage,omitempty"`
	// canaryBaseline is what usage was when the policy's canary began here. Absent without one.
	// +optional
	CanaryBaseline *CanaryBaseline `json:"canaryBaseline,omitempty"`
	// cost of usage at the prices in force; absent while there are none. The price of a CPU hour is the mean of those of
	// the replicas' nodes.
	// +optional
	Cost *CostStatus `json:"cost,omitempty"`
	// statistics are read from the replicas every 15 seconds, or less often where there are hundreds of objects. The
	// annotation lighterage.dev/reset-statistics with any new value sets them to 0, those of compression and cpu too.
	// +optional
	Statistics *HTTPStatistics `json:"statistics,omitempty"`
}

// HTTPEndpoint serves what a backend answers, compressed where client, policy and body allow it. Its pods mount the
// Secret of its namespace that it names: grant the right to create HTTPEndpoints only to those who may create pods
// there.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=lighterage
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of an HTTPEndpoint is that of its Service: at most 40 lower-case letters, digits and -, beginning with a letter"
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.status.backend`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`,description="ready and wanted replicas"
// +kubebuilder:printcolumn:name="Codings",type=string,JSONPath=`.spec.codings`
// +kubebuilder:printcolumn:name="Ratio",type=string,JSONPath=`.status.statistics.averageRatio`,description="uncompressed by compressed bytes, of the responses that were compressed"
// +kubebuilder:printcolumn:name="Saved",type=integer,JSONPath=`.status.compression.savedPercent`,description="percent of the bytes of all responses that compression kept off the wire"
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.status.compression.engine`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="CPU cost",type=string,JSONPath=`.status.cost.cpu`,priority=1,description="price of all CPU time since creation"
// +kubebuilder:printcolumn:name="Idle cost",type=string,JSONPath=`.status.cost.idle`,priority=1,description="the part of it for time in which nothing passed"
// +kubebuilder:printcolumn:name="Responses",type=integer,JSONPath=`.status.statistics.responses`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
type HTTPEndpoint struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec HTTPEndpointSpec `json:"spec,omitzero"`
	// status is what was seen.
	// +kubebuilder:default={observedGeneration:-1}
	// +optional
	Status HTTPEndpointStatus `json:"status,omitzero"`
}

// HTTPEndpointList is a list of HTTPEndpoints.
// +kubebuilder:object:root=true
type HTTPEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HTTPEndpoint `json:"items"`
}
