// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
)

const (
	// sourceNamespace is where Transfers of other clusters are.
	sourceNamespace = "bank"
	// atOnce is how many objects are made at the same time.
	atOnce = 32
	// backend is the Service that HTTPEndpoints are in front of.
	backend     = "api"
	backendPort = 8080
	// shareBytes are what a run has of a Peer's bandwidth in a second, if all have the same.
	shareBytes = 4 << 20
	// Weights of namespaces.
	lightWeight, heavyWeight = 100, 300
	canaryPercent            = 50
	base32                   = "abcdefghijklmnopqrstuvwxyz234567"
)

func each(ctx context.Context, n, limit int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func namespaceName(i int) string { return fmt.Sprintf("team-%03d", i) }

func (f *Fleet) namespaceOf(i int) string { return namespaceName(i % f.World.Namespaces) }

// claims that users made in each namespace.
func (f *Fleet) claims() int { return max(1, (f.World.Volumes-f.World.Queues)/f.World.Namespaces) }

func claimName(i int) string { return fmt.Sprintf("claim-%03d", i) }

// claimOf is the claim of the i-th run, which is in its namespace.
func (f *Fleet) claimOf(i int) string { return claimName(i / f.World.Namespaces % f.claims()) }

// runID is that of the i-th run.
func runID(i int) string {
	id := []byte("aaaaa")
	for at := len(id) - 1; at >= 0; at-- {
		id[at] = base32[i%32]
		i /= 32
	}
	return string(id)
}

// Populate makes all there is. No manager is to run, which must have run before: the CA has to be there. Deliveries are
// made as the gateway makes them. Transfers and Deliveries that have ended get the status that a manager would have
// given them.
func (f *Fleet) Populate(ctx context.Context) error {
	if _, err := f.clusterCA(ctx); err != nil {
		return err
	}
	owner := client.FieldOwner(conditions.FieldOwner)
	asManager, err := client.New(f.AsManager, client.Options{Scheme: f.Client.Scheme()})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	asGateway, err := client.New(f.AsGateway, client.Options{Scheme: f.Client.Scheme()})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	w, claims := f.World, f.claims()
	create := func(objects ...client.Object) error {
		for _, object := range objects {
			if err := f.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("create %T %s: %w", object, client.ObjectKeyFromObject(object), err)
			}
		}
		return nil
	}
	limited := 0
	if w.Limited {
		limited = w.Namespaces
	}
	steps := []struct {
		n  int
		do func(ctx context.Context, i int) error
	}{
		{1, func(context.Context, int) error { return create(f.policy()) }},
		{w.Peers, func(_ context.Context, i int) error { return create(f.peer(i)) }},
		{w.Namespaces, func(_ context.Context, i int) error { return create(f.team(i)...) }},
		{limited, func(_ context.Context, i int) error { return create(f.quota(i)) }},
		{w.Nodes, f.join},
		{w.Namespaces * claims, func(ctx context.Context, i int) error {
			return f.provision(ctx, newClaim(namespaceName(i/claims), claimName(i%claims)))
		}},
		{w.Queues, func(_ context.Context, i int) error { return create(f.queue(i)) }},
		{w.Endpoints, func(_ context.Context, i int) error { return create(f.endpoint(i)) }},
		{w.Transfers, func(ctx context.Context, i int) error { return f.makeTransfer(ctx, i, owner) }},
		{w.Transfers, func(ctx context.Context, i int) error {
			return f.makeDelivery(ctx, asGateway, asManager, i, owner)
		}},
		{1, func(ctx context.Context, _ int) error { return f.makeDrills(ctx, owner) }},
	}
	for _, step := range steps {
		if err := each(ctx, step.n, atOnce, step.do); err != nil {
			return fmt.Errorf("populate the cluster: %w", err)
		}
	}
	f.populated.Store(true)
	return nil
}

func (f *Fleet) policy() client.Object {
	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "default",
			Annotations: map[string]string{"lighterage.dev/is-default-policy": "true"}},
		Spec: v1alpha1.CompressionPolicySpec{
			Objective: v1alpha1.ObjectiveCost, Mode: v1alpha1.CompressionAuto,
			Codecs: []v1alpha1.Codec{v1alpha1.CodecDeflate},
			Level:  v1alpha1.CompressionFast, Placement: v1alpha1.PlacementPreferHardware,
			Prices: &v1alpha1.Prices{Currency: "USD", CPUHour: "0.031", NetworkGiB: "0.05"},
		},
	}
	if f.World.Limited {
		// It outlasts the world, and its figures are two minutes apart.
		policy.Spec.Canary = &v1alpha1.CompressionCanary{
			Settings: v1alpha1.CanarySettings{Level: v1alpha1.CompressionHigh}, SharePercent: canaryPercent,
			Duration: &metav1.Duration{Duration: 40 * time.Minute},
		}
	}
	return policy
}

func (f *Fleet) peer(i int) client.Object {
	to := f.peers.all[i]
	peer := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: to.name},
		Spec: v1alpha1.PeerSpec{Endpoint: to.endpoint, CABundle: to.ca.CertificatePEM}}
	if slots := f.World.slots(); f.World.Limited {
		peer.Spec.Limits = &v1alpha1.PeerLimits{
			RunningTransfers: ptr.To(int32(slots)),
			Bandwidth:        resource.NewQuantity(int64(slots)*shareBytes, resource.BinarySI),
		}
	}
	return peer
}

// quota is of every namespace if there are limits. Each Peer has Transfers of namespaces of both weights.
func (f *Fleet) quota(i int) client.Object {
	weight := int32(lightWeight)
	if i >= f.World.Namespaces/2 {
		weight = heavyWeight
	}
	return &v1alpha1.DataQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceName(i), Name: "weight"},
		Spec:       v1alpha1.DataQuotaSpec{Weight: &weight},
	}
}

// always is a schedule of windows that are open all the time, with a limit.
func always() *v1alpha1.TransferSchedule {
	window := v1alpha1.ScheduleWindow{BandwidthLimit: resource.NewQuantity(shareBytes/2, resource.BinarySI)}
	for day := time.Sunday; day <= time.Saturday; day++ {
		window.Days = append(window.Days, v1alpha1.Weekday(day.String()))
	}
	return &v1alpha1.TransferSchedule{Windows: []v1alpha1.ScheduleWindow{window}}
}

// team is a namespace, with a grant for all peers and the Service behind its HTTPEndpoints.
func (f *Fleet) team(i int) []client.Object {
	namespace := namespaceName(i)
	grant := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "peers"},
		Spec:       v1alpha1.PeerGrantSpec{To: []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim}}},
	}
	for peer := range min(f.World.Peers, 16) {
		grant.Spec.From = append(grant.Spec.From,
			v1alpha1.PeerGrantFrom{Peer: peerName((i + peer) % f.World.Peers), Namespaces: []string{sourceNamespace}})
	}
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, grant,
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: backend},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": backend},
				Ports: []corev1.ServicePort{{Port: backendPort}}},
		},
	}
}

func (f *Fleet) queue(i int) client.Object {
	return &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespaceOf(i), Name: fmt.Sprintf("queue-%03d", i)},
		Spec: v1alpha1.QueueSpec{
			Storage:        v1alpha1.QueueStorage{Size: resource.MustParse("10Gi"), StorageClassName: new("fleet")},
			Replicas:       1,
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "tokens"}},
		},
	}
}

func (f *Fleet) endpoint(i int) client.Object {
	return &v1alpha1.HTTPEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespaceOf(i), Name: fmt.Sprintf("front-%03d", i)},
		Spec: v1alpha1.HTTPEndpointSpec{
			Backend:  v1alpha1.HTTPBackend{Service: &v1alpha1.HTTPService{Name: backend, Port: backendPort}},
			Replicas: ptr.To[int32](Replicas),
		},
	}
}

// Phase is the one that the i-th Transfer comes to: the first fifth are to run; of the others half have completed, a
// quarter have completed nightly runs, and an eighth each wait for their first night and are suspended.
func Phase(w World, i int) v1alpha1.TransferPhase {
	switch {
	case i < w.RunningTransfers():
		return v1alpha1.TransferTransferring
	case i%8 == 6:
		return v1alpha1.TransferScheduled
	case i%8 == 7:
		return v1alpha1.TransferSuspended
	default:
		return v1alpha1.TransferComplete
	}
}

// Nightly reports whether the i-th Transfer, which has completed, runs every night.
func Nightly(i int) bool { return i%8 == 4 || i%8 == 5 }

// farAway is a night in half a year.
func farAway() *v1alpha1.TransferSchedule {
	return &v1alpha1.TransferSchedule{Cron: fmt.Sprintf("0 2 1 %d *", (int(time.Now().Month())+5)%12+1)}
}

// makeDrills makes one that has restored, and one that has scrubbed and found damage.
func (f *Fleet) makeDrills(ctx context.Context, owner client.FieldOwner) error {
	restore := &v1alpha1.Drill{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceName(0), Name: "restore"},
		Spec: v1alpha1.DrillSpec{
			Source:   v1alpha1.DrillSource{ObjectStore: v1alpha1.ObjectStorePath{Name: "vault", Path: "/copies"}},
			Volume:   v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("50Gi"))},
			Schedule: farAway(),
		},
	}
	scrub := restore.DeepCopy()
	scrub.Name, scrub.Spec.Volume, scrub.Spec.Scrub = "scrub", v1alpha1.EphemeralVolume{}, v1alpha1.ScrubChecksums
	for _, d := range []*v1alpha1.Drill{restore, scrub} {
		if err := f.Client.Create(ctx, d, owner); err != nil {
			return fmt.Errorf("create Drill %s: %w", d.Name, err)
		}
		d.Status = drilled(d)
		if err := f.Client.Status().Update(ctx, d, owner); err != nil {
			return fmt.Errorf("write the status of Drill %s: %w", d.Name, err)
		}
	}
	return nil
}

func (f *Fleet) makeTransfer(ctx context.Context, i int, owner client.FieldOwner) error {
	peer := peerName(i % f.World.Peers)
	t := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.namespaceOf(i), Name: fmt.Sprintf("transfer-%05d", i), Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: f.claimOf(i), Path: "/"},
			},
			Destination: v1alpha1.TransferDestination{
				Peer: peer, Namespace: sourceNamespace,
				PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copies",
						Path: fmt.Sprintf("/%s/%05d", f.namespaceOf(i), i)},
				},
			},
		},
	}
	runs := 0
	schedule := farAway()
	switch Phase(f.World, i) {
	case v1alpha1.TransferTransferring:
		t.Finalizers = nil // it is new
		if f.World.Limited && i%4 == 3 {
			t.Spec.Schedule = always()
		}
	case v1alpha1.TransferScheduled:
		t.Spec.Schedule = schedule
	case v1alpha1.TransferSuspended:
		t.Spec.Suspend = true
	default:
		runs = 1
		if Nightly(i) {
			runs, t.Spec.Schedule = 10, schedule
		}
	}
	if err := f.Client.Create(ctx, t, owner); err != nil {
		return fmt.Errorf("create Transfer %s: %w", t.Name, err)
	}
	if runs == 0 {
		return nil
	}
	t.Status = completed(t, runs, runID(i))
	if err := f.Client.Status().Update(ctx, t, owner); err != nil {
		return fmt.Errorf("write the status of Transfer %s: %w", t.Name, err)
	}
	return nil
}

// deliverySpec is that of the i-th Delivery.
func (f *Fleet) deliverySpec(i int) v1alpha1.DeliverySpec {
	// One of the peers that the namespace has a grant for.
	at := i % f.World.Namespaces
	peer := peerName((at + i/f.World.Namespaces%min(f.World.Peers, 16)) % f.World.Peers)
	return v1alpha1.DeliverySpec{
		Peer: peer,
		Transfer: v1alpha1.TransferReference{Namespace: sourceNamespace, Name: fmt.Sprintf("in-%05d", i), Run: runID(i),
			Attempt: 1},
		Destination: v1alpha1.DeliveryDestination{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{
			ClaimName: f.claimOf(i), Path: fmt.Sprintf("/in/%05d", i),
		}},
	}
}

func (f *Fleet) makeDelivery(
	ctx context.Context, asGateway, asManager client.Client, i int, owner client.FieldOwner,
) error {
	d := plan.NewDelivery(f.namespaceOf(i), f.deliverySpec(i))
	running := i < f.World.RunningTransfers()
	if !running {
		d.Finalizers = []string{v1alpha1.Finalizer}
	}
	if err := asGateway.Create(ctx, d, owner); err != nil {
		return fmt.Errorf("create Delivery %s: %w", d.Name, err)
	}
	if running {
		return nil
	}
	before := d.DeepCopy()
	d.Status = received(d)
	if err := asManager.Status().Patch(ctx, d, client.MergeFrom(before), owner); err != nil {
		return fmt.Errorf("write the status of Delivery %s: %w", d.Name, err)
	}
	return nil
}
