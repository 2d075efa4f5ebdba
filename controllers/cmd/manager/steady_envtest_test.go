// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/node"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/statement"
	"github.com/lighterage/lighterage/controllers/usedby"
)

// quiet is how long nothing is written before all is settled: longer than an agent may leave questions unanswered
// before status says so.
const quiet = agentpoll.Grace + 5*time.Second

// steadyRow is an object in a steady state that exercises what it owns.
type steadyRow struct {
	object client.Object
	// label has the object's UID on what it owns, which is at least this.
	label string
	owns  map[client.ObjectList]int
	// untouched: an annotation is no reason to look at it again.
	untouched bool
}

// steadyRows has a row for each kind, by its name.
func steadyRows(namespace string, ca []byte) map[string]steadyRow {
	named := metav1.ObjectMeta{Namespace: namespace, Name: "steady"}
	attempt := func() map[client.ObjectList]int {
		return map[client.ObjectList]int{&batchv1.JobList{}: 1, &corev1.SecretList{}: 1, &networkingv1.NetworkPolicyList{}: 1}
	}
	claim := func(name string) v1alpha1.PersistentVolumeClaimPath {
		return v1alpha1.PersistentVolumeClaimPath{ClaimName: name}
	}
	return map[string]steadyRow{
		"Transfer": {label: v1alpha1.TransferLabel, owns: attempt(), object: &v1alpha1.Transfer{ObjectMeta: named,
			Spec: v1alpha1.TransferSpec{
				Source: v1alpha1.TransferSource{PersistentVolumeClaim: claim("ledger")},
				Destination: v1alpha1.TransferDestination{
					PersistentVolumeClaim: v1alpha1.DestinationClaim{PersistentVolumeClaimPath: claim("copy")},
				},
			}}},
		// Its member has no Peer.
		"TransferSet": {untouched: true, object: &v1alpha1.TransferSet{ObjectMeta: named, Spec: v1alpha1.TransferSetSpec{
			Selector: &metav1.LabelSelector{}, MaxConcurrent: 1,
			Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "none"}},
		}}},
		"Delivery": {label: v1alpha1.DeliveryLabel, owns: attempt(), object: plan.NewDelivery(namespace,
			v1alpha1.DeliverySpec{
				Peer:        "steady",
				Transfer:    v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "abcde", Attempt: 1},
				Destination: v1alpha1.DeliveryDestination{PersistentVolumeClaim: claim("arrived")},
			})},
		"Queue": {label: v1alpha1.QueueLabel, owns: map[client.ObjectList]int{
			&appsv1.StatefulSetList{}: 1, &corev1.ServiceList{}: 2, &policyv1.PodDisruptionBudgetList{}: 1,
			&networkingv1.NetworkPolicyList{}: 1,
			&corev1.SecretList{}:              1, &corev1.ConfigMapList{}: 1,
		}, object: &v1alpha1.Queue{ObjectMeta: named, Spec: v1alpha1.QueueSpec{
			Storage:        v1alpha1.QueueStorage{Size: resource.MustParse("1Gi")},
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "tokens"}},
			Archive:        &v1alpha1.QueueArchive{ObjectStore: &v1alpha1.ObjectStorePath{Name: "archives", Path: "/queues"}},
		}}},
		"HTTPEndpoint": {label: v1alpha1.HTTPEndpointLabel, owns: map[client.ObjectList]int{
			&appsv1.DeploymentList{}: 1, &corev1.ServiceList{}: 1, &policyv1.PodDisruptionBudgetList{}: 1,
			&networkingv1.NetworkPolicyList{}: 1,
			&corev1.SecretList{}:              1, &autoscalingv2.HorizontalPodAutoscalerList{}: 1,
		}, object: &v1alpha1.HTTPEndpoint{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "front"}, Spec: v1alpha1.HTTPEndpointSpec{
				Backend:     v1alpha1.HTTPBackend{Host: &v1alpha1.HTTPHost{Name: "api.example", Port: 80}},
				Autoscaling: &v1alpha1.HTTPAutoscaling{MaxReplicas: 4},
			},
		}},
		"CompressionTrial": {label: v1alpha1.TrialLabel, owns: attempt(), object: &v1alpha1.CompressionTrial{
			ObjectMeta: named, Spec: v1alpha1.CompressionTrialSpec{
				Source: v1alpha1.TrialSource{PersistentVolumeClaim: &v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
				Links:  []v1alpha1.TrialLink{{Name: "wan", BytesPerSecond: resource.MustParse("12500k")}},
			},
		}},
		"ObjectStore": {label: v1alpha1.ObjectStoreLabel, owns: attempt(), object: &v1alpha1.ObjectStore{
			ObjectMeta: named, Spec: v1alpha1.ObjectStoreSpec{
				Endpoint: "https://s3.example", Bucket: "cargo", Credentials: &v1alpha1.StoreCredentials{SecretName: "keys"},
			},
		}},
		"Drill": {
			label: v1alpha1.DrillLabel, owns: map[client.ObjectList]int{&v1alpha1.TransferList{}: 1},
			object: &v1alpha1.Drill{ObjectMeta: named, Spec: v1alpha1.DrillSpec{
				Source: v1alpha1.DrillSource{ObjectStore: v1alpha1.ObjectStorePath{Name: "archives", Path: "/ledger"}},
				Volume: v1alpha1.EphemeralVolume{Size: resource.NewQuantity(1<<30, resource.BinarySI)},
			}},
		},
		// Nobody listens at its endpoint.
		"Peer": {untouched: true, object: &v1alpha1.Peer{
			ObjectMeta: metav1.ObjectMeta{Name: "steady"}, Spec: v1alpha1.PeerSpec{Endpoint: "127.0.0.1:1", CABundle: ca},
		}},
		"PeerGrant": {object: &v1alpha1.PeerGrant{ObjectMeta: named, Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "steady", Namespaces: []string{"bank"}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim}},
		}}},
		"CompressionPolicy": {object: &v1alpha1.CompressionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "steady"}, Spec: v1alpha1.CompressionPolicySpec{Mode: v1alpha1.CompressionNever},
		}},
		"LocalCompressionPolicy": {object: &v1alpha1.LocalCompressionPolicy{
			ObjectMeta: named, Spec: v1alpha1.LocalCompressionPolicySpec{Mode: v1alpha1.CompressionNever},
		}},
		"Tariff": {object: &v1alpha1.Tariff{ObjectMeta: metav1.ObjectMeta{Name: "steady"}, Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "0.05"}, NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0.02"},
		}}},
		"DataQuota": {untouched: true, object: &v1alpha1.DataQuota{
			ObjectMeta: named, Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{RunningTransfers: new(int32(3))}},
		}},
		// The manager makes them as well, when there is something to book.
		"Statement": {untouched: true, object: &v1alpha1.Statement{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: time.Now().UTC().Format("2006-01")},
			Spec:       v1alpha1.StatementSpec{Month: time.Now().UTC().Format("2006-01")},
		}},
		// The manager makes it for the node.
		"NodeProfile": {object: &v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "steady"}}},
	}
}

// TestSecondReconcileWritesNothing: of every kind there is an object that nobody changes. Looking at it again, and
// looking at it with a manager that has just been started, writes nothing.
func TestSecondReconcileWritesNothing(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	// The second manager is in another process.
	const restarted = "LIGHTERAGE_TEST_KUBECONFIG"
	ctrl.SetLogger(logr.Discard())
	if path := os.Getenv(restarted); path != "" {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		writes := startCounted(t, config)
		waitForReconciles(t, steadyRows("any", nil), nil)
		time.Sleep(quiet)
		writes.none(t, "a manager that was started again")
		return
	}
	cluster, err := controllertest.Start("../../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	ca, _, err := pki.NewCA("west", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	namespace := cluster.Namespace(t)
	rows := steadyRows(namespace, ca.CertificatePEM)
	everyKindHasARow(t, cluster, rows)
	for _, name := range []string{"ledger", "copy", "arrived"} {
		cluster.Claim(t, namespace, name)
	}
	makeNode(t, cluster, "steady")
	makeStore(t, cluster, namespace, "archives")
	writes := startCounted(t, cluster.Config)
	for _, kind := range []string{
		"Statement", "Peer", "PeerGrant", "CompressionPolicy", "LocalCompressionPolicy", "Tariff", "DataQuota", "Transfer",
		"TransferSet", "Delivery", "Queue", "HTTPEndpoint", "CompressionTrial", "ObjectStore", "Drill",
	} {
		cluster.Create(t, rows[kind].object)
	}
	for kind, row := range rows {
		controllertest.Eventually(t, func() error { return settled(cluster, kind, row) })
		for _, job := range jobsOf(t, cluster, row) {
			cluster.RunPod(t, &job, "steady")
		}
	}
	writes.end(t)
	before, touched := reconciles(t), maps.Clone(rows)
	maps.DeleteFunc(touched, func(_ string, row steadyRow) bool { return row.untouched })
	for _, row := range touched {
		patch := client.RawPatch(
			"application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/touched":"true"}}}`),
		)
		if err := cluster.Client.Patch(t.Context(), row.object, patch); err != nil {
			t.Fatal(err)
		}
		// An annotation of a Delivery changes nothing, so nobody is woken by it; one of its Job may.
		for _, job := range jobsOf(t, cluster, row) {
			if err := cluster.Client.Patch(t.Context(), &job, patch); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitForReconciles(t, touched, before)
	time.Sleep(quiet)
	writes.none(t, "a second reconcile")
	writes.stop()

	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), restarted+"="+kubeconfig(t, cluster.Config))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func everyKindHasARow(t *testing.T, cluster *controllertest.Cluster, rows map[string]steadyRow) {
	t.Helper()
	for kind, of := range cluster.Scheme.KnownTypes(v1alpha1.GroupVersion) {
		if _, is := reflect.New(of).Interface().(client.Object); !is {
			continue
		}
		if _, ok := rows[kind]; !ok {
			t.Errorf("no row for %s", kind)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// makeNode makes a node with a node agent that cannot be asked.
func makeNode(t *testing.T, cluster *controllertest.Cluster, name string) {
	t.Helper()
	made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name,
	}}}
	cluster.Create(t, made)
	made.Spec.Taints = nil // that of a node that has said nothing yet
	if err := cluster.Client.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := cluster.Client.Status().Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	cluster.Create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: controllertest.OperatorNamespace, Name: "node-agent",
			Labels: map[string]string{
				agentpod.AppLabel: operatorApp, node.ComponentLabel: node.NodeAgent,
			}},
		Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "agent", Image: "agent"}}},
	})
}

// makeStore makes an ObjectStore that was probed, and is not to be for hours.
func makeStore(t *testing.T, cluster *controllertest.Cluster, namespace, name string) {
	t.Helper()
	store := &v1alpha1.ObjectStore{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.ObjectStoreSpec{
			Endpoint: "https://s3.example", Bucket: "archives", Credentials: &v1alpha1.StoreCredentials{SecretName: "keys"},
		},
	}
	cluster.Create(t, store)
	now, later := metav1.Now().Rfc3339Copy(), metav1.NewTime(time.Now().Add(12*time.Hour))
	store.Status = v1alpha1.ObjectStoreStatus{
		ObservedGeneration: store.Generation, LastProbeTime: &now,
		Probe: &v1alpha1.StoreProbe{
			ID: "abcde", Generation: store.Generation, StartTime: now, CompletionTime: &now, NextTime: &later,
		},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPromisesKept,
			Message: "the store keeps all promises", ObservedGeneration: store.Generation, LastTransitionTime: now,
		}},
	}
	if err := cluster.Client.Status().Update(t.Context(), store); err != nil {
		t.Fatal(err)
	}
}

// settled returns nil when status is about the present spec and everything that the object owns is there.
func settled(cluster *controllertest.Cluster, kind string, row steadyRow) error {
	ctx, key := context.Background(), client.ObjectKeyFromObject(row.object)
	if err := cluster.Client.Get(ctx, key, row.object); err != nil {
		return err
	}
	content, err := conditionsOf(row.object)
	if err != nil || meta.FindStatusCondition(content, v1alpha1.ConditionReady) == nil {
		return fmt.Errorf("%s has no condition: %w", kind, err)
	}
	for list, want := range row.owns {
		label := client.MatchingLabels{row.label: string(row.object.GetUID())}
		if err := cluster.Client.List(ctx, list, client.InNamespace(row.object.GetNamespace()), label); err != nil {
			return err
		}
		if got := meta.LenList(list); got != want {
			return fmt.Errorf("%s has %d objects in a %T, want %d: %+v", kind, got, list, want, content)
		}
		for _, label := range transfersOf(list) { // what they are to own
			jobs := &batchv1.JobList{}
			if err := cluster.Client.List(ctx, jobs, label); err != nil || len(jobs.Items) == 0 {
				return fmt.Errorf("%s has a Transfer without a Job: %w", kind, err)
			}
		}
	}
	return nil
}

func conditionsOf(object client.Object) ([]metav1.Condition, error) {
	found := reflect.ValueOf(object).Elem().FieldByName("Status").FieldByName("Conditions")
	if !found.IsValid() {
		return nil, errors.New("it has none")
	}
	content, ok := found.Interface().([]metav1.Condition)
	if !ok {
		return nil, fmt.Errorf("they are %s", found.Type())
	}
	return content, nil
}

func jobsOf(t *testing.T, cluster *controllertest.Cluster, row steadyRow) []batchv1.Job {
	t.Helper()
	if row.label == "" {
		return nil
	}
	jobs := cluster.Jobs(t, row.object.GetNamespace(), row.label, string(row.object.GetUID()))
	for list := range row.owns {
		for _, label := range transfersOf(list) {
			jobs = append(jobs, cluster.Jobs(t, row.object.GetNamespace(), v1alpha1.TransferLabel,
				label[v1alpha1.TransferLabel])...)
		}
	}
	return jobs
}

// transfersOf are the labels of what the Transfers of a list own; none if it is not of Transfers.
func transfersOf(list client.ObjectList) []client.MatchingLabels {
	transfers, ok := list.(*v1alpha1.TransferList)
	if !ok {
		return nil
	}
	var labels []client.MatchingLabels
	for i := range transfers.Items {
		labels = append(labels, client.MatchingLabels{v1alpha1.TransferLabel: string(transfers.Items[i].UID)})
	}
	return labels
}

// reconciles counts those of each controller.
func reconciles(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" {
					counts[label.GetValue()] += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return counts
}

// waitForReconciles waits until the controller of each kind, which has its name, has reconciled since before.
func waitForReconciles(t *testing.T, kinds map[string]steadyRow, before map[string]float64) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		now := reconciles(t)
		for kind := range kinds {
			if name := strings.ToLower(kind); now[name] <= before[name] {
				return fmt.Errorf("%s has not reconciled", name)
			}
		}
		return nil
	})
}

// counted is what a manager writes.
type counted struct {
	stop func()

	mu   sync.Mutex
	all  []string
	last time.Time
}

// startCounted starts a manager.
func startCounted(t *testing.T, given *rest.Config) *counted {
	t.Helper()
	w := &counted{last: time.Now()}
	config := rest.CopyConfig(given)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			w.note(request)
			return next.RoundTrip(request)
		})
	})
	usedby.Interval, statement.Interval = time.Second, time.Second // They would make the first manager unsteady for a minute.
	settings, err := parse([]string{
		"--namespace", controllertest.OperatorNamespace, "--agent-image", agentImage, "--metrics-bind-address", "0",
		"--health-probe-bind-address", "0",
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
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

// note counts what writes. Events tell of what was written, and repeat themselves.
func (w *counted) note(request *http.Request) {
	path := request.URL.Path
	if request.Method == http.MethodGet || strings.HasSuffix(path, "/events") || strings.Contains(path, "/events/") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all, w.last = append(w.all, request.Method+" "+path), time.Now()
}

// end waits until nothing is written any more, and forgets what was.
func (w *counted) end(t *testing.T) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if time.Since(w.last) < quiet {
			return fmt.Errorf("it goes on writing: %s", w.all[max(0, len(w.all)-20):])
		}
		w.all = nil
		return nil
	})
}

func (w *counted) none(t *testing.T, what string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.all)
	if len(w.all) > 0 {
		t.Errorf("%s wrote %d times:\n%s", what, len(w.all), strings.Join(w.all, "\n"))
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// kubeconfig is a file from which another process gets the same config.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	content := clientcmdapi.NewConfig()
	content.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	if !strings.Contains(config.Host, "://") {
		content.Clusters["test"].Server = "https://" + config.Host
	}
	content.AuthInfos["test"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	content.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	content.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*content, path); err != nil {
		t.Fatal(err)
	}
	return path
}
