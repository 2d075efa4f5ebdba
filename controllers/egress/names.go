// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// serviceName is a Service as the cluster's DNS names it.
type serviceName struct {
	namespace, name string
	// certain is false for NAME and NAME.NAMESPACE, which may be names of other servers.
	certain bool
}

// clusterDomain is the usual domain of a cluster. Names within another one are resolved by the cluster's DNS as well,
// to addresses that agents refuse.
const clusterDomain = ".cluster.local"

// parseService reads the name of a Service as a pod of a namespace may write it: NAME, NAME.NAMESPACE, and
// [POD.]NAME.NAMESPACE.svc with or without cluster.local. What no Service or namespace can be called is none.
func parseService(host, namespace string) (name serviceName, ok bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	inside, certain := strings.CutSuffix(strings.TrimSuffix(host, clusterDomain), ".svc")
	labels := strings.Split(inside, ".")
	switch {
	case literal(host).IsValid():
		return serviceName{}, false
	case certain && len(labels) == 3: // a pod of a headless Service
		name = serviceName{namespace: labels[2], name: labels[1], certain: true}
	case certain && len(labels) == 2:
		name = serviceName{namespace: labels[1], name: labels[0], certain: true}
	case !certain && len(labels) == 2:
		name = serviceName{namespace: labels[1], name: labels[0]}
	case !certain && len(labels) == 1:
		name = serviceName{namespace: namespace, name: labels[0]}
	}
	if len(validation.IsDNS1123Label(name.name)) > 0 || len(validation.IsDNS1123Label(name.namespace)) > 0 {
		return serviceName{}, false
	}
	return name, true
}

// literal is the address that a host is written as; not valid if it is a name.
func literal(host string) netip.Addr {
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// inCluster reports whether a name is within the domain of the cluster.
func inCluster(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, clusterDomain)
}

// Consents reports whether an annotation of a namespace lets another one use its Services: a list of names with commas
// between them, or *.
func Consents(annotation, namespace string) bool {
	for name := range strings.SplitSeq(annotation, ",") {
		if name = strings.TrimSpace(name); name == namespace || name == "*" {
			return true
		}
	}
	return false
}
