// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package security

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

var ctx = context.Background()

func key(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// everything makes a user who may do all of the API in every namespace: what admins grant who have no finer role.
func everything(t *testing.T, cluster *controllertest.Cluster, user string) client.Client {
	t.Helper()
	cluster.Allow(
		t, user, rbacv1.PolicyRule{APIGroups: []string{"lighterage.dev"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	)
	return as(t, cluster, user)
}

// H3: a tenant whose role says lighterage.dev/* makes no Delivery, and changes none into one for another Transfer or
// claim. Deleting one, and the finalizers of one, stay open.
func TestTenantWritesNoDelivery(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	tenant, gateway := everything(t, cluster, "tenant-of-deliveries"), as(t, cluster, gatewayAccount)

	forged := delivery(namespace, "ledger-abcde-2-0123abcd")
	err := forbidden(t, func() error {
		return tenant.Create(ctx, forged.DeepCopy())
	}, func() error { return cluster.Client.Delete(ctx, forged.DeepCopy()) })
	says(t, err, "create a Transfer")
	// Nor does an administrator: what restores Deliveries from a backup would restore grants that were checked long
	// ago.
	forbidden(t, func() error { return cluster.Client.Create(ctx, forged.DeepCopy()) }, nil)

	const real = "ledger-abcde-1-0123abcd"
	made := delivery(namespace, real)
	controllerutil.AddFinalizer(made, v1alpha1.Finalizer)
	permitted(t, func() error { return gateway.Create(ctx, made.DeepCopy()) })
	patch := func(c client.Client, json string) error {
		return c.Patch(ctx, delivery(namespace, real), client.RawPatch("application/merge-patch+json", []byte(json)))
	}
	for _, change := range []string{
		`{"metadata":{"labels":{"lighterage.dev/sender":"another"}}}`,
		`{"metadata":{"annotations":{"lighterage.dev/issued":"2099-01-01T00:00:00Z"}}}`,
	} {
		says(t, forbidden(t, func() error { return patch(tenant, change) }, nil), "delete it to end the run")
		if err := patch(as(t, cluster, managerAccount), change); err != nil {
			t.Errorf("the manager may not patch %s: %v", change, err)
		}
	}
	// The gateway dials the endpoint that the status names.
	dial := func(c client.Client) error {
		return c.Status().Patch(ctx, delivery(namespace, real),
			client.RawPatch("application/merge-patch+json", []byte(`{"status":{"endpoint":"metadata.bank.svc:443"}}`)))
	}
	says(t, forbidden(t, func() error { return dial(tenant) }, nil), "write the status")
	if err := dial(as(t, cluster, managerAccount)); err != nil {
		t.Errorf("the manager may not write the status: %v", err)
	}
	if err := tenant.Delete(ctx, delivery(namespace, real)); err != nil {
		t.Errorf("a tenant may not delete a Delivery: %v", err)
	}
	// Who cleans up after an uninstall, or collects garbage, takes the finalizer off.
	if err := patch(tenant, `{"metadata":{"finalizers":null}}`); err != nil {
		t.Errorf("a finalizer cannot be taken off: %v", err)
	}
	controllertest.Eventually(t, func() error {
		err := cluster.Client.Get(ctx, key(namespace, real), &v1alpha1.Delivery{})
		if client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the Delivery is there: %w", err)
		}
		return nil
	})
}

// M10: a tenant whose role says lighterage.dev/* neither makes, changes nor deletes a Statement, and its namespace can
// be deleted with those that it has.
func TestTenantWritesNoStatement(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	tenant, manager := everything(t, cluster, "tenant-of-statements"), as(t, cluster, managerAccount)
	month := func() *v1alpha1.Statement {
		return &v1alpha1.Statement{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "2026-11"},
			Spec:       v1alpha1.StatementSpec{Month: "2026-11"},
		}
	}
	says(t, forbidden(t, func() error { return tenant.Create(ctx, month()) }, func() error {
		return cluster.Client.Delete(ctx, month())
	}), "only the manager")
	// What the tenant created before the policy was in force, the policy may have kept from being deleted.
	permitted(t, func() error { return client.IgnoreAlreadyExists(manager.Create(ctx, month())) })
	write := func(c client.Client) error {
		return c.Status().Patch(ctx, month(), client.RawPatch(
			"application/merge-patch+json", []byte(`{"status":{"rows":[{"kind":"Transfer","wireBytes":1}]}}`),
		))
	}
	says(t, forbidden(t, func() error { return write(tenant) }, nil), "only the manager")
	if err := write(manager); err != nil {
		t.Errorf("the manager may not write the status: %v", err)
	}
	says(t, forbidden(t, func() error { return tenant.Delete(ctx, month()) }, nil), "who deletes their namespace")
	if err := tenant.Get(ctx, key(namespace, "2026-11"), month()); err != nil {
		t.Errorf("a tenant may not read its Statement: %v", err)
	}
	// Nothing here empties namespaces, so an administrator does.
	gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := cluster.Client.Delete(ctx, gone); err != nil {
		t.Fatal(err)
	}
	permitted(t, func() error { return client.IgnoreNotFound(cluster.Client.Delete(ctx, month())) })
}

// says checks that a refusal tells what to do.
func says(t *testing.T, err error, fix string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), fix) {
		t.Errorf("the message lacks %q: %v", fix, err)
	}
}

// trusted is the manager, with all rights that a mistake could give it.
func trusted(t *testing.T, cluster *controllertest.Cluster) client.Client {
	t.Helper()
	all := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "mistake-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: managerAccount}},
	}
	cluster.Create(t, all)
	t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), all) })
	manager := as(t, cluster, managerAccount)
	permitted(t, func() error { return manager.List(ctx, &rbacv1.ClusterRoleList{}) })
	return manager
}

// M5: whoever has the manager's token runs agents with it, and nothing that takes a node, a token, or another tenant's
// Secret.
func TestStolenTokenOfTheManager(t *testing.T) {
	cluster := install(t)
	namespace, consenting := cluster.Namespace(t), cluster.Namespace(t)
	consent(t, cluster, consenting, "true")
	thief := trusted(t, cluster)
	create := func(object client.Object) error { return thief.Create(ctx, object, client.DryRunAll) }

	for kind, make := range workloads {
		if err := create(make(namespace, template())); err != nil {
			t.Errorf("%s of an agent: %v", kind, err)
		}
		for _, c := range neverAllowed {
			for _, where := range []string{namespace, consenting} {
				pod := template()
				c.change(&pod)
				says(t, forbidden(t, func() error { return create(make(where, pod)) }, nil), c.fix)
			}
		}
		for _, c := range allowedByConsent {
			pod := template()
			c.change(&pod)
			says(t, forbidden(t, func() error { return create(make(namespace, pod)) }, nil), c.fix)
			permitted(t, func() error { return create(make(consenting, pod)) })
		}
	}
	for what, change := range otherSecrets {
		t.Log(what)
		pod := template()
		change(&pod)
		says(t, forbidden(t, func() error { return create(job(namespace, pod)) }, nil), "10 hexadecimal digits")
	}

	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bare"}, Spec: template().Spec}
	says(t, forbidden(t, func() error { return create(bare) }, nil), "Jobs, Deployments and StatefulSets only")
	// Others make what pods they like: these are policies of the operator's pods.
	theirs := template()
	theirs.Spec.Containers[0].Image = "shop.example/web"
	if err := cluster.Client.Create(ctx, deployment(namespace, theirs), client.DryRunAll); err != nil {
		t.Errorf("a Deployment of somebody else: %v", err)
	}
}

// M5, H3: the manager's right to write Secrets and to delete Secrets and claims ends at those that it made, and so does
// that to write NetworkPolicies at those of agents.
func TestManagerWritesOnlyWhatItMade(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	manager := trusted(t, cluster)
	made := map[string]string{agentpod.ManagedByLabel: agentpod.ManagedBy}
	secret := func(name string, labels map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	}
	claim := func(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		}
	}
	cluster.Create(t, secret("payroll", nil), claim("salaries", nil), claim("data-orders-0", made))
	permitted(t, func() error { return manager.Create(ctx, secret("agent-1", made)) })
	for name, do := range map[string]func() error{
		"overwrite a tenant's Secret": func() error { return manager.Update(ctx, secret("payroll", made), client.DryRunAll) },
		"delete a tenant's Secret":    func() error { return manager.Delete(ctx, secret("payroll", nil), client.DryRunAll) },
		"delete a tenant's claim":     func() error { return manager.Delete(ctx, claim("salaries", nil), client.DryRunAll) },
		"make a Secret for others":    func() error { return manager.Create(ctx, secret("other", nil), client.DryRunAll) },
	} {
		t.Log(name)
		says(t, forbidden(t, do, nil), "with the label "+agentpod.ManagedByLabel)
	}
	token := secret("token", made)
	token.Type, token.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{
		corev1.ServiceAccountNameKey: "default",
	}
	cluster.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	says(t, forbidden(t, func() error { return manager.Create(ctx, token, client.DryRunAll) }, nil), "type Opaque")
	for _, object := range []client.Object{secret("agent-1", made), claim("data-orders-0", made)} {
		if err := manager.Delete(ctx, object); err != nil {
			t.Errorf("the manager may not delete its %T: %v", object, err)
		}
	}

	network := func(name string, selector map[string]string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: made},
			Spec:       networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: selector}},
		}
	}
	says(t, forbidden(t, func() error {
		return manager.Create(ctx, network("open", map[string]string{"app": "db"}), client.DryRunAll)
	}, nil),
		"NetworkPolicies for agents only")
	if err := manager.Create(ctx, network("agent", map[string]string{agentpod.AppLabel: agentpod.AppName})); err != nil {
		t.Error(err)
	}
}

// M10: who asks for privilege is told at once that its namespace must consent; what was admitted stays usable when
// consent is withdrawn.
func TestPrivilegeNeedsTheNamespacesConsent(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	tenant := everything(t, cluster, "tenant-of-privilege")
	root := &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}
	asked := &v1alpha1.AgentPodTemplate{SecurityContext: root}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "root"}
	queue := &v1alpha1.Queue{ObjectMeta: meta, Spec: v1alpha1.QueueSpec{
		Storage: v1alpha1.QueueStorage{Size: resource.MustParse("1Gi")}, PodTemplate: asked,
		Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "tokens"}},
	}}
	endpoint := &v1alpha1.HTTPEndpoint{ObjectMeta: meta, Spec: v1alpha1.HTTPEndpointSpec{
		Backend: v1alpha1.HTTPBackend{Service: &v1alpha1.HTTPService{Name: "api", Port: 80}}, PodTemplate: asked,
	}}
	trial := &v1alpha1.CompressionTrial{ObjectMeta: meta, Spec: v1alpha1.CompressionTrialSpec{
		Source:      v1alpha1.TrialSource{PersistentVolumeClaim: &v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
		Links:       []v1alpha1.TrialLink{{Name: "wan", BytesPerSecond: resource.MustParse("125M")}},
		PodTemplate: asked,
	}}
	asking := []client.Object{newTransfer(namespace, "root", root), queue, endpoint, trial}
	create := func(object client.Object) error {
		return tenant.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
	}
	for _, object := range asking {
		says(t, forbidden(t, func() error { return create(object) }, nil), "annotate the namespace with")
	}
	for name, context := range map[string]*corev1.SecurityContext{
		"user": {RunAsUser: ptr.To[int64](1000)}, "group": {RunAsGroup: ptr.To[int64](1000)},
		"selinux": {SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}},
	} {
		says(t, forbidden(t, func() error {
			return create(newTransfer(namespace, name, context))
		}, nil), "annotate the namespace with")
	}
	harmless := &corev1.SecurityContext{
		RunAsNonRoot: ptr.To(true), ReadOnlyRootFilesystem: ptr.To(true), RunAsUser: ptr.To[int64](65532),
	}
	if err := create(newTransfer(namespace, "harmless", harmless)); err != nil {
		t.Errorf("a security context that asks for nothing: %v", err)
	}

	consent(t, cluster, namespace, "true")
	for _, object := range asking {
		permitted(t, func() error { return create(object) })
	}
	says(t, forbidden(t, func() error {
		return create(newTransfer(namespace, "privileged", &corev1.SecurityContext{Privileged: ptr.To(true)}))
	}, nil), "what no agent gets")
	permitted(t, func() error { return tenant.Create(ctx, newTransfer(namespace, "kept", root)) })

	consent(t, cluster, namespace, "false")
	forbidden(t, func() error { return create(asking[0]) }, nil)
	kept := &v1alpha1.Transfer{}
	if err := tenant.Get(ctx, key(namespace, "kept"), kept); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(kept.DeepCopy())
	kept.Spec.Suspend = true
	controllerutil.AddFinalizer(kept, v1alpha1.Finalizer)
	if err := tenant.Patch(ctx, kept, patch); err != nil {
		t.Errorf("a Transfer cannot be suspended after its namespace has withdrawn its consent: %v", err)
	}
	patch = client.MergeFrom(kept.DeepCopy())
	controllerutil.RemoveFinalizer(kept, v1alpha1.Finalizer)
	if err := tenant.Patch(ctx, kept, patch); err != nil {
		t.Errorf("nor lose its finalizer: %v", err)
	}
}
