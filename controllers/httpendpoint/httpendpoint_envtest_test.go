// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package httpendpoint_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

var ctx = context.Background()

func service(namespace, name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}},
	}
}

// create makes an endpoint called front for Service api.
func create(t *testing.T, namespace string, change func(*v1alpha1.HTTPEndpointSpec)) *v1alpha1.HTTPEndpoint {
	t.Helper()
	endpoint := newEndpoint(change)
	endpoint.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "front"}
	cluster.Create(t, endpoint)
	return endpoint
}

// expect waits for conditions, and leaves the endpoint as it is then.
func expect(t *testing.T, endpoint *v1alpha1.HTTPEndpoint, condition, reason string) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(endpoint), endpoint); err != nil {
			return err
		}
		if endpoint.Status.ObservedGeneration != endpoint.Generation {
			return errors.New("the status is about an older spec")
		}
		return controllertest.Expect(endpoint.Status.Conditions, condition, reason)
	})
}

// deployment waits for the one of an endpoint.
func deployment(t *testing.T, endpoint *v1alpha1.HTTPEndpoint) *appsv1.Deployment {
	t.Helper()
	var list appsv1.DeploymentList
	controllertest.Eventually(t, func() error {
		err := cluster.Client.List(
			ctx, &list, client.InNamespace(endpoint.Namespace),
			client.MatchingLabels{v1alpha1.HTTPEndpointLabel: string(endpoint.UID)},
		)
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d Deployments", len(list.Items))
		}
		return err
	})
	return &list.Items[0]
}

// config is what the replicas are told at this moment.
func config(t *testing.T, d *appsv1.Deployment) *wirev1.HTTPConfig {
	t.Helper()
	secret := &corev1.Secret{}
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(d), secret); err != nil {
		t.Fatal(err)
	}
	c := &wirev1.HTTPConfig{}
	if err := protojson.Unmarshal(secret.Data["config.json"], c); err != nil {
		t.Fatal(err)
	}
	return c
}

// addresses of replicas are those of this cluster alone, since fakes of agents are known by them.
var addresses atomic.Int32

// replica does what the Deployment's controller, the scheduler and a kubelet would, and returns the address of the
// agent.
func replica(t *testing.T, d *appsv1.Deployment) string {
	t.Helper()
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-1", Labels: d.Spec.Template.Labels},
		Spec:       appsv1.ReplicaSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template},
	}
	if err := cluster.Client.Create(ctx, set); apierrors.IsAlreadyExists(err) {
		err = cluster.Client.Get(ctx, client.ObjectKeyFromObject(set), set)
		if err != nil {
			t.Fatal(err)
		}
	} else if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, GenerateName: set.Name + "-", Labels: d.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")),
			},
		},
		Spec: *d.Spec.Template.Spec.DeepCopy(),
	}
	cluster.Create(t, pod)
	ip := fmt.Sprintf("10.9.%d.1", addresses.Add(1))
	cluster.SetPod(t, pod, func(status *corev1.PodStatus) {
		status.Phase, status.PodIP, status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
		status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
	})
	return ip + ":9443"
}

// ready does what the Deployment's controller would when all replicas are ready.
func ready(t *testing.T, d *appsv1.Deployment, n int32) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, ReadyReplicas: n, UpdatedReplicas: n, AvailableReplicas: n,
		}
		return cluster.Client.Status().Update(ctx, d)
	})
}

func say(address, revision string, change func(*wirev1.HTTPReport)) {
	report := &wirev1.HTTPReport{
		State: wirev1.HTTPState_HTTP_STATE_SERVING, Architecture: "amd64", Revision: revision,
		Certificate: &wirev1.HTTPCertificate{
			State: wirev1.CertificateState_CERTIFICATE_STATE_LOADED, NotAfter: timestamppb.New(time.Now().Add(time.Hour)),
		},
		Statistics: &wirev1.HTTPStatistics{Since: timestamppb.Now()},
	}
	if change != nil {
		change(report)
	}
	agents.SayHTTP(address, report)
}

func update(t *testing.T, object client.Object, change func()) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change()
		return cluster.Client.Update(ctx, object)
	})
}

// TestLife follows an endpoint from its creation over a change of the spec, a broken certificate and a reset to its
// deletion.
func TestLife(t *testing.T) {
	namespace := cluster.Namespace(t)
	endpoint := create(t, namespace, nil)
	expect(t, endpoint, v1alpha1.ConditionStalled, v1alpha1.ReasonBackendNotFound)
	cluster.Create(t, service(namespace, "api", 8080))
	expect(t, endpoint, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)

	d := deployment(t, endpoint)
	checkIdentity(t, endpoint, d)
	for _, object := range []client.Object{&corev1.Service{}, &policyv1.PodDisruptionBudget{}} {
		key := client.ObjectKeyFromObject(d)
		if _, isService := object.(*corev1.Service); isService {
			key = client.ObjectKeyFromObject(endpoint)
		}
		if err := cluster.Client.Get(ctx, key, object); err != nil {
			t.Error(err)
		}
	}
	first := config(t, d).GetRevision()
	one, two := replica(t, d), replica(t, d)
	say(one, first, nil)
	say(two, first, nil)
	ready(t, d, 2)
	expect(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	if endpoint.Status.Ready != "2/2" || endpoint.Status.Statistics == nil || len(endpoint.Status.Replicas) != 2 {
		t.Errorf("unexpected status: %+v", endpoint.Status)
	}

	// A change that needs no restart reaches the Secret, and status waits for every replica to take it.
	generation := d.Generation
	update(t, endpoint, func() { endpoint.Spec.Codings = []v1alpha1.HTTPCoding{v1alpha1.CodingZstd, v1alpha1.CodingGzip} })
	expect(t, endpoint, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)
	changed := config(t, d)
	if changed.GetRevision() == first || !slices.Equal(changed.GetCodings(), []string{"zstd", "gzip"}) {
		t.Errorf("the replicas are told %v", changed)
	}
	if now := deployment(t, endpoint).Generation; now != generation {
		t.Errorf("a change of codings changed the Deployment: generation %d, before %d", now, generation)
	}
	say(one, changed.GetRevision(), nil)
	say(two, changed.GetRevision(), nil)
	expect(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	// The Secret for clients is the replicas' to judge.
	say(two, changed.GetRevision(), func(r *wirev1.HTTPReport) {
		r.Certificate.State, r.Certificate.Message = wirev1.CertificateState_CERTIFICATE_STATE_INVALID, "no PEM"
	})
	poke(t, endpoint)
	expect(t, endpoint, v1alpha1.ConditionStalled, v1alpha1.ReasonCertificateInvalid)
	say(two, changed.GetRevision(), nil)
	expect(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	// A reset is asked of the replicas and echoed when they have done it.
	update(t, endpoint, func() {
		endpoint.Annotations = map[string]string{v1alpha1.ResetStatisticsAnnotation: "monday"}
	})
	controllertest.Eventually(t, func() error {
		if got := config(t, d).GetResetStatistics(); got != "monday" {
			return fmt.Errorf("the replicas are told to reset for %q", got)
		}
		return nil
	})
	for _, address := range []string{one, two} {
		say(address, config(t, d).GetRevision(), func(r *wirev1.HTTPReport) { r.Statistics.Reset_ = "monday" })
	}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(endpoint), endpoint); err != nil {
			return err
		}
		if got := endpoint.Status.Statistics.LastResetRequest; got != "monday" {
			return fmt.Errorf("status echoes %q", got)
		}
		return nil
	})
}

// poke has an endpoint looked at now.
func poke(t *testing.T, endpoint *v1alpha1.HTTPEndpoint) {
	t.Helper()
	update(t, endpoint, func() {
		if endpoint.Annotations == nil {
			endpoint.Annotations = map[string]string{}
		}
		endpoint.Annotations["test/poke"] = time.Now().String()
	})
}

// checkIdentity: replicas can prove to the manager that they are those of this endpoint.
func checkIdentity(t *testing.T, endpoint *v1alpha1.HTTPEndpoint, d *appsv1.Deployment) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(d), secret); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		t.Fatal("the Secret has no certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := pki.ParseBundle(secret.Data[pki.ClusterCAKey])
	if err != nil {
		t.Fatal(err)
	}
	_, err = certificate.Verify(x509.VerifyOptions{
		DNSName: pki.HTTPServerName(string(endpoint.UID)), Roots: pki.Pool(roots),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		t.Error(err)
	}
	identity, err := pki.IdentityOf(certificate)
	if err != nil || identity != pki.HTTPEndpointIdentity("east", endpoint.Namespace, endpoint.Name) {
		t.Errorf("unexpected identity %v, %v", identity, err)
	}
}

// TestRestart: what is in the pod template restarts the replicas.
func TestRestart(t *testing.T) {
	namespace := cluster.Namespace(t)
	cluster.Create(t, service(namespace, "api", 8080))
	endpoint := create(t, namespace, nil)
	generation := deployment(t, endpoint).Generation
	update(t, endpoint, func() { endpoint.Spec.Listener.TLS.SecretName = "another" })
	controllertest.Eventually(t, func() error {
		d := deployment(t, endpoint)
		if name := d.Spec.Template.Spec.Volumes[1].Secret.SecretName; d.Generation == generation || name != "another" {
			return fmt.Errorf("generation %d, Secret %q", d.Generation, name)
		}
		return nil
	})
}

// TestDrift: what is ours is put right, what others added stays.
func TestDrift(t *testing.T) {
	namespace := cluster.Namespace(t)
	cluster.Create(t, service(namespace, "api", 8080))
	endpoint := create(t, namespace, nil)
	d := deployment(t, endpoint)
	update(t, d, func() {
		d.Spec.Template.Spec.Containers[0].Image = "registry.example/other"
		d.Spec.Template.Annotations = map[string]string{"their/annotation": "stays"}
	})
	controllertest.Eventually(t, func() error {
		d := deployment(t, endpoint)
		if got := d.Spec.Template.Spec.Containers[0].Image; got != image.Name {
			return fmt.Errorf("the image is %q", got)
		}
		if d.Spec.Template.Annotations["their/annotation"] != "stays" {
			return errors.New("the annotation is gone")
		}
		return nil
	})
	front := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "front"}}
	controllertest.Eventually(t, func() error { return cluster.Client.Delete(ctx, front) })
	controllertest.Eventually(t, func() error { return cluster.Client.Get(ctx, client.ObjectKeyFromObject(front), front) })
}

// TestAutoscalerComesAndGoes: its number of replicas is not fought over.
func TestAutoscalerComesAndGoes(t *testing.T) {
	namespace := cluster.Namespace(t)
	cluster.Create(t, service(namespace, "api", 8080))
	endpoint := create(t, namespace, func(s *v1alpha1.HTTPEndpointSpec) {
		s.Autoscaling = &v1alpha1.HTTPAutoscaling{MaxReplicas: 8}
	})
	d := deployment(t, endpoint)
	scaler := &autoscalingv2.HorizontalPodAutoscaler{}
	controllertest.Eventually(t, func() error { return cluster.Client.Get(ctx, client.ObjectKeyFromObject(d), scaler) })
	if *d.Spec.Replicas != 2 || *scaler.Spec.MinReplicas != 2 || scaler.Spec.MaxReplicas != 8 {
		t.Errorf("%d replicas, autoscaler %+v", *d.Spec.Replicas, scaler.Spec)
	}
	update(t, d, func() { d.Spec.Replicas = ptr.To[int32](5) })
	update(t, endpoint, func() { endpoint.Spec.Autoscaling.MaxReplicas = 9 })
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(scaler), scaler); err != nil {
			return err
		}
		if scaler.Spec.MaxReplicas != 9 {
			return fmt.Errorf("at most %d replicas", scaler.Spec.MaxReplicas)
		}
		return nil
	})
	if got := *deployment(t, endpoint).Spec.Replicas; got != 5 {
		t.Errorf("the autoscaler's 5 replicas became %d", got)
	}
	update(t, endpoint, func() { endpoint.Spec.Autoscaling, endpoint.Spec.Replicas = nil, ptr.To[int32](3) })
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(scaler), scaler); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the autoscaler is still there: %w", err)
		}
		if got := *deployment(t, endpoint).Spec.Replicas; got != 3 {
			return fmt.Errorf("%d replicas", got)
		}
		return nil
	})
}

// TestConflict: what belongs to somebody else is left alone, and named.
func TestConflict(t *testing.T) {
	namespace := cluster.Namespace(t)
	theirs := service(namespace, "front", 1234)
	cluster.Create(t, service(namespace, "api", 8080), theirs)
	endpoint := create(t, namespace, nil)
	expect(t, endpoint, v1alpha1.ConditionStalled, v1alpha1.ReasonNameConflict)
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(theirs), theirs); err != nil ||
		theirs.Spec.Ports[0].Port != 1234 {
		t.Errorf("the other Service was touched: %v, %+v", err, theirs.Spec)
	}
	if err := cluster.Client.Delete(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	expect(t, endpoint, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)
}

// TestPolicy: a missing policy is said, and its coming noticed; when it is deleted what runs goes on with it.
func TestPolicy(t *testing.T) {
	namespace := cluster.Namespace(t)
	cluster.Create(t, service(namespace, "api", 8080))
	endpoint := create(t, namespace, func(s *v1alpha1.HTTPEndpointSpec) {
		s.Compression = &v1alpha1.HTTPCompression{PolicyName: namespace}
	})
	expect(t, endpoint, v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.CompressionPolicySpec{Mode: v1alpha1.CompressionNever},
	}
	cluster.Create(t, policy)
	expect(t, endpoint, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)
	if got := config(t, deployment(t, endpoint)).GetCompression().GetMode(); got != wirev1.CompressionMode_COMPRESSION_MODE_NEVER {
		t.Errorf("the replicas are told %v", got)
	}
	if err := cluster.Client.Delete(ctx, policy); err != nil {
		t.Fatal(err)
	}
	expect(t, endpoint, v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
	if got := config(t, deployment(t, endpoint)).GetCompression().GetMode(); got != wirev1.CompressionMode_COMPRESSION_MODE_NEVER {
		t.Errorf("without the policy the replicas are told %v", got)
	}
}

// TestLocalPolicy: a policy of the namespace precedes one of the cluster, is followed when it changes and, like that
// one, is missed when it goes.
func TestLocalPolicy(t *testing.T) {
	namespace := cluster.Namespace(t)
	local := &v1alpha1.LocalCompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namespace},
		Spec:       v1alpha1.LocalCompressionPolicySpec{Level: v1alpha1.CompressionBalanced},
	}
	elsewhere := &v1alpha1.LocalCompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace(t), Name: namespace},
		Spec:       v1alpha1.LocalCompressionPolicySpec{Mode: v1alpha1.CompressionNever},
	}
	shared := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.CompressionPolicySpec{Mode: v1alpha1.CompressionNever},
	}
	cluster.Create(t, service(namespace, "api", 8080), elsewhere)
	endpoint := create(t, namespace, func(s *v1alpha1.HTTPEndpointSpec) {
		s.Compression = &v1alpha1.HTTPCompression{PolicyName: namespace}
	})
	expect(t, endpoint, v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
	cluster.Create(t, shared, local)
	told := func(mode wirev1.CompressionMode, level wirev1.CompressionLevel, local bool) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			got := config(t, deployment(t, endpoint)).GetCompression()
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(endpoint), endpoint); err != nil {
				return err
			}
			if got.GetMode() != mode || got.GetLevel() != level || endpoint.Status.Policy.IsLocal() != local {
				return fmt.Errorf("the replicas are told %v, status has %+v", got, endpoint.Status.Policy)
			}
			return nil
		})
	}
	auto, never := wirev1.CompressionMode_COMPRESSION_MODE_AUTO, wirev1.CompressionMode_COMPRESSION_MODE_NEVER
	told(auto, wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED, true)
	update(t, local, func() { local.Spec.Level = v1alpha1.CompressionHigh })
	told(auto, wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH, true)
	if err := cluster.Client.Delete(ctx, local); err != nil {
		t.Fatal(err)
	}
	told(never, wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, false)
	if err := cluster.Client.Delete(ctx, shared); err != nil {
		t.Fatal(err)
	}
	expect(t, endpoint, v1alpha1.ConditionStalled, v1alpha1.ReasonPolicyNotFound)
}

// TestRequireHardware: nothing is made that could only wait, and a node that comes is noticed.
func TestRequireHardware(t *testing.T) {
	namespace := cluster.Namespace(t)
	cluster.Create(t, service(namespace, "api", 8080))
	endpoint := create(t, namespace, func(s *v1alpha1.HTTPEndpointSpec) {
		s.Compression = &v1alpha1.HTTPCompression{Placement: v1alpha1.PlacementRequireHardware}
	})
	expect(t, endpoint, v1alpha1.ConditionStalled, v1alpha1.ReasonUnschedulable)
	var deployments appsv1.DeploymentList
	if err := cluster.Client.List(ctx, &deployments, client.InNamespace(namespace)); err != nil ||
		len(deployments.Items) != 0 {
		t.Errorf("%d Deployments, %v", len(deployments.Items), err)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "z15", Labels: map[string]string{v1alpha1.DeflateLabel: "hardware"}},
	}
	cluster.Create(t, node)
	t.Cleanup(func() { _ = cluster.Client.Delete(ctx, node) })
	// What the API server and nobody else here would take away again.
	update(t, node, func() { node.Spec.Taints = nil })
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := cluster.Client.Status().Update(ctx, node); err != nil {
		t.Fatal(err)
	}
	expect(t, endpoint, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)
	if where := endpoint.Status.Placement; where == nil || where.Reason == "" {
		t.Errorf("status does not explain the placement: %+v", where)
	}
}
