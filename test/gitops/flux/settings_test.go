// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build gitops

package flux_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/test/render"
)

const home = `
apiVersion: v1
kind: Namespace
metadata: {name: lighterage-system, labels: {pod-security.kubernetes.io/enforce: restricted}}
`

const bank = `
apiVersion: v1
kind: Namespace
metadata: {name: bank}
`

const settings = `
apiVersion: lighterage.dev/v1alpha1
kind: Tariff
metadata: {name: datacentre, annotations: {lighterage.dev/is-default-tariff: "true"}}
spec: {currency: EUR, cpuHour: {price: "0.052"}, networkGiB: {price: "0"}}
---
apiVersion: lighterage.dev/v1alpha1
kind: CompressionPolicy
metadata: {name: cheap}
spec: {objective: Cost, hardware: {minSize: 20000}, software: {minSize: 16Ki}}
---
apiVersion: lighterage.dev/v1alpha1
kind: DataQuota
metadata: {name: team, namespace: bank}
spec: {hard: {runningTransfers: 5, bandwidth: 200Mi}}
---
apiVersion: lighterage.dev/v1alpha1
kind: PeerGrant
metadata: {name: from-east, namespace: bank}
spec: {from: [{peer: east, namespaces: [bank]}], to: [{kind: PersistentVolumeClaim}]}
---
apiVersion: lighterage.dev/v1alpha1
kind: Transfer
metadata: {name: nightly, namespace: bank}
spec:
  source: {persistentVolumeClaim: {claimName: ledger}}
  destination: {persistentVolumeClaim: {claimName: copy}}
  compression: {policyName: cheap}
  schedule: {cron: "0 2 1 1 *"}
`

// TestSettings has the objects that need no pods on a bare API server, with the manager as a process, which starts when
// Flux has applied them.
func TestSettings(t *testing.T) {
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = environment.Stop() })
	config.QPS, config.Burst = 100, 200
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "admin")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	f := startFlux(t, config, kubeconfig, api, newRepository(t), "")

	objects := parse(t, settings)
	f.repository.write("operator/operator.yaml", append(withoutPods(t), parse(t, home)...)...)
	f.repository.write("data/bank.yaml", parse(t, bank)...)
	f.repository.write("data/settings.yaml", objects...)
	commit := f.repository.commit("operator and settings")
	f.follow("operator")
	f.follow("data", "operator")
	f.wait("operator", commit)

	eventually(t, "the objects to be applied", func() (bool, string) {
		for i := range objects {
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(&objects[i]), objects[i].DeepCopy()); err != nil {
				return false, err.Error()
			}
		}
		return true, ""
	})
	f.unready("data", commit)
	startManager(t, environment.KubeConfig)
	// The grant names a Peer that does not exist.
	for i := range objects {
		condition := v1alpha1.ConditionReady
		if objects[i].GetKind() == "PeerGrant" {
			condition = v1alpha1.ConditionReconciling
		}
		f.is(&objects[i], condition)
	}
	f.unready("data", commit)

	ca, _, err := pki.NewCA("east", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	peer := parse(t, `
apiVersion: lighterage.dev/v1alpha1
kind: Peer
metadata: {name: east}
spec: {caBundle: `+base64.StdEncoding.EncodeToString(ca.CertificatePEM)+`}
`)
	f.repository.write("data/peer.yaml", peer...)
	commit = f.repository.commit("peer")
	f.reconcile(commit, "data")
	objects = append(objects, peer...)
	for i := range objects {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(&objects[i]), &objects[i]); err != nil {
			t.Fatal(err)
		}
		condition := conditionOf(t, &objects[i], v1alpha1.ConditionReady)
		if condition == nil || condition.Status != metav1.ConditionTrue {
			t.Errorf("Flux is ready, and %s %s is %+v", objects[i].GetKind(), objects[i].GetName(), condition)
		}
	}

	f.steady(commit, objects, "operator", "data")
	f.drift(commit, objects)
	f.failsAtOnce()

	transfer := object("", "", nil)
	transfer.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Transfer"))
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "bank", Name: "nightly"}, transfer); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(transfer.GetFinalizers(), v1alpha1.Finalizer) {
		t.Error("the Transfer has no finalizer: that it is pruned shows nothing")
	}
	f.repository.write("data/settings.yaml")
	f.repository.write("data/peer.yaml")
	f.reconcile(f.repository.commit("nothing but the namespace"), "data")
	f.gone(objects)
}

// withoutPods is what the chart installs, but for what only becomes ready where pods run.
func withoutPods(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	all, err := render.Chart("image.registry=registry.example", "clusterName=west")
	if err != nil {
		t.Fatal(err)
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(o unstructured.Unstructured) bool {
		return slices.Contains([]string{"Deployment", "DaemonSet", "PodDisruptionBudget", "Service"}, o.GetKind())
	})
	if len(kept) == len(all) || len(kept) < 20 {
		t.Fatalf("of %d objects of the chart %d need no pods", len(all), len(kept))
	}
	return kept
}

// startManager runs the manager of this tree, with the rights of its account.
func startManager(t *testing.T, admin []byte) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "manager")
	if _, err := render.Run("go", "build", "-o", program, "./controllers/cmd/manager"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:lighterage-system:lighterage-manager"
	}
	kubeconfig := filepath.Join(t.TempDir(), "manager")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	start(t, kubeconfig, program, "--namespace=lighterage-system", "--agent-image=registry.example/lighterage/agent:test",
		"--metrics-bind-address=0", "--health-probe-bind-address="+address(t))
}

// drift: what others change or delete is as in Git after a reconciliation.
func (f *flux) drift(commit string, objects []unstructured.Unstructured) {
	f.t.Helper()
	ctx := f.t.Context()
	annotate := func(object client.Object, owner string) error {
		return f.api.Patch(ctx, object, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"`+owner+`":"was here"}}}`)), client.FieldOwner(owner))
	}
	for i := range objects {
		live := objects[i].DeepCopy()
		var err error
		switch live.GetKind() {
		case "Transfer":
			err = f.api.Patch(ctx, live, client.RawPatch("application/merge-patch+json",
				[]byte(`{"spec":{"schedule":{"cron":"0 5 1 1 *"}}}`)), client.FieldOwner("kubectl-edit"))
		case "Tariff":
			err = f.api.Delete(ctx, live)
		case "CompressionPolicy":
			err = errors.Join(annotate(live, "kubectl-annotate"), annotate(live, "runs"))
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	changed := f.reconcile(commit, "data")
	slices.Sort(changed)
	if want := []string{
		"CompressionPolicy/cheap configured", "Tariff/datacentre created", "Transfer/bank/nightly configured",
	}; !slices.Equal(changed, want) {
		f.t.Errorf("Flux changed %v, want %v", changed, want)
	}
	for i := range objects {
		live := objects[i].DeepCopy()
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			f.t.Fatal(err)
		}
		cron, _, err := unstructured.NestedString(live.Object, "spec", "schedule", "cron")
		if live.GetKind() == "Transfer" && (cron != "0 2 1 1 *" || err != nil) {
			f.t.Errorf("the schedule is %q (%v)", cron, err)
		}
		annotations := live.GetAnnotations()
		if live.GetKind() == "CompressionPolicy" && (annotations["kubectl-annotate"] != "" || annotations["runs"] == "") {
			f.t.Errorf("of annotations of kubectl and of others Flux has left %v", annotations)
		}
	}
}

// failsAtOnce: Flux does not wait for an object that somebody has to correct.
func (f *flux) failsAtOnce() {
	f.t.Helper()
	f.repository.write("data/broken.yaml", parse(f.t, `
apiVersion: lighterage.dev/v1alpha1
kind: Peer
metadata: {name: broken}
spec: {caBundle: bm8gY2VydGlmaWNhdGU=}
`)...)
	f.repository.commit("a Peer without a certificate")
	begun := time.Now()
	f.pull()
	eventually(f.t, "Kustomization data to fail", func() (bool, string) {
		c := conditionOf(f.t, f.get("data"), "Healthy")
		return c != nil && c.Status == metav1.ConditionFalse, fmt.Sprintf("%+v", c)
	})
	if took := time.Since(begun); took > patience/2 {
		f.t.Errorf("that took %s, which may be the time-out", took)
	}
	f.repository.write("data/broken.yaml")
	commit := f.repository.commit("without it")
	f.pull()
	f.wait("data", commit)
}
