// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/httpendpoint"
	"github.com/lighterage/lighterage/controllers/pki"
)

func hardwareOnly() v1alpha1.CompressionPolicy {
	return v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "z-only"},
		Spec:       v1alpha1.CompressionPolicySpec{Software: &v1alpha1.SoftwareCompression{Disabled: true}},
	}
}

// TestConfig says what each part of a spec becomes in what replicas are told.
func TestConfig(t *testing.T) {
	ca, _, err := pki.NewCA("west", now)
	if err != nil {
		t.Fatal(err)
	}
	quantity := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	seconds := func(n int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(n) * time.Second} }
	for name, c := range map[string]struct {
		change func(*v1alpha1.HTTPEndpointSpec)
		check  func(*wirev1.HTTPConfig) bool
	}{
		"service": {nil, func(c *wirev1.HTTPConfig) bool {
			return c.GetBackend().GetAddress() == "api.bank.svc:8080" && c.GetBackend().GetServerName() == ""
		}},
		"host": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Backend = v1alpha1.HTTPBackend{Host: &v1alpha1.HTTPHost{Name: "2001:db8::1", Port: 80}}
		}, func(c *wirev1.HTTPConfig) bool { return c.GetBackend().GetAddress() == "[2001:db8::1]:80" }},
		"backend with TLS": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Backend.TLS = &v1alpha1.HTTPBackendTLS{CABundle: ca.CertificatePEM}
		}, func(c *wirev1.HTTPConfig) bool {
			return c.GetBackend().GetServerName() == "api.bank.svc" && len(c.GetBackend().GetCaBundle()) > 0
		}},
		"backend with TLS of another name": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Backend.TLS = &v1alpha1.HTTPBackendTLS{CABundle: ca.CertificatePEM, ServerName: "api.example"}
		}, func(c *wirev1.HTTPConfig) bool { return c.GetBackend().GetServerName() == "api.example" }},
		"health check": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Backend.HealthCheck = &v1alpha1.HTTPHealthCheck{Path: "/healthz", Interval: seconds(3), Timeout: seconds(1)}
		}, func(c *wirev1.HTTPConfig) bool {
			b := c.GetBackend()
			return b.GetHealthPath() == "/healthz" && b.GetHealthInterval().AsDuration() == 3*time.Second &&
				b.GetHealthTimeout().AsDuration() == time.Second
		}},
		"built-in times": {nil, func(c *wirev1.HTTPConfig) bool {
			return c.GetIdleTimeout().AsDuration() == 75*time.Second && c.GetDrainTimeout().AsDuration() == 30*time.Second &&
				c.GetBackend().GetResponseTimeout().AsDuration() == time.Minute &&
				c.GetBackend().GetHealthInterval().AsDuration() == 10*time.Second
		}},
		"times": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Listener.IdleTimeout, s.Listener.DrainTimeout, s.Backend.ResponseTimeout = seconds(5), seconds(6), seconds(7)
		}, func(c *wirev1.HTTPConfig) bool {
			return c.GetIdleTimeout().AsDuration() == 5*time.Second && c.GetDrainTimeout().AsDuration() == 6*time.Second &&
				c.GetBackend().GetResponseTimeout().AsDuration() == 7*time.Second
		}},
		"trusted proxies": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Listener.TrustedProxies = []string{"10.0.0.0/8", "2001:db8::/32"}
		}, func(c *wirev1.HTTPConfig) bool {
			return slices.Equal(c.GetTrustedProxies(), []string{"10.0.0.0/8", "2001:db8::/32"})
		}},
		"TLS": {nil, func(c *wirev1.HTTPConfig) bool { return c.GetServingDirectory() != "" }},
		"no TLS": {
			func(s *v1alpha1.HTTPEndpointSpec) { s.Listener.TLS = nil },
			func(c *wirev1.HTTPConfig) bool { return c.GetServingDirectory() == "" },
		},
		"built-in codings and types": {nil, func(c *wirev1.HTTPConfig) bool {
			return slices.Equal(c.GetCodings(), []string{"gzip", "deflate", "zstd"}) &&
				slices.Contains(c.GetContentTypes(), "text/*")
		}},
		"codings and types": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Codings, s.ContentTypes = []v1alpha1.HTTPCoding{
				v1alpha1.CodingZstd, v1alpha1.CodingGzip,
			}, []string{"Application/X"}
		}, func(c *wirev1.HTTPConfig) bool {
			return slices.Equal(c.GetCodings(), []string{"zstd", "gzip"}) &&
				slices.Equal(c.GetContentTypes(), []string{"application/x"})
		}},
		"built-in sizes": {nil, func(c *wirev1.HTTPConfig) bool {
			return c.GetCompression().GetHardwareMinSize() == 20000 && c.GetCompression().GetSoftwareMinSize() == 1024
		}},
		"sizes": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Compression = &v1alpha1.HTTPCompression{HardwareMinSize: quantity("1Ki"), SoftwareMinSize: quantity("0")}
		}, func(c *wirev1.HTTPConfig) bool {
			return c.GetCompression().GetHardwareMinSize() == 1024 && c.GetCompression().GetSoftwareMinSize() == 0
		}},
		"policy without software": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Compression = &v1alpha1.HTTPCompression{PolicyName: "z-only"}
		}, func(c *wirev1.HTTPConfig) bool {
			return c.GetCompression().GetSoftwareDisabled() && slices.Equal(c.GetCodings(), []string{"gzip", "deflate"})
		}},
		"no software": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Compression = &v1alpha1.HTTPCompression{Software: v1alpha1.SoftwareDisabled}
		}, func(c *wirev1.HTTPConfig) bool {
			return c.GetCompression().GetSoftwareDisabled() && slices.Equal(c.GetCodings(), []string{"gzip", "deflate"})
		}},
		"software in spite of the policy": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Compression = &v1alpha1.HTTPCompression{PolicyName: "z-only", Software: v1alpha1.SoftwareAllowed}
		}, func(c *wirev1.HTTPConfig) bool {
			return !c.GetCompression().GetSoftwareDisabled() && slices.Contains(c.GetCodings(), "zstd")
		}},
		"mode and level": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Compression = &v1alpha1.HTTPCompression{Mode: v1alpha1.CompressionAlways, Level: v1alpha1.CompressionHigh}
		}, func(c *wirev1.HTTPConfig) bool {
			return c.GetCompression().GetMode() == wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS &&
				c.GetCompression().GetLevel() == wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH
		}},
		"nothing told of by default": {nil, func(c *wirev1.HTTPConfig) bool {
			return !c.GetResponseHeader() && !c.GetCompressCrossSiteCookies() && c.GetPaddingMaxBytes() == 0
		}},
		"header, padding, cookies": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.ResponseHeader = v1alpha1.HTTPResponseHeaderEnabled
			s.Breach = v1alpha1.HTTPBreach{PaddingMaxBytes: 64, CrossSiteCookies: v1alpha1.HTTPCrossSiteCookiesCompress}
		}, func(c *wirev1.HTTPConfig) bool {
			return c.GetResponseHeader() && c.GetCompressCrossSiteCookies() && c.GetPaddingMaxBytes() == 64
		}},
		"limits": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Limits = v1alpha1.HTTPLimits{MaxConnections: 7, MaxCompressions: 8, CompressionCPUPercent: 9}
		}, func(c *wirev1.HTTPConfig) bool {
			l := c.GetLimits()
			return l.GetMaxConnections() == 7 && l.GetMaxCompressions() == 8 && l.GetCompressionCpuPercent() == 9
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if config := want(t, newEndpoint(c.change), hardwareOnly()).Config; !c.check(config) {
				t.Errorf("unexpected configuration: %v", config)
			}
		})
	}
}

// TestPolicyMinSize: a policy's size for software is not replaced by the built-in one.
func TestPolicyMinSize(t *testing.T) {
	size := resource.MustParse("5000")
	policy := v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"}},
		Spec:       v1alpha1.CompressionPolicySpec{Software: &v1alpha1.SoftwareCompression{MinSize: &size}},
	}
	if got := want(t, newEndpoint(nil), policy).Config.GetCompression().GetSoftwareMinSize(); got != 5000 {
		t.Errorf("the size for software is %d, want the policy's 5000", got)
	}
}

// TestPlacement: the accelerator is wanted for as long as any coding is one that it does.
func TestPlacement(t *testing.T) {
	for _, c := range []struct {
		codings []v1alpha1.HTTPCoding
		want    v1alpha1.Codec
	}{
		{nil, v1alpha1.CodecDeflate},
		{[]v1alpha1.HTTPCoding{v1alpha1.CodingZstd, v1alpha1.CodingGzip}, v1alpha1.CodecDeflate},
		{[]v1alpha1.HTTPCoding{v1alpha1.CodingZstd}, v1alpha1.CodecZstd},
	} {
		request := want(t, newEndpoint(func(s *v1alpha1.HTTPEndpointSpec) {
			s.Codings = c.codings
		})).Placement([]string{"s390x"})
		if request.Codecs[0] != c.want || request.Placement != v1alpha1.PlacementPreferHardware ||
			request.Architectures[0] != "s390x" {
			t.Errorf("codings %v: unexpected request %+v", c.codings, request)
		}
	}
}

// TestCodecsOfPolicy: they are not what clients are sent, so they exclude nothing.
func TestCodecsOfPolicy(t *testing.T) {
	policy := hardwareOnly()
	policy.Name, policy.Spec.Codecs = "zstd-first", []v1alpha1.Codec{v1alpha1.CodecZstd, v1alpha1.CodecDeflate}
	policy.Spec.Software, policy.Spec.Placement = nil, ""
	wanted := want(t, newEndpoint(func(s *v1alpha1.HTTPEndpointSpec) {
		s.Compression = &v1alpha1.HTTPCompression{PolicyName: "zstd-first", Placement: v1alpha1.PlacementRequireHardware}
	}), policy)
	if got := wanted.Placement(nil); got.Placement != v1alpha1.PlacementRequireHardware ||
		got.Codecs[0] != v1alpha1.CodecDeflate {
		t.Errorf("%+v", got)
	}
}

// TestRevision: what means the same is the same, and whatever replicas must learn of is not.
func TestRevision(t *testing.T) {
	first := want(t, newEndpoint(nil)).Config.GetRevision()
	if again := want(t, newEndpoint(nil)).Config.GetRevision(); again != first || first == "" {
		t.Errorf("the same spec has revisions %q and %q", first, again)
	}
	same := newEndpoint(func(s *v1alpha1.HTTPEndpointSpec) { s.Replicas = ptr.To[int32](5) })
	if got := want(t, same).Config.GetRevision(); got != first {
		t.Error("another number of replicas is another configuration")
	}
	reset := newEndpoint(nil)
	reset.Annotations = map[string]string{v1alpha1.ResetStatisticsAnnotation: "1"}
	codings := newEndpoint(func(s *v1alpha1.HTTPEndpointSpec) { s.Codings = []v1alpha1.HTTPCoding{v1alpha1.CodingZstd} })
	for name, endpoint := range map[string]*v1alpha1.HTTPEndpoint{"reset": reset, "codings": codings} {
		if want(t, endpoint).Config.GetRevision() == first {
			t.Errorf("%s: the revision did not change", name)
		}
	}
}

// TestProblems says which words of a message lead to the fix.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		change       func(*v1alpha1.HTTPEndpointSpec)
		reason, want string
	}{
		"no such policy": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Compression = &v1alpha1.HTTPCompression{PolicyName: "none"}
		}, v1alpha1.ReasonPolicyNotFound, `CompressionPolicy "none" does not exist`},
		"zstd alone without software": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Codings = []v1alpha1.HTTPCoding{v1alpha1.CodingZstd}
			s.Compression = &v1alpha1.HTTPCompression{PolicyName: "z-only"}
		}, v1alpha1.ReasonInvalidSpec, "write [gzip]"},
		"zstd alone on accelerators": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Codings = []v1alpha1.HTTPCoding{v1alpha1.CodingZstd}
			s.Compression = &v1alpha1.HTTPCompression{Placement: v1alpha1.PlacementRequireHardware}
		}, v1alpha1.ReasonInvalidSpec, "spec.codings must not have zstd alone where placement is RequireHardware"},
		"itself as the backend": {
			func(s *v1alpha1.HTTPEndpointSpec) { s.Backend.Service.Name = "front" }, v1alpha1.ReasonInvalidSpec,
			"create one with another name",
		},
		"no backend": {
			func(s *v1alpha1.HTTPEndpointSpec) { s.Backend.Service = nil }, v1alpha1.ReasonInvalidSpec,
			"exactly one of service and host",
		},
		"no CA": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.Backend.TLS = &v1alpha1.HTTPBackendTLS{CABundle: []byte("x")}
		}, v1alpha1.ReasonInvalidSpec, "spec.backend.tls.caBundle must be CA certificates as PEM"},
		"negative size": {func(s *v1alpha1.HTTPEndpointSpec) {
			size := resource.MustParse("-1")
			s.Compression = &v1alpha1.HTTPCompression{SoftwareMinSize: &size}
		}, v1alpha1.ReasonInvalidSpec, "spec.compression.softwareMinSize must be between 0 and 1Gi"},
		"root": {func(s *v1alpha1.HTTPEndpointSpec) {
			s.PodTemplate = &v1alpha1.AgentPodTemplate{SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}}
		}, v1alpha1.ReasonPrivilegeNotAllowed, v1alpha1.AllowPrivilegedAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := httpendpoint.Want(
				newEndpoint(c.change), []v1alpha1.CompressionPolicy{hardwareOnly()}, nil, false, now,
			)
			if problem == nil || problem.Reason != c.reason || !strings.Contains(problem.Message, c.want) {
				t.Errorf("want reason %s with %q, got %+v", c.reason, c.want, problem)
			}
		})
	}
}

// TestWantPrices: replicas are told the prices of the Tariff that applies where they decide by them, and a change of
// prices by which nothing is decided does not change their configuration.
func TestWantPrices(t *testing.T) {
	price := func(cpuHour string) []v1alpha1.Tariff {
		return []v1alpha1.Tariff{{
			ObjectMeta: metav1.ObjectMeta{
				Name: "datacentre", Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"},
			},
			Spec: v1alpha1.TariffSpec{
				Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: cpuHour}, NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0.05"},
			},
		}}
	}
	config := func(objective v1alpha1.CompressionObjective, cpuHour string) *wirev1.HTTPConfig {
		policies := []v1alpha1.CompressionPolicy{{
			ObjectMeta: metav1.ObjectMeta{
				Name: "p", Annotations: map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"},
			},
			Spec: v1alpha1.CompressionPolicySpec{Objective: objective},
		}}
		wanted, problem := httpendpoint.Want(newEndpoint(nil), policies, price(cpuHour), false, now)
		if problem != nil {
			t.Fatal(problem.Message)
		}
		return wanted.Config
	}
	cost := config(v1alpha1.ObjectiveCost, "0.04")
	if p := cost.GetCompression().GetPrices(); p.GetCpuHourNanos() != 40_000_000 || p.GetNetworkGibNanos() != 50_000_000 {
		t.Errorf("prices of the Tariff: %v", p)
	}
	if config(v1alpha1.ObjectiveCost, "0.01").GetRevision() == cost.GetRevision() {
		t.Error("another price is the same configuration")
	}
	if config(v1alpha1.ObjectiveElapsed, "0.01").GetRevision() != config(v1alpha1.ObjectiveElapsed, "0.04").GetRevision() {
		t.Error("a price that does not matter is another configuration")
	}
}
