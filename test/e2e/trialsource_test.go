// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestTrialOfHTTPEndpoint: bodies that pass an endpoint which compresses nothing are measured one by one, and no client
// sees a difference.
func TestTrialOfHTTPEndpoint(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	body := backend(t, namespace)
	ca, name := newAuthority(t), "front."+namespace+".svc"
	data, _ := ca.issue(t, name)
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
			},
			Compression: &v1alpha1.HTTPCompression{Mode: v1alpha1.CompressionNever},
		},
	}
	for _, object := range []client.Object{secret, endpoint} {
		if err := east.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			dumpEndpoint(t, namespace)
		}
	})
	waitForEndpoint(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "front"}}
	f := &front{address: east.nodePort(t, service), serverName: name, roots: roots, path: "/table.html", body: body}
	f.expectCoding(t, "gzip", "")

	work := f.start()
	trial := newTrial(namespace, "pages", v1alpha1.TrialSource{
		// Long enough for bodies to pass on a machine that is busy.
		HTTPEndpoint: &v1alpha1.TrialHTTPEndpoint{Name: "front", Duration: &metav1.Duration{Duration: 20 * time.Second}},
	})
	func() {
		defer func() {
			requests, failures := work.end()
			t.Logf("%d requests, %d failed", requests, len(failures))
			for _, failure := range failures[:min(len(failures), 20)] {
				t.Error(failure)
			}
		}()
		complete(t, trial)
	}()

	s, length := trial.Status.Sample, int64(len(body))
	if s.Unit != v1alpha1.TrialUnitBody || s.Items < 1 || s.ItemsTotal < s.Items || s.CutItems != 0 ||
		s.UnreadableItems != 0 || s.Agents < 1 ||
		s.Bytes != s.Items*length || s.BytesTotal != s.ItemsTotal*length || s.Bytes > 4<<20 {
		t.Errorf("of bodies of %d bytes: %+v", length, s)
	}
	checkMeasured(t, trial)
	checkRecommended(t, trial)
	report := []string{"trial", "report", trial.Name, "-n", namespace}
	t.Log(east.says(t, append(report, "-o", "text"), "on node "+trial.Status.Run.Node,
		fmt.Sprintf(
			"Sample of HTTPEndpoint front: %d bodies of ", s.Items,
		), "write codings: [", "libzstd", trial.Status.Recommendation.Policy))
	if page := east.says(
		t, report, "Sample of HTTPEndpoint front", "<svg", "</html>",
	); !strings.HasPrefix(page, "<!DOCTYPE html>") {
		t.Errorf("the page begins with %.100s", page)
	}
	f.expectCoding(t, "gzip", "")
}

// TestTrialOfQueue: messages that a queue holds, some of them compressed, are measured one by one, and all of them are
// still there for their consumer.
func TestTrialOfQueue(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders-tokens"},
		Data:       map[string][]byte{"clerk": []byte("let the clerk in\n")},
	}
	queue := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"},
		Spec: v1alpha1.QueueSpec{
			Storage: v1alpha1.QueueStorage{Size: resource.MustParse("100Mi")},
			Compression: &v1alpha1.QueueCompression{
				Mode: v1alpha1.CompressionAlways, MinSize: ptr.To(resource.MustParse("10000")),
			},
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: secret.Name}},
		},
	}
	for _, object := range []client.Object{secret, queue} {
		if err := east.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { east.abandonQueue(t, queue) })
	waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	clerk := &queueClient{cluster: east, queue: queue, roots: east.certificateAuthority(t), token: "let the clerk in"}
	clerk.connect(t)
	messages := orders(40)
	clerk.put(t, messages)
	// A message that was got and acknowledged is not there to be sampled.
	clerk.get(t, messages[:1])
	clerk.close()

	trial := newTrial(namespace, "orders", v1alpha1.TrialSource{Queue: &v1alpha1.TrialQueue{Name: queue.Name}})
	complete(t, trial)
	left, bytes := messages[1:], int64(0)
	for _, message := range left {
		bytes += int64(len(message))
	}
	s := trial.Status.Sample
	if s.Unit != v1alpha1.TrialUnitMessage || s.Items != int64(len(left)) || s.ItemsTotal != s.Items || s.CutItems != 0 ||
		s.UnreadableItems != 0 ||
		s.Agents != 1 || s.Bytes != bytes || s.BytesTotal <= 0 || s.BytesTotal >= bytes {
		t.Errorf("of %d messages with %d bytes: %+v", len(left), bytes, s)
	}
	checkMeasured(t, trial)
	checkRecommended(t, trial)
	t.Log(east.says(t, []string{
		"trial", "report", trial.Name, "-n", namespace, "-o", "text",
	}, "on node "+trial.Status.Run.Node,
		fmt.Sprintf(
			"Sample of Queue orders: %d messages of ", s.Items,
		), "libzstd", trial.Status.Recommendation.Policy))

	clerk.connect(t)
	clerk.get(t, left)
	clerk.close()
}
