// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// serve makes a file of some tens of kilobytes and serves it on port 8080.
const serve = `mkdir -p /data/www; i=0
while [ $i -lt 1000 ]; do echo "<tr><td>account $i</td><td>balance 000000012345</td><td>EUR</td></tr>"; i=$((i+1)); done > /data/www/table.html
exec httpd -f -p 8080 -h /data/www`

// backend runs Service api of one pod, and returns the file that it serves.
func backend(t *testing.T, namespace string) []byte {
	t.Helper()
	ctx := context.Background()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api", Labels: map[string]string{"app": "api"}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532),
				FSGroup:        ptr.To[int64](65532),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "api", Image: east.Busybox(), Command: []string{"/bin/sh", "-ec", serve},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				ReadinessProbe: &corev1.Probe{
					ProbeHandler: corev1.ProbeHandler{
						HTTPGet: &corev1.HTTPGetAction{Path: "/table.html", Port: intstr.FromInt32(8080)},
					},
					// A machine that is busy is not a backend that is ill.
					PeriodSeconds: 1, TimeoutSeconds: 60, FailureThreshold: 60,
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "api"},
		Spec:       corev1.ServiceSpec{Selector: pod.Labels, Ports: []corev1.ServicePort{{Port: 8080}}},
	}
	for _, object := range []client.Object{pod, service} {
		if err := east.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := east.command(
		"-n", namespace, "wait", "pod/api", "--for=condition=Ready", "--timeout=6m",
	).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	body, err := east.command("-n", namespace, "exec", "api", "--", "cat", "/data/www/table.html").Output()
	if err != nil || len(body) < 20000 {
		t.Fatalf("%d bytes of the backend's file, %v", len(body), err)
	}
	return body
}

// waitForEndpoint waits until status is about the present spec and a condition is True with a reason.
func waitForEndpoint(t *testing.T, endpoint *v1alpha1.HTTPEndpoint, condition, reason string) {
	t.Helper()
	eventually(t, 6*time.Minute, "HTTPEndpoint "+endpoint.Name+" to be "+condition+" for "+reason, func() (bool, string) {
		if err := east.Get(context.Background(), client.ObjectKeyFromObject(endpoint), endpoint); err != nil {
			return false, err.Error()
		}
		found := meta.FindStatusCondition(endpoint.Status.Conditions, condition)
		if found == nil {
			return false, "no such condition yet"
		}
		return endpoint.Status.ObservedGeneration == endpoint.Generation && found.Status == metav1.ConditionTrue &&
				found.Reason == reason,
			string(found.Status) + " " + found.Reason + ": " + found.Message
	})
}

// patch changes an object.
func patch(t *testing.T, object client.Object, change func()) {
	t.Helper()
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T is no object", object)
	}
	change()
	if err := east.Patch(context.Background(), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// expectCoding asks by a new connection.
func (f *front) expectCoding(t *testing.T, accept, want string) (serial string) {
	t.Helper()
	transport := f.transport(false)
	defer transport.CloseIdleConnections()
	coding, serial, err := f.get(transport, accept)
	if err != nil || coding != want {
		t.Errorf("Accept-Encoding %q: coding %q, want %q (%v)", accept, coding, want, err)
	}
	return serial
}

// TestHTTPEndpoint is the life of an endpoint under load, of which no request may fail: a change of the spec, a broken
// certificate and a good one, a rolling restart; and what status says at the end.
func TestHTTPEndpoint(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	body := backend(t, namespace)
	ca := newAuthority(t)
	name := "front." + namespace + ".svc"
	data, first := ca.issue(t, name)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "front-tls"}, Type: corev1.SecretTypeTLS, Data: data,
	}
	endpoint := &v1alpha1.HTTPEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "front"},
		Spec: v1alpha1.HTTPEndpointSpec{
			Backend: v1alpha1.HTTPBackend{
				Service: &v1alpha1.HTTPService{Name: "api", Port: 8080},
				// A machine that is busy is not a backend that is ill.
				HealthCheck: &v1alpha1.HTTPHealthCheck{Path: "/table.html", Timeout: &metav1.Duration{Duration: time.Minute}},
			},
			Listener: v1alpha1.HTTPListener{
				TLS: &v1alpha1.HTTPListenerTLS{SecretName: secret.Name}, ServiceType: v1alpha1.HTTPServiceNodePort,
				DrainTimeout: &metav1.Duration{Duration: 10 * time.Second},
			},
			Codings:     []v1alpha1.HTTPCoding{v1alpha1.CodingGzip},
			Compression: &v1alpha1.HTTPCompression{Mode: v1alpha1.CompressionAlways},
		},
	}

	// Without its Secret nobody is served, and status says what is missing.
	if err := east.Create(ctx, endpoint); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			dumpEndpoint(t, namespace)
		}
	})
	waitForEndpoint(t, endpoint, v1alpha1.ConditionStalled, v1alpha1.ReasonCertificateNotFound)
	if err := east.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	waitForEndpoint(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "front"}}
	f := &front{address: east.nodePort(t, service), serverName: name, roots: roots, path: "/table.html", body: body}
	if serial := f.expectCoding(t, "gzip", "gzip"); serial != first {
		t.Errorf("the certificate is %s, want %s", serial, first)
	}
	f.expectCoding(t, "", "")
	f.expectCoding(t, "zstd", "")
	f.expectCoding(t, "gzip;q=0, *;q=0.1, identity", "")

	work := f.start()
	changeCodings(t, endpoint, f)
	changeCertificate(t, endpoint, f, secret, ca)
	restart(t, endpoint)
	requests, failures := work.end()
	t.Logf("%d requests, %d failed", requests, len(failures))
	for i, failure := range failures {
		if i == 20 {
			break
		}
		t.Error(failure)
	}
	if requests < 100 {
		t.Errorf("only %d requests were made", requests)
	}

	checkStatistics(t, endpoint, f)
	for _, args := range [][]string{
		{"get", "httpendpoints"},
		{"get", "httpendpoints", "-o", "wide"},
		{"describe", "httpendpoint", "front"},
	} {
		out, err := east.command(append([]string{"-n", namespace}, args...)...).CombinedOutput()
		if err != nil {
			t.Error(err)
		}
		t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
	if err := east.Delete(ctx, endpoint); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Minute, "everything of the HTTPEndpoint to go", func() (bool, string) {
		out, err := east.command("-n", namespace, "get", "deployments,services,secrets,pods,poddisruptionbudgets", "-o",
			"name",
			"-l", v1alpha1.HTTPEndpointLabel).CombinedOutput()
		return err == nil && len(bytes.TrimSpace(out)) == 0, string(out)
	})
}

// changeCodings: another spec takes effect for new connections, without a restart.
func changeCodings(t *testing.T, endpoint *v1alpha1.HTTPEndpoint, f *front) {
	t.Helper()
	before := deploymentOf(t, endpoint).Generation
	patch(t, endpoint, func() { endpoint.Spec.Codings = []v1alpha1.HTTPCoding{v1alpha1.CodingZstd, v1alpha1.CodingGzip} })
	waitForEndpoint(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	f.expectCoding(t, "gzip, zstd", "zstd")
	f.expectCoding(t, "gzip, zstd;q=0.5", "gzip")
	if after := deploymentOf(t, endpoint).Generation; after != before {
		t.Errorf("the change restarted the replicas: generation %d, before %d", after, before)
	}
}

// changeCertificate: a broken one is not used and is told of, a good one is.
func changeCertificate(t *testing.T, endpoint *v1alpha1.HTTPEndpoint, f *front, secret *corev1.Secret, ca *authority) {
	t.Helper()
	patch(t, secret, func() { secret.Data[corev1.TLSCertKey] = []byte("this is no certificate\n") })
	waitForEndpoint(t, endpoint, v1alpha1.ConditionStalled, v1alpha1.ReasonCertificateInvalid)
	t.Logf(
		"with a broken certificate: %s",
		meta.FindStatusCondition(endpoint.Status.Conditions, v1alpha1.ConditionStalled).Message,
	)
	f.expectCoding(t, "gzip", "gzip")
	data, serial := ca.issue(t, f.serverName)
	patch(t, secret, func() { secret.Data = data })
	waitForEndpoint(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	// A replica that had not seen the broken one may still have the first for a while.
	eventually(t, 6*time.Minute, "every replica to serve the new certificate", func() (bool, string) {
		for range 10 {
			transport := f.transport(false)
			_, got, err := f.get(transport, "gzip")
			transport.CloseIdleConnections()
			if err != nil || got != serial {
				return false, fmt.Sprintf("certificate %s, %v", got, err)
			}
		}
		return true, ""
	})
}

// restart replaces every replica, as an operator would.
func restart(t *testing.T, endpoint *v1alpha1.HTTPEndpoint) {
	t.Helper()
	name := "deployment/" + deploymentOf(t, endpoint).Name
	for _, args := range [][]string{{"rollout", "restart", name}, {"rollout", "status", name, "--timeout=6m"}} {
		if out, err := east.command(append([]string{"-n", endpoint.Namespace}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	// The old replicas are gone when they have drained.
	eventually(t, 6*time.Minute, "the old replicas to end", func() (bool, string) {
		var pods corev1.PodList
		if err := east.List(context.Background(), &pods, client.InNamespace(endpoint.Namespace),
			client.MatchingLabels{v1alpha1.HTTPEndpointLabel: string(endpoint.UID)}); err != nil {
			return false, err.Error()
		}
		return len(pods.Items) == 2, strconv.Itoa(len(pods.Items)) + " pods"
	})
	waitForEndpoint(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
}

func deploymentOf(t *testing.T, endpoint *v1alpha1.HTTPEndpoint) *appsv1.Deployment {
	t.Helper()
	var list appsv1.DeploymentList
	err := east.List(
		context.Background(), &list, client.InNamespace(endpoint.Namespace),
		client.MatchingLabels{v1alpha1.HTTPEndpointLabel: string(endpoint.UID)},
	)
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d Deployments, %v", len(list.Items), err)
	}
	return &list.Items[0]
}

// checkStatistics: what was served is counted, and a reset begins again.
func checkStatistics(t *testing.T, endpoint *v1alpha1.HTTPEndpoint, f *front) {
	t.Helper()
	for range 20 {
		f.expectCoding(t, "gzip", "gzip")
		f.expectCoding(t, "", "")
	}
	eventually(t, 6*time.Minute, "the statistics to count 20 responses of each kind", func() (bool, string) {
		if err := east.Get(context.Background(), client.ObjectKeyFromObject(endpoint), endpoint); err != nil {
			return false, err.Error()
		}
		s, c := endpoint.Status.Statistics, endpoint.Status.Compression
		if s == nil || c == nil {
			return false, "no statistics"
		}
		return s.SoftwareCount+s.HardwareCount >= 20 && s.UncompressedCount >= 20 && s.Responses >= 40, fmt.Sprintf("%+v", *s)
	})
	s, c := endpoint.Status.Statistics, endpoint.Status.Compression
	ratio, err := strconv.ParseFloat(s.AverageRatio, 64)
	if err != nil || ratio < 2 {
		t.Errorf("the average ratio is %q", s.AverageRatio)
	}
	if s.AverageUncompressedSize != int64(len(f.body)) || s.AverageCompressSeconds == "" || c.Engine == "" ||
		c.SavedPercent <= 0 ||
		endpoint.Status.CPU == nil || endpoint.Status.CPU.CompressSeconds == "" {
		t.Errorf("unexpected status: %+v %+v %+v", s, c, endpoint.Status.CPU)
	}
	patch(t, endpoint, func() {
		metav1.SetMetaDataAnnotation(&endpoint.ObjectMeta, v1alpha1.ResetStatisticsAnnotation, "again")
	})
	eventually(t, 6*time.Minute, "the statistics to begin again", func() (bool, string) {
		if err := east.Get(context.Background(), client.ObjectKeyFromObject(endpoint), endpoint); err != nil {
			return false, err.Error()
		}
		s := endpoint.Status.Statistics
		if s == nil {
			return false, "no statistics"
		}
		return s.LastResetRequest == "again" && s.SoftwareCount+s.HardwareCount == 0, fmt.Sprintf("%+v", *s)
	})
	waitForEndpoint(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
}

// dumpEndpoint prints what an operator would look at after a failure.
func dumpEndpoint(t *testing.T, namespace string) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "httpendpoints,deployments,services,endpointslices,pods", "-o", "wide"},
		{"describe", "httpendpoints"},
		{"describe", "pods", "-l", v1alpha1.HTTPEndpointLabel},
	} {
		out, _ := east.command(append([]string{"-n", namespace}, args...)...).CombinedOutput()
		t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
}
