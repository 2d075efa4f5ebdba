// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package delivery_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/delivery"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/receiptkey"
)

// retention is short, so that a test can see it end.
const retention = 10 * time.Second

var (
	cluster *controllertest.Cluster
	agents  = &controllertest.Agents{}
	// cached reads what the manager knows.
	cached client.Client
)

func TestMain(m *testing.M) {
	os.Exit(controllertest.Main(m, &cluster, func() (func(), error) { return cluster.StartManager(setup) }))
}

func setup(mgr controllertest.Manager) error {
	cached = mgr.GetClient()
	return delivery.Setup(mgr, delivery.Options{
		Topology: mgr.Topology,
		Client:   mgr.GetClient(), Reader: mgr.GetAPIReader(), Reports: agentjob.Reports(mgr.Pool, "delivery", agents),
		Keys: receiptkey.New(receiptkey.Options{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{},
			Namespace: controllertest.OperatorNamespace, Cluster: "west",
		}),
		Attempts: agentjob.NewCluster(agentjob.Options{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Authority: cluster.Authority(), Lifetime: time.Hour,
		}),
		Recorder: mgr.GetEventRecorder("lighterage-delivery"), Clock: clock.RealClock{}, Cluster: "west",
		Image: agentpod.Image{Name: "registry.example/agent:test"}, Retention: retention, Concurrency: 8,
	})
}

type fixture struct {
	*testing.T
	namespace string
}

// prepare makes a namespace with a claim, and a Peer named after the namespace with a grant for its namespace bank.
func prepare(t *testing.T) *fixture {
	t.Parallel()
	f := &fixture{T: t, namespace: cluster.Namespace(t)}
	cluster.Claim(t, f.namespace, "copy")
	cluster.Peer(t, f.namespace)
	cluster.Create(t, f.grant())
	return f
}

func (f *fixture) grant() *v1alpha1.PeerGrant {
	return &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "all"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: f.namespace, Namespaces: []string{"bank"}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim}},
		},
	}
}

func (f *fixture) make(transfer string, attempt int32, path string) *v1alpha1.Delivery {
	return plan.NewDelivery(f.namespace, v1alpha1.DeliverySpec{
		Peer:     f.namespace,
		Transfer: v1alpha1.TransferReference{Namespace: "bank", Name: transfer, Run: "abcde", Attempt: attempt},
		Destination: v1alpha1.DeliveryDestination{
			PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: path},
		},
	})
}

// wait waits for the phase, and for the conditions to say one thing.
func (f *fixture) wait(d *v1alpha1.Delivery, phase v1alpha1.DeliveryPhase, conditionType, reason string) {
	f.Helper()
	controllertest.Eventually(f, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if d.Status.Phase != phase {
			return fmt.Errorf("phase %q, want %q: %+v", d.Status.Phase, phase, d.Status.Conditions)
		}
		return controllertest.Expect(d.Status.Conditions, conditionType, reason)
	})
}

// ends does something and waits for the phase that the Delivery has then until it is forgotten, which may be before
// anybody asks for it.
func (f *fixture) ends(d *v1alpha1.Delivery, phase v1alpha1.DeliveryPhase, conditionType, reason string, do func()) {
	f.Helper()
	cluster.See(f, &v1alpha1.DeliveryList{}, f.namespace, do, func(object client.Object) error {
		seen, ok := object.(*v1alpha1.Delivery)
		if !ok || seen.Name != d.Name || seen.Status.Phase != phase {
			return fmt.Errorf("%s is not %s: %+v", d.Name, phase, object)
		}
		seen.DeepCopyInto(d)
		return controllertest.Expect(seen.Status.Conditions, conditionType, reason)
	})
}

// run has the Delivery's pod run and become ready.
func (f *fixture) run(d *v1alpha1.Delivery) *corev1.Pod {
	f.Helper()
	f.wait(d, v1alpha1.DeliveryStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	var pod *corev1.Pod
	controllertest.Eventually(f, func() error {
		jobs := cluster.Jobs(f, f.namespace, v1alpha1.DeliveryLabel, string(d.UID))
		if len(jobs) != 1 {
			return fmt.Errorf("%d Jobs", len(jobs))
		}
		pod = cluster.RunPod(f, &jobs[0], "node-1")
		return nil
	})
	return pod
}

func encode(t testing.TB, report *wirev1.Report) string {
	t.Helper()
	text, err := protojson.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReceivesAndIsForgottenLater(t *testing.T) {
	f := prepare(t)
	d := f.make("ledger", 1, "/")
	cluster.Create(t, d)
	serverName := pki.ReceiveServerName(string(d.UID))
	agents.Say(serverName, &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_WAITING})
	pod := f.run(d)
	f.wait(d, v1alpha1.DeliveryWaiting, v1alpha1.ConditionReconciling, v1alpha1.ReasonOpening)
	if d.Status.Endpoint != "10.1.2.3:8443" || d.Status.ServerName != serverName {
		t.Fatalf("endpoint %q, server name %q", d.Status.Endpoint, d.Status.ServerName)
	}
	report := &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Architecture: "amd64",
		Progress:      &wirev1.Progress{Files: 1, FilesTotal: 2, Bytes: 50, BytesTotal: 100},
		Decompression: &wirev1.Decompression{Software: &wirev1.Operations{Operations: 1, Bytes: 50}},
		Cpu:           &wirev1.CPU{ReceiveNanos: 2e9, DecompressNanos: 1e9},
	}
	agents.Say(serverName, report)
	f.wait(d, v1alpha1.DeliveryReceiving, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	if d.Status.Progress.Percent != 50 || d.Status.CPU.ReceiveSeconds != "2.00" || d.Status.Run.Architecture != "amd64" {
		t.Fatalf("%+v %+v", d.Status.Progress, d.Status.CPU)
	}
	report.State = wirev1.AgentState_AGENT_STATE_SUCCEEDED
	f.ends(d, v1alpha1.DeliveryComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, func() {
		cluster.EndPod(t, pod, 0, encode(t, report))
	})
	if d.Status.Endpoint != "" || d.Status.ServerName != "" || d.Status.Decompression.Software.Operations != 1 {
		t.Fatalf("%+v", d.Status)
	}
	f.gone(d)
}

// gone waits for the Delivery, its Job and its Secret to be gone.
func (f *fixture) gone(d *v1alpha1.Delivery) {
	f.Helper()
	controllertest.Eventually(f, func() error {
		for name, object := range map[string]client.Object{
			d.Name: &v1alpha1.Delivery{}, attempt.SecretName(d.Name, d): &corev1.Secret{},
		} {
			err := cluster.Client.Get(context.Background(), client.ObjectKey{Namespace: d.Namespace, Name: name}, object)
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T %s is still there: %v", object, name, err)
			}
		}
		if jobs := cluster.Jobs(f, f.namespace, v1alpha1.DeliveryLabel, string(d.UID)); len(jobs) > 0 {
			return fmt.Errorf("%d Jobs are still there", len(jobs))
		}
		return nil
	})
}

func TestRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fixture, *v1alpha1.Delivery)
		reason string
	}{
		"unknown claim": {
			func(_ *fixture, d *v1alpha1.Delivery) { d.Spec.Destination.PersistentVolumeClaim.ClaimName = "none" },
			v1alpha1.ReasonDestinationNotFound,
		},
		"unknown peer": {
			func(f *fixture, d *v1alpha1.Delivery) {
				d.Spec.Peer = f.namespace + "-gone"
				*d = *plan.NewDelivery(f.namespace, d.Spec)
			},
			v1alpha1.ReasonPeerNotFound,
		},
		"not granted to another namespace, and the claim is not told of": {
			func(f *fixture, d *v1alpha1.Delivery) {
				spec := d.Spec
				spec.Transfer.Namespace, spec.Destination.PersistentVolumeClaim.ClaimName = "shop", "none"
				*d = *plan.NewDelivery(f.namespace, spec)
			},
			v1alpha1.ReasonNotGranted,
		},
		"mirror without leave": {
			func(_ *fixture, d *v1alpha1.Delivery) { d.Spec.Delete = true }, v1alpha1.ReasonNotGranted,
		},
		"keep owners without leave": {
			func(_ *fixture, d *v1alpha1.Delivery) { d.Spec.Privilege = v1alpha1.AgentPrivilegeKeepOwners },
			v1alpha1.ReasonNotGranted,
		},
		"place in use": {
			func(f *fixture, d *v1alpha1.Delivery) {
				other := f.make("other", 1, "/books")
				cluster.Create(f, other)
				f.run(other)
				d.Spec.Destination.PersistentVolumeClaim.Path = "/books/2026"
			},
			v1alpha1.ReasonDestinationInUse,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := prepare(t)
			d := f.make("ledger", 1, "/")
			test.change(f, d)
			f.ends(d, v1alpha1.DeliveryFailed, v1alpha1.ConditionStalled, test.reason, func() { cluster.Create(t, d) })
			if jobs := cluster.Jobs(t, f.namespace, v1alpha1.DeliveryLabel, string(d.UID)); len(jobs) != 0 {
				t.Fatalf("%d Jobs", len(jobs))
			}
		})
	}
}

func TestFailureOfTheAgent(t *testing.T) {
	f := prepare(t)
	d := f.make("ledger", 1, "/")
	cluster.Create(t, d)
	pod := f.run(d)
	f.ends(d, v1alpha1.DeliveryFailed, v1alpha1.ConditionStalled, v1alpha1.ReasonDestinationFull, func() {
		cluster.EndPod(t, pod, 1, encode(t, &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED,
			Failure: &wirev1.Failure{
				Reason: wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL, Message: "no space left",
			}}))
	})
}

func TestNewerAttemptWaitsForTheOlderOne(t *testing.T) {
	f := prepare(t)
	older := f.make("ledger", 1, "/")
	cluster.Create(t, older)
	pod := f.run(older)
	newer := f.make("ledger", 2, "/")
	cluster.Create(t, newer)
	f.wait(newer, v1alpha1.DeliveryPending, v1alpha1.ConditionReconciling, v1alpha1.ReasonPending)
	// What the gateway does when a newer attempt arrives.
	if err := cluster.Client.Delete(context.Background(), older); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	f.wait(newer, v1alpha1.DeliveryPending, v1alpha1.ConditionReconciling, v1alpha1.ReasonPending)
	// Nothing collects pods here.
	if err := cluster.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	f.gone(older)
	f.wait(newer, v1alpha1.DeliveryStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
}

func TestWithdrawn(t *testing.T) {
	f := prepare(t)
	d := f.make("ledger", 1, "/")
	cluster.Create(t, d)
	f.wait(d, v1alpha1.DeliveryStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	if err := cluster.Client.Delete(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	f.gone(d)
}

func TestRefusedByTheAPIServer(t *testing.T) {
	f := prepare(t)
	cluster.NoJobs(t, f.namespace)
	d := f.make("ledger", 1, "/")
	f.ends(d, v1alpha1.DeliveryFailed, v1alpha1.ConditionStalled, v1alpha1.ReasonAgentNotStarted, func() {
		cluster.Create(t, d)
	})
	message := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionStalled).Message
	if !strings.Contains(message, "the receiving cluster") || strings.Contains(message, "quota") ||
		d.Status.Run.CompletionTime == nil {
		t.Errorf("%q %+v", message, d.Status.Run)
	}
	f.gone(d)
}
