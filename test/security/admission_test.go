// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

func unstructuredOf(t *testing.T, object client.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

var (
	bank     = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank"}}
	consents = &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name: "bank", Annotations: map[string]string{v1alpha1.AllowPrivilegedAnnotation: "true"},
		},
	}

	deliveries = v1alpha1.GroupVersion.WithResource("deliveries")
	resources  = map[string]schema.GroupVersionResource{
		"Job":         {Group: "batch", Version: "v1", Resource: "jobs"},
		"Deployment":  {Group: "apps", Version: "v1", Resource: "deployments"},
		"StatefulSet": {Group: "apps", Version: "v1", Resource: "statefulsets"},
	}
)

// expect checks the one message of a refusal, or with an empty fix that a request is admitted.
func expect(t *testing.T, what string, r request, fix string) {
	t.Helper()
	messages := judge(t, r)
	switch {
	case fix == "" && len(messages) > 0:
		t.Errorf("%s is refused: %q", what, messages)
	case fix != "" && !strings.Contains(strings.Join(messages, "\n"), fix):
		t.Errorf("%s: no message says %q: %q", what, fix, messages)
	}
}

// M5: whoever has the manager's token runs agents with it, and nothing that takes a node, a token, or another tenant's
// Secret.
func TestPodsOfTheManager(t *testing.T) {
	t.Parallel()
	for kind, make := range workloads {
		ask := func(namespace *corev1.Namespace, user string, pod corev1.PodTemplateSpec) request {
			return request{user, admission.Create, resources[kind], make("bank", pod), nil, namespace}
		}
		expect(t, kind+" of an agent", ask(bank, managerAccount, template()), "")
		for _, c := range neverAllowed {
			pod := template()
			c.change(&pod)
			expect(t, kind+", "+c.name, ask(bank, managerAccount, pod), c.fix)
			expect(t, kind+", "+c.name+", with consent", ask(consents, managerAccount, pod), c.fix)
			expect(t, kind+", "+c.name+", of somebody else", ask(bank, "deployer", pod), "")
		}
		for _, c := range allowedByConsent {
			pod := template()
			c.change(&pod)
			expect(t, kind+", "+c.name, ask(bank, managerAccount, pod), c.fix)
			expect(t, kind+", "+c.name+", with consent", ask(consents, managerAccount, pod), "")
		}
	}
	for kind, make := range map[string]func(string, corev1.PodTemplateSpec) client.Object{
		"Deployment": deployment, "StatefulSet": statefulSet,
	} {
		for _, args := range jobsOnly {
			pod := template()
			first(&pod).Args = args
			r := request{managerAccount, admission.Create, resources[kind], make("bank", pod), nil, bank}
			expect(t, kind+" that runs "+strings.Join(args, " "), r, "queue and http only")
		}
	}
	for what, change := range otherSecrets {
		pod := template()
		change(&pod)
		expect(
			t, what, request{managerAccount, admission.Create, resources["Job"], job("bank", pod), nil, bank},
			"10 hexadecimal digits",
		)
	}
	pod := template()
	pod.Spec.Volumes[0].Secret.SecretName = "db-credentials"
	chosen := job("bank", pod)
	chosen.SetName("db-cred")
	expect(
		t, "a name that the thief chose", request{managerAccount, admission.Create, resources["Job"], chosen, nil, bank},
		"10 hexadecimal digits",
	)
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "bare"}, Spec: template().Spec}
	expect(t, "a bare pod", request{
		gatewayAccount, admission.Create, corev1.SchemeGroupVersion.WithResource("pods"), bare, nil, bank,
	},
		"Jobs, Deployments and StatefulSets only")
}

// What an earlier release made can be annotated before its agents are replaced, and nothing in its pods can be changed
// but to this release's.
func TestAgentsOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	for kind, make := range workloads {
		earlier := template()
		first(&earlier).Image = "registry.example/team/lighterage/agent:v0.0.1"
		old := make("bank", *earlier.DeepCopy())
		annotated := make("bank", *earlier.DeepCopy())
		annotated.SetAnnotations(map[string]string{"lighterage.dev/agent-secret": "{}"})
		expect(t, kind+", annotated", request{managerAccount, admission.Update, resources[kind], annotated, old, bank}, "")
		first(&earlier).Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}
		changed := make("bank", *earlier.DeepCopy())
		expect(
			t, kind+", changed", request{managerAccount, admission.Update, resources[kind], changed, old, bank}, "run the image",
		)
		expect(
			t, kind+", upgraded",
			request{managerAccount, admission.Update, resources[kind], make("bank", template()), old, bank}, "",
		)
	}
}

// H3: nobody but the operator creates Deliveries, or changes what they say.
func TestDeliveriesAreTheOperators(t *testing.T) {
	t.Parallel()
	made := delivery("bank", "made")
	labelled, annotated, cleaned := made.DeepCopy(), made.DeepCopy(), made.DeepCopy()
	labelled.Labels = map[string]string{"lighterage.dev/sender": "another"}
	annotated.Annotations = map[string]string{"lighterage.dev/issued": "2099-01-01T00:00:00Z"}
	cleaned.Finalizers = []string{v1alpha1.Finalizer}
	for _, c := range []struct {
		what, user string
		object     *v1alpha1.Delivery
		old        client.Object
		fix        string
	}{
		{"a tenant's", "tenant", made, nil, "create a Transfer"},
		{"an administrator's", "kubernetes-admin", made, nil, "create a Transfer"},
		{"the manager's", managerAccount, made, nil, ""},
		{"the gateway's", gatewayAccount, made, nil, ""},
		{"a manager's of another namespace", "system:serviceaccount:bank:lighterage-manager", made, nil, "create a Transfer"},
		{"a tenant's label", "tenant", labelled, made, "delete it to end the run"},
		{"a tenant's annotation", "tenant", annotated, made, "delete it to end the run"},
		{"a label that a tenant removes", "tenant", made, labelled, "delete it to end the run"},
		{"the manager's label", managerAccount, labelled, made, ""},
		{"a finalizer", "system:serviceaccount:kube-system:generic-garbage-collector", cleaned, made, ""},
		{"a finalizer that goes", "tenant", made, cleaned, ""},
	} {
		r := request{user: c.user, operation: admission.Create, resource: deliveries, object: c.object, namespace: bank}
		if c.old != nil {
			r.operation, r.old = admission.Update, c.old
		}
		expect(t, c.what, r, c.fix)
	}

	// The gateway dials the endpoint that the status names.
	dialled := made.DeepCopy()
	dialled.Status.Endpoint = "metadata.bank.svc:443"
	for user, fix := range map[string]string{
		"tenant": "only the manager and the gateway of Lighterage write the status", "kubernetes-admin": "write the status",
		managerAccount: "", gatewayAccount: "",
	} {
		r := request{user, admission.Update, v1alpha1.GroupVersion.WithResource("deliveries/status"), dialled, made, bank}
		expect(t, "the status of "+user, r, fix)
	}
}

// M5, H3: the manager's right to write Secrets and to delete Secrets and claims ends at those that it made.
func TestManagersObjects(t *testing.T) {
	t.Parallel()
	ours := map[string]string{agentpod.ManagedByLabel: agentpod.ManagedBy}
	secret := func(namespace string, labels map[string]string) client.Object {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent-1", Labels: maps.Clone(labels)},
			Type:       corev1.SecretTypeOpaque,
		}
	}
	token := secret("bank", ours)
	token.(*corev1.Secret).Type = corev1.SecretTypeServiceAccountToken
	claim := func(labels map[string]string) client.Object {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "salaries", Labels: labels},
		}
	}
	const label = "with the label app.kubernetes.io/managed-by"
	for _, c := range []struct {
		what, resource string
		object, old    client.Object
		fix            string
	}{
		{"an agent's Secret", "secrets", secret("bank", ours), nil, ""},
		{"an agent's Secret, again", "secrets", secret("bank", ours), secret("bank", ours), ""},
		{"an agent's Secret that goes", "secrets", nil, secret("bank", ours), ""},
		{"a Secret without the label", "secrets", secret("bank", nil), nil, label},
		{"a tenant's Secret", "secrets", secret("bank", ours), secret("bank", nil), label},
		{"a tenant's Secret that goes", "secrets", nil, secret("bank", nil), label},
		{"a token", "secrets", token, nil, "type Opaque"},
		{"the CA's Secret", "secrets", secret("lighterage-system", nil), secret("lighterage-system", nil), ""},
		{"a Queue's claim that goes", "persistentvolumeclaims", nil, claim(ours), ""},
		{"a tenant's claim that goes", "persistentvolumeclaims", nil, claim(nil), label},
	} {
		r := request{
			user: managerAccount, resource: corev1.SchemeGroupVersion.WithResource(c.resource), namespace: bank,
			object: c.object, old: c.old,
		}
		switch {
		case c.old == nil:
			r.operation = admission.Create
		case c.object == nil:
			r.operation = admission.Delete
		default:
			r.operation = admission.Update
		}
		expect(t, c.what, r, c.fix)
	}
}

// M10: who asks for privilege is told at once that its namespace must consent; what was admitted stays usable when
// consent is withdrawn.
func TestPrivilegeIsAskedOfTheNamespace(t *testing.T) {
	t.Parallel()
	const fix = "annotate the namespace with lighterage.dev/allow-privileged-agents"
	for _, c := range []struct {
		what               string
		asked              *corev1.SecurityContext
		refused, consented string
	}{
		{"nothing", nil, "", ""},
		{
			"the default",
			&corev1.SecurityContext{
				RunAsUser: ptr.To[int64](65532), RunAsNonRoot: ptr.To(true), ReadOnlyRootFilesystem: ptr.To(true),
			},
			"", "",
		},
		{"root", &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}, fix, ""},
		{"another group", &corev1.SecurityContext{RunAsGroup: ptr.To[int64](7)}, fix, ""},
		{
			"reading", &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"DAC_READ_SEARCH"}}},
			fix, "",
		},
		{"SELinux", &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}, fix, ""},
		{"privileged", &corev1.SecurityContext{Privileged: ptr.To(true)}, "what no agent gets", "what no agent gets"},
		{
			"SYS_ADMIN", &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}},
			"what no agent gets", "what no agent gets",
		},
	} {
		// podTemplate is at the same place in all
		for _, resource := range []string{"transfers", "queues", "httpendpoints", "compressiontrials"} {
			r := request{
				"tenant", admission.Create, v1alpha1.GroupVersion.WithResource(resource), newTransfer("bank", "ledger", c.asked),
				nil, bank,
			}
			expect(t, resource+", "+c.what, r, c.refused)
			r.namespace = consents
			expect(t, resource+", "+c.what+", with consent", r, c.consented)
			// A finalizer, a suspension.
			suspended := newTransfer("bank", "ledger", c.asked)
			suspended.Spec.Suspend, suspended.Finalizers = true, []string{v1alpha1.Finalizer}
			r.operation, r.object, r.old, r.namespace = admission.Update, suspended, newTransfer("bank", "ledger", c.asked), bank
			expect(t, resource+", "+c.what+", as before", r, "")
			r.old = newTransfer("bank", "ledger", nil)
			expect(t, resource+", "+c.what+", new", r, c.refused)
		}
		set := &v1alpha1.TransferSet{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TransferSet"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "move"},
		}
		set.Spec.Template.Destination.Peer = "west"
		set.Spec.Template.PodTemplate = newTransfer("bank", "ledger", c.asked).Spec.PodTemplate
		sets := request{
			"tenant", admission.Create, v1alpha1.GroupVersion.WithResource("transfersets"), set, nil, bank,
		}
		expect(t, "transfersets, "+c.what, sets, c.refused)
		sets.namespace = consents
		expect(t, "transfersets, "+c.what+", with consent", sets, c.consented)
	}
}
