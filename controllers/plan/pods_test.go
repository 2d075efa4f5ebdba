// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	batchv1 "k8s.io/api/batch/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/plan"
)

func sendJob(t *testing.T, change func(*v1alpha1.Transfer, *plan.TransferFacts)) (*attempt.Attempt, *batchv1.Job) {
	t.Helper()
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	facts.PrivilegeAllowed = true
	if change != nil {
		change(transfer, &facts)
	}
	start := plan.DecideTransfer(transfer, facts, image).Start
	if start == nil {
		t.Fatal("nothing was started")
	}
	return start, start.Job()
}

func TestSendAttempt(t *testing.T) {
	start, job := sendJob(t, func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
		transfer.Spec.Source.PersistentVolumeClaim.Path = "/data/2026/"
		transfer.Spec.Destination.PersistentVolumeClaim.Path = "/"
	})
	if job.Name != "ledger-abcde-1" || job.Namespace != "bank" || len(job.OwnerReferences) != 1 ||
		job.Labels[v1alpha1.RunLabel] != "abcde" ||
		job.Labels[v1alpha1.TransferLabel] == "" || job.Labels[agentpod.ComponentLabel] != "send" {
		t.Errorf("%+v", job.ObjectMeta)
	}
	text, err := start.Config()
	if err != nil {
		t.Fatal(err)
	}
	config := &wirev1.SendConfig{}
	if err := protojson.Unmarshal(text, config); err != nil {
		t.Fatal(err)
	}
	if config.Path != "data/2026" || config.Destination.Path != "." || config.Destination.Namespace != "bank" ||
		config.GatewayEndpoint != "gateway.west.example:8443" ||
		!config.Verify || config.Volume != "/volume" || config.ControlAddress != ":9443" || config.Attempt != 1 ||
		config.Compression == nil {
		t.Errorf("%s", text)
	}
	secret := start.Secret(
		attempt.Secret{
			Config: text, KeyPair: pki.KeyPair{CertificatePEM: []byte("a"), KeyPEM: []byte("b")}, ClusterCA: []byte("c"),
			PeerCA: []byte("d"),
		},
	)
	for _, key := range []string{"config.json", "tls.crt", "tls.key", "cluster-ca.crt", "peer-ca.crt"} {
		if len(secret.Data[key]) == 0 {
			t.Errorf("the Secret lacks %s", key)
		}
	}
	pod := job.Spec.Template.Spec
	if claim := pod.Volumes[1].PersistentVolumeClaim; claim.ClaimName != "ledger" || !claim.ReadOnly ||
		!pod.Containers[0].VolumeMounts[1].ReadOnly {
		t.Errorf("the source is not read-only: %+v", claim)
	}
	restricted(t, pod)
	if environment := pod.Containers[0].Env; len(environment) != 1 || environment[0].Value != "483183820" {
		t.Errorf("%+v", environment)
	}
}

func TestReceiveAttempt(t *testing.T) {
	delivery := newDelivery("ledger-abcde-2-01234567", 2)
	delivery.Spec.Delete = true
	start := plan.ReceiveAttempt(delivery, true, placement.Plan{}, image)
	pod := start.Job().Spec.Template.Spec
	restricted(t, pod)
	if pod.Volumes[1].PersistentVolumeClaim.ReadOnly || pod.Containers[0].VolumeMounts[1].ReadOnly {
		t.Error("the destination cannot be written")
	}
	if probe := pod.Containers[0].StartupProbe; probe.TCPSocket.Port.IntValue() != 9443 {
		t.Errorf("%+v", probe)
	}
	text, err := start.Config()
	if err != nil {
		t.Fatal(err)
	}
	config := &wirev1.ReceiveConfig{}
	if err := protojson.Unmarshal(text, config); err != nil {
		t.Fatal(err)
	}
	if config.SenderName != "ledger" || config.SenderNamespace != "bank" || config.DataAddress != ":8443" ||
		config.Path != "books" || config.Attempt != 2 ||
		!config.AllowDelete {
		t.Errorf("%s", text)
	}
}

// TestReceiveAttemptAdmitsItsSender: a sender of this cluster connects from its namespace, another through the gateway.
func TestReceiveAttemptAdmitsItsSender(t *testing.T) {
	for peer, want := range map[string]string{"": "bank", "east": ""} {
		delivery := newDelivery("ledger-abcde-1-01234567", 1)
		delivery.Spec.Peer = peer
		traffic := plan.ReceiveAttempt(delivery, false, placement.Plan{}, image).Traffic()
		if !traffic.Receives || traffic.SenderNamespace != want {
			t.Errorf("of peer %q: %+v, want senders of %q", peer, traffic, want)
		}
	}
}

// A Peer that dials this cluster is asked through the cluster's own gateways, which the agent may reach.
func TestSendAttemptThroughATunnel(t *testing.T) {
	start, _ := sendJob(t, func(_ *v1alpha1.Transfer, facts *plan.TransferFacts) {
		facts.Peer.Spec.Endpoint, facts.Peer.Spec.Connection = "", v1alpha1.PeerListen
	})
	text, err := start.Config()
	if err != nil {
		t.Fatal(err)
	}
	config := &wirev1.SendConfig{}
	if err := wirev1.UnmarshalConfig(text, config); err != nil {
		t.Fatal(err)
	}
	if config.GetGatewayEndpoint() != image.Tunnels || config.GetGatewayTunnel() != "west.peer.lighterage.internal:443" ||
		!slices.Equal(start.Traffic().Gateways, []string{image.Tunnels}) || !strings.Contains(string(text), "critical") {
		t.Errorf("%s, traffic %+v", text, start.Traffic())
	}
}
