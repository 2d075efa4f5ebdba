// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && lifecycle

package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/queuefaults"
)

// must runs kubectl.
func (c *cluster) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: kubectl %s: %v\n%s", c.name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// uninstall is helm uninstall, as the documentation has it.
func (c *cluster) uninstall(t *testing.T) {
	t.Helper()
	command := exec.Command("go", "tool", "-modfile=hack/tools/helm/go.mod", "helm", "uninstall", "lighterage", //nolint:gosec,noctx // the test's own arguments
		"--kubeconfig", ".cluster/"+c.name+".kubeconfig", "--namespace", system, "--wait", "--timeout", "5m")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("uninstall in %s: %v\n%s", c.name, err, out)
	}
}

// leaveMessages ends all clients, with messages left in the Queue that nobody has got.
func (f *traffic) leaveMessages() {
	f.t.Helper()
	f.messages.end()
	f.messages.getting.Wait()
	before := f.messages.history.Count(queuefaults.PutAcknowledged)
	eventually(f.t, 6*time.Minute, "messages that nobody gets", func() (bool, string) {
		n := f.messages.history.Count(queuefaults.PutAcknowledged) - before
		return n >= 10, fmt.Sprintf("%d were put since", n)
	})
	f.messages.stop()
	f.messages.putting.Wait()
	f.finishRequests()
}

// TestLifecycleNamespace deletes a namespace of both clusters with a run, a Queue with messages and an HTTPEndpoint in
// it. It ends.
func TestLifecycleNamespace(t *testing.T) {
	_, current := releases(t)
	west.install(t, current)
	east.install(t, current)
	f := beginTraffic(t)
	f.leaveMessages()
	began := time.Now()
	for _, c := range []*cluster{east, west} {
		c.must(t, "delete", "namespace", f.namespace, "--wait=false")
	}
	for _, c := range []*cluster{east, west} {
		eventually(t, 4*time.Minute, "namespace "+f.namespace+" of "+c.name+" to go", func() (bool, string) {
			object := &corev1.Namespace{}
			err := c.Get(context.Background(), client.ObjectKey{Name: f.namespace}, object)
			return apierrors.IsNotFound(err), fmt.Sprintf("%v %v", object.Status, err)
		})
		t.Logf("%s: the namespace is gone after %s", c.name, time.Since(began).Round(time.Second))
	}
}

// TestLifecycleUninstall removes the operator from the middle of traffic, which goes on without it, installs it again,
// and then uninstalls in the order of docs/operations/uninstall.md, which leaves nothing but what that page lists.
func TestLifecycleUninstall(t *testing.T) {
	_, current := releases(t)
	west.install(t, current)
	east.install(t, current)
	f := beginTraffic(t)

	east.uninstall(t)
	f.goesOn("without the operator in east")
	east.install(t, current)
	f.goesOn("with the operator again")
	waitForEndpoint(t, f.endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	east.waitForQueue(t, f.queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	f.leaveMessages()

	drill := suspendedDrill(t, f.namespace)
	ours := []*cluster{east, west}
	for _, c := range ours {
		c.must(t, "annotate", "queues", "--all", "-A", v1alpha1.DeleteMessagesAnnotation+"=true", "--overwrite")
	}
	for _, c := range ours {
		c.must(t, "delete", "drills", "--all", "-A", "--timeout=4m")
		c.must(t, "delete", "transfersets,transfers,compressiontrials,queues,httpendpoints", "--all", "-A", "--timeout=4m")
	}
	for _, c := range ours {
		c.must(t, "delete", "deliveries", "--all", "-A", "--timeout=4m")
		c.expectNothing(t, f.namespace)
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(drill), drill); !apierrors.IsNotFound(err) {
			t.Errorf("%s: the Drill is left: %v", c.name, err)
		}
		c.uninstall(t)
		c.must(t, "delete", "crd", "-l", "app.kubernetes.io/name=lighterage", "--timeout=1m")
		if left := c.must(t, "get", "crds", "-o", "name"); strings.Contains(left, ".lighterage.dev") {
			t.Errorf("%s: definitions are left:\n%s", c.name, left)
		}
		if left := c.must(
			t, "get", "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings", "-o",
			"name",
		); strings.Contains(left, "/lighterage-") {
			t.Errorf("%s: cluster objects are left:\n%s", c.name, left)
		}
		left := strings.Fields(
			c.must(t, "-n", system, "get", "all,configmaps,secrets,serviceaccounts,leases,networkpolicies", "-o", "name"),
		)
		for _, name := range left {
			switch name {
			case "configmap/kube-root-ca.crt", "serviceaccount/default", // every namespace has them
				"configmap/lighterage-ca", "secret/lighterage-ca", "secret/lighterage-gateway-tls",
				"secret/lighterage-node-agent-tls",
				"configmap/lighterage-receipt-keys", "secret/lighterage-receipt-keys",
				"lease.coordination.k8s.io/manager.lighterage.dev":
			default:
				t.Errorf("%s: %s is left in namespace %s", c.name, name, system)
			}
		}
	}
	installIn(t, current, ours...)
	exchange(t, "after uninstalling and installing")
}

// suspendedDrill makes a Drill in east that waits, and has the manager take note of it.
func suspendedDrill(t *testing.T, namespace string) *v1alpha1.Drill {
	t.Helper()
	drill := &v1alpha1.Drill{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "suspended"},
		Spec: v1alpha1.DrillSpec{
			Source:  v1alpha1.DrillSource{ObjectStore: *vault("/ledger")},
			Volume:  v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("100Mi"))},
			Suspend: true,
		},
	}
	if err := east.Create(context.Background(), drill); err != nil {
		t.Fatal(err)
	}
	// Helm may have removed the manager's role before the manager could release its lease, which then has to end.
	eventually(t, 4*time.Minute, "the Drill to be suspended", func() (bool, string) {
		if err := east.Get(context.Background(), client.ObjectKeyFromObject(drill), drill); err != nil {
			return false, err.Error()
		}
		ready := meta.FindStatusCondition(drill.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == v1alpha1.ReasonSuspended, fmt.Sprint(drill.Status.Conditions)
	})
	return drill
}
