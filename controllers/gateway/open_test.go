// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/pki"
)

func TestOpen(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), anyVerb(grantOf("vault", "east", "bank", "ledger-copy")))
	request := ledger("7f3ca", 1)
	request.Privileged, request.Mirror = true, true
	s := open(t, w.dial(issue(t, east, sender("east"), time.Now())), request)
	if message := s.pending(); !strings.Contains(message, "start its agent") {
		t.Errorf("message %q", message)
	}
	key := ledgerKey("7f3ca", 1)
	w.say(key, conditions.Reconciling(v1alpha1.ReasonStarting, "Waiting for a node"))
	if message := s.pending(); message != "Waiting for a node" {
		t.Errorf("message %q", message)
	}
	name := w.ready(key, "10.0.0.7:8443")
	if got := s.next().GetReady().GetServerName(); got != name {
		t.Errorf("server name %q, want %q", got, name)
	}
	made := w.deliveries()
	if len(made) != 1 {
		t.Fatalf("%d Deliveries", len(made))
	}
	want := v1alpha1.DeliverySpec{
		Peer:     "east",
		Transfer: v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "7f3ca", Attempt: 1},
		Destination: v1alpha1.DeliveryDestination{
			PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger-copy", Path: "/"},
		},
		Privilege: v1alpha1.AgentPrivilegeKeepOwners,
		Delete:    true,
	}
	if made[0].Spec != want {
		t.Errorf("spec %+v, want %+v", made[0].Spec, want)
	}
}

// What scheduler, kubelet and container runtime say of the receiving agent's pod stays in the receiving cluster; the
// peer learns the reason.
func TestOpenTellsNothingOfNodes(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
	c := w.dial(issue(t, east, sender("east"), time.Now()))
	const detail = "17 nodes, taint gpu-pool, registry.internal, pvc-4711"
	hides := func(message, reason string) {
		t.Helper()
		if strings.Contains(message, detail) || !strings.Contains(message, reason) {
			t.Errorf("%s: the peer reads %q", reason, message)
		}
	}
	s := open(t, c, ledger("7f3ca", 1))
	s.pending()
	key := ledgerKey("7f3ca", 1)
	for _, reason := range []string{v1alpha1.ReasonUnschedulable, v1alpha1.ReasonAgentNotStarted} {
		w.say(key, conditions.Reconciling(reason, detail))
		hides(s.pending(), reason)
	}
	for reason, wire := range map[string]wirev1.FailureReason{
		v1alpha1.ReasonUnschedulable:   wirev1.FailureReason_FAILURE_REASON_UNSCHEDULABLE,
		v1alpha1.ReasonAgentNotStarted: wirev1.FailureReason_FAILURE_REASON_AGENT_NOT_STARTED,
		v1alpha1.ReasonAgentLost:       wirev1.FailureReason_FAILURE_REASON_AGENT_LOST,
		v1alpha1.ReasonEvicted:         wirev1.FailureReason_FAILURE_REASON_EVICTED,
	} {
		w.say(key, conditions.Stalled(reason, detail))
		hides(open(t, c, ledger("7f3ca", 1)).refused(wire), reason)
	}
}

// A run that waits is told as soon as its Delivery has changed, and not only when the clock says so.
func TestOpenIsWoken(t *testing.T) {
	east := newCA(t, "east")
	never := func(o *gateway.Options) { o.PollInterval = time.Hour }
	w := newWest(t, never, peerOf("east", east), anyVerb(grantOf("vault", "east", "bank", "ledger-copy")))
	s := open(t, w.dial(issue(t, east, sender("east"), time.Now())), ledger("7f3ca", 1))
	s.pending()
	name := w.ready(ledgerKey("7f3ca", 1), "10.0.0.7:8443")
	w.Gateway.DeliveryChanged(&w.deliveries()[0], false)
	if got := s.next().GetReady().GetServerName(); got != name {
		t.Errorf("server name %q, want %q", got, name)
	}
}

// A stream that broke may be opened again, at any gateway.
func TestOpenAgain(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), anyVerb(grantOf("vault", "east", "bank", "ledger-copy")))
	certificate := issue(t, east, sender("east"), time.Now())
	open(t, w.dial(certificate), ledger("7f3ca", 1)).pending()
	first := w.deliveries()[0].UID
	second := open(t, w.dial(certificate), ledger("7f3ca", 1))
	second.pending()
	name := w.ready(ledgerKey("7f3ca", 1), "10.0.0.7:8443")
	if got := second.next().GetReady().GetServerName(); got != name {
		t.Errorf("server name %q, want %q", got, name)
	}
	if again := open(t, w.dial(certificate), ledger("7f3ca", 1)).next().GetReady().GetServerName(); again != name {
		t.Errorf("server name %q, want %q", again, name)
	}
	if made := w.deliveries(); len(made) != 1 || made[0].UID != first {
		t.Errorf("the Delivery was made again: %v", made)
	}
	elsewhere := ledger("7f3ca", 1)
	elsewhere.Destination.Path = "/elsewhere"
	other := issueFor(t, east, sender("east"), time.Now(), func(c *pki.RunClaims) { c.Path = "/elsewhere" })
	open(t, w.dial(other), elsewhere).refused(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA)
	mirror := ledger("7f3ca", 1)
	mirror.Mirror = true
	privileged := ledger("7f3ca", 1)
	privileged.Privileged = true
	template := ledger("7f3ca", 1)
	template.Template = &wirev1.ClaimTemplate{Size: 1}
	for _, request := range []*wirev1.OpenRequest{mirror, privileged, template} {
		open(t, w.dial(certificate), request).refused(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA)
	}
}

// The Delivery has the template of the claim, also when it is opened again. Whether it may be created is not the
// gateway's to say, which does not see whether it exists.
func TestTemplateOfTheClaim(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
	certificate := issue(t, east, sender("east"), time.Now())
	request := ledger("7f3ca", 1)
	request.Template = &wirev1.ClaimTemplate{
		StorageClassName: "fast", AccessModes: []string{"ReadWriteMany"}, Size: 12 << 30, Written: true,
	}
	for range 2 {
		open(t, w.dial(certificate), request).pending()
	}
	made := w.deliveries()
	if len(made) != 1 {
		t.Fatal(made)
	}
	if got := made[0].Spec.Destination.Template; got == nil || got.StorageClassName != "fast" ||
		got.Size.Value() != 12<<30 || !got.Written || len(got.AccessModes) != 1 || got.AccessModes[0] != "ReadWriteMany" {
		t.Errorf("%+v", got)
	}
}

// The Delivery has the volume mode of the source, if the sender tells it.
func TestVolumeModeOfTheSource(t *testing.T) {
	for want, block := range map[corev1.PersistentVolumeMode]*bool{
		"": nil, corev1.PersistentVolumeFilesystem: new(false), corev1.PersistentVolumeBlock: new(true),
	} {
		east := newCA(t, "east")
		w := newWest(t, nil, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
		request := ledger("7f3ca", 1)
		request.Block = block
		open(t, w.dial(issue(t, east, sender("east"), time.Now())), request).pending()
		if made := w.deliveries(); len(made) != 1 || made[0].Spec.SourceVolumeMode != want {
			t.Errorf("want %q: %+v", want, made)
		}
	}
}

func TestNewerAttemptReplaces(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
	now := time.Now()
	old := w.dial(issue(t, east, sender("east"), now.Add(-time.Minute)))
	oldStream := open(t, old, ledger("7f3ca", 1))
	oldStream.pending()

	second := open(t, w.dial(issue(t, east, sender("east"), now)), ledger("7f3ca", 2))
	if message := second.pending(); !strings.Contains(message, "attempt 1 of run 7f3ca") {
		t.Errorf("message %q", message)
	}
	oldStream.refused(wirev1.FailureReason_FAILURE_REASON_ABORTED)
	w.release(ledgerKey("7f3ca", 1))
	second.pending()
	open(t, old, ledger("7f3ca", 1)).refused(wirev1.FailureReason_FAILURE_REASON_SUPERSEDED)

	// Another run is newer when its certificate is.
	of := func(run string, at time.Time) wirev1.GatewayClient {
		return w.dial(issueFor(t, east, sender("east"), at, func(c *pki.RunClaims) { c.Run = run }))
	}
	open(t, of("00000", now.Add(-time.Minute)), ledger("00000", 9)).refused(wirev1.FailureReason_FAILURE_REASON_SUPERSEDED)
	third := open(t, of("zzzzz", now.Add(time.Minute)), ledger("zzzzz", 1))
	third.pending()
	w.release(ledgerKey("7f3ca", 2))
	third.pending()
	if made := w.deliveries(); len(made) != 1 || made[0].Spec.Transfer.Run != "zzzzz" {
		t.Errorf("Deliveries %v", made)
	}
}

func TestFailedDeliveryRefuses(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
	now := time.Now()
	s := open(t, w.dial(issue(t, east, sender("east"), now)), ledger("7f3ca", 1))
	s.pending()
	key := ledgerKey("7f3ca", 1)
	w.say(key, conditions.Stalled(v1alpha1.ReasonDestinationNotFound, "claim ledger-copy does not exist; create it"))
	if message := s.refused(
		wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND,
	); !strings.Contains(message, "create it") {
		t.Errorf("message %q", message)
	}
	// The same attempt by a new agent is a new try.
	again := open(t, w.dial(issue(t, east, sender("east"), now.Add(time.Minute))), ledger("7f3ca", 1))
	again.pending()
	w.release(key)
	again.pending()
	name := w.ready(key, "10.0.0.7:8443")
	if got := again.next().GetReady().GetServerName(); got != name {
		t.Errorf("server name %q, want %q", got, name)
	}
}

func TestNotGranted(t *testing.T) {
	east := newCA(t, "east")
	granted := grantOf("vault", "east", "bank", "ledger-copy")
	w := newWest(
		t, nil, peerOf("east", east), granted, grantOf("other", "east", "elsewhere", "theirs"),
		grantOf("third", "north", "bank", "claim"),
	)
	c := w.dial(issue(t, east, sender("east"), time.Now()))
	for name, destination := range map[string]*wirev1.ClaimPath{
		"no grant in the namespace": {Namespace: "empty", ClaimName: "claim"},
		"another claim":             {Namespace: "vault", ClaimName: "secret"},
		"for another namespace":     {Namespace: "other", ClaimName: "theirs"},
		"for another peer":          {Namespace: "third", ClaimName: "claim"},
	} {
		t.Run(name, func(t *testing.T) {
			request := ledger("7f3ca", 1)
			request.Destination = destination
			theirs := issueFor(t, east, sender("east"), time.Now(), func(c *pki.RunClaims) {
				c.Namespace, c.Claim = destination.Namespace, destination.ClaimName
			})
			message := open(t, w.dial(theirs), request).refused(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED)
			fix := "{from: [{peer: east, namespaces: [bank]}], to: [{kind: PersistentVolumeClaim, name: " +
				destination.ClaimName + "}]}"
			if !strings.Contains(message, fix) || !strings.Contains(message, "namespace "+destination.Namespace) {
				t.Errorf("the message does not say what to create: %s", message)
			}
		})
	}
	if made := w.deliveries(); len(made) > 0 {
		t.Errorf("a Delivery was made: %v", made)
	}
	t.Run("revoked while it waits", func(t *testing.T) {
		s := open(t, c, ledger("7f3ca", 1))
		s.pending()
		if err := w.api.Delete(context.Background(), granted); err != nil {
			t.Fatal(err)
		}
		s.refused(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED)
	})
}

// M7: a grant names the directory, and whether mirroring and privilege are allowed; the refusal says what to set.
func TestGrantedInPart(t *testing.T) {
	east := newCA(t, "east")
	grant := grantOf("vault", "east", "bank", "ledger-copy")
	grant.Spec.To[0].Path = "/in"
	w := newWest(t, nil, peerOf("east", east), grant)
	into := func(path string) wirev1.GatewayClient { // with a certificate for the directory
		return w.dial(issueFor(t, east, sender("east"), time.Now(), func(c *pki.RunClaims) { c.Path = path }))
	}
	c := into("/in")
	for name, change := range map[string]func(*wirev1.OpenRequest){
		"path: \"/inner\"":      func(r *wirev1.OpenRequest) { r.Destination.Path = "/inner" },
		"path: \"/\"":           func(r *wirev1.OpenRequest) { r.Destination.Path = "." },
		"path: \"/out\"":        func(r *wirev1.OpenRequest) { r.Destination.Path = "out" },
		"allowDelete: true":     func(r *wirev1.OpenRequest) { r.Mirror = true },
		"allowPrivileged: true": func(r *wirev1.OpenRequest) { r.Privileged = true },
	} {
		request := ledger("7f3ca", 1)
		request.Destination.Path = "/in"
		change(request)
		if message := open(
			t, into(path.Clean("/"+request.GetDestination().GetPath())), request,
		).refused(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED); !strings.Contains(message, name) {
			t.Errorf("%q is not in the message: %s", name, message)
		}
	}
	for _, climbing := range []string{"/in/..", "/in/../out", "in/./../..", ".."} {
		request := ledger("7f3ca", 1)
		request.Destination.Path = climbing
		open(t, c, request).refused(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA)
	}
	if made := w.deliveries(); len(made) > 0 {
		t.Errorf("a Delivery was made: %v", made)
	}
	request := ledger("7f3ca", 1)
	request.Destination.Path = "in/deeper"
	open(t, into("/in/deeper"), request).pending()
	if made := w.deliveries(); len(made) != 1 || made[0].Spec.Destination.PersistentVolumeClaim.Path != "/in/deeper" {
		t.Errorf("Deliveries %v", made)
	}
}

func TestDeletedDeliveryRefuses(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
	s := open(t, w.dial(issue(t, east, sender("east"), time.Now())), ledger("7f3ca", 1))
	s.pending()
	made := w.deliveries()[0]
	if err := w.api.Delete(context.Background(), &made); err != nil {
		t.Fatal(err)
	}
	s.refused(wirev1.FailureReason_FAILURE_REASON_ABORTED)
}

// A peer that fills its share waits; what has ended makes space.
func TestDeliveryLimit(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, func(o *gateway.Options) {
		o.DeliveriesPerNamespace = 2
	}, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
	opened := func(name string) *stream {
		identity := sender("east")
		identity.Path = "/ns/bank/transfer/" + name
		return open(t, w.dial(issue(t, east, identity, time.Now())), ledger("7f3ca", 1))
	}
	opened("a").pending()
	opened("b").pending()
	third := opened("c")
	if message := third.pending(); !strings.Contains(message, "2 Deliveries of peer east") {
		t.Errorf("message %q", message)
	}
	var ended v1alpha1.Delivery
	for _, delivery := range w.deliveries() {
		if delivery.Spec.Transfer.Name == "a" {
			ended = delivery
		}
	}
	key := ledgerKey("7f3ca", 1)
	key.Name = ended.Name
	w.setStatus(key, func(d *v1alpha1.Delivery) { d.Status.Phase = v1alpha1.DeliveryComplete })
	eventually(t, func() bool {
		if err := w.api.Get(context.Background(), key, &ended); err != nil {
			return false
		}
		return !ended.DeletionTimestamp.IsZero()
	})
	w.release(key)
	if message := third.pending(); !strings.Contains(message, "start its agent") {
		t.Errorf("message %q", message)
	}
	if len(w.deliveries()) != 2 {
		t.Errorf("%d Deliveries", len(w.deliveries()))
	}
}

// M6: a namespace has half of what its peer has, and leaves the rest to others; the manager has its own.
func TestLimitsOfAPeer(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, func(o *gateway.Options) {
		o.RequestsPerSecond, o.RequestBurst, o.OpensPerPeer = 0.001, 6, 2
	}, peerOf("east", east),
		grantOf("vault", "east", "bank", "ledger-copy"), grantOf("vault", "east", "shop", "stock"))
	of := func(namespace string) wirev1.GatewayClient {
		return w.dial(issueFor(t, east, pki.TransferIdentity("east", namespace, "ledger"), time.Now(),
			func(c *pki.RunClaims) {
				if namespace == "shop" {
					c.Claim = "stock"
				}
			}))
	}
	hello := func(c wirev1.GatewayClient) error {
		_, err := c.Hello(context.Background(), &wirev1.HelloRequest{})
		return err
	}
	bank, shop := of("bank"), of("shop")
	open(t, bank, ledger("7f3ca", 1)).pending()
	if _, err := open(t, bank, ledger("7f3ca", 1)).Recv(); status.Code(err) != codes.Unavailable ||
		!strings.Contains(err.Error(), "waiting") {
		t.Errorf("a second open: %v", err)
	}
	if err := hello(bank); err != nil {
		t.Errorf("a third request: %v", err)
	}
	for range 10 {
		if err := hello(of("bank")); status.Code(err) != codes.Unavailable {
			t.Errorf("one request more, over another connection: %v", err)
		}
	}
	request := ledger("7f3ca", 1)
	request.Destination.ClaimName = "stock"
	open(t, shop, request).pending()
	for range 2 {
		if err := hello(shop); err != nil {
			t.Errorf("another namespace: %v", err)
		}
	}
	if err := hello(of("office")); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "peer east") {
		t.Errorf("more than the peer may: %v", err)
	}
	for range 3 {
		if err := hello(w.dial(issue(t, east, manager("east"), time.Now()))); err != nil {
			t.Errorf("the manager: %v", err)
		}
	}
}

// Strangers share one limit, and a peer does not feel it.
func TestLimitOfStrangers(t *testing.T) {
	east, stranger := newCA(t, "east"), newCA(t, "stranger")
	w := newWest(t, func(o *gateway.Options) { o.RequestsPerSecond, o.RequestBurst = 0.001, 3 }, peerOf("east", east))
	unknown := w.dial(issue(t, stranger, manager("east"), time.Now()))
	want := []codes.Code{codes.Unauthenticated, codes.Unauthenticated, codes.Unauthenticated, codes.Unavailable}
	for i, code := range want {
		if _, err := unknown.Hello(context.Background(), &wirev1.HelloRequest{}); status.Code(err) != code {
			t.Errorf("request %d: %v, want %v", i+1, err, code)
		}
	}
	if _, err := w.dial(issue(t, east, manager("east"), time.Now())).Hello(
		context.Background(), &wirev1.HelloRequest{},
	); err != nil {
		t.Errorf("a peer: %v", err)
	}
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("it did not happen within %s", patience)
}
