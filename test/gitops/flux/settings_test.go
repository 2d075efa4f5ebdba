// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build gitops

package flux_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// poll is twice the interval in which kustomize-controller looks at health.
const poll = 10 * time.Second

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
	f := startFlux(t, config, kubeconfig, api)

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

	f.steady(commit, objects)
	f.drift(commit, objects)

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

// is waits until an object has a condition.
func (f *flux) is(o *unstructured.Unstructured, condition string) {
	f.t.Helper()
	eventually(f.t, o.GetKind()+" "+o.GetName()+" to be "+condition, func() (bool, string) {
		live := o.DeepCopy()
		if err := f.api.Get(f.t.Context(), client.ObjectKeyFromObject(o), live); err != nil {
			return false, err.Error()
		}
		found := conditionOf(f.t, live, condition)
		return found != nil && found.Status == metav1.ConditionTrue, strings.TrimSpace(objectStatus(live))
	})
}

func objectStatus(o *unstructured.Unstructured) string {
	text, err := o.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// unready requires that a Kustomization is not found healthy while Flux looks twice.
func (f *flux) unready(name, commit string) {
	f.t.Helper()
	for end := time.Now().Add(poll); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if ready, state := f.ready(name, commit); ready {
			f.t.Fatalf("Kustomization %s is ready before its objects are: %s", name, state)
		}
	}
}

// steady: applying the same commit again changes no object.
func (f *flux) steady(commit string, objects []unstructured.Unstructured) {
	f.t.Helper()
	var before map[string]state
	eventually(f.t, "the manager to have written what it has to", func() (bool, string) {
		before = f.states(objects)
		time.Sleep(3 * time.Second)
		for name, later := range f.states(objects) {
			if later.version != before[name].version {
				return false, name + " is still written"
			}
		}
		return true, ""
	})
	if changed := f.reconcile(commit, "operator", "data"); len(changed) > 0 {
		f.t.Errorf("a second reconciliation changes %v", changed)
	}
	same(f.t, before, f.states(objects))
}

// drift: what others change or delete is as in Git after a reconciliation.
func (f *flux) drift(commit string, objects []unstructured.Unstructured) {
	f.t.Helper()
	ctx := f.t.Context()
	for i := range objects {
		live := objects[i].DeepCopy()
		var err error
		switch live.GetKind() {
		case "Transfer":
			err = f.api.Patch(ctx, live, client.RawPatch("application/merge-patch+json",
				[]byte(`{"spec":{"schedule":{"cron":"0 5 1 1 *"}}}`)), client.FieldOwner("kubectl-edit"))
		case "Tariff":
			err = f.api.Delete(ctx, live)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	changed := f.reconcile(commit, "data")
	slices.Sort(changed)
	if want := []string{"Tariff/datacentre created", "Transfer/bank/nightly configured"}; !slices.Equal(changed, want) {
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
	}
}
