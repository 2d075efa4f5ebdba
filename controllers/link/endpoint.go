// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// PortName is the name of the gateway's port in its Service.
const PortName = "gateway"

// Endpoint is the address at which other clusters reach the gateway of a Service. Nodes matter for a NodePort alone.
func Endpoint(service *corev1.Service, nodes []corev1.Node) (string, error) {
	port, err := gatewayPort(service)
	if err != nil {
		return "", err
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if host := cmp.Or(ingress.Hostname, ingress.IP); host != "" {
			return join(host, port.Port), nil
		}
	}
	if len(service.Spec.ExternalIPs) > 0 {
		return join(service.Spec.ExternalIPs[0], port.Port), nil
	}
	switch service.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		return "", errors.New("its load balancer has no address yet")
	case corev1.ServiceTypeNodePort:
		host := nodeAddress(nodes)
		if host == "" || port.NodePort == 0 {
			return "", errors.New("it has a node port, and no Ready node has an address")
		}
		return join(host, port.NodePort), nil
	}
	return "", fmt.Errorf("it has the type %s, which other clusters do not reach", service.Spec.Type)
}

func gatewayPort(service *corev1.Service) (corev1.ServicePort, error) {
	ports := service.Spec.Ports
	i := slices.IndexFunc(ports, func(p corev1.ServicePort) bool { return p.Name == PortName })
	if i < 0 && len(ports) == 1 {
		i = 0
	}
	if i < 0 {
		return corev1.ServicePort{}, fmt.Errorf("none of its ports has the name %s", PortName)
	}
	return ports[i], nil
}

// nodeAddress is the address of the first Ready node by name: an external one of any node before internal ones.
func nodeAddress(nodes []corev1.Node) string {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for i := range nodes {
			if !ready(&nodes[i]) {
				continue
			}
			for _, address := range nodes[i].Status.Addresses {
				if address.Type == kind && address.Address != "" {
					return address.Address
				}
			}
		}
	}
	return ""
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func join(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
