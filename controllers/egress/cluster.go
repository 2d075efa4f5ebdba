// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/lookup"
)

// +kubebuilder:rbac:groups="",resources=nodes;namespaces;services,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,resourceNames=kubernetes,verbs=get

// refreshInterval is how old what is known of the cluster's networks may be. They change when nodes come and go.
const refreshInterval = 30 * time.Second

// kubernetesService is the API server's own, and what its EndpointSlice is called.
var kubernetesService = client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}

// Options of a Cluster.
type Options struct {
	// Client reads from the manager's cache: nodes, Services, and of namespaces the metadata.
	Client client.Reader
	// Reader reads past the cache what is needed seldom.
	Reader client.Reader
	Clock  clock.PassiveClock
	// Configured are networks of the cluster that it does not say itself.
	Configured []netip.Prefix
}

// Cluster finds out what agents may dial. It is safe for concurrent use.
type Cluster struct {
	Options
	mu       sync.Mutex
	networks Networks
	read     time.Time // zero: never
}

// NewCluster returns a Cluster of which nothing is known yet.
func NewCluster(o Options) *Cluster { return &Cluster{Options: o} }

// Permission is what agents may dial.
type Permission struct {
	Policy *wirev1.DialPolicy
	// Problem is why one of the hosts cannot be dialled, where that is known in advance; the policy refuses it then.
	Problem *agentpod.Problem
	// Services are those that the hosts name and that may be used, by Use.Host.
	Services map[string]*corev1.Service
}

// Permission is what agents of a namespace may dial that are to use these hosts.
func (c *Cluster) Permission(ctx context.Context, namespace string, uses []Use) (Permission, error) {
	networks, err := c.Networks(ctx)
	if err != nil {
		return Permission{}, err
	}
	permission := Permission{Services: map[string]*corev1.Service{}}
	var hosts []found
	for _, use := range uses {
		host, err := c.find(ctx, namespace, use)
		if err != nil {
			return Permission{}, err
		}
		if host.service != nil {
			permission.Services[use.Host] = host.service
		}
		hosts = append(hosts, host)
	}
	var why string
	if permission.Policy, why = decide(namespace, hosts, networks); why != "" {
		permission.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonAddressNotAllowed, Message: why}
	}
	return permission, nil
}

// find looks up what a host names. What may not be looked at is taken for what does not consent.
func (c *Cluster) find(ctx context.Context, namespace string, use Use) (found, error) {
	host := found{Use: use}
	if host.of, host.ok = parseService(use.Host, namespace); !host.ok {
		return host, nil
	}
	if host.consents = host.of.namespace == namespace; !host.consents {
		other, err := lookup.Namespace(ctx, c.Client, host.of.namespace)
		if err != nil && !apierrors.IsForbidden(err) {
			return host, err
		}
		host.consents = Consents(other.Annotations[v1alpha1.AllowBackendsFromAnnotation], namespace)
	}
	if !host.consents {
		return host, nil
	}
	service := &corev1.Service{}
	exists, err := lookup.Get(ctx, c.Client, client.ObjectKey{Namespace: host.of.namespace, Name: host.of.name}, service)
	if err != nil && !apierrors.IsForbidden(err) {
		return host, err
	}
	if exists {
		host.service = service
	}
	return host, nil
}

// Networks are the cluster's, at most refreshInterval old. They must not be changed.
func (c *Cluster) Networks(ctx context.Context) (Networks, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	if !c.read.IsZero() && now.Sub(c.read) < refreshInterval {
		return c.networks, nil
	}
	networks, err := c.readNetworks(ctx)
	if err != nil {
		return Networks{}, err
	}
	c.networks, c.read = networks, now
	return networks, nil
}

func (c *Cluster) readNetworks(ctx context.Context) (Networks, error) {
	n := Networks{Configured: c.Configured}
	nodes := &corev1.NodeList{}
	if err := c.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return n, fmt.Errorf("listing Nodes: %w", err)
	}
	n.Pods, n.Nodes = nodeNetworks(nodes.Items)

	service := &corev1.Service{}
	if _, err := lookup.Get(ctx, c.Reader, kubernetesService, service); err != nil && !apierrors.IsForbidden(err) {
		return n, err
	}
	// A manager that may read only some namespaces knows the Service from its own environment.
	own := merge(append(single(service.Spec.ClusterIPs...), single(os.Getenv("KUBERNETES_SERVICE_HOST"))...))
	slice := &discoveryv1.EndpointSlice{}
	if _, err := lookup.Get(ctx, c.Reader, kubernetesService, slice); err != nil && !apierrors.IsForbidden(err) {
		return n, err
	}
	n.APIServer = slices.Clone(own)
	for _, endpoint := range slice.Endpoints {
		n.APIServer = append(n.APIServer, single(endpoint.Addresses...)...)
	}

	cidrs := &networkingv1.ServiceCIDRList{}
	switch err := c.Reader.List(ctx, cidrs); {
	case err == nil:
		for _, cidr := range cidrs.Items {
			n.Services = append(n.Services, prefixes(cidr.Spec.CIDRs)...)
		}
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err), apierrors.IsForbidden(err):
		// Kubernetes before 1.33 does not serve them.
	default:
		return n, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	if !overlaps(own, slices.Concat(n.Services, n.Configured)) {
		n.Services = append(n.Services, assumeServices(own)...)
	}
	return n, nil
}
