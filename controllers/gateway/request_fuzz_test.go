// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// FuzzRequest holds that whatever a peer sends either is refused or makes a Delivery that the API server takes.
func FuzzRequest(f *testing.F) {
	f.Add("bank", "ledger", "7f3ca", uint32(1), "vault", "ledger-copy", "/", "fast", "ReadWriteMany", uint64(1<<30), "uid-1", uint32(3), uint32(7))
	f.Add("bank", strings.Repeat("a.", 100)+"b", "a", uint32(999_999), "vault", "c", "/a//b/", "", "ReadWriteOnce,ReadWriteOnce", uint64(1), "", uint32(100), uint32(1))
	f.Add("bank", "a", "../..", uint32(0), "..", "", "/a/../b", "../x", "ReadOnlyMany", uint64(1<<63), "-", uint32(0), uint32(1<<32-1))
	f.Fuzz(func(
		t *testing.T, namespace, name, run string, attempt uint32, toNamespace, claim, directory, class, modes string,
		size uint64, uid string, last, daily uint32,
	) {
		claims := pki.RunClaims{Run: run, Namespace: toNamespace, Claim: claim}
		claims.Path, _ = cleanPath(directory)
		r, err := newRequest(caller{
			peer: "east", identity: pki.TransferIdentity("east", namespace, name), claims: claims,
		}, &wirev1.OpenRequest{
			ProtocolVersion: wirev1.ProtocolVersion, RunId: run, Attempt: attempt,
			Destination: &wirev1.ClaimPath{Namespace: toNamespace, ClaimName: claim, Path: directory},
			Template:    &wirev1.ClaimTemplate{StorageClassName: class, AccessModes: strings.Split(modes, ","), Size: size},
			Snapshot: &wirev1.SnapshotRequest{
				TransferUid: uid, VolumeSnapshotClassName: class, Last: last, Daily: daily, Hourly: last, Yearly: daily,
			},
		})
		if err != nil {
			if failureOf(err).GetMessage() == "" {
				t.Fatalf("a refusal without words: %v", err)
			}
			return
		}
		made := newDelivery(r)
		if problems := validation.IsDNS1123Subdomain(made.Name); len(problems) > 0 ||
			len(made.Name) > validation.DNS1123LabelMaxLength {
			t.Errorf("name %q: %v", made.Name, problems)
		}
		if problems := validation.IsDNS1123Label(made.Namespace); len(problems) > 0 {
			t.Errorf("namespace %q: %v", made.Namespace, problems)
		}
		for key, value := range made.Labels {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("label %s is %q: %v", key, value, problems)
			}
		}
		template := made.Spec.Destination.Template
		if bytes := template.Size.Value(); bytes < 1 || bytes > plan.MaxClaimSize || len(template.AccessModes) > 3 ||
			template.StorageClassName != "" && len(validation.IsDNS1123Subdomain(template.StorageClassName)) > 0 {
			t.Errorf("template %+v", template)
		}
		kept, labels := made.Spec.Destination.Snapshot, plan.DeliveryHistory(made).Labels(run)
		if n := kept.Retention.Total(); n < 1 || n > 100 || len(kept.TransferUID) < 1 || len(kept.TransferUID) > 63 {
			t.Errorf("snapshot %+v", kept)
		}
		for key, value := range labels {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("label %s is %q: %v", key, value, problems)
			}
		}
		got := made.Spec.Destination.PersistentVolumeClaim.Path
		if !path.IsAbs(got) || path.Clean(got) != got || len(got) > maxPathLength || strings.ContainsRune(got, 0) {
			t.Errorf("path %q", got)
		}
		for _, element := range strings.Split(got, "/") {
			if element == "." || element == ".." {
				t.Errorf("path %q leads elsewhere", got)
			}
		}
	})
}

// FuzzRedeem holds that whatever a stranger sends is rejected in words, and redeems nothing.
func FuzzRedeem(f *testing.F) {
	now := time.Now()
	token, err := link.NewToken("west", "a:1", [32]byte{}, now)
	if err != nil {
		f.Fatal(err)
	}
	records, err := token.Add(nil, now)
	if err != nil {
		f.Fatal(err)
	}
	ca, _, err := pki.NewCA("east", now)
	if err != nil {
		f.Fatal(err)
	}
	valid, err := proto.Marshal(&wirev1.RedeemRequest{
		TokenId: token.ID(), Key: make([]byte, 32), Name: "east", CaBundle: ca.CertificatePEM, Seal: make([]byte, 32),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add([]byte("\x0a\x08aaaaaaaa"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		in := &wirev1.RedeemRequest{}
		if len(sent) > maxMessageBytes || proto.Unmarshal(sent, in) != nil {
			return
		}
		offer, err := offerOf(in)
		if err != nil {
			if failureOf(err).GetMessage() == "" {
				t.Errorf("a refusal without words: %v", err)
			}
			return
		}
		if _, err := link.Redeem(records, in.GetTokenId(), in.GetKey(), offer, now); !errors.Is(err, link.ErrRejected) {
			t.Errorf("%v", err)
		}
	})
}

// FuzzPull holds that whatever a peer asks for either is refused or makes a Transfer that the API server takes, that is
// known again as the pull's, and that has nothing of which the source decides.
func FuzzPull(f *testing.F) {
	f.Add("bank", "ledger", "0e5a9b1c-3f6d-4c55-9d0a-6f0f2a0b7c11", "7f3ca", "vault", "ledger", "/data", "/", uint32(4), uint64(1<<30))
	f.Add("bank", "a/b", "x", "", "..", "", "/a/../b", "", uint32(1<<31), uint64(1<<63))
	f.Fuzz(func(
		t *testing.T, namespace, name, uid, run, from, claim, source, destination string, number uint32, size uint64,
	) {
		made, of, err := newPull("east", &wirev1.PullRequest{
			ProtocolVersion: wirev1.ProtocolVersion, Namespace: namespace, Name: name, Uid: uid, Run: run,
			Source:    &wirev1.ClaimPath{Namespace: from, ClaimName: claim, Path: source},
			ClaimName: claim, Path: destination,
			Options: &wirev1.PullOptions{
				Streams: number, MaxAttempts: number, CheckpointInterval: size, BandwidthLimit: size, Include: []string{name},
			},
		}, time.Now())
		if err != nil {
			if failureOf(err).GetMessage() == "" {
				t.Fatalf("a refusal without words: %v", err)
			}
			return
		}
		if is, pulled := plan.PulledFor(made); !pulled || is != of || of.Peer != "east" {
			t.Errorf("it is not known again: %+v", made.ObjectMeta)
		}
		if problems := validation.IsDNS1123Label(made.Namespace); len(problems) > 0 {
			t.Errorf("namespace %q: %v", made.Namespace, problems)
		}
		if made.Spec.PodTemplate != nil || made.Spec.Source.Hooks != nil || made.Spec.Source.Peer != "" ||
			made.Spec.Destination.Peer != "east" || made.Spec.MaxAttempts > 100 || made.Spec.Streams > 16 {
			t.Errorf("spec is %+v", made.Spec)
		}
		if !path.IsAbs(made.Spec.Source.PersistentVolumeClaim.Path) {
			t.Errorf("path is %q", made.Spec.Source.PersistentVolumeClaim.Path)
		}
	})
}
