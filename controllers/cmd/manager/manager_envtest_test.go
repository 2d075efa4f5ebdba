// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	rbacDirectory      = "../../../config/rbac"
	admissionDirectory = "../../../config/admission"
	agentImage         = "registry.example/agent:test"
)

// TestManagerWithItsOwnRights runs the manager as its service account, with the rights in config/rbac and no others,
// under the admission policies in config/admission.
func TestManagerWithItsOwnRights(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	cluster, err := controllertest.Start("../../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	for _, name := range []string{"manager_role.yaml", "bindings.yaml", "metrics_reader_role.yaml"} {
		apply(t, cluster, filepath.Join(rbacDirectory, name))
	}
	admit(t, cluster)
	address := controllertest.FreeAddress(t)
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + controllertest.OperatorNamespace + ":lighterage-manager",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	settings, err := parse([]string{
		"--namespace", controllertest.OperatorNamespace, "--agent-image", agentImage, "--leader-elect",
		"--leader-elect-identity", "manager-0", "--accelerator-shares", // whose Service is missing
		"--metrics-bind-address", address, "--health-probe-bind-address", "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := newManager(config, settings)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	read := func(object client.Object, name string) error {
		return cluster.Client.Get(
			context.Background(), client.ObjectKey{Namespace: controllertest.OperatorNamespace, Name: name}, object,
		)
	}
	controllertest.Eventually(t, func() error {
		return errors.Join(
			read(&corev1.Secret{}, pki.CAName), read(&corev1.ConfigMap{}, pki.CAName),
			read(&corev1.Secret{}, pki.GatewaySecret), read(&corev1.Secret{}, pki.NodeAgentSecret),
		)
	})
	// One object of each kind gets its status, a Transfer its Job and Secret, and goes again.
	namespace := cluster.Namespace(t)
	cluster.Claim(t, namespace, "ledger")
	transfer := &v1alpha1.Transfer{Spec: v1alpha1.TransferSpec{
		Source: v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
		Destination: v1alpha1.TransferDestination{
			Peer: "west", PersistentVolumeClaim: v1alpha1.DestinationClaim{
				PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy"},
			},
		},
	}}
	transfer.Name, transfer.Namespace = "ledger", namespace
	policy := &v1alpha1.CompressionPolicy{Spec: v1alpha1.CompressionPolicySpec{Mode: v1alpha1.CompressionNever}}
	policy.Name = "never"
	endpoint := &v1alpha1.HTTPEndpoint{Spec: v1alpha1.HTTPEndpointSpec{
		Backend:     v1alpha1.HTTPBackend{Host: &v1alpha1.HTTPHost{Name: "api.example", Port: 80}},
		Autoscaling: &v1alpha1.HTTPAutoscaling{MaxReplicas: 4},
	}}
	endpoint.Name, endpoint.Namespace = "front", namespace
	quota := &v1alpha1.DataQuota{
		Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{RunningTransfers: new(int32(1))}},
	}
	quota.Name, quota.Namespace = "team", namespace
	cluster.Create(t, quota, transfer, policy, endpoint)
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if err := controllertest.Expect(
			policy.Status.Conditions, v1alpha1.ConditionReady, v1alpha1.ReasonAccepted,
		); err != nil {
			return err
		}
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(transfer), transfer); err != nil {
			return err
		}
		return controllertest.Expect(transfer.Status.Conditions, v1alpha1.ConditionStalled, v1alpha1.ReasonPeerNotFound)
	})
	ca, _, err := pki.NewCA("west", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	// Who listens there never answers, and it takes seconds to notice: the Transfer begins meanwhile.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	peer := &v1alpha1.Peer{Spec: v1alpha1.PeerSpec{Endpoint: mute.Addr().String(), CABundle: ca.CertificatePEM}}
	peer.Name = "west"
	cluster.Create(t, peer)
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(peer), peer); err != nil {
			return err
		}
		if len(peer.Status.Conditions) == 0 {
			return errors.New("the Peer has no status")
		}
		jobs := cluster.Jobs(t, namespace, v1alpha1.TransferLabel, string(transfer.UID))
		if len(jobs) != 1 {
			return fmt.Errorf("%d Jobs", len(jobs))
		}
		secrets := &corev1.SecretList{}
		label := client.MatchingLabels{v1alpha1.TransferLabel: string(transfer.UID)}
		if err := cluster.Client.List(context.Background(), secrets, client.InNamespace(namespace), label); err != nil {
			return err
		}
		if len(secrets.Items) != 1 {
			return fmt.Errorf("%d Secrets", len(secrets.Items))
		}
		return nil
	})
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if used := quota.Status.Used; used == nil || used.RunningTransfers == nil || *used.RunningTransfers != 1 {
			return fmt.Errorf("the DataQuota shows %+v", quota.Status)
		}
		return nil
	})
	checkMetrics(t, cluster, address)
	checkNetworkPolicy(t, cluster, namespace, v1alpha1.TransferLabel, string(transfer.UID))
	checkEndpoint(t, cluster, endpoint)
	checkQueue(t, cluster, namespace)
	checkSet(t, cluster)
	checkSeveral(t, cluster)
	checkManagedFields(t, cluster, mgr.GetClient(), client.ObjectKeyFromObject(transfer))
	if err := cluster.Client.Delete(context.Background(), transfer); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		if jobs := cluster.Jobs(t, namespace, v1alpha1.TransferLabel, string(transfer.UID)); len(jobs) != 0 {
			return fmt.Errorf("%d Jobs are left", len(jobs))
		}
		return nil
	})
}

// checkSet checks that the manager may make, change and delete the member of a TransferSet, and that it ends like any
// Transfer.
func checkSet(t *testing.T, cluster *controllertest.Cluster) {
	t.Helper()
	ctx, namespace := context.Background(), cluster.Namespace(t)
	cluster.Claim(t, namespace, "ledger")
	set := &v1alpha1.TransferSet{Spec: v1alpha1.TransferSetSpec{
		Selector: &metav1.LabelSelector{},
		Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "none"}},
	}}
	set.Name, set.Namespace = "move", namespace
	cluster.Create(t, set)
	expect := func(streams int32) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			member := &v1alpha1.Transfer{}
			if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "move-ledger"}, member); err != nil {
				return err
			}
			if member.Spec.Streams != streams || len(set.Status.Failures) != 1 ||
				set.Status.Failures[0].Reason != v1alpha1.ReasonPeerNotFound {
				return fmt.Errorf("%+v and %+v", member.Spec, set.Status)
			}
			return controllertest.Expect(set.Status.Conditions, v1alpha1.ConditionStalled, v1alpha1.ReasonMembersFailed)
		})
	}
	patch := func(text string) {
		t.Helper()
		if err := cluster.Client.Patch(ctx, set, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	expect(0)
	patch(`{"spec":{"template":{"streams":3}}}`)
	expect(3)
	patch(`{"spec":{"selector":{"matchLabels":{"nothing":"has-this"}}}}`)
	controllertest.Eventually(t, func() error {
		transfers := &v1alpha1.TransferList{}
		if err := cluster.Client.List(ctx, transfers, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(transfers.Items) > 0 {
			return fmt.Errorf("left is %+v", transfers.Items[0].ObjectMeta)
		}
		return nil
	})
}

// checkSeveral checks that the manager may make, change and delete the TransferSets of one of several namespaces.
func checkSeveral(t *testing.T, cluster *controllertest.Cluster) {
	t.Helper()
	ctx, namespace := context.Background(), cluster.Namespace(t)
	cluster.Claim(t, namespace, "ledger")
	set := &v1alpha1.TransferSet{Spec: v1alpha1.TransferSetSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		Selector:          &metav1.LabelSelector{},
		Template:          v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "none"}},
	}}
	set.Name, set.Namespace = "several", controllertest.OperatorNamespace
	cluster.Create(t, set)
	member := client.ObjectKey{Namespace: namespace, Name: "several-ledger"}
	for _, streams := range []int32{0, 3} {
		patch := fmt.Appendf(nil, `{"spec":{"template":{"streams":%d}}}`, streams)
		if err := cluster.Client.Patch(ctx, set, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			t.Fatal(err)
		}
		controllertest.Eventually(t, func() error {
			transfer := &v1alpha1.Transfer{}
			if err := cluster.Client.Get(ctx, member, transfer); err != nil {
				return err
			}
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			if transfer.Spec.Streams != streams || len(set.Status.Failures) != 1 ||
				set.Status.Failures[0].Reason != v1alpha1.ReasonPeerNotFound {
				return fmt.Errorf("%+v and %+v", transfer.Spec, set.Status)
			}
			return controllertest.Expect(set.Status.Conditions, v1alpha1.ConditionStalled, v1alpha1.ReasonMembersFailed)
		})
	}
	if err := cluster.Client.Delete(ctx, set); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		sets := &v1alpha1.TransferSetList{}
		if err := cluster.Client.List(ctx, sets); err != nil {
			return err
		}
		for i := range sets.Items {
			if sets.Items[i].Name == "several" {
				return fmt.Errorf("%+v is there", sets.Items[i].ObjectMeta)
			}
		}
		return nil
	})
}

// checkManagedFields checks that the manager holds no managedFields of a Transfer and its Job, and that what it has
// written leaves them be: the Transfer's finalizer, status, and who created it.
func checkManagedFields(t *testing.T, cluster *controllertest.Cluster, cached client.Client, key client.ObjectKey) {
	t.Helper()
	held, jobs := &v1alpha1.Transfer{}, &batchv1.JobList{}
	if err := cached.Get(context.Background(), key, held); err != nil {
		t.Fatal(err)
	}
	if err := cached.List(context.Background(), jobs, client.InNamespace(key.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(held.ManagedFields) > 0 || len(jobs.Items) == 0 || len(jobs.Items[0].ManagedFields) > 0 {
		t.Errorf("the manager holds %v, %+v", held.ManagedFields, jobs.Items)
	}
	is := &v1alpha1.Transfer{}
	if err := cluster.Client.Get(context.Background(), key, is); err != nil {
		t.Fatal(err)
	}
	writers := map[string]bool{}
	for _, entry := range is.ManagedFields {
		writers[entry.Manager+"/"+entry.Subresource] = true
	}
	if !writers[conditions.FieldOwner+"/"] || !writers[conditions.FieldOwner+"/status"] || len(writers) < 3 {
		t.Errorf("the API server knows of the writers %v", writers)
	}
}

// checkEndpoint checks that an HTTPEndpoint gets all that it needs, and that its autoscaler goes when it is not wanted
// any more.
func checkEndpoint(t *testing.T, cluster *controllertest.Cluster, endpoint *v1alpha1.HTTPEndpoint) {
	t.Helper()
	ctx := context.Background()
	labels := client.MatchingLabels{}
	count := func(list client.ObjectList, want int) error {
		if err := cluster.Client.List(ctx, list, client.InNamespace(endpoint.Namespace), labels); err != nil {
			return err
		}
		if got := meta.LenList(list); got != want {
			return fmt.Errorf("%d objects in a %T, want %d", got, list, want)
		}
		return nil
	}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(endpoint), endpoint); err != nil {
			return err
		}
		labels[v1alpha1.HTTPEndpointLabel] = string(endpoint.UID)
		return errors.Join(
			controllertest.Expect(endpoint.Status.Conditions, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut),
			count(&appsv1.DeploymentList{}, 1), count(&corev1.ServiceList{}, 1), count(&corev1.SecretList{}, 1),
			count(&networkingv1.NetworkPolicyList{}, 1),
			count(&policyv1.PodDisruptionBudgetList{}, 1), count(&autoscalingv2.HorizontalPodAutoscalerList{}, 1),
		)
	})
	patch := client.MergeFrom(endpoint.DeepCopy())
	endpoint.Spec.Autoscaling = nil
	if err := cluster.Client.Patch(ctx, endpoint, patch); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error { return count(&autoscalingv2.HorizontalPodAutoscalerList{}, 0) })
}

// checkQueue checks that a Queue gets all that it needs, and that the manager may delete it with its claims.
func checkQueue(t *testing.T, cluster *controllertest.Cluster, namespace string) {
	t.Helper()
	ctx := context.Background()
	queue := &v1alpha1.Queue{Spec: v1alpha1.QueueSpec{
		Storage:        v1alpha1.QueueStorage{Size: resource.MustParse("1Gi")},
		Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "tokens"}},
	}}
	queue.Name, queue.Namespace = "orders", namespace
	cluster.Create(t, queue)
	sets := &appsv1.StatefulSetList{}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(queue), queue); err != nil {
			return err
		}
		if err := controllertest.Expect(
			queue.Status.Conditions, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut,
		); err != nil {
			return err
		}
		err := cluster.Client.List(
			ctx, sets, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.QueueLabel: string(queue.UID)},
		)
		if err == nil && len(sets.Items) != 1 {
			err = fmt.Errorf("%d StatefulSets", len(sets.Items))
		}
		return err
	})
	checkNetworkPolicy(t, cluster, namespace, v1alpha1.QueueLabel, string(queue.UID))
	claim := sets.Items[0].Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Namespace, claim.Name = namespace, "data-"+sets.Items[0].Name+"-0"
	cluster.Create(t, claim)
	bound := client.MergeFrom(claim.DeepCopy())
	claim.Status.Phase = corev1.ClaimBound
	if err := cluster.Client.Status().Patch(ctx, claim, bound); err != nil {
		t.Fatal(err)
	}
	// The manager may ask for a larger claim. The API server grows none that is of no class, and says so in other words
	// than of missing rights.
	patch := client.MergeFrom(queue.DeepCopy())
	queue.Spec.Storage.Size = resource.MustParse("2Gi")
	if err := cluster.Client.Patch(ctx, queue, patch); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(queue), queue); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || !strings.Contains(ready.Message, "dynamically provisioned") {
			return fmt.Errorf("conditions %+v", queue.Status.Conditions)
		}
		return nil
	})
	patch = client.MergeFrom(queue.DeepCopy())
	queue.Annotations = map[string]string{v1alpha1.DeleteMessagesAnnotation: "true"}
	if err := cluster.Client.Patch(ctx, queue, patch); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Delete(ctx, queue); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(queue), queue); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Queue is still there: %w", err)
		}
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		if err == nil && claim.DeletionTimestamp == nil {
			return errors.New("the claim stays")
		}
		return client.IgnoreNotFound(err)
	})
}

// checkNetworkPolicy checks that an owner has one, which selects its agents' pods.
func checkNetworkPolicy(t *testing.T, cluster *controllertest.Cluster, namespace, label, uid string) {
	t.Helper()
	policies := &networkingv1.NetworkPolicyList{}
	if err := cluster.Client.List(
		context.Background(), policies, client.InNamespace(namespace), client.MatchingLabels{label: uid},
	); err != nil {
		t.Fatal(err)
	}
	if len(policies.Items) != 1 {
		t.Fatalf("%d NetworkPolicies with %s=%s", len(policies.Items), label, uid)
	}
	if selector := policies.Items[0].Spec.PodSelector.MatchLabels; selector[label] != uid {
		t.Errorf("the NetworkPolicy of %s selects %v", label, selector)
	}
}

// apply creates everything in a YAML file.
func apply(t *testing.T, cluster *controllertest.Cluster, name string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.ReplaceAll(content, []byte("'lighterage/agent'"), []byte("'"+agentImage+"'"))
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", name, err))
		}
		if len(object.Object) > 0 {
			cluster.Create(t, object)
		}
	}
}
