// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/plan"
)

// grantedVolume is a claim of which a peer may write /in, and mirror there if mirrored says so.
type grantedVolume struct {
	t      *testing.T
	root   string
	grants []v1alpha1.PeerGrant
}

func newGrantedVolume(t *testing.T, mirrored bool) *grantedVolume {
	v := &grantedVolume{t: t, root: t.TempDir(), grants: []v1alpha1.PeerGrant{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "from-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{"bank"}}},
			To: []v1alpha1.PeerGrantTo{
				{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "ledger-copy", Path: "/in", AllowDelete: mirrored},
			},
		},
	}}}
	for _, path := range []string{"in/old", "inner/kept", "out/kept", "kept"} {
		full := filepath.Join(v.root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte("kept"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// delivery is what a gateway that was asked for the directory would make, if the grants allow it.
func (v *grantedVolume) delivery(directory string, mirror bool) (*v1alpha1.Delivery, bool) {
	d := plan.NewDelivery("vault", v1alpha1.DeliverySpec{
		Peer:     "east",
		Transfer: v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "abcde", Attempt: 1},
		Destination: v1alpha1.DeliveryDestination{
			PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger-copy", Path: directory},
		},
		Delete: mirror,
	})
	return d, peergrant.Allowed(v.grants, peergrant.OfDelivery(d), time.Now())
}

// receive starts the receiving agent as the manager configures it, and returns a session of a sender that says what it
// likes.
func (v *grantedVolume) receive(d *v1alpha1.Delivery) (wirev1.Receiver_SessionClient, error) {
	v.t.Helper()
	text, err := plan.ReceiveAttempt(d, true, placement.Plan{}, agentpod.Image{}).Config()
	if err != nil {
		v.t.Fatal(err)
	}
	var config wirev1.ReceiveConfig
	if err := protojson.Unmarshal(text, &config); err != nil {
		v.t.Fatal(err)
	}
	destination, err := tree.OpenDestination(v.root, config.GetPath(), config.GetRunId(), config.GetAttempt())
	if err != nil {
		return nil, err
	}
	v.t.Cleanup(func() { _ = destination.Close() })
	receiver := receive.New(receive.Options{
		RunID: config.GetRunId(), Attempt: config.GetAttempt(), Sender: "bank/ledger",
		Destination: receive.Tree{Destination: destination},
		AllowDelete: config.GetAllowDelete(), Engines: engines.Default(), Report: receive.NewReport(),
	})
	ended := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		_ = receiver.Wait(ctx)
	}()
	v.t.Cleanup(func() { stop(); <-ended })
	const name = "receiver.example"
	east, west := transporttest.NewAuthority(v.t, "east"), transporttest.NewAuthority(v.t, "west")
	server := transport.NewDataServer(transport.NewFiles(
		west.Directory(v.t, east, "/ns/vault/delivery/d", name),
	), transport.Sender{Namespace: "bank", Name: "ledger"},
		receiver.ServeBlocks)
	wirev1.RegisterReceiverServer(server, receiver)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		v.t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	v.t.Cleanup(server.Stop)
	conn, err := (&transport.Dialer{
		Address: listener.Addr().String(),
		Files:   transport.NewFiles(east.Directory(v.t, west, "/ns/bank/transfer/ledger", "")),
	}).Dial(name)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { conn.Close() })
	calling, cancel := context.WithTimeout(context.Background(), patience)
	v.t.Cleanup(cancel)
	session, err := wirev1.NewReceiverClient(conn).Session(calling)
	if err != nil {
		v.t.Fatal(err)
	}
	return session, nil
}

// untouched sees that every file is there.
func (v *grantedVolume) untouched() {
	v.t.Helper()
	for _, path := range []string{"in/old", "inner/kept", "out/kept", "kept"} {
		if b, err := os.ReadFile(filepath.Join(v.root, path)); err != nil || string(b) != "kept" {
			v.t.Errorf("%s is %q, %v", path, b, err)
		}
	}
}

// M7: a sender that may write, and opened its run without mirroring, asks the receiving agent to mirror nothing at all
// into the place.
func TestPeerMirrorsWithoutAGrantToDelete(t *testing.T) {
	v := newGrantedVolume(t, false)
	if _, ok := v.delivery("/in", true); ok {
		t.Fatal("mirroring is granted")
	}
	d, ok := v.delivery("/in", false)
	if !ok {
		t.Fatal("writing is not granted")
	}
	session, err := v.receive(d)
	if err != nil {
		t.Fatal(err)
	}
	err = session.Send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Begin{Begin: &wirev1.Begin{
		ProtocolVersion: wirev1.ProtocolVersion, RunId: "abcde", Attempt: 1, Codecs: []uint32{1}, ChunkSize: 64 << 10,
		Mirror: &wirev1.Mirror{AllowEmptySource: true},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := session.Recv()
	if err != nil || answer.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED {
		t.Errorf("the receiving agent answers %v, %v", answer, err)
	}
	v.untouched()
}

// M7: a sender leaves a symbolic link in the directory that it may write, and names it as the destination of its next
// run.
func TestPeerLeavesItsDirectoryByALink(t *testing.T) {
	v := newGrantedVolume(t, true)
	for name, target := range map[string]string{"up": "..", "out": "../out", "absolute": v.root, "none": "../new"} {
		if err := os.Symlink(target, filepath.Join(v.root, "in", name)); err != nil {
			t.Fatal(err)
		}
		for _, directory := range []string{"/in/" + name, "/in/" + name + "/sub"} {
			d, ok := v.delivery(directory, true)
			if !ok {
				t.Fatalf("%s is not in /in", directory)
			}
			if _, err := v.receive(d); err == nil {
				t.Errorf("the receiving agent opened %s, which leads to %s", directory, target)
			}
		}
	}
	for _, directory := range []string{"/", "/out", "/inner", "/in/..", "/in/../out", "/in/up/../../out", "//out", "in"} {
		if _, ok := v.delivery(directory, false); ok {
			t.Errorf("%s is granted", directory)
		}
	}
	v.untouched()
	if _, err := os.Stat(filepath.Join(v.root, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made outside of the directory: %v", err)
	}
}
