// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package command

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/explain"
	"github.com/lighterage/lighterage/controllers/plan"
)

const namespace, gib = "bank", 1 << 30

// TestProgram runs the program against a real API server, as users with the rights that its help names, and with fewer.
func TestProgram(t *testing.T) {
	cluster, err := controllertest.Start("../../../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	populate(t, cluster)
	everything := user(t, cluster, "everything", "transfers", "deliveries", "nodeprofiles")
	transfers := user(t, cluster, "transfers", "transfers")
	nothing := user(t, cluster, "nothing")

	for name, test := range map[string]struct {
		kubeconfig, transfer string
		says                 []string // in the output, or in the error when fails
		not                  string
		fails                bool
	}{
		"with all rights": {everything, "ledger", []string{
			"Decision: deflate by isa-l at level Fast", "zstd     libzstd",
			"SoftwareUsed: software compressed, as the policy asked",
		}, "you may not read", false},
		"with those for Transfers": {transfers, "ledger", []string{
			"Decision: deflate by isa-l at level Fast",
			"you may not read the NodeProfile of node worker-1; ask for a ClusterRole",
		}, "libzstd", false},
		"with none": {nothing, "ledger", []string{`Transfer "ledger"`, "get on transfers of lighterage.dev"}, "", true},
		"none such": {
			everything, "leger", []string{`Transfer "leger"`, `namespace "bank"`, "kubectl get transfers"}, "", true,
		},
		"not run yet": {everything, "new", []string{
			"Transfer bank/new: waiting", "no controller has looked at it yet",
		}, "Alternatives: the run", false},
		"still without": {everything, "starting", []string{
			"Transfer bank/starting: Starting", "the agent has not reported what it decided",
		}, "Alternatives: the run", false},
	} {
		t.Run(name, func(t *testing.T) {
			said, _, err := try(t, "", "explain", "transfer/"+test.transfer, "-n", namespace, "--kubeconfig", test.kubeconfig)
			if test.fails {
				if err == nil || said != "" {
					t.Fatalf("it did not fail, or wrote something: %s", said)
				}
				said = err.Error()
			} else if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.says {
				if !strings.Contains(said, want) {
					t.Errorf("%q is not in\n%s", want, said)
				}
			}
			if test.not != "" && strings.Contains(said, test.not) {
				t.Errorf("%q is in\n%s", test.not, said)
			}
		})
	}
	t.Run("queue stat", func(t *testing.T) { statQueue(t, cluster, nothing) })
	t.Run("trial report", func(t *testing.T) { reportTrial(t, cluster, nothing) })
	t.Run("cost", func(t *testing.T) { showCosts(t, cluster, nothing) })
	t.Run("watch", func(t *testing.T) { watchCluster(t, cluster, nothing) })
	t.Run("console", func(t *testing.T) { openConsole(t, cluster, nothing) })
	t.Run("as JSON", func(t *testing.T) {
		out, _, err := try(t, "", "explain", "transfer", "ledger", "-ojson", "--kubeconfig", everything)
		if err != nil {
			t.Fatal(err)
		}
		var e explain.Explanation
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatal(err)
		}
		// The receiver's node is in this cluster, named by the Delivery, so what zstd takes there is known.
		if e.Transfer != "bank/ledger" || len(e.Choices) != 2 || e.Choices[1].Engine != "libzstd" ||
			e.Choices[1].CPU == nil || e.Choices[1].AtLeast {
			t.Errorf("%s", out)
		}
	})
}

// statQueue asks for a Queue, by who may get Queues and nothing else, and by who may not.
func statQueue(t *testing.T, cluster *controllertest.Cluster, nothing string) {
	queue := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"},
		Spec: v1alpha1.QueueSpec{
			Storage:        v1alpha1.QueueStorage{Size: resource.MustParse("1Gi")},
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "orders-tokens"}},
		},
	}
	cluster.Create(t, queue)
	queue.Status.Statistics = &v1alpha1.QueueStatistics{Depth: 7, DeadLetters: 2}
	update(t, cluster, queue)
	kubeconfig := user(t, cluster, "queues", "queues")
	out, _, err := try(t, "", "queue", "stat", "orders", "-n", namespace, "--kubeconfig", kubeconfig)
	for _, says := range []string{"Queue bank/orders", "7 messages", "ConfigMap", "--ca-file"} {
		if err != nil || !strings.Contains(out, says) {
			t.Errorf("%v: %q is not in\n%s", err, says, out)
		}
	}
	for _, verb := range []string{"stat", "put", "get"} {
		if out, _, err := try(t, "", "queue", verb, "orders", "-n", namespace, "--kubeconfig", nothing); err == nil ||
			out != "" || !strings.Contains(err.Error(), "get on queues of lighterage.dev") {
			t.Errorf("%s: %q, %v", verb, out, err)
		}
	}
	if _, _, err := try(t, "", "queue", "get", "order", "-n", namespace, "--kubeconfig", kubeconfig); err == nil ||
		!strings.Contains(err.Error(), `Queue "order"`) {
		t.Errorf("got %v", err)
	}
}

// reportTrial has a page made of a trial, by who may get trials and by who may not.
func reportTrial(t *testing.T, cluster *controllertest.Cluster, nothing string) {
	trial := &v1alpha1.CompressionTrial{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"},
		Spec: v1alpha1.CompressionTrialSpec{
			Source: v1alpha1.TrialSource{PersistentVolumeClaim: &v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
			Links:  []v1alpha1.TrialLink{{Name: "wan", BytesPerSecond: resource.MustParse("125M")}},
		},
	}
	cluster.Create(t, trial)
	kubeconfig := user(t, cluster, "trials", "compressiontrials")
	write := func(kubeconfig, form string) (string, error) {
		out, _, err := try(t, "", "trial", "report", "ledger", "-n", namespace, "-o", form, "--kubeconfig", kubeconfig)
		return out, err
	}
	if said, err := write(kubeconfig, "html"); err == nil || said != "" || !strings.Contains(err.Error(), "bank/ledger") {
		t.Errorf("%v: %s", err, said)
	}
	trial.Status.Links = trial.Spec.Links
	trial.Status.Results = []v1alpha1.TrialResult{
		{
			Codec: "none", Engine: "none", Ratio: "1.000",
			Predictions: []v1alpha1.TrialPrediction{{Link: "wan", SecondsPerGiB: "8.90"}},
		},
	}
	trial.Status.Recommendation = &v1alpha1.TrialRecommendation{Policy: "kind: CompressionPolicy", Message: "because"}
	if err := cluster.Client.Status().Update(t.Context(), trial); err != nil {
		t.Fatal(err)
	}
	for form, begins := range map[string]string{"html": "<!DOCTYPE html>", "svg": "<svg ", "text": "Trial bank/ledger"} {
		if said, err := write(kubeconfig, form); err != nil || !strings.HasPrefix(said, begins) ||
			!strings.Contains(said, "8.9") {
			t.Errorf("%s: %v: %s", form, err, said)
		}
	}
	if _, err := write(nothing, "html"); err == nil || !strings.Contains(err.Error(), "get on compressiontrials") {
		t.Errorf("got %v", err)
	}
}

// populate makes Transfers in three states, the Delivery of one, and two NodeProfiles.
func populate(t *testing.T, cluster *controllertest.Cluster) {
	t.Helper()
	cluster.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	destination := v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"}
	for name, status := range map[string]v1alpha1.TransferStatus{
		"new": {},
		"starting": {
			Phase: v1alpha1.TransferStarting, Run: &v1alpha1.RunStatus{ID: "aaaa", Attempt: 1, Route: v1alpha1.RouteDirect},
		},
		"ledger": {
			Phase: v1alpha1.TransferComplete,
			Run: &v1alpha1.RunStatus{
				ID: "7f3c", Attempt: 1, Route: v1alpha1.RouteDirect, Node: "worker-1", CompletionTime: new(metav1.Now()),
			},
			Progress: &v1alpha1.Progress{BytesPerSecond: gib / 10},
			Compression: &v1alpha1.CompressionStatus{
				Codec: "deflate", Engine: "isa-l", Level: "Fast", Reason: v1alpha1.CompressionSoftwareUsed, Ratio: "4.00",
				UncompressedBytes: gib,
				CompressedBytes:   gib / 4, Software: v1alpha1.Operations{Operations: 1024, Bytes: gib},
				Reasons: map[string]int64{v1alpha1.CompressionSoftwareUsed: 1024},
			},
			CPU: &v1alpha1.CPUStatus{
				SendSeconds: "4.00", ReceiveSeconds: "3.00", CompressSeconds: "2.00", DecompressSeconds: "1.00",
			},
		},
	} {
		transfer := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		transfer.Spec.Source.PersistentVolumeClaim = v1alpha1.PersistentVolumeClaimPath{ClaimName: "source", Path: "/"}
		transfer.Spec.Destination.PersistentVolumeClaim.PersistentVolumeClaimPath = destination
		cluster.Create(t, transfer)
		transfer.Status = status
		update(t, cluster, transfer)
	}
	delivery := plan.NewDelivery(namespace, v1alpha1.DeliverySpec{
		Transfer:    v1alpha1.TransferReference{Namespace: namespace, Name: "ledger", Run: "7f3c", Attempt: 1},
		Destination: v1alpha1.DeliveryDestination{PersistentVolumeClaim: destination},
	})
	cluster.Create(t, delivery)
	delivery.Status.Run = &v1alpha1.RunStatus{ID: "7f3c", Attempt: 1, Node: "worker-2"}
	update(t, cluster, delivery)
	for _, name := range []string{"worker-1", "worker-2"} {
		profile := &v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
		cluster.Create(t, profile)
		profile.Status = v1alpha1.NodeProfileStatus{Cores: 2, Engines: []v1alpha1.EngineProfile{
			{Name: "isa-l", Codec: "deflate", Verified: true, Inflates: true, DecompressBytesPerSecond: 9e8,
				Levels: []v1alpha1.LevelProfile{
					{Level: v1alpha1.CompressionFast, CompressBytesPerSecond: 5e8, Ratio: "3.00", Selected: true},
				}},
			{Name: "libzstd", Codec: "zstd", Verified: true, Inflates: true, DecompressBytesPerSecond: 2e9,
				Levels: []v1alpha1.LevelProfile{
					{Level: v1alpha1.CompressionFast, CompressBytesPerSecond: 4e8, Ratio: "3.30", Selected: true},
				}},
		}}
		update(t, cluster, profile)
	}
}

func update(t *testing.T, cluster *controllertest.Cluster, object client.Object) {
	t.Helper()
	if err := cluster.Client.Status().Update(t.Context(), object); err != nil {
		t.Fatalf("updating the status of %T %s: %v", object, object.GetName(), err)
	}
}

// user makes one that may get the kinds, and returns the path of a kubeconfig that acts as it.
func user(t *testing.T, cluster *controllertest.Cluster, name string, kinds ...string) string {
	t.Helper()
	if len(kinds) > 0 {
		cluster.Allow(
			t, name,
			rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: kinds, Verbs: []string{"get"}},
		)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["east"] = &clientcmdapi.Cluster{
		Server: cluster.Config.Host, CertificateAuthorityData: cluster.Config.CAData,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: cluster.Config.CertData, ClientKeyData: cluster.Config.KeyData, Impersonate: name,
		ImpersonateGroups: []string{"system:authenticated"},
	}
	config.Contexts["east"] = &clientcmdapi.Context{Cluster: "east", AuthInfo: name, Namespace: namespace}
	config.CurrentContext = "east"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
