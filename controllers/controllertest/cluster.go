// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// OperatorNamespace is where the operator would be installed.
	OperatorNamespace = "lighterage-system"
	// patience is how long Eventually waits. It is generous: a busy machine is no failure.
	patience = 2 * time.Minute
)

// Cluster is an API server with the operator's kinds and nothing that acts on its own.
type Cluster struct {
	Config *rest.Config
	Scheme *runtime.Scheme
	// Client reads past any cache.
	Client client.WithWatch

	environment *envtest.Environment
	// installing is held while CRDs are installed.
	installing sync.Mutex
}

// Start starts a cluster; crds is the path of the directory with the CRDs. The directory with etcd and kube-apiserver
// is named by KUBEBUILDER_ASSETS.
func Start(crds string) (*Cluster, error) {
	c := &Cluster{Scheme: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(c.Scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	c.environment = &envtest.Environment{
		ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience,
		CRDDirectoryPaths: []string{crds}, ErrorIfCRDPathMissing: true,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: patience},
		Scheme:            c.Scheme,
	}
	var err error
	if c.Config, err = c.environment.Start(); err != nil {
		return nil, fmt.Errorf(
			"starting the API server (KUBEBUILDER_ASSETS must name a directory with etcd and kube-apiserver): %w", err,
		)
	}
	if c.Client, err = client.NewWithWatch(c.Config, client.Options{Scheme: c.Scheme}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: OperatorNamespace}}
	if err := c.Client.Create(context.Background(), namespace); err != nil {
		return nil, fmt.Errorf("creating the operator's namespace: %w", err)
	}
	return c, nil
}

// Stop stops the cluster.
func (c *Cluster) Stop() error {
	return c.environment.Stop()
}

// Authority is the cluster's CA.
func (c *Cluster) Authority() *pki.Authority {
	return pki.NewAuthority(pki.Options{
		Client: c.Client, Reader: c.Client, Clock: clock.RealClock{}, Namespace: OperatorNamespace, Cluster: "east",
	})
}

// Create creates objects or fails the test.
func (c *Cluster) Create(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Client.Create(context.Background(), object); err != nil {
			t.Fatalf("creating %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// Namespace makes a namespace for one test and returns its name.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	c.Create(t, namespace)
	return namespace.Name
}

// Claim makes a claim that nobody binds.
func (c *Cluster) Claim(t testing.TB, namespace, name string) {
	t.Helper()
	c.Create(t, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	})
}

// NoJobs makes a quota that lets no Job into a namespace.
func (c *Cluster) NoJobs(t testing.TB, namespace string) *corev1.ResourceQuota {
	t.Helper()
	return c.NoneOf(t, "count/jobs.batch", AnyJob(namespace))
}

// NoneOf makes a quota that lets no object like the example into its namespace.
func (c *Cluster) NoneOf(t testing.TB, name corev1.ResourceName, example client.Object) *corev1.ResourceQuota {
	t.Helper()
	none := corev1.ResourceList{name: resource.MustParse("0")}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: example.GetNamespace(), Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: none},
	}
	c.Create(t, quota)
	// What the quota controller would do.
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	if err := c.Client.Status().Update(context.Background(), quota); err != nil {
		t.Fatal(err)
	}
	// The API server admits by what it has cached of quotas.
	Eventually(t, func() error {
		err := c.tryCreate(example)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Errorf("the quota is not in force yet: %w", err)
		}
		return nil
	})
	return quota
}

// tryCreate creates nothing.
func (c *Cluster) tryCreate(example client.Object) error {
	copied, ok := example.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copying %T", example)
	}
	return c.Client.Create(context.Background(), copied, client.DryRunAll)
}

// FailingWebhook has the API server ask somebody who does not answer before it admits what is written in a namespace,
// and returns what ends that. The resource is named as by RBAC, with its group.
func (c *Cluster) FailingWebhook(t testing.TB, group, name string, example client.Object) (end func()) {
	t.Helper()
	webhook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name + "." + example.GetNamespace()},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "failing.example.com", AdmissionReviewVersions: []string{"v1"},
			SideEffects:   ptr.To(admissionv1.SideEffectClassNone),
			ClientConfig:  admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			FailurePolicy: ptr.To(admissionv1.Fail),
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: example.GetNamespace()},
			},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{name}},
			}},
		}},
	}
	c.Create(t, webhook)
	Eventually(t, func() error {
		if err := c.tryCreate(example); !apierrors.IsInternalError(err) {
			return fmt.Errorf("the webhook is not in force yet: %w", err)
		}
		return nil
	})
	end = func() {
		if err := c.Client.Delete(context.Background(), webhook); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return end
}

// AnyJob is a Job that the API server finds nothing wrong with.
func AnyJob(namespace string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "any-"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "any", Image: "any"}},
		}}},
	}
}

// Allow gives a user the rights in rules, in every namespace, and returns when the API server grants them: it decides
// by what it has cached of roles.
func (c *Cluster) Allow(t testing.TB, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	c.Create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	for _, rule := range rules {
		asked := &authorizationv1.ResourceAttributes{Verb: rule.Verbs[0], Group: rule.APIGroups[0]}
		asked.Resource, asked.Subresource, _ = strings.Cut(rule.Resources[0], "/")
		if len(rule.ResourceNames) > 0 {
			asked.Name = rule.ResourceNames[0]
		}
		Eventually(t, func() error {
			review := &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: asked},
			}
			if err := c.Client.Create(context.Background(), review); err != nil {
				return err
			}
			if !review.Status.Allowed {
				return fmt.Errorf("%s may not yet do what %+v allows", user, rule)
			}
			return nil
		})
	}
}

// See does something, and waits until check returns nil for one of the states that the objects of a namespace have from
// then on. It sees also those that have passed before anybody can ask for them.
func (c *Cluster) See(
	t testing.TB, list client.ObjectList, namespace string, do func(), check func(client.Object) error,
) {
	t.Helper()
	if err := c.Client.List(context.Background(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	// A watch that does not say from when on waits for the API server's cache, which gives up after seconds while
	// little is written.
	since := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	watcher, err := c.Client.Watch(context.Background(), list, client.InNamespace(namespace), since)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	do()
	for deadline := time.After(patience); ; {
		select {
		case event := <-watcher.ResultChan():
			object, ok := event.Object.(client.Object)
			if !ok {
				t.Fatalf("watching ended with %+v, before that: %v", event, err)
			}
			if err = check(object); err == nil {
				return
			}
		case <-deadline:
			t.Fatalf("after %s: %v", patience, err)
		}
	}
}

// Peer makes a Peer with an endpoint and a CA of its own, and returns its endpoint.
func (c *Cluster) Peer(t testing.TB, name string) string {
	t.Helper()
	ca, _, err := pki.NewCA("west", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	endpoint := name + ".example:8443"
	c.Create(t, &v1alpha1.Peer{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.PeerSpec{Endpoint: endpoint, CABundle: ca.CertificatePEM},
	})
	return endpoint
}

// Eventually waits until check returns nil, and fails the test with its last error when that takes too long.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("after %s: %v", patience, err)
}

// Jobs lists the Jobs with that label.
func (c *Cluster) Jobs(t testing.TB, namespace, label, value string) []batchv1.Job {
	t.Helper()
	jobs := &batchv1.JobList{}
	if err := c.Client.List(
		context.Background(), jobs, client.InNamespace(namespace), client.MatchingLabels{label: value},
	); err != nil {
		t.Fatal(err)
	}
	return jobs.Items
}

// RunPod does what the Job controller, the scheduler and a kubelet would: the Job's pod runs on that node.
func (c *Cluster) RunPod(t testing.TB, job *batchv1.Job, node string) *corev1.Pod {
	t.Helper()
	pod := c.PendingPod(t, job)
	if err := c.Client.SubResource("binding").Create(context.Background(), pod, &corev1.Binding{
		Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}); err != nil {
		t.Fatalf("binding pod %s: %v", pod.Name, err)
	}
	c.SetPod(t, pod, func(status *corev1.PodStatus) {
		status.Phase = corev1.PodRunning
		status.PodIP, status.PodIPs = "10.1.2.3", []corev1.PodIP{{IP: "10.1.2.3"}}
		status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: agentpod.ContainerName, Started: ptr.To(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
	})
	return pod
}

// PendingPod makes the Job's pod and nothing more.
func (c *Cluster) PendingPod(t testing.TB, job *batchv1.Job) *corev1.Pod {
	t.Helper()
	labels := map[string]string{batchv1.JobNameLabel: job.Name}
	for key, value := range job.Spec.Template.Labels {
		labels[key] = value
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, GenerateName: job.Name + "-", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: *job.Spec.Template.Spec.DeepCopy(),
	}
	c.Create(t, pod)
	return pod
}

// SetPod changes a pod's status.
func (c *Cluster) SetPod(t testing.TB, pod *corev1.Pod, change func(*corev1.PodStatus)) {
	t.Helper()
	Eventually(t, func() error {
		if err := c.Client.Get(context.Background(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		change(&pod.Status)
		return c.Client.Status().Update(context.Background(), pod)
	})
}

// EndPod ends a pod's agent with a termination message.
func (c *Cluster) EndPod(t testing.TB, pod *corev1.Pod, exitCode int32, message string) {
	t.Helper()
	c.SetPod(t, pod, func(status *corev1.PodStatus) {
		status.Phase = corev1.PodSucceeded
		if exitCode != 0 {
			status.Phase = corev1.PodFailed
		}
		status.Conditions = nil
		status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: agentpod.ContainerName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exitCode, Message: message, StartedAt: metav1.Now(), FinishedAt: metav1.Now(),
			}},
		}}
	})
}

// Expect checks that Ready, Reconciling and Stalled say one thing: that Ready has the reason, and which of the three is
// True.
func Expect(found []metav1.Condition, conditionType, reason string) error {
	for _, one := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		condition := meta.FindStatusCondition(found, one)
		if condition == nil || condition.Reason != reason ||
			(condition.Status == metav1.ConditionTrue) != (one == conditionType) {
			text, _ := json.Marshal(found)
			return fmt.Errorf("want %s with reason %s, have %s", conditionType, reason, text)
		}
	}
	return nil
}
