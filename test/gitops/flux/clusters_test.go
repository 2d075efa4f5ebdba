// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build gitops

package flux_test

import (
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
	"github.com/lighterage/lighterage/test/render"
)

const bankNamespace = "bank"

// fleet is two clusters, each with its Flux and its directories of one repository.
type fleet struct {
	*testing.T
	east, west *flux
	repository *repository
	pair       *clusters.Pair // once the operator is there
	plugin     string         // directory of kubectl-lighterage
}

// TestClusters has the operator, and objects of every kind that belongs in Git, in two clusters.
func TestClusters(t *testing.T) {
	f := newFleet(t)
	f.operator()
	f.join()

	// Nobody may write in west yet.
	commit := f.push("testdata/fleet", "claims, Transfers and what serves")
	f.east.follow("claims", "operator")
	f.east.follow("data", "peers", "claims")
	f.east.follow("app", "data")
	f.west.follow("data", "peers")
	f.east.wait("claims", commit)
	f.refused("ledger")
	f.east.unready("data", commit)
	f.west.unready("data", commit) // its claims are bound when data come

	commit = f.push("testdata/grant", "grant")
	for _, name := range []string{"data", "app"} {
		f.east.wait(name, commit)
	}
	f.west.wait("data", commit)
	f.arrived()
	objects := f.allReady(f.east)
	f.everyKind(objects)
	f.east.steady(commit, objects, "operator", "peers", "claims", "data", "app")
	f.west.steady(commit, f.allReady(f.west), "operator", "peers", "data")
	f.drift(commit)
	f.prune(objects)
	f.uninstall()
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{T: t, repository: newRepository(t), plugin: t.TempDir()}
	if _, err := render.Run("go", "build", "-o", f.plugin+"/", "./controllers/cmd/kubectl-lighterage"); err != nil {
		t.Fatal(err)
	}
	start := func(name string) *flux {
		kubeconfig := filepath.Join(render.Root, ".cluster", name+".kubeconfig")
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatalf("the cluster %s: %v: run make test-gitops-clusters", name, err)
		}
		config.QPS, config.Burst = 100, 200
		api, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return startFlux(t, config, kubeconfig, api, f.repository, name)
	}
	f.east, f.west = start("east"), start("west")
	return f
}

func (f *fleet) both() []*flux { return []*flux{f.east, f.west} }

// operator installs what helm template prints. The definitions, and the namespace with the CA, are never pruned.
func (f *fleet) operator() {
	f.Helper()
	registry, version := os.Getenv("GITOPS_REGISTRY"), os.Getenv("GITOPS_VERSION")
	if registry == "" || version == "" {
		f.Fatal("GITOPS_REGISTRY and GITOPS_VERSION say which images to install: run make test-gitops-clusters")
	}
	for _, in := range f.both() {
		chart, err := render.Chart("image.registry="+registry, "image.tag="+version, "clusterName="+in.cluster,
			"gateway.service.type=NodePort", "gateway.service.nodePort=30843")
		if err != nil {
			f.Fatal(err)
		}
		objects := parse(f.T, home)
		for i := range chart {
			objects = append(objects, *chart[i].DeepCopy())
		}
		for i := range objects {
			if slices.Contains([]string{"CustomResourceDefinition", "Namespace"}, objects[i].GetKind()) {
				annotations := map[string]string{"kustomize.toolkit.fluxcd.io/prune": "disabled"}
				maps.Copy(annotations, objects[i].GetAnnotations())
				objects[i].SetAnnotations(annotations)
			}
		}
		f.repository.write("operator/"+in.cluster+"/lighterage.yaml", objects...)
	}
	commit := f.repository.commit("operator")
	for _, in := range f.both() {
		in.follow("operator")
	}
	for _, in := range f.both() {
		in.wait("operator", commit)
		var running appsv1.DeploymentList
		if err := in.api.List(f.Context(), &running, client.InNamespace(render.Namespace)); err != nil {
			f.Fatal(err)
		}
		for _, d := range running.Items {
			if d.Status.AvailableReplicas != d.Status.Replicas || d.Status.Replicas == 0 {
				f.Errorf("Flux is ready, and Deployment %s of %s is %+v", d.Name, in.cluster, d.Status)
			}
		}
		if len(running.Items) < 2 {
			f.Errorf("%s has %d Deployments of the operator", in.cluster, len(running.Items))
		}
	}
	var err error
	if f.pair, err = clusters.Connect(render.Root); err != nil {
		f.Fatal(err)
	}
}

// join commits the Peers that the plugin writes.
func (f *fleet) join() {
	f.Helper()
	contexts := filepath.Join(f.TempDir(), "kubeconfig")
	if err := f.pair.Contexts(contexts); err != nil {
		f.Fatal(err)
	}
	f.lighterage("", "connect", "--kubeconfig", contexts, "--context", "east", "--to", "west",
		"--manifests", filepath.Join(f.repository.tree, "peers"))
	commit := f.repository.commit("peers")
	for _, in := range f.both() {
		in.pull()
		in.follow("peers", "operator")
	}
	for _, in := range f.both() {
		in.wait("peers", commit)
	}
}

// lighterage runs the plugin on cluster east, with something to read.
func (f *fleet) lighterage(in string, args ...string) {
	f.Helper()
	command := f.pair.East.Plugin(f.plugin, append([]string{"lighterage"}, args...)...)
	command.Stdin = strings.NewReader(in)
	if out, err := command.CombinedOutput(); err != nil {
		f.Fatalf("kubectl lighterage %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// push adds files to the repository, with the addresses of this machine in them, and has Flux read them.
func (f *fleet) push(directory, message string) (commit string) {
	f.Helper()
	store := f.pair.Store
	if store == nil {
		f.Fatal("the clusters have no object store: run make test-gitops-clusters")
	}
	f.repository.add(directory, strings.NewReplacer(
		"BUSYBOX", f.pair.East.Busybox(), "STORE_ENDPOINT", store.Endpoint, "STORE_BUCKET", store.Bucket,
		"STORE_KEY_ID", store.AccessKeyID, "STORE_KEY", store.SecretAccessKey,
		"STORE_CA", base64.StdEncoding.EncodeToString(store.CA),
	))
	commit = f.repository.commit(message)
	for _, in := range f.both() {
		in.pull()
	}
	return commit
}

// refused waits until a Transfer was refused by west, and requires that what depends on it is not there.
func (f *fleet) refused(name string) {
	f.Helper()
	transfer := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: bankNamespace, Name: name}}
	f.pair.WaitFor(f.T, transfer, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNotGranted)
	report := &corev1.ConfigMap{}
	err := f.pair.East.Get(f.Context(), client.ObjectKey{Namespace: bankNamespace, Name: "report"}, report)
	if !apierrors.IsNotFound(err) {
		f.Errorf("what depends on Transfer %s is there before it has run: %v", name, err)
	}
}

// arrived requires that what depends on the Transfer came after its data.
func (f *fleet) arrived() {
	f.Helper()
	transfer, report := f.transfer("ledger"), &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: bankNamespace, Name: "report"}
	if err := f.pair.East.Get(f.Context(), key, report); err != nil {
		f.Fatal(err)
	}
	if completed := transfer.Status.Run.CompletionTime; completed == nil || report.CreationTimestamp.Before(completed) {
		f.Errorf("ConfigMap report is of %s, the data of %v", report.CreationTimestamp, completed)
	}
	f.pair.East.Mount(f.T, bankNamespace, "ledger")
	want := f.pair.East.Sh(f.T, bankNamespace, "ledger", clusters.Listing)
	for _, claim := range []string{"copy", "ledger"} {
		f.pair.West.Mount(f.T, bankNamespace, claim)
		if got := f.pair.West.Sh(f.T, bankNamespace, claim, clusters.Listing); got != want || !strings.Contains(got, "./noise") {
			f.Errorf("claim %s of west has\n%s\nand east\n%s", claim, got, want)
		}
	}
}

func (f *fleet) transfer(name string) *v1alpha1.Transfer {
	f.Helper()
	transfer := &v1alpha1.Transfer{}
	if err := f.pair.East.Get(f.Context(), client.ObjectKey{Namespace: bankNamespace, Name: name}, transfer); err != nil {
		f.Fatal(err)
	}
	return transfer
}

// allReady requires that the objects of our kinds which the repository has for a cluster, and Flux takes for ready,
// are.
func (f *fleet) allReady(in *flux) (objects []unstructured.Unstructured) {
	f.Helper()
	for _, object := range f.repository.objects(in.cluster) {
		if object.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
			continue
		}
		objects = append(objects, object)
		live := object.DeepCopy()
		if err := in.api.Get(f.Context(), client.ObjectKeyFromObject(live), live); err != nil {
			f.Fatal(err)
		}
		if c := conditionOf(f.T, live, v1alpha1.ConditionReady); c == nil || c.Status != metav1.ConditionTrue {
			f.Errorf("Flux is ready, and %s %s of %s is %+v", live.GetKind(), live.GetName(), in.cluster, c)
		}
	}
	return objects
}

// everyKind requires that each kind that people write is among the objects.
func (f *fleet) everyKind(objects []unstructured.Unstructured) {
	f.Helper()
	chart, err := render.Chart("image.registry=registry.example", "clusterName=west")
	if err != nil {
		f.Fatal(err)
	}
	kinds := 0
	for _, definition := range chart {
		kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		// The operator writes these itself.
		if kind == "" || slices.Contains([]string{"NodeProfile", "Statement", "Delivery"}, kind) {
			continue
		}
		kinds++
		if !slices.ContainsFunc(objects, func(o unstructured.Unstructured) bool { return o.GetKind() == kind }) {
			f.Errorf("kind %s is not among the objects in Git: add one to testdata/fleet", kind)
		}
	}
	if kinds < 10 {
		f.Errorf("the chart defines %d kinds that people write", kinds)
	}
}

// drift: what others change is as in Git after a reconciliation, and what the operator has done is not done again.
func (f *fleet) drift(commit string) {
	f.Helper()
	ctx, before := f.Context(), f.transfer("ledger")
	edit := func(object client.Object, owner, patch string) {
		f.Helper()
		if err := f.pair.East.Patch(
			ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)), client.FieldOwner(owner),
		); err != nil {
			f.Fatal(err)
		}
	}
	edit(f.transfer("ledger"), "somebody", `{"spec":{"maxAttempts":1}}`)
	edit(f.transfer("ledger"), "kubectl-edit", `{"spec":{"bandwidthLimit":"1Mi"}}`)
	edit(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: render.Namespace, Name: "lighterage-gateway"}},
		"kubectl-edit", `{"spec":{"replicas":0}}`)
	changed := f.east.reconcile(commit, "operator", "data")
	slices.Sort(changed)
	if want := []string{
		"Deployment/lighterage-system/lighterage-gateway configured", "Transfer/bank/ledger configured",
	}; !slices.Equal(changed, want) {
		f.Errorf("Flux changed %v, want %v", changed, want)
	}
	after, gateway := f.transfer("ledger"), &appsv1.Deployment{}
	if after.Spec.MaxAttempts != before.Spec.MaxAttempts || after.Spec.BandwidthLimit != nil {
		f.Errorf("the Transfer has %d attempts and %v bytes per second", after.Spec.MaxAttempts, after.Spec.BandwidthLimit)
	}
	if got, want := after.Status.Run.StartTime, before.Status.Run.StartTime; !got.Equal(want) {
		f.Errorf("the Transfer has run at %s and again at %s", want, got)
	}
	key := client.ObjectKey{Namespace: render.Namespace, Name: "lighterage-gateway"}
	if err := f.pair.East.Get(ctx, key, gateway); err != nil {
		f.Fatal(err)
	}
	if gateway.Status.AvailableReplicas != 1 {
		f.Errorf("Flux is ready, and the gateway is %+v", gateway.Status)
	}
}

// prune removes from Git everything but a Queue's tokens, while a Transfer runs and the Queue has messages.
func (f *fleet) prune(objects []unstructured.Unstructured) {
	f.Helper()
	f.lighterage("one\ntwo\n", "queue", "put", "orders", "-n", bankNamespace, "--lines")
	f.push("testdata/slow", "a Transfer that takes a while")
	slow := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: bankNamespace, Name: "slow"}}
	eventually(f.T, "Transfer slow to be created", func() (bool, string) {
		err := f.pair.East.Get(f.Context(), client.ObjectKeyFromObject(slow), slow)
		return err == nil, "it is not there"
	})
	f.pair.WaitFor(f.T, slow, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonTransferring)
	if !slices.Contains(slow.Finalizers, v1alpha1.Finalizer) {
		f.Error("the Transfer has no finalizer: that it is pruned shows nothing")
	}

	for _, path := range []string{
		"data/east/policies", "data/east/transfers", "data/east/serving", "data/east/slow", "app/east/drill",
	} {
		f.repository.write(path + ".yaml")
	}
	commit := f.repository.commit("nothing is moved")
	f.east.reconcile(commit, "data", "app")
	f.stays()
	var left []unstructured.Unstructured
	for i := range objects {
		if kind := objects[i].GetKind(); kind != "Queue" && kind != "Peer" {
			left = append(left, objects[i])
		}
	}
	f.east.gone(append(left, parse(f.T, "{apiVersion: lighterage.dev/v1alpha1, kind: Transfer, "+
		"metadata: {name: slow, namespace: bank}}")...))
	eventually(f.T, "west to have no Deliveries and east no Jobs of Transfers", func() (bool, string) {
		var deliveries v1alpha1.DeliveryList
		var jobs batchv1.JobList
		if err := f.pair.West.List(f.Context(), &deliveries); err != nil {
			return false, err.Error()
		}
		if err := f.pair.East.List(f.Context(), &jobs, client.HasLabels{v1alpha1.TransferLabel}); err != nil {
			return false, err.Error()
		}
		return len(deliveries.Items)+len(jobs.Items) == 0, "some are left"
	})
	for _, in := range f.both() {
		in.forget("peers", "data")
	}
	f.east.forget("app", "claims")
}

// stays: the Queue waits for leave to lose its message, and then goes.
func (f *fleet) stays() {
	f.Helper()
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: bankNamespace, Name: "orders"}}
	key := client.ObjectKeyFromObject(queue)
	eventually(f.T, "Queue orders to say that messages remain", func() (bool, string) {
		if err := f.pair.East.Get(f.Context(), key, queue); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionStalled)
		return c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonMessagesRemain, "it does not"
	})
	f.lighterage("", "queue", "get", "orders", "-n", bankNamespace)
	leave := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"`+v1alpha1.DeleteMessagesAnnotation+`":"true"}}}`))
	if err := f.pair.East.Patch(f.Context(), queue, leave); err != nil {
		f.Fatal(err)
	}
	eventually(f.T, "Queue orders to be gone", func() (bool, string) {
		return apierrors.IsNotFound(f.pair.East.Get(f.Context(), key, queue)), "it exists"
	})
}

// uninstall prunes the operator. The definitions and the CA stay.
func (f *fleet) uninstall() {
	f.Helper()
	f.east.forget("operator")
	var running appsv1.DeploymentList
	eventually(f.T, "the operator of east to be gone", func() (bool, string) {
		err := f.pair.East.List(f.Context(), &running, client.InNamespace(render.Namespace))
		return err == nil && len(running.Items) == 0, "it has Deployments"
	})
	if err := f.pair.East.List(f.Context(), &v1alpha1.StatementList{}); err != nil {
		f.Errorf("the definitions are gone: %v", err)
	}
	if err := f.pair.East.Get(
		f.Context(), client.ObjectKey{Namespace: render.Namespace, Name: "lighterage-ca"}, &corev1.Secret{},
	); err != nil {
		f.Errorf("the CA of the cluster is gone: %v", err)
	}
}
