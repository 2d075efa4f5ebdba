// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// Wanted is what an HTTPEndpoint asks for. It is pure: policies, and whether the namespace allows privilege, are given.
type Wanted struct {
	Endpoint *v1alpha1.HTTPEndpoint
	Policy   policy.Resolved
	Config   *wirev1.HTTPConfig
	// PolicyProblem is why Policy is the last one that status showed and not what the spec asks for. All else is done.
	PolicyProblem *agentpod.Problem

	// record is by which the disruption budget remembers Config.
	record map[string]string
}

// Want reads a spec, with the prices of now. The problem is why nothing can be made of it; what runs goes on then, see
// Reconciler.keepServing. A policy that was deleted or made unusable is none as long as status has the last one.
func Want(
	endpoint *v1alpha1.HTTPEndpoint, policies []v1alpha1.CompressionPolicy, tariffs []v1alpha1.Tariff,
	privilegeAllowed bool, now time.Time,
) (Wanted, *agentpod.Problem) {
	resolved, err := policy.ResolveHTTP(endpoint.UID, endpoint.Spec.Compression, policies, tariffs)
	policyProblem := agentpod.SpecProblem(err)
	if policyProblem != nil {
		if endpoint.Status.Policy == nil {
			return Wanted{}, policyProblem
		}
		resolved = policy.Kept(endpoint.Status.Policy)
	}
	if problem := agentpod.CheckPrivilege(
		endpoint.Spec.PodTemplate, endpoint.Namespace, privilegeAllowed,
	); problem != nil {
		return Wanted{}, problem
	}
	config, err := configOf(endpoint, resolved.Serving(tariffs, "", now))
	if err != nil {
		return Wanted{}, agentpod.SpecProblem(err)
	}
	wanted := Wanted{Endpoint: endpoint, Policy: resolved, Config: config, PolicyProblem: policyProblem}
	if wanted.record, err = wanted.content().Record(); err != nil {
		return Wanted{}, agentpod.SpecProblem(err)
	}
	return wanted, nil
}

// content of the replicas' Secret, their identity excepted.
func (w Wanted) content() agentsecret.Content {
	return agentsecret.Content{Config: w.Config, Revision: w.Config.GetRevision()}
}

// Placement is what is wanted of nodes. The accelerator counts when it supports any of the codings: clients decide
// which coding is used, and another order is no reason to restart replicas elsewhere.
func (w Wanted) Placement(architectures []string) placement.Request {
	spec := w.Endpoint.Spec
	codec := v1alpha1.CodecDeflate
	if slices.Equal(w.Config.GetCodings(), []string{string(v1alpha1.CodingZstd)}) {
		codec = v1alpha1.CodecZstd
	}
	var tolerations []corev1.Toleration
	if spec.PodTemplate != nil {
		tolerations = spec.PodTemplate.Tolerations
	}
	return placement.Request{
		Placement:        w.Policy.Placement,
		Mode:             w.Policy.Mode,
		Codecs:           []v1alpha1.Codec{codec},
		Level:            w.Policy.Level,
		SoftwareDisabled: w.Policy.SoftwareDisabled,
		SoftwareEngines:  w.Policy.SoftwareEngines,
		Tolerations:      tolerations,
		Architectures:    architectures,
	}
}

// configOf is what the replicas are told.
func configOf(endpoint *v1alpha1.HTTPEndpoint, resolved policy.Resolved) (*wirev1.HTTPConfig, error) {
	spec := endpoint.Spec
	backend, err := backendOf(endpoint)
	if err != nil {
		return nil, err
	}
	codings, err := codingsOf(spec.Codings, resolved)
	if err != nil {
		return nil, err
	}
	config := &wirev1.HTTPConfig{
		ListenAddress:  address(httpPort),
		ControlAddress: address(controlPort),
		HealthAddress:  address(healthPort),
		Backend:        backend,
		Codings:        codings,
		ContentTypes:   contentTypes(spec.ContentTypes),
		Compression:    resolved.Wire(),
		ResponseHeader: spec.ResponseHeader == v1alpha1.HTTPResponseHeaderEnabled,
		Limits: &wirev1.HTTPLimits{
			MaxConnections:        uint32(max(spec.Limits.MaxConnections, 0)),
			MaxCompressions:       uint32(max(spec.Limits.MaxCompressions, 0)),
			CompressionCpuPercent: uint32(max(spec.Limits.CompressionCPUPercent, 0)),
		},
		PaddingMaxBytes:          uint32(max(spec.Breach.PaddingMaxBytes, 0)),
		CompressCrossSiteCookies: spec.Breach.CrossSiteCookies == v1alpha1.HTTPCrossSiteCookiesCompress,
		IdleTimeout:              durationpb.New(duration(spec.Listener.IdleTimeout, 75*time.Second)),
		DrainTimeout:             durationpb.New(drainTimeout(spec)),
		ResetStatistics:          replicas.ResetRequest(endpoint),
		TrustedProxies:           spec.Listener.TrustedProxies,
	}
	if spec.Listener.TLS != nil {
		config.ServingDirectory = servingDirectory
	}
	config.Revision, err = agentsecret.Revision(config)
	return config, err
}

// backendOf checks a little of what the API server checks: an object may be older than a rule.
func backendOf(endpoint *v1alpha1.HTTPEndpoint) (*wirev1.HTTPBackend, error) {
	spec := endpoint.Spec.Backend
	var host string
	var port int32
	switch {
	case (spec.Service == nil) == (spec.Host == nil):
		return nil, &policy.InvalidError{Field: "spec.backend", Fix: "must have exactly one of service and host"}
	case spec.Service != nil:
		host, port = spec.Service.Name+"."+endpoint.Namespace+".svc", spec.Service.Port
		if spec.Service.Name == endpoint.Name {
			return nil, &policy.InvalidError{Field: "spec.backend.service.name", Fix: fmt.Sprintf("must not be %q, which is "+
				"the name of the endpoint's own Service; delete this HTTPEndpoint and create one with another name", endpoint.Name)}
		}
	default:
		host, port = spec.Host.Name, spec.Host.Port
	}
	backend := &wirev1.HTTPBackend{
		Address:         net.JoinHostPort(host, strconv.Itoa(int(port))),
		ResponseTimeout: durationpb.New(duration(spec.ResponseTimeout, time.Minute)),
	}
	var check v1alpha1.HTTPHealthCheck
	if spec.HealthCheck != nil {
		check = *spec.HealthCheck
	}
	backend.HealthPath = check.Path
	backend.HealthInterval = durationpb.New(duration(check.Interval, 10*time.Second))
	backend.HealthTimeout = durationpb.New(duration(check.Timeout, 2*time.Second))
	if spec.TLS != nil {
		if _, err := pki.ParseBundle(spec.TLS.CABundle); err != nil {
			return nil, &policy.InvalidError{
				Field: "spec.backend.tls.caBundle", Fix: "must be CA certificates as PEM: " + err.Error(),
			}
		}
		backend.CaBundle = spec.TLS.CABundle
		if backend.ServerName = spec.TLS.ServerName; backend.ServerName == "" {
			backend.ServerName = host
		}
	}
	return backend, nil
}

// codingsOf leaves out what needs software where that is disabled.
func codingsOf(wanted []v1alpha1.HTTPCoding, resolved policy.Resolved) ([]string, error) {
	if len(wanted) == 0 {
		wanted = []v1alpha1.HTTPCoding{v1alpha1.CodingGzip, v1alpha1.CodingDeflate, v1alpha1.CodingZstd}
	}
	var codings []string
	for _, coding := range wanted {
		if coding == v1alpha1.CodingZstd && resolved.SoftwareDisabled {
			continue
		}
		if !slices.Contains(codings, string(coding)) {
			codings = append(codings, string(coding))
		}
	}
	if len(codings) == 0 {
		return nil, &policy.InvalidError{Field: "spec.codings", Fix: fmt.Sprintf("must not have zstd alone where "+
			"software is disabled%s: no accelerator does zstd; write [gzip], or set spec.compression.software to Allowed",
			resolved.SoftwareDisabledBy())}
	}
	if resolved.Placement == v1alpha1.PlacementRequireHardware &&
		slices.Equal(codings, []string{string(v1alpha1.CodingZstd)}) {
		return nil, &policy.InvalidError{Field: "spec.codings", Fix: "must not have zstd alone where placement is " +
			"RequireHardware: no accelerator does zstd; write [gzip, zstd], or choose PreferHardware in " +
			"spec.compression.placement"}
	}
	return codings, nil
}

func contentTypes(wanted []string) []string {
	if len(wanted) == 0 {
		return defaultContentTypes
	}
	lower := make([]string, 0, len(wanted))
	for _, contentType := range wanted {
		lower = append(lower, strings.ToLower(contentType))
	}
	return lower
}

func drainTimeout(spec v1alpha1.HTTPEndpointSpec) time.Duration {
	return duration(spec.Listener.DrainTimeout, 30*time.Second)
}

func duration(value *metav1.Duration, built time.Duration) time.Duration {
	if value == nil {
		return built
	}
	return value.Duration
}

func address(port int) string { return ":" + strconv.Itoa(port) }
