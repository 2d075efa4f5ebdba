// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package integration_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

func transfer(change func(*v1alpha1.Transfer)) client.Object {
	t := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "t-", Namespace: "bank"},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
			Destination: v1alpha1.TransferDestination{
				Peer: "west",
				PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger-copy"},
				},
			},
		},
	}
	change(t)
	return t
}

func tariff(change func(*v1alpha1.TariffSpec)) client.Object {
	t := &v1alpha1.Tariff{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}, Spec: v1alpha1.TariffSpec{
		Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "0.05"}, NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0"},
	}}
	change(&t.Spec)
	return t
}

func inWindow(w v1alpha1.TariffWindow) func(*v1alpha1.TariffSpec) {
	return func(s *v1alpha1.TariffSpec) {
		s.CPUHour.Rules = []v1alpha1.CPUHourRule{{Price: "1", Windows: []v1alpha1.TariffWindow{w}}}
	}
}

func policy(change func(*v1alpha1.CompressionPolicySpec)) client.Object {
	p := &v1alpha1.CompressionPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}}
	change(&p.Spec)
	return p
}

func peer(endpoint string) client.Object {
	return &v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "peer-"},
		Spec:       v1alpha1.PeerSpec{Endpoint: endpoint, CABundle: []byte("x")},
	}
}

// connection is a Peer with a way to be reached; what is empty is absent.
func connection(endpoint string, of v1alpha1.PeerConnection, proxy string) client.Object {
	p := &v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "peer-"},
		Spec:       v1alpha1.PeerSpec{Endpoint: endpoint, Connection: of, CABundle: []byte("x")},
	}
	if proxy != "" {
		p.Spec.Proxy = &v1alpha1.PeerProxy{URL: proxy}
	}
	return p
}

// host is an endpoint whose backend is a server with a name.
func host(name string) client.Object {
	return endpoint(func(e *v1alpha1.HTTPEndpoint) {
		e.Spec.Backend = v1alpha1.HTTPBackend{Host: &v1alpha1.HTTPHost{Name: name, Port: 80}}
	})
}

// externally is a Queue in an external server.
func externally(server string) client.Object {
	return queue(func(q *v1alpha1.Queue) {
		q.Spec.Engine.External = &v1alpha1.QueueExternal{Servers: []string{server}}
	})
}

func endpoint(change func(*v1alpha1.HTTPEndpoint)) client.Object {
	e := &v1alpha1.HTTPEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: "front", Namespace: "bank"},
		Spec: v1alpha1.HTTPEndpointSpec{
			Backend: v1alpha1.HTTPBackend{Service: &v1alpha1.HTTPService{Name: "api", Port: 8080}},
		},
	}
	change(e)
	return e
}

func queue(change func(*v1alpha1.Queue)) client.Object {
	q := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders"},
		Spec: v1alpha1.QueueSpec{
			Storage:        v1alpha1.QueueStorage{Size: resource.MustParse("1Gi")},
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "tokens"}},
		},
	}
	change(q)
	return q
}

// TestRefusals says, for what the API must refuse, which words of the message lead to the fix.
func TestRefusals(t *testing.T) {
	quantity := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	cases := map[string]struct {
		object client.Object
		want   string
	}{
		"relative path": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Source.PersistentVolumeClaim.Path = "data" }), "path must be absolute",
		},
		"path that climbs": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Source.PersistentVolumeClaim.Path = "/a/../b" }),
			"must not contain . or .. elements",
		},
		"onto itself": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Destination.Peer = ""
			t.Spec.Destination.PersistentVolumeClaim.PersistentVolumeClaimPath = t.Spec.Source.PersistentVolumeClaim
		}), "choose another claim"},
		"no claim": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{Path: "/"}
		}), "claimName"},
		"claim with slash": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Source.PersistentVolumeClaim.ClaimName = "other/ledger" }), "claimName",
		},
		"tiny template": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{Size: quantity("1Ki")}
		}), "size must be between 1Mi and 1Pi"},
		"absurd headroom": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{HeadroomPercent: ptr.To[int32](1001)}
		}), "headroomPercent"},
		"template of no claim": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Destination.PersistentVolumeClaim = v1alpha1.DestinationClaim{Template: &v1alpha1.ClaimTemplate{}}
		}), "claimName"},
		"template that cannot be written to": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany},
			}
		}), "accessModes"},
		"template without a size from an object store": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}}
			t.Spec.Destination.Peer = ""
			t.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{StorageClassName: "fast"}
		}), "add size to the template"},
		"grant to create claims of any name": {grantTo(v1alpha1.PeerGrantTo{
			Kind:   v1alpha1.GrantedPersistentVolumeClaim,
			Create: &v1alpha1.PeerGrantCreate{MaxSize: *quantity("1Gi")},
		}), "create is of one claim"},
		"grant to create Queues": {grantTo(v1alpha1.PeerGrantTo{
			Kind: v1alpha1.GrantedQueue, Name: "orders",
			Create: &v1alpha1.PeerGrantCreate{MaxSize: *quantity("1Gi")},
		}), "are about claims"},
		"archives of a claim into an object store": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Source.Form = v1alpha1.RestingArchive
			t.Spec.Destination = v1alpha1.TransferDestination{
				ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}, Form: v1alpha1.RestingGzip,
			}
		}), "use a persistentVolumeClaim as destination"},
		"form of the source by way of an object store": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Source.Form = v1alpha1.RestingGzip
			t.Spec.Destination.Via = &v1alpha1.TransferVia{ObjectStore: v1alpha1.ObjectStoreReference{Name: "vault"}}
		}), "remove source.form or destination.via"},
		"archives of an object store by source.form": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Source = v1alpha1.TransferSource{
				ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}, Form: v1alpha1.RestingArchive,
			}
			t.Spec.Destination.Peer = ""
		}), "remove source.form"},
		"form in an ephemeral volume": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}}
			t.Spec.Destination = v1alpha1.TransferDestination{
				Ephemeral: &v1alpha1.EphemeralVolume{Size: quantity("1Gi")}, Form: v1alpha1.RestingZstd,
			}
		}), "use a persistentVolumeClaim or objectStore as destination"},
		"archives in a claim of another cluster": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Destination.Form = v1alpha1.RestingArchive }),
			"or in a claim of the same namespace",
		},
		"archives in a claim of another namespace": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Destination.Peer, t.Spec.Destination.Namespace = "", "vault"
			t.Spec.Destination.Form = v1alpha1.RestingArchive
		}), "or in a claim of the same namespace"},
		"archives in a claim with a receipt": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Destination.Peer, t.Spec.Destination.Namespace, t.Spec.Receipt = "", "", true
			t.Spec.Destination.Form = v1alpha1.RestingArchive
		}), "remove receipt or form"},
		"archives of archives": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Destination.Peer, t.Spec.Destination.Namespace = "", ""
			t.Spec.Source.Form, t.Spec.Destination.Form = v1alpha1.RestingArchive, v1alpha1.RestingArchive
		}), "remove source.form to copy the archives themselves"},
		"archives from an object store": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}}
			t.Spec.Destination = v1alpha1.TransferDestination{
				ObjectStore: &v1alpha1.ObjectStorePath{Name: "store", Path: "/"}, Form: v1alpha1.RestingArchive,
			}
		}), "files are archived only from a claim in an objectStore"},
		"form by way of an object store": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Destination.Via = &v1alpha1.TransferVia{ObjectStore: v1alpha1.ObjectStoreReference{Name: "vault"}}
			t.Spec.Destination.Form = v1alpha1.RestingGzip
		}), "remove destination.form or destination.via"},
		"form with a receipt": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Receipt, t.Spec.Destination.Form = true, v1alpha1.RestingGzip
		}), "remove receipt or form"},
		"unknown form": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Destination.Form = "Lzma" }), "destination.form",
		},
		"negative attempts": {transfer(func(t *v1alpha1.Transfer) { t.Spec.MaxAttempts = -1 }), "maxAttempts"},
		"absurd attempts":   {transfer(func(t *v1alpha1.Transfer) { t.Spec.MaxAttempts = 1000000 }), "maxAttempts"},
		"tiny checkpoint interval": {
			transfer(func(t *v1alpha1.Transfer) { q := resource.MustParse("64Ki"); t.Spec.CheckpointInterval = &q }),
			"checkpointInterval",
		},
		"tiny bandwidth limit": {
			transfer(func(t *v1alpha1.Transfer) { q := resource.MustParse("100k"); t.Spec.BandwidthLimit = &q }),
			"bandwidthLimit",
		},
		"too many streams": {transfer(func(t *v1alpha1.Transfer) { t.Spec.Streams = 17 }), "streams"},
		"negative streams": {transfer(func(t *v1alpha1.Transfer) { t.Spec.Streams = -1 }), "streams"},
		"huge checkpoint interval": {
			transfer(func(t *v1alpha1.Transfer) { q := resource.MustParse("1Ti"); t.Spec.CheckpointInterval = &q }),
			"checkpointInterval",
		},
		"schedule of four fields": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: "0 2 * *"}
		}), "cron must have five fields"},
		"schedule with time zone": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: "TZ=UTC 0 2 * * *"}
		}), "and the time zone in timeZone"},
		"time zone that is a path": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: "@daily", TimeZone: "../x"}
		}), "timeZone must be a name of the tz database"},
		"include that excludes": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Include = []string{"a", "!b"} }), "move it to exclude",
		},
		"empty pattern": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Exclude = []string{""} }), "spec.exclude[0]",
		},
		"too many patterns": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Exclude = slices.Repeat([]string{"x"}, 129) }), "spec.exclude",
		},
		"empty source without delete": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.AllowEmptySource = true }), "only with delete: true",
		},
		"negative jitter": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: "@daily", Jitter: &metav1.Duration{Duration: -time.Second}}
		}), "jitter must be between 0s and 24h"},
		"unknown verify": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Verify = "Hope" }), `supported values: "None", "Digest"`,
		},
		"unknown codec": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Compression = &v1alpha1.Compression{Codecs: []v1alpha1.Codec{"lzw"}}
		}), `supported values: "deflate"`},
		"negative minSize": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Compression = &v1alpha1.Compression{MinSize: quantity("-1")} }),
			"minSize must be between 0 and 1Gi",
		},
		"absurd minSize": {
			transfer(func(t *v1alpha1.Transfer) { t.Spec.Compression = &v1alpha1.Compression{MinSize: quantity("1Ei")} }),
			"minSize must be between 0 and 1Gi",
		},
		"endpoint with https": {peer("https://gateway.west.example:8443"), "endpoint must be host:port"},
		"endpoint, no port":   {peer("gateway.west.example"), "endpoint must be host:port"},
		"dials no endpoint":   {connection("", v1alpha1.PeerDial, ""), "connection: Dial needs the endpoint"},
		"listens to an endpoint": {
			connection("gateway.west.example:8443", v1alpha1.PeerListen, ""), "remove endpoint",
		},
		"unknown connection": {connection("", "Guess", ""), `supported values: "Dial", "Listen", "Both"`},
		"proxy to nowhere":   {connection("", "", "http://proxy.example:3128"), "proxy needs the endpoint"},
		"proxy by TLS": {
			connection("gateway.west.example:8443", "", "https://proxy.example:3128"), "url must be http://host:port",
		},
		"proxy with a password": {
			connection("gateway.west.example:8443", "", "http://user:secret@proxy.example:3128"),
			"url must be http://host:port",
		},
		"negative price": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Prices = &v1alpha1.Prices{Currency: "USD", CPUHour: "-1", NetworkGiB: "0"}
		}), "cpuHour must be a decimal below 1000000, not negative"},
		"price of nothing": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Prices = &v1alpha1.Prices{Currency: "USD", CPUHour: "1", NetworkGiB: "0.00"}
		}), "where the network costs nothing leave prices out and choose objective Elapsed or CPU"},
		"CPU time that costs nothing": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Prices = &v1alpha1.Prices{Currency: "USD", CPUHour: "0", NetworkGiB: "1"}
		}), "where CPU time costs nothing leave prices out and choose objective Elapsed or Bytes"},
		"endless price": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Prices = &v1alpha1.Prices{Currency: "USD", CPUHour: "Infinity", NetworkGiB: "1"}
		}), "cpuHour must be a decimal below 1000000"},
		"price beyond all": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Prices = &v1alpha1.Prices{Currency: "USD", CPUHour: "1000000", NetworkGiB: "1"}
		}), "cpuHour must be a decimal below 1000000"},
		"unknown objective": {
			policy(func(s *v1alpha1.CompressionPolicySpec) { s.Objective = "Beauty" }),
			`supported values: "Cost", "Elapsed", "CPU", "Bytes"`,
		},
		"Tariff without a currency": {tariff(func(s *v1alpha1.TariffSpec) { s.Currency = "" }), "spec.currency"},
		"Tariff in small letters": {
			tariff(func(s *v1alpha1.TariffSpec) { s.Currency = "eur" }), "currency must be a code of ISO 4217",
		},
		"Tariff without a price": {
			tariff(func(s *v1alpha1.TariffSpec) { s.CPUHour.Price = "" }), "spec.cpuHour",
		},
		"negative price of a Tariff": {
			tariff(func(s *v1alpha1.TariffSpec) { s.NetworkGiB.Price = "-1" }), "price must be a decimal below 1000000",
		},
		"absurd price of a Tariff": {
			tariff(func(s *v1alpha1.TariffSpec) { s.StorageGiBMonth = "1000000" }), "storageGiBMonth must be a decimal below",
		},
		"a price of requests that is negative": {
			tariff(func(s *v1alpha1.TariffSpec) { s.ObjectStore.ReadRequests = "-1" }), "readRequests must be a decimal below",
		},
		"no name of a time zone": {
			tariff(func(s *v1alpha1.TariffSpec) { s.TimeZone = "../etc/passwd" }), "timeZone must be a name of the tz database",
		},
		"rule for everything": {tariff(func(s *v1alpha1.TariffSpec) {
			s.CPUHour.Rules = []v1alpha1.CPUHourRule{{Price: "1"}}
		}), "a rule needs nodeSelector or windows"},
		"rule for all traffic": {tariff(func(s *v1alpha1.TariffSpec) {
			s.NetworkGiB.Rules = []v1alpha1.NetworkGiBRule{{Price: "1"}}
		}), "a rule needs peers or direction"},
		"unknown direction": {tariff(func(s *v1alpha1.TariffSpec) {
			s.NetworkGiB.Rules = []v1alpha1.NetworkGiBRule{{Price: "1", Direction: "Sideways"}}
		}), `supported values: "Send", "Receive"`},
		"unknown day": {tariff(inWindow(v1alpha1.TariffWindow{
			Days: []v1alpha1.Weekday{"Caturday"},
		})), `supported values: "Monday"`},
		"window of nothing":   {tariff(inWindow(v1alpha1.TariffWindow{})), "a window needs days, or start and end"},
		"window without end":  {tariff(inWindow(v1alpha1.TariffWindow{Start: "20:00"})), "both of start and end"},
		"window of no length": {tariff(inWindow(v1alpha1.TariffWindow{Start: "20:00", End: "20:00"})), "must differ"},
		"window after midnight": {
			tariff(inWindow(v1alpha1.TariffWindow{Start: "20:00", End: "24:00"})), "end must be a time from 00:00 to 23:59",
		},
		"price that is no number": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Prices = &v1alpha1.Prices{Currency: "USD", CPUHour: "1", NetworkGiB: "NaN"}
			// and nothing else
		}),
			`is invalid: spec.prices.networkGiB: Invalid value: "NaN": networkGiB must be a decimal below 1000000, not negative`},
		"currency that is no code": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Prices = &v1alpha1.Prices{Currency: "US$", CPUHour: "1", NetworkGiB: "1"}
		}), "currency must be letters and digits; write for example USD"},
		"negative hardware minSize": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Hardware = &v1alpha1.HardwareCompression{MinSize: quantity("-5")}
		}), "minSize must be between 0 and 1Gi"},
		"zstd without software": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Codecs, s.Software = []v1alpha1.Codec{"deflate", "zstd"}, &v1alpha1.SoftwareCompression{Disabled: true}
		}), "no accelerator does zstd"},
		"zstd without software in a Transfer": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Compression = &v1alpha1.Compression{
				Codecs: []v1alpha1.Codec{"zstd"}, Software: v1alpha1.SoftwareDisabled,
			}
		}), "no accelerator does zstd"},
		"zstd without software in a Queue": {queue(func(q *v1alpha1.Queue) {
			q.Spec.Compression = &v1alpha1.QueueCompression{
				Codecs: []v1alpha1.Codec{"zstd"}, Software: v1alpha1.SoftwareDisabled,
			}
		}), "no accelerator does zstd"},
		"a size for software that is disabled": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Compression = &v1alpha1.HTTPCompression{Software: v1alpha1.SoftwareDisabled, SoftwareMinSize: quantity("0")}
		}), "softwareMinSize must not be set where software is Disabled"},
		"unknown use of software": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Compression = &v1alpha1.Compression{Software: "Sometimes"}
		}), `supported values: "Allowed", "Disabled"`},
		"unknown codec in a policy": {
			policy(func(s *v1alpha1.CompressionPolicySpec) { s.Codecs = []v1alpha1.Codec{"lzw"} }),
			`supported values: "deflate"`,
		},
		"zstd where hardware is required": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Codecs, s.Placement = []v1alpha1.Codec{"zstd", "deflate"}, v1alpha1.PlacementRequireHardware
		}), "codecs must have deflate first"},
		"a codec twice": {
			policy(func(s *v1alpha1.CompressionPolicySpec) { s.Codecs = []v1alpha1.Codec{"zstd", "zstd"} }), "each codec once",
		},
		"a codec twice in a Transfer": {transfer(func(t *v1alpha1.Transfer) {
			t.Spec.Compression = &v1alpha1.Compression{Codecs: []v1alpha1.Codec{"deflate", "deflate"}}
		}), "each codec once"},
		"an engine twice": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Software = &v1alpha1.SoftwareCompression{Engines: []v1alpha1.SoftwareEngine{"go", "zlib-ng", "go"}}
		}), "each engine once"},
		"an unknown engine": {policy(func(s *v1alpha1.CompressionPolicySpec) {
			s.Software = &v1alpha1.SoftwareCompression{Engines: []v1alpha1.SoftwareEngine{"zlib"}}
		}), "Unsupported value"},
		"endpoint with two backends": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Backend.Host = &v1alpha1.HTTPHost{Name: "api.example", Port: 80}
		}), "exactly one of service and host"},
		"endpoint without a backend": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Backend = v1alpha1.HTTPBackend{HealthCheck: &v1alpha1.HTTPHealthCheck{Path: "/"}}
		}), "exactly one of service and host"},
		"host with a port": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Backend = v1alpha1.HTTPBackend{Host: &v1alpha1.HTTPHost{Name: "api.example:80", Port: 80}}
		}), "without a port"},
		"host that is loopback":             {host("127.0.0.1"), "agents never dial"},
		"host that is loopback, IPv6":       {host("::1"), "agents never dial"},
		"host that is link-local":           {host("169.254.169.254"), "agents never dial"},
		"host that is link-local IPv6":      {host("fe80::1"), "agents never dial"},
		"host that is unspecified":          {host("0.0.0.0"), "agents never dial"},
		"localhost":                         {host("LocalHost"), "must not be localhost"},
		"a name in localhost":               {host("api.localhost"), "must not be localhost"},
		"external server on loopback":       {externally("nats://127.0.0.1:4222"), "members never dial"},
		"external server on localhost":      {externally("nats://LOCALHOST"), "members never dial"},
		"external server on IPv6 loopback":  {externally("nats://[::1]:4222"), "members never dial"},
		"external server that is unwritten": {externally("nats://[::]"), "members never dial"},
		"external server on a link":         {externally("nats://[fe80::1]:4222"), "members never dial"},
		"external server of metadata":       {externally("nats://169.254.169.254"), "members never dial"},
		"endpoint that is no name of a Service": {
			endpoint(func(e *v1alpha1.HTTPEndpoint) { e.Name = "1.front" }), "beginning with a letter",
		},
		"endpoint with a long name": {
			endpoint(func(e *v1alpha1.HTTPEndpoint) { e.Name = strings.Repeat("a", 41) }), "at most 40",
		},
		"an unknown coding": {
			endpoint(func(e *v1alpha1.HTTPEndpoint) { e.Spec.Codings = []v1alpha1.HTTPCoding{"br"} }),
			`supported values: "gzip"`,
		},
		"a coding twice": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Codings = []v1alpha1.HTTPCoding{"gzip", "gzip"}
		}), "each coding once"},
		"content type with a parameter": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.ContentTypes = []string{"text/html; charset=utf-8"}
		}), "media types without parameters"},
		"health check without a slash": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Backend.HealthCheck = &v1alpha1.HTTPHealthCheck{Path: "healthz"}
		}), "path must begin with a slash"},
		"endless drain": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Listener.DrainTimeout = &metav1.Duration{Duration: 2 * time.Hour}
		}), "drainTimeout must be between 1s and 1h"},
		"trusted proxy that is no CIDR": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Listener.TrustedProxies = []string{"10.0.0.0/8", "10.0.0.1"}
		}), "trustedProxies must be CIDRs"},
		"trusted proxy with bits behind the prefix": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Listener.TrustedProxies = []string{"10.0.0.1/8"}
		}), "trustedProxies must be CIDRs"},
		"replicas and autoscaling": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			replicas := int32(2)
			e.Spec.Replicas, e.Spec.Autoscaling = &replicas, &v1alpha1.HTTPAutoscaling{MaxReplicas: 3}
		}), "exclude each other"},
		"autoscaling upside down": {endpoint(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Autoscaling = &v1alpha1.HTTPAutoscaling{MinReplicas: 3, MaxReplicas: 2}
		}), "minReplicas must not be above maxReplicas"},
		"queue with a dot":       {queue(func(q *v1alpha1.Queue) { q.Name = "my.orders" }), "beginning with a letter"},
		"queue with a long name": {queue(func(q *v1alpha1.Queue) { q.Name = strings.Repeat("a", 41) }), "at most 40"},
		"queue without storage": {
			queue(func(q *v1alpha1.Queue) { q.Spec.Storage.Size = resource.MustParse("1Mi") }), "size must be at least 16Mi",
		},
		"queue of two": {queue(func(q *v1alpha1.Queue) { q.Spec.Replicas = 2 }), `supported values: "1", "3"`},
		"memory of a class": {queue(func(q *v1alpha1.Queue) {
			class := "fast"
			q.Spec.Storage.Type, q.Spec.Storage.StorageClassName = v1alpha1.QueueStorageMemory, &class
		}), "storageClassName is for type File"},
		"messages too large": {
			queue(func(q *v1alpha1.Queue) { q.Spec.Limits.MaxMessageSize = quantity("64Mi") }), "maxMessageSize must be",
		},
		"queue that holds nothing": {
			queue(func(q *v1alpha1.Queue) { q.Spec.Limits.MaxBytes = quantity("1") }), "maxBytes must be at least 64Ki",
		},
		"queue that forgets at once": {
			queue(func(q *v1alpha1.Queue) { q.Spec.Limits.MaxAge = &metav1.Duration{} }), "maxAge must be",
		},
		"queue that compresses 1Gi": {
			queue(func(q *v1alpha1.Queue) { q.Spec.Compression = &v1alpha1.QueueCompression{MinSize: quantity("1Gi")} }),
			"minSize must be between 0 and 64Mi",
		},
		"too much padding": {
			endpoint(func(e *v1alpha1.HTTPEndpoint) { e.Spec.Breach.PaddingMaxBytes = 5000 }), "paddingMaxBytes",
		},
		"grant of a relative path": {
			grantTo(v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedPersistentVolumeClaim, Path: "in"}), "path must be absolute",
		},
		"grant of a climbing path": {
			grantTo(v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedPersistentVolumeClaim, Path: "/in/.."}),
			"must not contain . or ..",
		},
		"grant of an empty element": {
			grantTo(v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedPersistentVolumeClaim, Path: "/in//a"}), "empty elements",
		},
		"grant of a path that ends in a slash": {
			grantTo(v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedPersistentVolumeClaim, Path: "/in/"}), "nor end in /",
		},
		"grant of a queue's path": {
			grantTo(v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedQueue, Path: "/"}), "are about claims",
		},
		"grant of a queue's mirror": {
			grantTo(v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedQueue, AllowDelete: true}), "are about claims",
		},
		"grant of a queue's owners": {
			grantTo(v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedQueue, AllowPrivileged: true}), "are about claims",
		},
		"grant to nobody": {&v1alpha1.PeerGrant{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "g-", Namespace: "bank"},
			Spec:       v1alpha1.PeerGrantSpec{To: []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim}}},
		}, "spec.from"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := k8s.Create(context.Background(), c.object, client.DryRunAll)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("want the object refused as invalid, got %v", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("want a message that contains %q, got: %v", c.want, err)
			}
		})
	}
}

func grantTo(to v1alpha1.PeerGrantTo) client.Object {
	return &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "g-", Namespace: "bank"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Namespaces: []string{"shop"}}}, To: []v1alpha1.PeerGrantTo{to},
		},
	}
}

func TestDefaults(t *testing.T) {
	object := transfer(func(*v1alpha1.Transfer) {}).(*v1alpha1.Transfer)
	if err := k8s.Create(context.Background(), object, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	spec := object.Spec
	if spec.Verify != v1alpha1.VerifyDigest || spec.MaxAttempts != 5 ||
		spec.Source.PersistentVolumeClaim.Path != "/" || spec.Destination.PersistentVolumeClaim.Path != "/" {
		t.Errorf("unexpected defaults: %+v", spec)
	}
}

func TestEndpointDefaults(t *testing.T) {
	object := endpoint(func(*v1alpha1.HTTPEndpoint) {}).(*v1alpha1.HTTPEndpoint)
	if err := k8s.Create(context.Background(), object, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	spec := object.Spec
	if len(spec.Codings) != 3 || spec.Codings[0] != v1alpha1.CodingGzip ||
		spec.Listener.ServiceType != v1alpha1.HTTPServiceClusterIP ||
		spec.Limits.MaxConnections != 20000 || spec.Breach.CrossSiteCookies != v1alpha1.HTTPCrossSiteCookiesDoNotCompress ||
		spec.ResponseHeader != v1alpha1.HTTPResponseHeaderDisabled || spec.Backend.ResponseTimeout.Duration != time.Minute {
		t.Errorf("unexpected defaults: %+v", spec)
	}
}

func TestQueueDefaults(t *testing.T) {
	object := queue(func(*v1alpha1.Queue) {}).(*v1alpha1.Queue)
	if err := k8s.Create(context.Background(), object, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	spec := object.Spec
	if spec.Storage.Type != v1alpha1.QueueStorageFile || spec.Replicas != 1 ||
		spec.Limits.Overflow != v1alpha1.QueueOverflowRejectNew ||
		spec.Limits.MaxMessageSize.Value() != 1<<20 || spec.Limits.MaxConnections != 10000 ||
		spec.DuplicateWindow.Duration != 2*time.Minute {
		t.Errorf("unexpected defaults: %+v", spec)
	}
}

func TestImmutability(t *testing.T) {
	ctx := context.Background()
	object := transfer(func(*v1alpha1.Transfer) {}).(*v1alpha1.Transfer)
	if err := k8s.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k8s.Delete(ctx, object) })
	for name, change := range map[string]func(*v1alpha1.TransferSpec){
		"source":      func(s *v1alpha1.TransferSpec) { s.Source.PersistentVolumeClaim.ClaimName = "another" },
		"destination": func(s *v1alpha1.TransferSpec) { s.Destination.Peer = "north" },
	} {
		changed := object.DeepCopy()
		change(&changed.Spec)
		err := k8s.Update(ctx, changed)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), "immutable; delete this Transfer") {
			t.Errorf("%s: want the change refused with the fix, got %v", name, err)
		}
	}
	changed := object.DeepCopy()
	changed.Spec.Verify = v1alpha1.VerifyNone
	if err := k8s.Update(ctx, changed); err != nil {
		t.Errorf("verify may change: %v", err)
	}
}
