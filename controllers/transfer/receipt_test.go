// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/delivery"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/receipt"
	"github.com/lighterage/lighterage/controllers/receiptkey"
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/transfer"
)

var errKilled = errors.New("the manager was killed")

// side is a cluster whose manager is killed at a write.
type side struct {
	client.WithWatch
	clock *clocktesting.FakeClock
	keys  *receiptkey.Store
	// left are the writes before the manager is killed, counted down; after says that the write is done first. -1: it
	// lives for ever.
	left  int
	after bool
}

func newSide(t *testing.T, cluster string, now time.Time, objects ...client.Object) *side {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &side{clock: clocktesting.NewFakeClock(now), left: -1}
	s.WithWatch = indextest.In(fake.NewClientBuilder().WithScheme(scheme)).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.Transfer{}, &v1alpha1.Delivery{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				return s.write(func() error { return c.Create(ctx, o, options...) })
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
				return s.write(func() error { return c.Update(ctx, o, options...) })
			},
			Patch: func(
				ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
			) error {
				return s.write(func() error { return c.Patch(ctx, o, patch, options...) })
			},
			SubResourcePatch: func(
				ctx context.Context, c client.Client, name string, o client.Object, patch client.Patch,
				options ...client.SubResourcePatchOption,
			) error {
				return s.write(func() error { return c.SubResource(name).Patch(ctx, o, patch, options...) })
			},
		}).Build()
	s.keys = receiptkey.New(receiptkey.Options{
		Client: s, Reader: s, Clock: s.clock, Namespace: "lighterage-system", Cluster: cluster,
	})
	return s
}

func (s *side) write(do func() error) error {
	switch {
	case s.left < 0:
		return do()
	case s.left > 0:
		s.left--
		return do()
	case s.after:
		return errors.Join(do(), errKilled)
	}
	return errKilled
}

// link is two clusters at the end of a run. The clock of the receiving one is a day behind.
type link struct {
	t          *testing.T
	east, west *side
	transfer   *v1alpha1.Transfer
	delivery   *v1alpha1.Delivery
	// away: the gateway of the receiving cluster does not answer.
	away bool
	// gone: its cluster has no record of the run.
	gone bool
	// asked counts its answers; hang is called before them.
	asked int
	hang  func()
}

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func newLink(t *testing.T, peer string, route v1alpha1.Route) *link {
	t.Helper()
	now := time.Date(2026, 11, 23, 21, 0, 0, 0, time.UTC)
	ended, begun := metav1.NewTime(now), metav1.NewTime(now.Add(-time.Minute))
	claim := v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger-copy", Path: "/"}
	l := &link{t: t, transfer: &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "uid",
			Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.TransferSpec{
			Receipt: true,
			Source: v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger",
				Path: "/"}},
			Destination: v1alpha1.TransferDestination{
				Peer: peer, PersistentVolumeClaim: v1alpha1.DestinationClaim{PersistentVolumeClaimPath: claim},
			},
		},
		Status: v1alpha1.TransferStatus{
			Phase:   v1alpha1.TransferComplete,
			Run:     &v1alpha1.RunStatus{ID: "a2b3c", Attempt: 1, Route: route, StartTime: &begun, CompletionTime: &ended},
			CPU:     &v1alpha1.CPUStatus{SendSeconds: "1.5", ReceiveSeconds: "9"},
			Receipt: &v1alpha1.ReceiptStatus{ContentsSHA256: digest, Entries: 3, Bytes: 7, WireBytes: 9, DigestSeconds: "0.1"},
		},
	}}
	spec := v1alpha1.DeliverySpec{
		Transfer:    v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "a2b3c", Attempt: 1},
		Destination: v1alpha1.DeliveryDestination{PersistentVolumeClaim: claim},
	}
	if peer != "" {
		spec.Peer = "east"
	}
	l.delivery = plan.NewDelivery("bank", spec)
	l.delivery.UID, l.delivery.Finalizers = "delivery", []string{v1alpha1.Finalizer}
	l.delivery.Status = v1alpha1.DeliveryStatus{
		Phase: v1alpha1.DeliveryComplete, Run: l.transfer.Status.Run.DeepCopy(),
		CPU:     &v1alpha1.CPUStatus{ReceiveSeconds: "2"},
		Receipt: &v1alpha1.ReceiptStatus{ContentsSHA256: digest, Entries: 3, Bytes: 7, WireBytes: 9, DigestSeconds: "0.2"},
	}
	if peer == "" {
		l.east = newSide(t, "east", now, l.transfer, l.delivery)
		l.west = l.east
		return l
	}
	other := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: peer}, Spec: v1alpha1.PeerSpec{Endpoint: "west:8443"}}
	l.east = newSide(t, "east", now, l.transfer, other)
	l.west = newSide(t, "west", now.Add(-24*time.Hour), l.delivery)
	return l
}

// gateway is what the one of the receiving cluster does.
func (l *link) gateway(in agentclient.ReceiptRequest) (*wirev1.ReceiptResponse, error) {
	l.asked++
	if l.hang != nil {
		l.hang()
	}
	if l.away {
		return nil, fmt.Errorf("gateway: %w", agentclient.ErrUnreachable)
	}
	if l.gone {
		return &wirev1.ReceiptResponse{Gone: true}, nil
	}
	d := l.delivered()
	if d.Status.Receipt.Part == "" || in.Run != "a2b3c" {
		return &wirev1.ReceiptResponse{}, nil
	}
	if d.Status.Receipt.ConfigMapName == "" && len(in.Envelope) > 0 {
		before := d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.ReceiptOfferAnnotation, string(in.Envelope))
		if err := l.west.WithWatch.Patch(l.t.Context(), d, client.MergeFrom(before)); err != nil {
			return nil, fmt.Errorf("gateway: %w", agentclient.ErrUnreachable)
		}
	}
	answer := &wirev1.ReceiptResponse{Receiver: []byte(d.Status.Receipt.Part)}
	if d.Status.Receipt.ConfigMapName != "" {
		answer.Envelope = []byte(d.Status.Receipt.Envelope)
	}
	return answer, nil
}

// restart returns managers that know nothing.
func (l *link) restart() (sends, receives reconcile.Reconciler) {
	gateways := &controllertest.Gateways{}
	gateways.OnReceipt(l.gateway)
	sends = transfer.NewReconciler(transfer.Options{
		Client: l.east, Reader: l.east, Keys: l.east.keys, Gateways: gateways,
		Attempts: agentjob.NewCluster(agentjob.Options{Client: l.east, Reader: l.east}), Topology: topology.New(l.east),
		Reports: controllertest.Asking[*wirev1.Report](nil), Metrics: metrics.NewTransfers(prometheus.NewRegistry()),
		Recorder: events.NewFakeRecorder(100), Clock: l.east.clock, Cluster: "east",
	})
	receives = delivery.NewReconciler(delivery.Options{
		Client: l.west, Reader: l.west, Keys: l.west.keys,
		Attempts: agentjob.NewCluster(agentjob.Options{Client: l.west, Reader: l.west}), Topology: topology.New(l.west),
		Reports:  controllertest.Asking[*wirev1.Report](nil),
		Recorder: events.NewFakeRecorder(100), Clock: l.west.clock, Cluster: "west",
	})
	return sends, receives
}

// round has both managers, which were started a moment ago, look once, two minutes after the round before.
func (l *link) round() error {
	l.east.clock.Step(2 * time.Minute)
	if l.west != l.east {
		l.west.clock.Step(2 * time.Minute)
	}
	sends, receives := l.restart()
	_, err := sends.Reconcile(l.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(l.transfer)})
	_, err2 := receives.Reconcile(l.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(l.delivery)})
	return errors.Join(err, err2)
}

func (l *link) sent() *v1alpha1.Transfer {
	l.t.Helper()
	got := &v1alpha1.Transfer{}
	if err := l.east.Get(l.t.Context(), client.ObjectKeyFromObject(l.transfer), got); err != nil {
		l.t.Fatal(err)
	}
	return got
}

func (l *link) delivered() *v1alpha1.Delivery {
	l.t.Helper()
	got := &v1alpha1.Delivery{}
	if err := l.west.Get(l.t.Context(), client.ObjectKeyFromObject(l.delivery), got); err != nil {
		l.t.Fatal(err)
	}
	return got
}

// kept returns the receipts that a side keeps.
func (s *side) kept(t *testing.T) []string {
	t.Helper()
	found := &corev1.ConfigMapList{}
	if err := s.List(t.Context(), found, client.InNamespace("bank"),
		client.MatchingLabels{v1alpha1.ReceiptLabel: "true"}); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, object := range found.Items {
		if object.Immutable == nil || !*object.Immutable {
			t.Errorf("ConfigMap %s can be changed", object.Name)
		}
		all = append(all, object.Data[receipt.DataKey])
	}
	return all
}

// check verifies the one receipt, as somebody does who has the public keys of both.
func (l *link) check() *receipt.Statement {
	l.t.Helper()
	east, west := l.east.kept(l.t), l.west.kept(l.t)
	if len(east) != 1 || len(west) != 1 || east[0] != west[0] {
		l.t.Fatalf("%d receipts here and %d there", len(east), len(west))
	}
	var anchors receipt.Anchors
	var err error
	if anchors.Sender, err = l.east.keys.Public(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	if anchors.Receiver, err = l.west.keys.Public(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	statement, err := receipt.Verify([]byte(east[0]), anchors)
	if err != nil {
		l.t.Fatal(err)
	}
	if got := l.sent().Status; got.Receipt.Envelope != east[0] ||
		!meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionReceiptSigned) {
		l.t.Errorf("status is %+v", got)
	}
	return statement
}

// finish goes on until both sides keep the receipt.
func (l *link) finish() {
	l.t.Helper()
	for range 10 {
		_ = l.round()
		if l.sent().Status.Receipt.ConfigMapName != "" {
			return
		}
	}
	l.t.Fatalf("no receipt after 10 rounds: %+v, %+v", l.sent().Status, l.delivered().Status)
}

func TestReceiptOfTwoClusters(t *testing.T) {
	l := newLink(t, "west", v1alpha1.RouteGateway)
	l.finish()
	p := l.check().Predicate
	if p.Sender.Cluster != "east" || p.Receiver.Cluster != "west" || p.Sender.CPUSeconds != "1.5" ||
		p.Receiver.CPUSeconds != "2" || p.Receiver.DigestSeconds != "0.2" || p.Sender.Contents.SHA256 != digest {
		t.Errorf("it states %+v", p)
	}
	before, after := l.sent().ResourceVersion, l.delivered().ResourceVersion
	for range 2 {
		if err := l.round(); err != nil {
			t.Error(err)
		}
	}
	if l.sent().ResourceVersion != before || l.delivered().ResourceVersion != after {
		t.Error("what is signed is written again")
	}
	// The Transfer goes, the receipt stays.
	l.check()
}

func TestReceiptWithinACluster(t *testing.T) {
	for _, route := range []v1alpha1.Route{v1alpha1.RouteDirect, v1alpha1.RoutePod} {
		t.Run(string(route), func(t *testing.T) {
			l := newLink(t, "", route)
			l.finish()
			all := l.east.kept(t)
			if len(all) != 1 {
				t.Fatalf("%d receipts", len(all))
			}
			keys, err := l.east.keys.Public(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			statement, err := receipt.Verify([]byte(all[0]), receipt.Anchors{Sender: keys, Receiver: keys})
			if err != nil {
				t.Fatal(err)
			}
			if statement.Predicate.Receiver.Claim != "ledger-copy" || statement.Predicate.Sender.Claim != "ledger" {
				t.Errorf("it states %+v", statement.Predicate)
			}
		})
	}
}

// Either manager is killed before and after each of its writes; there is one receipt, and it is the same at both
// sides.
func TestReceiptOfKilledManagers(t *testing.T) {
	for _, which := range []string{"sender", "receiver"} {
		for _, after := range []bool{false, true} {
			killed := true
			for writes := 0; killed && writes < 10; writes++ { // Who lives through all of its writes does so with more left, too.
				t.Run(fmt.Sprintf("%s,%v,%d", which, after, writes), func(t *testing.T) {
					l := newLink(t, "west", v1alpha1.RouteGateway)
					victim := l.east
					if which == "receiver" {
						victim = l.west
					}
					victim.left, victim.after = writes, after
					killed = false
					for range 6 {
						if err := l.round(); errors.Is(err, errKilled) {
							killed, victim.left = true, -1
						}
					}
					if !killed && writes < 3 {
						t.Error("nobody was killed")
					}
					victim.left = -1
					l.finish()
					l.check()
				})
			}
		}
	}
}

// A sending cluster that was restored has no record of what it signed.
func TestReceiptIsAdopted(t *testing.T) {
	l := newLink(t, "west", v1alpha1.RouteGateway)
	l.finish()
	lost := l.sent()
	before := lost.DeepCopy()
	lost.Status.Receipt.Envelope, lost.Status.Receipt.ConfigMapName = "", ""
	if err := l.east.Status().Patch(t.Context(), lost, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.finish()
	l.check()
}

func reasonOf(conditions []metav1.Condition) string {
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReceiptSigned); c != nil {
		return c.Reason
	}
	return ""
}

func TestReceiptThatIsNotSigned(t *testing.T) {
	t.Run("PeerAway", func(t *testing.T) {
		l := newLink(t, "west", v1alpha1.RouteGateway)
		l.away = true
		if err := l.round(); err != nil {
			t.Fatal(err)
		}
		if got := reasonOf(l.sent().Status.Conditions); got != v1alpha1.ReasonPeerUnreachable {
			t.Errorf("the reason is %q", got)
		}
		l.away = false
		l.finish()
		l.check()
	})
	t.Run("OtherContents", func(t *testing.T) {
		l := newLink(t, "west", v1alpha1.RouteGateway)
		d := l.delivered()
		before := d.DeepCopy()
		d.Status.Receipt.ContentsSHA256 = strings.Repeat("0", 64)
		if err := l.west.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := l.round(); err != nil {
				t.Fatal(err)
			}
		}
		if got := reasonOf(l.sent().Status.Conditions); got != v1alpha1.ReasonReceiptRejected {
			t.Errorf("the reason is %q", got)
		}
		if len(l.east.kept(t))+len(l.west.kept(t)) != 0 {
			t.Error("there is a receipt")
		}
	})
	for name, do := range map[string]func(*receipt.Receiver){
		"OtherNamespace": func(r *receipt.Receiver) { r.Namespace = "other" },
		"OtherClaim":     func(r *receipt.Receiver) { r.Claim = "other" },
		"OtherPath":      func(r *receipt.Receiver) { r.Path = "/other" },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLink(t, "west", v1alpha1.RouteGateway)
			if err := l.round(); err != nil {
				t.Fatal(err)
			}
			d := l.delivered()
			before := d.DeepCopy()
			part, err := receipt.ParseReceiver([]byte(d.Status.Receipt.Part))
			if err != nil {
				t.Fatal(err)
			}
			do(part)
			text, err := part.Encode()
			if err != nil {
				t.Fatal(err)
			}
			d.Status.Receipt.Part = string(text)
			if err := l.west.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			if err := l.round(); err != nil {
				t.Fatal(err)
			}
			if got := l.sent().Status; reasonOf(got.Conditions) != v1alpha1.ReasonReceiptRejected || got.Receipt.Envelope != "" {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("ForgedOffer", func(t *testing.T) {
		l := newLink(t, "west", v1alpha1.RouteGateway)
		if err := l.round(); err != nil {
			t.Fatal(err)
		}
		d := l.delivered()
		before := d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, v1alpha1.ReceiptOfferAnnotation, "{}")
		if err := l.west.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		l.away = true
		if err := l.round(); err != nil {
			t.Fatal(err)
		}
		if got := reasonOf(l.delivered().Status.Conditions); got != v1alpha1.ReasonReceiptRejected {
			t.Errorf("the reason is %q", got)
		}
		l.away = false
		l.finish()
		l.check()
	})
}
