// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Use is a host that an object of a namespace wants its agents to dial.
type Use struct {
	// Field of the object's spec that names it, for messages. Written is what is there.
	Field, Written string
	// Host is a DNS name or an address.
	Host string
}

// found is what the cluster has for a host.
type found struct {
	Use
	// of is the Service that the host names; ok is false if it names none.
	of serviceName
	ok bool
	// consents: the namespace of the Service lets the object's use it, which its own always does.
	consents bool
	// service is nil when there is none, or none may be looked at.
	service *corev1.Service
}

// headless reports whether a host is a headless Service that may be used.
func (f found) headless() bool {
	return f.service != nil && f.consents && f.service.Spec.Type != corev1.ServiceTypeExternalName &&
		f.service.Spec.ClusterIP == corev1.ClusterIPNone
}

// ambiguous reports whether the host may be the name of another server, outside the cluster, too: NAME.NAMESPACE is one
// when no pod is behind the Service, or with a dot at its end.
func (f found) ambiguous() bool {
	return !f.of.certain && strings.Contains(strings.TrimSuffix(f.Host, "."), ".")
}

// decide is the policy for agents of a namespace, and why the first host that can be judged in advance cannot be
// dialled; empty if all may be.
//
// A policy does not tell which host an address is dialled for. So networks of pods are allowed only if every host is a
// headless Service: a host of the tenant's choice beside one could resolve to pods of any namespace.
func decide(namespace string, hosts []found, n Networks) (policy *wirev1.DialPolicy, why string) {
	allPods := !slices.ContainsFunc(hosts, func(f found) bool { return !f.headless() || f.ambiguous() })
	var allowed []netip.Prefix
	for _, host := range hosts {
		if host.service != nil && host.consents && (allPods || !host.headless()) {
			allowed = append(allowed, addresses(host.service, n)...)
		}
		if why == "" {
			why = refusal(namespace, host, n)
		}
	}
	if i := slices.IndexFunc(hosts, found.headless); why == "" && i >= 0 && !allPods {
		why = fmt.Sprintf("%s: %q is a headless Service, which agents dial only if every server of the list is one: "+
			"give the Service a cluster IP, or leave the other servers out", hosts[i].Field, hosts[i].Written)
	}
	return &wirev1.DialPolicy{
		Denied: texts(n.Denied()), Allowed: texts(merge(allowed)), Never: texts(merge(n.APIServer)),
	}, why
}

// addresses are what a name of a Service resolves to. Those behind a headless one come and go with its pods, so all
// that pods may have stand for them; which ones the name resolves to, the cluster's DNS says. An ExternalName has
// none: what it names is judged by the address.
func addresses(service *corev1.Service, n Networks) []netip.Prefix {
	switch {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return nil
	case service.Spec.ClusterIP == corev1.ClusterIPNone:
		return slices.Concat(n.Pods, n.Configured)
	case len(service.Spec.ClusterIPs) > 0:
		return single(service.Spec.ClusterIPs...)
	}
	return single(service.Spec.ClusterIP)
}

// refusal says why a host cannot be dialled and what to do about it, as far as that is known without resolving it.
// It names nothing that is not in the object.
func refusal(namespace string, host found, n Networks) string {
	written := fmt.Sprintf("%s: %q", host.Field, host.Written)
	if a := literal(host.Host); a.IsValid() {
		return refuseLiteral(written, a, n)
	}
	switch {
	case localhost(host.Host):
		return written + self
	case host.ok && host.of.certain && !host.consents:
		return fmt.Sprintf("%s is a Service of namespace %q, which does not allow namespace %q to use its Services: ask "+
			"its administrator to set its annotation %s: %q", written, host.of.namespace, namespace,
			v1alpha1.AllowBackendsFromAnnotation, namespace)
	case host.service != nil && host.consents && host.service.Spec.Type == corev1.ServiceTypeExternalName &&
		inCluster(host.service.Spec.ExternalName):
		return written + " is a Service of type ExternalName that leads to another Service, which agents do not follow: " +
			"name that one as " +
			"NAME.NAMESPACE.svc, and have its namespace allow it by the annotation " + v1alpha1.AllowBackendsFromAnnotation
	case host.headless() && host.ambiguous():
		return written + " is a headless Service by a name that another server may have: name it as NAME.NAMESPACE.svc"
	case host.service != nil && host.consents && overlaps(single(host.service.Spec.ClusterIPs...), n.APIServer):
		return written + apiServer
	}
	return ""
}

// What agents never dial, for messages.
const (
	self      = " is the agent's own pod, which agents never dial: name a server by its DNS name, or a Service"
	apiServer = " is the API server, which agents never dial: name another server"
)

func refuseLiteral(written string, a netip.Addr, n Networks) string {
	one := []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
	switch {
	case a.IsLoopback(), a.IsUnspecified():
		return written + self
	case a.IsLinkLocalUnicast(), a.IsMulticast():
		return written + " is a link-local or multicast address, which agents never dial: name a server by its DNS name"
	case overlaps(one, n.APIServer):
		return written + apiServer
	case overlaps(one, n.Denied()):
		return written + " is an address of this cluster, which agents do not dial: name the Service as NAME.NAMESPACE.svc"
	}
	return ""
}

func localhost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func overlaps(some, others []netip.Prefix) bool {
	return slices.ContainsFunc(some, func(p netip.Prefix) bool { return slices.ContainsFunc(others, p.Overlaps) })
}
