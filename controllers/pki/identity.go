// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Paths of identities that exist once in a cluster.
const (
	ManagerPath   = "/manager"
	GatewayPath   = "/gateway"
	NodeAgentPath = "/node-agent"
)

// TLS server names, which are the DNS names in the certificates of who serves under them.
const (
	GatewayServerName   = "gateway.lighterage.internal"
	NodeAgentServerName = "node.lighterage.internal"
	// ManagerServerName is the one under which the manager serves its metrics.
	ManagerServerName = "manager.lighterage.internal"

	receiveSuffix = ".receive.lighterage.internal"
	sendSuffix    = ".send.lighterage.internal"
	trialSuffix   = ".trial.lighterage.internal"
	probeSuffix   = ".probe.lighterage.internal"
	httpSuffix    = ".http.lighterage.internal"
	queueSuffix   = ".queue.lighterage.internal"
)

// maxIdentityLength bounds the URI that a peer presents: two names of 253 characters and the words between them fit.
const maxIdentityLength = 1024

// ErrNoIdentity is returned for a certificate that does not name its holder as this package does.
var ErrNoIdentity = errors.New("certificate has no identity")

var (
	clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	segment     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
)

// Identity is what a certificate says of its holder.
type Identity struct {
	// Cluster is what the holder's cluster calls itself. It proves nothing.
	Cluster string
	// Path begins with a slash.
	Path string
}

// TransferIdentity is that of the sending agent of a Transfer.
func TransferIdentity(cluster, namespace, name string) Identity {
	return Identity{Cluster: cluster, Path: "/ns/" + namespace + "/transfer/" + name}
}

// DeliveryIdentity is that of the receiving agent of a Delivery.
func DeliveryIdentity(cluster, namespace, name string) Identity {
	return Identity{Cluster: cluster, Path: "/ns/" + namespace + "/delivery/" + name}
}

// HTTPEndpointIdentity is that of the replicas of an HTTPEndpoint.
func HTTPEndpointIdentity(cluster, namespace, name string) Identity {
	return Identity{Cluster: cluster, Path: "/ns/" + namespace + "/httpendpoint/" + name}
}

// QueueIdentity is that of the members of a Queue.
func QueueIdentity(cluster, namespace, name string) Identity {
	return Identity{Cluster: cluster, Path: "/ns/" + namespace + "/queue/" + name}
}

// TrialIdentity is that of the agent of a CompressionTrial.
func TrialIdentity(cluster, namespace, name string) Identity {
	return Identity{Cluster: cluster, Path: "/ns/" + namespace + "/trial/" + name}
}

// ObjectStoreIdentity is that of the agent that probes an ObjectStore.
func ObjectStoreIdentity(cluster, namespace, name string) Identity {
	return Identity{Cluster: cluster, Path: "/ns/" + namespace + "/objectstore/" + name}
}

// Transfer returns the namespace and name of the Transfer whose agent this is; ok is false for everybody else.
func (i Identity) Transfer() (namespace, name string, ok bool) {
	parts := strings.Split(i.Path, "/")
	if len(parts) != 5 || parts[1] != "ns" || parts[3] != "transfer" {
		return "", "", false
	}
	return parts[2], parts[4], true
}

// Queue returns the namespace and name of the Queue whose member this is; ok is false for everybody else.
func (i Identity) Queue() (namespace, name string, ok bool) {
	parts := strings.Split(i.Path, "/")
	if len(parts) != 5 || parts[1] != "ns" || parts[3] != "queue" {
		return "", "", false
	}
	return parts[2], parts[4], true
}

// String returns the identity as the URI that certificates carry.
func (i Identity) String() string {
	return i.uri().String()
}

func (i Identity) uri() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: i.Cluster, Path: i.Path}
}

// ValidateClusterName says whether name may stand in identities, and if not, what would.
func ValidateClusterName(name string) error {
	if !clusterName.MatchString(name) {
		return fmt.Errorf(
			"cluster name %q must be lower-case letters, digits, '-' and '.', at most 253 of them; write for example west", name,
		)
	}
	return nil
}

// IdentityOf returns the identity in a certificate: its first URI, and the only one but for the claims of a run.
func IdentityOf(certificate *x509.Certificate) (Identity, error) {
	uri, err := wirev1.IdentityURI(certificate)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrNoIdentity, err)
	}
	return ParseIdentity(uri.String())
}

// ParseIdentity parses spiffe://<cluster>/<path>.
func ParseIdentity(uri string) (Identity, error) {
	if len(uri) > maxIdentityLength {
		return Identity{}, fmt.Errorf("%w: URI of %d bytes", ErrNoIdentity, len(uri))
	}
	rest, found := strings.CutPrefix(uri, "spiffe://")
	if !found {
		return Identity{}, fmt.Errorf("%w: URI %q does not begin with spiffe://", ErrNoIdentity, uri)
	}
	cluster, path, _ := strings.Cut(rest, "/")
	if !clusterName.MatchString(cluster) {
		return Identity{}, fmt.Errorf("%w: URI %q names no cluster", ErrNoIdentity, uri)
	}
	path = "/" + path
	for _, part := range strings.Split(path[1:], "/") {
		if !segment.MatchString(part) {
			return Identity{}, fmt.Errorf("%w: URI %q has a path of another form", ErrNoIdentity, uri)
		}
	}
	return Identity{Cluster: cluster, Path: path}, nil
}

// ReceiveServerName is the server name of the receiving agent of the Delivery with this UID.
func ReceiveServerName(deliveryUID string) string {
	return deliveryUID + receiveSuffix
}

// IsReceiveServerName reports whether name is one that ReceiveServerName makes.
func IsReceiveServerName(name string) bool {
	uid, found := strings.CutSuffix(name, receiveSuffix)
	return found && segment.MatchString(uid)
}

// SendServerName is the server name of the sending agent of the Transfer with this UID.
func SendServerName(transferUID string) string {
	return transferUID + sendSuffix
}

// TrialServerName is the server name of the agent of the CompressionTrial with this UID.
func TrialServerName(trialUID string) string {
	return trialUID + trialSuffix
}

// ProbeServerName is the server name of the agent of the ObjectStore with this UID.
func ProbeServerName(storeUID string) string {
	return storeUID + probeSuffix
}

// HTTPServerName is the server name of the replicas of the HTTPEndpoint with this UID, for the manager.
func HTTPServerName(endpointUID string) string {
	return endpointUID + httpSuffix
}

// QueueServerName is the server name of the members of the Queue with this UID, for the manager.
func QueueServerName(queueUID string) string {
	return queueUID + queueSuffix
}
