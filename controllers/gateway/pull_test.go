// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

const pullUID = "0e5a9b1c-3f6d-4c55-9d0a-6f0f2a0b7c11"

func pullOf(claim string) *wirev1.PullRequest {
	return &wirev1.PullRequest{
		ProtocolVersion: wirev1.ProtocolVersion, Namespace: "bank", Name: "ledger", Uid: pullUID, Run: "7f3ca",
		Source:    &wirev1.ClaimPath{Namespace: "vault", ClaimName: claim, Path: "/data"},
		ClaimName: "copy", Path: "/books",
		Options: &wirev1.PullOptions{Include: []string{"*.csv"}, Verify: true, MaxAttempts: 3, Delete: true},
	}
}

func readGrant(peer, claim string) *v1alpha1.PeerGrant {
	grant := grantOf("vault", peer, "bank", claim)
	grant.Spec.To[0].Verbs, grant.Spec.To[0].Path = []v1alpha1.GrantedVerb{v1alpha1.GrantedRead}, "/data"
	return grant
}

func (w *west) pulled() []v1alpha1.Transfer {
	w.t.Helper()
	var list v1alpha1.TransferList
	if err := w.api.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func (w *west) pull(ca *pki.CA, identity pki.Identity, request *wirev1.PullRequest) (*wirev1.PullResponse, error) {
	return w.dial(issue(w.t, ca, identity, time.Now())).Pull(context.Background(), request)
}

func TestPullMakesATransfer(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), readGrant("east", "ledger"))
	answer, err := w.pull(east, manager("east"), pullOf("ledger"))
	if err != nil {
		t.Fatal(err)
	}
	all := w.pulled()
	if len(all) != 1 || all[0].Namespace != "vault" || all[0].Name != plan.PullName("bank", "ledger", pullUID) ||
		answer.GetTransfer() != all[0].Name {
		t.Fatalf("%v, %+v", answer, all)
	}
	made := all[0]
	if to := made.Spec.Destination; to.Peer != "east" || to.Namespace != "bank" ||
		to.PersistentVolumeClaim.ClaimName != "copy" || to.PersistentVolumeClaim.Path != "/books" {
		t.Errorf("it sends to %+v", to)
	}
	if made.Spec.PodTemplate != nil || made.Spec.Source.Hooks != nil ||
		made.Spec.Source.CopyMethod != v1alpha1.CopyDirect || !made.Spec.Delete || made.Spec.MaxAttempts != 3 {
		t.Errorf("spec is %+v", made.Spec)
	}

	// Asked again, nothing is written.
	if _, err = w.pull(east, manager("east"), pullOf("ledger")); err != nil {
		t.Fatal(err)
	}
	if after := w.pulled(); len(after) != 1 || after[0].ResourceVersion != made.ResourceVersion {
		t.Errorf("asking again changed it: %+v", after)
	}
	changed := pullOf("ledger")
	changed.Pause, changed.Run = true, "7f3cb"
	if _, err = w.pull(east, manager("east"), changed); err != nil {
		t.Fatal(err)
	}
	if after := w.pulled()[0]; !after.Spec.Pause || after.Annotations[v1alpha1.RunAnnotation] != "7f3cb" {
		t.Errorf("%+v, %v", after.Spec, after.Annotations)
	}

	// The run is under way.
	made = w.pulled()[0]
	made.Status.Phase, made.Status.LastRunRequest = v1alpha1.TransferTransferring, "7f3cb"
	made.Status.Run = &v1alpha1.RunStatus{ID: "abcde", Attempt: 2}
	if err := w.api.Status().Update(context.Background(), &made); err != nil {
		// Of the API in memory the status is no subresource of Transfers.
		if err := w.api.Update(context.Background(), &made); err != nil {
			t.Fatal(err)
		}
	}
	answer, err = w.pull(east, manager("east"), changed)
	if err != nil || answer.GetRun() != "7f3cb" || answer.GetRunId() != "abcde" || answer.GetAttempt() != 2 ||
		answer.GetPhase() != string(v1alpha1.TransferTransferring) {
		t.Errorf("%v, %v", answer, err)
	}
}

// TestPullWithoutAGrant: who may not read gets the same answer whether there is something or not.
func TestPullWithoutAGrant(t *testing.T) {
	east, north := newCA(t, "east"), newCA(t, "north")
	write := grantOf("vault", "east", "bank", "written")
	expired := readGrant("east", "expired")
	expired.Name, expired.Spec.ExpirationTime = "expired", &metav1.Time{Time: time.Now().Add(-time.Hour)}
	other := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{
		Namespace: "vault", Name: plan.PullName("bank", "ledger", pullUID),
	}}
	given := readGrant("east", "ledger")
	given.Name = "read"
	w := newWest(t, nil, peerOf("east", east), peerOf("north", north), given, write, expired, other)
	elsewhere := pullOf("ledger")
	elsewhere.Source.Path = "/"
	fromShop := pullOf("ledger")
	fromShop.Namespace = "shop"
	for name, c := range map[string]struct {
		ca      *pki.CA
		cluster string
		request *wirev1.PullRequest
	}{
		"no grant":          {east, "east", pullOf("payroll")},
		"a grant to write":  {east, "east", pullOf("written")},
		"expired":           {east, "east", pullOf("expired")},
		"another directory": {east, "east", elsewhere},
		"another namespace": {east, "east", fromShop},
		"another peer":      {north, "north", pullOf("ledger")},
		"a peer that lies":  {north, "east", pullOf("ledger")},
	} {
		_, err := w.pull(c.ca, manager(c.cluster), c.request)
		t.Run(name, func(t *testing.T) { refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED) })
	}
	// A Transfer is no manager, and another's Transfer is not taken for the pull's.
	_, err := w.pull(east, sender("east"), pullOf("ledger"))
	refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED)
	_, err = w.pull(east, manager("east"), pullOf("ledger"))
	refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_ABORTED)
	if all := w.pulled(); len(all) != 1 || all[0].ResourceVersion != w.version(other) {
		t.Errorf("something was made or changed: %+v", all)
	}
}

func (w *west) version(object client.Object) string {
	w.t.Helper()
	var found v1alpha1.Transfer
	if err := w.api.Get(context.Background(), client.ObjectKeyFromObject(object), &found); err != nil {
		w.t.Fatal(err)
	}
	return found.ResourceVersion
}

func TestPullsOfANamespaceAreBounded(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, func(o *gateway.Options) { o.PullsPerNamespace = 1 }, peerOf("east", east), readGrant("east", ""))
	if _, err := w.pull(east, manager("east"), pullOf("ledger")); err != nil {
		t.Fatal(err)
	}
	second := pullOf("ledger")
	second.Name = "second"
	answer, err := w.pull(east, manager("east"), second)
	if err != nil || answer.GetReason() != v1alpha1.ReasonQuotaExceeded || len(w.pulled()) != 1 {
		t.Fatalf("%v, %v, %d", answer, err, len(w.pulled()))
	}
	ended := w.pulled()[0]
	ended.Status.Run = &v1alpha1.RunStatus{ID: "abcde", CompletionTime: &metav1.Time{Time: time.Now()}}
	if err := w.api.Update(context.Background(), &ended); err != nil {
		t.Fatal(err)
	}
	if _, err = w.pull(east, manager("east"), second); err != nil {
		t.Fatal(err)
	}
	if all := w.pulled(); len(all) != 1 || all[0].DeletionTimestamp.IsZero() {
		t.Errorf("what has ended makes no space: %+v", all)
	}
}

// full is a cluster that does not admit what is created.
type full struct {
	client.Client
	err error
}

func (f full) Create(context.Context, client.Object, ...client.CreateOption) error { return f.err }

// TestPullThatIsNotAdmitted: a quota may have room later, and what is not valid stays so.
func TestPullThatIsNotAdmitted(t *testing.T) {
	east, kind := newCA(t, "east"), schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "Transfer"}
	west := func(err error) *west {
		return newWest(t, func(o *gateway.Options) { o.Client = full{o.Client, err} }, peerOf("east", east),
			readGrant("east", "ledger"))
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "transfers"}, "x", errors.New("exceeded"))
	answer, err := west(forbidden).pull(east, manager("east"), pullOf("ledger"))
	if err != nil || answer.GetReason() != v1alpha1.ReasonQuotaExceeded || answer.GetPhase() != "Pending" {
		t.Errorf("%v, %v", answer, err)
	}
	_, err = west(apierrors.NewInvalid(kind, "x", nil)).pull(east, manager("east"), pullOf("ledger"))
	refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA)
}

// switchedOff is an API server for a gateway without the role lighterage-pulls.
type switchedOff struct{ client.Reader }

func (s switchedOff) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption,
) error {
	if _, transfer := into.(*v1alpha1.Transfer); transfer {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "transfers"}, key.Name, errors.New("no role"))
	}
	return s.Reader.Get(ctx, key, into, options...)
}

// TestPullsSwitchedOff: who has a grant hears of it, and a Transfer that pulled can be deleted.
func TestPullsSwitchedOff(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, func(o *gateway.Options) { o.Reader = switchedOff{o.Reader} }, peerOf("east", east),
		readGrant("east", "ledger"))
	_, err := w.pull(east, manager("east"), pullOf("ledger"))
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("want FailedPrecondition, got %v", err)
	}
	refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED)
	_, err = w.dial(issue(t, east, manager("east"), time.Now())).Withdraw(context.Background(), &wirev1.WithdrawRequest{
		Namespace: "bank", Name: "ledger", Pull: &wirev1.PullName{Namespace: "vault", Uid: pullUID},
	})
	if err != nil {
		t.Errorf("withdrawn: %v", err)
	}
}

func TestWithdrawnPull(t *testing.T) {
	east, north := newCA(t, "east"), newCA(t, "north")
	w := newWest(t, nil, peerOf("east", east), peerOf("north", north), readGrant("east", "ledger"))
	if _, err := w.pull(east, manager("east"), pullOf("ledger")); err != nil {
		t.Fatal(err)
	}
	withdraw := func(ca *pki.CA, cluster, uid string) error {
		_, err := w.dial(issue(t, ca, manager(cluster), time.Now())).Withdraw(context.Background(), &wirev1.WithdrawRequest{
			Namespace: "bank", Name: "ledger", Pull: &wirev1.PullName{Namespace: "vault", Uid: uid},
		})
		return err
	}
	for _, err := range []error{withdraw(north, "north", pullUID), withdraw(east, "east", "1"+pullUID[1:])} {
		if err != nil {
			t.Error(err)
		}
	}
	if !w.pulled()[0].DeletionTimestamp.IsZero() {
		t.Fatal("somebody else ended it")
	}
	if err := withdraw(east, "east", pullUID); err != nil || w.pulled()[0].DeletionTimestamp.IsZero() {
		t.Errorf("it is not ended: %v", err)
	}
	answer, err := w.pull(east, manager("east"), pullOf("ledger"))
	if err != nil || answer.GetReason() != v1alpha1.ReasonDeleting {
		t.Errorf("%v, %v", answer, err)
	}
}

func TestPullIsValidated(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), readGrant("east", ""))
	for name, change := range map[string]func(*wirev1.PullRequest){
		"uid":        func(r *wirev1.PullRequest) { r.Uid = "u/../../x" },
		"run":        func(r *wirev1.PullRequest) { r.Run = "Run 1" },
		"namespace":  func(r *wirev1.PullRequest) { r.Source.Namespace = "../vault" },
		"name":       func(r *wirev1.PullRequest) { r.Name = "a/b" },
		"claim":      func(r *wirev1.PullRequest) { r.Source.ClaimName = "" },
		"path":       func(r *wirev1.PullRequest) { r.Source.Path = "/data/../.." },
		"written":    func(r *wirev1.PullRequest) { r.ClaimName = "A" },
		"streams":    func(r *wirev1.PullRequest) { r.Options.Streams = 1000 },
		"bandwidth":  func(r *wirev1.PullRequest) { r.Options.BandwidthLimit = 1 },
		"checkpoint": func(r *wirev1.PullRequest) { r.Options.CheckpointInterval = 1 << 63 },
	} {
		request := proto.CloneOf(pullOf("ledger"))
		change(request)
		_, err := w.pull(east, manager("east"), request)
		t.Run(name, func(t *testing.T) { refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) })
	}
	old := pullOf("ledger")
	old.ProtocolVersion = 1
	_, err := w.pull(east, manager("east"), old)
	refusedWith(t, err, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE)
	if len(w.pulled()) > 0 {
		t.Errorf("something was made: %v", status.Code(err))
	}
}
