// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package objectstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protojson"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

func newStore(namespace string) *v1alpha1.ObjectStore {
	return &v1alpha1.ObjectStore{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vault"},
		Spec: v1alpha1.ObjectStoreSpec{
			Endpoint: "https://s3.example:9000", Bucket: "cargo", Prefix: "east/bank",
			Credentials: &v1alpha1.StoreCredentials{SecretName: "keys"},
		},
	}
}

func expect(t *testing.T, store *v1alpha1.ObjectStore, condition, reason string) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(store), store); err != nil {
			return err
		}
		if store.Status.ObservedGeneration != store.Generation {
			return errors.New("the spec has not been looked at")
		}
		return controllertest.Expect(store.Status.Conditions, condition, reason)
	})
}

// job is the one of the store that is not a former one.
func job(t *testing.T, store *v1alpha1.ObjectStore, former string) *batchv1.Job {
	t.Helper()
	var found *batchv1.Job
	controllertest.Eventually(t, func() error {
		jobs := cluster.Jobs(t, store.Namespace, v1alpha1.ObjectStoreLabel, string(store.UID))
		if len(jobs) != 1 || jobs[0].Name == former {
			return fmt.Errorf("%d Jobs", len(jobs))
		}
		found = &jobs[0]
		return nil
	})
	return found
}

func report(t *testing.T, broken string, reason wirev1.FailureReason) string {
	t.Helper()
	r := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}
	for _, name := range []string{
		"Abort", "ConditionalComplete", "ConditionalPut", "Delete", "List", "Multipart", "RangedGet", "ReadAfterWrite",
	} {
		promise := &wirev1.StorePromise{Type: name, Kept: name != broken}
		if !promise.Kept {
			promise.Message = strings.Repeat("\x1b why ", 100)
		}
		r.Promises = append(r.Promises, promise)
	}
	if reason != 0 {
		r = &wirev1.Report{
			State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{Reason: reason, Message: "why"},
		}
	}
	message, err := protojson.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(message)
}

func TestProbes(t *testing.T) {
	t.Parallel()
	ctx, namespace := context.Background(), cluster.Namespace(t)
	store := newStore(namespace)
	cluster.Create(t, store)
	expect(t, store, v1alpha1.ConditionReconciling, v1alpha1.ReasonProbing)
	made := job(t, store, "")
	secret := &corev1.Secret{}
	secretKey := client.ObjectKey{Namespace: namespace, Name: attempt.SecretName(made.Name, store)}
	if err := cluster.Client.Get(ctx, secretKey, secret); err != nil ||
		!strings.Contains(string(secret.Data["config.json"]), "east/bank") {
		t.Fatalf("%v: %s", err, secret.Data["config.json"])
	}
	policies := &networkingv1.NetworkPolicyList{}
	if err := cluster.Client.List(ctx, policies, client.InNamespace(namespace)); err != nil || len(policies.Items) != 1 {
		t.Fatal(policies.Items, err)
	}
	ports := policies.Items[0].Spec.Egress[0].Ports
	if len(ports) != 1 || ports[0].Port.IntValue() != 9000 {
		t.Errorf("%v", ports)
	}
	pod := cluster.RunPod(t, made, "node-1")
	cluster.EndPod(t, pod, 0, report(t, "ConditionalComplete", 0))
	expect(t, store, v1alpha1.ConditionReady, v1alpha1.ReasonPromisesKept)
	if len(store.Status.Promises) != 8 || store.Status.LastProbeTime == nil || store.Status.Probe.NextTime == nil {
		t.Errorf("%+v", store.Status)
	}
	controllertest.Eventually(t, func() error {
		if jobs := cluster.Jobs(t, namespace, v1alpha1.ObjectStoreLabel, string(store.UID)); len(jobs) > 0 {
			return errors.New("the Job is still there")
		}
		if err := cluster.Client.Get(ctx, secretKey, secret); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Secret is still there: %w", err)
		}
		return nil
	})
	if families, err := registry.Gather(); err != nil || !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
		return f.GetName() == "lighterage_objectstore_probes_total"
	}) {
		t.Error(families, err)
	}

	// Another spec is probed at once. A label changes nothing.
	written := store.ResourceVersion
	change := client.MergeFrom(store.DeepCopy())
	store.Spec.Prefix = "east/other"
	if err := cluster.Client.Patch(ctx, store, change); err != nil {
		t.Fatal(err)
	}
	expect(t, store, v1alpha1.ConditionReconciling, v1alpha1.ReasonProbing)
	if store.ResourceVersion == written || store.Status.Promises != nil {
		t.Errorf("%+v", store.Status)
	}
	second := job(t, store, made.Name)
	cluster.EndPod(t, cluster.RunPod(t, second, "node-1"), 1,
		report(t, "", wirev1.FailureReason_FAILURE_REASON_STORE_DENIED))
	expect(t, store, v1alpha1.ConditionStalled, v1alpha1.ReasonStoreDenied)

	change = client.MergeFrom(store.DeepCopy())
	store.Spec.Bucket = "another"
	if err := cluster.Client.Patch(ctx, store, change); err != nil {
		t.Fatal(err)
	}
	third := job(t, store, second.Name)
	cluster.EndPod(t, cluster.RunPod(t, third, "node-1"), 0, report(t, "ConditionalPut", 0))
	expect(t, store, v1alpha1.ConditionStalled, v1alpha1.ReasonPromiseNotKept)
	if err := cluster.Client.Delete(ctx, store); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(store), store); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the store is still there: %w", err)
		}
		return nil
	})
}

// TestRefusedStart: a quota of Jobs is told of.
func TestRefusedStart(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	cluster.NoJobs(t, namespace)
	store := newStore(namespace)
	cluster.Create(t, store)
	expect(t, store, v1alpha1.ConditionStalled, v1alpha1.ReasonAgentNotStarted)
	if store.Status.Probe.NextTime == nil {
		t.Errorf("%+v", store.Status)
	}
}

// TestServiceOfAnother namespace that has not consented.
func TestServiceOfAnother(t *testing.T) {
	t.Parallel()
	other, namespace := cluster.Namespace(t), cluster.Namespace(t)
	store := newStore(namespace)
	store.Spec.Endpoint = "https://minio." + other + ".svc:9000"
	cluster.Create(t, store)
	expect(t, store, v1alpha1.ConditionStalled, v1alpha1.ReasonAddressNotAllowed)
	if jobs := cluster.Jobs(t, namespace, v1alpha1.ObjectStoreLabel, string(store.UID)); len(jobs) > 0 {
		t.Errorf("%d Jobs", len(jobs))
	}
}

// TestVirtualHost: the server that is judged is the one that is dialled, whose name the bucket begins.
func TestVirtualHost(t *testing.T) {
	t.Parallel()
	other, namespace := cluster.Namespace(t), cluster.Namespace(t)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "com"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	cluster.Create(t, service)
	virtual := func(name, endpoint, bucket string) *v1alpha1.ObjectStore {
		store := newStore(namespace)
		store.Name, store.Spec.Endpoint, store.Spec.Bucket = name, endpoint, bucket
		store.Spec.Credentials, store.Spec.Addressing = nil, v1alpha1.StoreAddressingVirtualHost
		cluster.Create(t, store)
		return store
	}
	of := virtual("of-another", "https://svc:9000", "minio."+other)
	expect(t, of, v1alpha1.ConditionStalled, v1alpha1.ReasonAddressNotAllowed)

	// The endpoint alone would name the Service, and permit to dial its address.
	store := virtual("outside", "http://com", "evil-example")
	made := job(t, store, "")
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: namespace, Name: attempt.SecretName(made.Name, store)}
	if err := cluster.Client.Get(context.Background(), key, secret); err != nil {
		t.Fatal(err)
	}
	config := &wirev1.ProbeConfig{}
	if err := protojson.Unmarshal(secret.Data["config.json"], config); err != nil {
		t.Fatal(err)
	}
	if allowed := config.GetDialPolicy().GetAllowed(); len(allowed) > 0 {
		t.Errorf("the agent of evil-example.com may dial %v", allowed)
	}
}

// TestRules are those of the CRD.
func TestRules(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	for field, change := range map[string]func(*v1alpha1.ObjectStoreSpec){
		"endpoint must begin with https://": func(s *v1alpha1.ObjectStoreSpec) { s.Endpoint = "http://s3.example" },
		"caBundle needs": func(s *v1alpha1.ObjectStoreSpec) {
			s.Endpoint, s.Credentials, s.CABundle = "http://s3.example", nil, []byte("x")
		},
		"without a path":          func(s *v1alpha1.ObjectStoreSpec) { s.Endpoint = "https://s3.example/cargo" },
		"endpoint must be":        func(s *v1alpha1.ObjectStoreSpec) { s.Endpoint = "https://me@s3.example" },
		"bucket must be":          func(s *v1alpha1.ObjectStoreSpec) { s.Bucket = "Cargo" },
		"prefix must be":          func(s *v1alpha1.ObjectStoreSpec) { s.Prefix = "a/../b" },
		"prefix must be a":        func(s *v1alpha1.ObjectStoreSpec) { s.Prefix = "a//b" },
		"prefix must be a rel":    func(s *v1alpha1.ObjectStoreSpec) { s.Prefix = "a/" },
		"prefix must be a relati": func(s *v1alpha1.ObjectStoreSpec) { s.Prefix = "a/.lighterage-probe" },
		"region must be":          func(s *v1alpha1.ObjectStoreSpec) { s.Region = "eu central" },
		"storageClass must be":    func(s *v1alpha1.ObjectStoreSpec) { s.StorageClass = "A B" },
		"supported values: \"Pat": func(s *v1alpha1.ObjectStoreSpec) { s.Addressing = "Host" },
		"addressing VirtualHost needs": func(s *v1alpha1.ObjectStoreSpec) {
			s.Endpoint, s.Addressing = "https://192.0.2.1:9000", v1alpha1.StoreAddressingVirtualHost
		},
		"addressing VirtualHost": func(s *v1alpha1.ObjectStoreSpec) {
			s.Endpoint, s.Addressing = "https://[2001:db8::1]", v1alpha1.StoreAddressingVirtualHost
		},
		"keyID goes with": func(s *v1alpha1.ObjectStoreSpec) {
			s.Encryption = &v1alpha1.StoreEncryption{Type: v1alpha1.StoreEncryptionKeyService}
		},
		"keyID goes with type": func(s *v1alpha1.ObjectStoreSpec) {
			s.Encryption = &v1alpha1.StoreEncryption{Type: v1alpha1.StoreEncryptionServerKeys, KeyID: "k"}
		},
	} {
		store := newStore(namespace)
		change(&store.Spec)
		if err := cluster.Client.Create(context.Background(), store); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
