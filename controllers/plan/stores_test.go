// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

func readyStore(name, secret string) *v1alpha1.ObjectStore {
	return &v1alpha1.ObjectStore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name, UID: "u-1", Generation: 1},
		Spec: v1alpha1.ObjectStoreSpec{
			Endpoint: "https://s3.example", Bucket: "cargo", Prefix: "east",
			Credentials: &v1alpha1.StoreCredentials{SecretName: secret},
		},
		Status: v1alpha1.ObjectStoreStatus{Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPromisesKept,
			ObservedGeneration: 1,
		}}},
	}
}

func storePath(name, path string) *v1alpha1.ObjectStorePath {
	return &v1alpha1.ObjectStorePath{Name: name, Path: path}
}

// storeTransfer is one whose ends are stores where they are given, and claims otherwise.
func storeTransfer(from, to *v1alpha1.ObjectStorePath) (*v1alpha1.Transfer, plan.TransferFacts) {
	transfer, facts := newTransfer("nightly", time.Hour), goodFacts()
	transfer.Spec.Destination.Peer, facts.Peer = "", nil
	facts.Stores.Dial, facts.Local.Claim = &wirev1.DialPolicy{}, facts.Claim
	if from != nil {
		transfer.Spec.Source = v1alpha1.TransferSource{ObjectStore: from}
		facts.Stores.Source, facts.Claim = readyStore(from.Name, "from-keys"), nil
	}
	if to != nil {
		transfer.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: to}
		facts.Stores.Destination, facts.Local.Claim = readyStore(to.Name, "to-keys"), nil
	}
	return transfer, facts
}

func TestStoreAttempts(t *testing.T) {
	for name, test := range map[string]struct {
		from, to            *v1alpha1.ObjectStorePath
		claims, keys        []string
		source, target      string
		volume, destination string
	}{
		"to a store": {
			to: storePath("vault", "/a/b"), claims: []string{"ledger"}, keys: []string{"to-keys"}, target: "east/a/b",
			volume: "/volume",
		},
		"from a store": {
			from: storePath("vault", "/"), claims: []string{"copy"}, keys: []string{"from-keys"}, source: "east",
			destination: "/destination",
		},
		"between stores": {
			from: storePath("vault", "/a"), to: storePath("other", "/a"), keys: []string{"from-keys", "to-keys"},
			source: "east/a", target: "east/a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := storeTransfer(test.from, test.to)
			d := plan.DecideTransfer(transfer, facts, agentpod.Image{Name: "agent"})
			if d.Start == nil || d.Status.Run.Route != v1alpha1.RouteObjectStore {
				t.Fatalf("%+v", d.Status)
			}
			pod := d.Start.Job().Spec.Template.Spec
			var claims, keys []string
			for _, volume := range pod.Volumes {
				switch {
				case volume.PersistentVolumeClaim != nil:
					claims = append(claims, volume.PersistentVolumeClaim.ClaimName)
				case volume.Secret != nil && len(volume.Secret.Items) == 3:
					keys = append(keys, volume.Secret.SecretName)
				}
			}
			if strings.Join(claims, ",") != strings.Join(test.claims, ",") ||
				strings.Join(keys, ",") != strings.Join(test.keys, ",") || pod.Containers[0].Args[0] != "local" {
				t.Errorf("claims %q and Secrets %q in %+v", claims, keys, pod)
			}
			b, err := d.Start.Config()
			if err != nil {
				t.Fatal(err)
			}
			var config wirev1.LocalConfig
			if err := wirev1.UnmarshalConfig(b, &config); err != nil {
				t.Fatal(err)
			}
			if got := config.GetSourceStore().GetStore().GetPrefix(); got != test.source {
				t.Errorf("source %q, want %q", got, test.source)
			}
			if got := config.GetDestinationStore().GetStore().GetPrefix(); got != test.target {
				t.Errorf("destination %q, want %q", got, test.target)
			}
			if config.GetSend().GetVolume() != test.volume || config.GetReceive().GetVolume() != test.destination ||
				config.GetTransfer() == "" {
				t.Errorf("%s", b)
			}
			if a, b := config.GetSourceStore(), config.GetDestinationStore(); a != nil && b != nil &&
				a.GetStore().GetCredentialsDirectory() == b.GetStore().GetCredentialsDirectory() {
				t.Error("both stores have the same credentials")
			}
			if got := d.Start.Traffic().Stores; len(got) != len(test.keys) || got[0].Address != "s3.example:443" {
				t.Errorf("traffic %+v", got)
			}
			if plan.RunClaims(&v1alpha1.Transfer{Spec: transfer.Spec, Status: d.Status}) != nil {
				t.Error("its certificate lets it ask another cluster")
			}
			// What was decided stays until there is a Job.
			transfer.Status = d.Status
			again := plan.DecideTransfer(transfer, facts, agentpod.Image{Name: "agent"})
			first, _ := json.Marshal(d.Status)
			if second, _ := json.Marshal(again.Status); string(first) != string(second) || again.Start == nil {
				t.Errorf("status %s, then %s", first, second)
			}
		})
	}
}

func TestStoresThatAreNotReady(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*plan.StoreFacts)
		reason    string
		condition string
	}{
		"missing": {
			func(f *plan.StoreFacts) { f.Destination = nil }, v1alpha1.ReasonDestinationNotFound, v1alpha1.ConditionStalled,
		},
		"not probed": {
			func(f *plan.StoreFacts) { f.Destination.Status.Conditions = nil }, v1alpha1.ReasonProbing,
			v1alpha1.ConditionReconciling,
		},
		"changed since": {
			func(f *plan.StoreFacts) { f.Destination.Generation++ }, v1alpha1.ReasonProbing, v1alpha1.ConditionReconciling,
		},
		"denied": {func(f *plan.StoreFacts) {
			f.Destination.Status.Conditions[0].Status = metav1.ConditionFalse
			f.Destination.Status.Conditions[0].Reason = v1alpha1.ReasonStoreDenied
		}, v1alpha1.ReasonStoreDenied, v1alpha1.ConditionStalled},
		"address": {func(f *plan.StoreFacts) {
			f.Problem = &agentpod.Problem{Reason: v1alpha1.ReasonAddressNotAllowed, Message: "no"}
		}, v1alpha1.ReasonAddressNotAllowed, v1alpha1.ConditionStalled},
	} {
		transfer, facts := storeTransfer(nil, storePath("vault", "/"))
		test.change(&facts.Stores)
		d := plan.DecideTransfer(transfer, facts, agentpod.Image{})
		found := ""
		for _, c := range d.Status.Conditions {
			if c.Type == test.condition && c.Status == metav1.ConditionTrue {
				found = c.Reason
			}
		}
		if d.Start != nil || found != test.reason {
			t.Errorf("%s: %q in %+v", name, found, d.Status.Conditions)
		}
	}
}

func TestStoreSpecs(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.TransferSpec){
		"no name":     func(s *v1alpha1.TransferSpec) { s.Destination.ObjectStore.Name = "" },
		"a peer":      func(s *v1alpha1.TransferSpec) { s.Destination.Peer = "west" },
		"a namespace": func(s *v1alpha1.TransferSpec) { s.Destination.Namespace = "other" },
		"dots":        func(s *v1alpha1.TransferSpec) { s.Destination.ObjectStore.Path = "/a/../b" },
		"both":        func(s *v1alpha1.TransferSpec) { s.Destination.PersistentVolumeClaim.ClaimName = "x" },
		"the same place": func(s *v1alpha1.TransferSpec) {
			s.Source = v1alpha1.TransferSource{ObjectStore: storePath("vault", "/a/b")}
		},
	} {
		transfer, _ := storeTransfer(nil, storePath("vault", "/a"))
		if err := plan.ValidateTransfer(transfer.Spec); err != nil {
			t.Fatal(err)
		}
		change(&transfer.Spec)
		if err := plan.ValidateTransfer(transfer.Spec); err == nil {
			t.Errorf("%s: valid", name)
		}
	}
}

func TestStoreConflicts(t *testing.T) {
	older, facts := storeTransfer(nil, storePath("vault", "/a"))
	older.UID, older.Name, older.Namespace = "1", "older", "bank"
	younger := older.DeepCopy()
	younger.UID, younger.Name = "2", "younger"
	younger.CreationTimestamp = metav1.NewTime(older.CreationTimestamp.Add(time.Hour))
	for path, conflict := range map[string]bool{"/a": true, "/": true, "/a/b": true, "/b": false} {
		younger.Spec.Destination.ObjectStore = storePath("vault", path)
		facts.Others = []v1alpha1.Transfer{*older}
		d := plan.DecideTransfer(younger, facts, agentpod.Image{})
		if (d.Start == nil) != conflict {
			t.Errorf("%s: %+v", path, d.Status.Conditions)
		}
	}
}

func TestEphemeralDestination(t *testing.T) {
	transfer, facts := storeTransfer(storePath("vault", "/ledger"), nil)
	transfer.Spec.Destination = v1alpha1.TransferDestination{
		Ephemeral: &v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("3Gi")), StorageClassName: "fast"},
	}
	transfer.Spec.Inflate = v1alpha1.InflateSoftware
	facts.Local.Claim = nil
	decision := plan.DecideTransfer(transfer, facts, agentpod.Image{Name: "agent"})
	if decision.Start == nil {
		t.Fatalf("%+v", decision.Status.Conditions)
	}
	volumes := decision.Start.Job().Spec.Template.Spec.Volumes
	source := volumes[len(volumes)-1]
	if source.Name != "volume" || source.Ephemeral == nil || source.PersistentVolumeClaim != nil {
		t.Fatalf("%+v", source)
	}
	claim := source.Ephemeral.VolumeClaimTemplate
	if *claim.Spec.StorageClassName != "fast" || claim.Spec.Resources.Requests.Storage().String() != "3Gi" ||
		claim.Spec.AccessModes[0] != corev1.ReadWriteOnce || claim.Labels[v1alpha1.TransferLabel] != string(transfer.UID) {
		t.Errorf("%+v", claim)
	}
	config, err := decision.Start.Config()
	if err != nil || !strings.Contains(string(config), `"inflateInSoftware":true`) {
		t.Errorf("%v: %s", err, config)
	}
	if other := transfer.DeepCopy(); plan.DestinationKey(transfer) != plan.DestinationKey(other) {
		t.Error("the key changes")
	} else if other.Name = "another"; plan.DestinationKey(transfer) == plan.DestinationKey(other) {
		t.Error("two Transfers share an ephemeral volume")
	}
	transfer.Status = decision.Status
	if plan.WritesHere(transfer) {
		t.Error("it is said to write into a claim")
	}
	for name, change := range map[string]func(*v1alpha1.TransferSpec){
		"from a claim": func(s *v1alpha1.TransferSpec) {
			s.Source = v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "a"}}
			s.Inflate = ""
		},
		"into a claim as well": func(s *v1alpha1.TransferSpec) { s.Destination.PersistentVolumeClaim.ClaimName = "a" },
		"without a size":       func(s *v1alpha1.TransferSpec) { s.Destination.Ephemeral.Size = nil },
		"software into a store": func(s *v1alpha1.TransferSpec) {
			s.Destination = v1alpha1.TransferDestination{ObjectStore: storePath("other", "/")}
		},
	} {
		spec := transfer.Spec.DeepCopy()
		change(spec)
		if err := plan.ValidateTransfer(*spec); err == nil {
			t.Errorf("%s is valid", name)
		}
	}
}
