// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

var ctx = context.Background()

func create(t *testing.T, namespace string, change func(*v1alpha1.QueueSpec)) *v1alpha1.Queue {
	t.Helper()
	q := newQueue(change)
	q.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "orders"}
	cluster.Create(t, q)
	return q
}

// expect waits for conditions, and leaves the queue as it is then.
func expect(t *testing.T, q *v1alpha1.Queue, condition, reason string) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		if q.Status.ObservedGeneration != q.Generation {
			return errors.New("the status is about an older spec")
		}
		return controllertest.Expect(q.Status.Conditions, condition, reason)
	})
}

func set(t *testing.T, q *v1alpha1.Queue) *appsv1.StatefulSet {
	t.Helper()
	var list appsv1.StatefulSetList
	controllertest.Eventually(t, func() error {
		err := cluster.Client.List(
			ctx, &list, client.InNamespace(q.Namespace), client.MatchingLabels{v1alpha1.QueueLabel: string(q.UID)},
		)
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("%d StatefulSets", len(list.Items))
		}
		return err
	})
	return &list.Items[0]
}

func secret(t *testing.T, s *appsv1.StatefulSet) (*wirev1.QueueConfig, *corev1.Secret) {
	t.Helper()
	found, config := &corev1.Secret{}, &wirev1.QueueConfig{}
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(s), found); err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(found.Data["config.json"], config); err != nil {
		t.Fatal(err)
	}
	return config, found
}

// addresses of members are those of this cluster alone, since fakes of agents are known by them.
var addresses atomic.Int32

// member does what the StatefulSet's controller, the scheduler and a kubelet would, and returns the address of the
// agent.
func member(t *testing.T, s *appsv1.StatefulSet) string {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name + "-0", Labels: s.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
			},
		},
		Spec: *s.Spec.Template.Spec.DeepCopy(),
	}
	for i := range s.Spec.VolumeClaimTemplates {
		claim := s.Spec.VolumeClaimTemplates[i].DeepCopy()
		claim.Namespace, claim.Name = s.Namespace, "data-"+s.Name+"-0"
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
		cluster.Create(t, claim)
		bound := client.MergeFrom(claim.DeepCopy())
		claim.Status.Phase = corev1.ClaimBound
		if err := cluster.Client.Status().Patch(ctx, claim, bound); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Create(t, pod)
	ip := fmt.Sprintf("10.8.%d.1", addresses.Add(1))
	cluster.SetPod(t, pod, func(status *corev1.PodStatus) {
		status.Phase, status.PodIP, status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
		status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "agent", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
	})
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		s.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: s.Generation, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1,
		}
		return cluster.Client.Status().Update(ctx, s)
	})
	return ip + ":9443"
}

func say(address string, s *appsv1.StatefulSet, revision string, change func(*wirev1.QueueReport)) {
	report := &wirev1.QueueReport{
		State: wirev1.QueueState_QUEUE_STATE_SERVING, Architecture: "amd64", Revision: revision, Member: s.Name + "-0",
		Content:    &wirev1.QueueContent{Leader: s.Name + "-0"},
		Statistics: &wirev1.QueueStatistics{Since: timestamppb.New(now)},
	}
	if change != nil {
		change(report)
	}
	agents.SayQueue(address, report)
}

func update(t *testing.T, q *v1alpha1.Queue, change func()) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		change()
		return cluster.Client.Update(ctx, q)
	})
}

func annotate(t *testing.T, q *v1alpha1.Queue, key, value string) {
	t.Helper()
	update(t, q, func() {
		if q.Annotations == nil {
			q.Annotations = map[string]string{}
		}
		q.Annotations[key] = value
	})
}

func gone(t *testing.T, object client.Object) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) ||
			err == nil && object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 1 &&
				object.GetFinalizers()[0] == "kubernetes.io/pvc-protection" {
			return nil
		}
		return fmt.Errorf("%T %s is still there: %v", object, object.GetName(), err)
	})
}

// TestLife follows a queue from its creation over changes of the spec and a reset to a deletion that waits for its last
// message.
func TestLife(t *testing.T) {
	t.Parallel()
	q := create(t, cluster.Namespace(t), nil)
	expect(t, q, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)
	s := set(t, q)
	first, held := secret(t, s)
	checkCertificate(t, q, held)
	address := member(t, s)
	say(address, s, first.GetRevision(), func(r *wirev1.QueueReport) {
		r.Decisions = &wirev1.Decisions{
			Regret:    &wirev1.Regret{Permille: 34, MarginPermille: 7, Units: 60, Codec: "zstd", Level: "Fast"},
			Objective: "Elapsed", DiskBytesPerSecond: 3e8, SendNanosPerMib: 1e6, InflateNanosPerMib: 1e6,
			Classes: []*wirev1.ClassDecision{{
				Content: "(queue)", Size: ">=256Ki", Codec: "zstd", Reason: "DiskFaster", Operations: 10, Bytes: 1000,
			}},
		}
	})
	expect(t, q, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	if d := q.Status.Decisions; d == nil || d.DiskBytesPerSecond != 3e8 || len(d.Classes) != 1 ||
		d.RegretPercent != "3.4" || d.RegretMarginPercent != "0.7" || d.RegretSamples != 60 ||
		d.BestAlternative != "zstd Fast" ||
		d.Classes[0].Choice != v1alpha1.ClassUncompressed || d.Classes[0].Content != "(queue)" {
		t.Errorf("decisions %+v", d)
	}
	if q.Status.Ready != "1/1" || q.Status.Statistics == nil || len(q.Status.Members) != 1 ||
		!q.Status.Members[0].Leader || q.Status.Policy == nil {
		t.Errorf("status %+v", q.Status)
	}

	// A change that needs no restart reaches the Secret, and status waits for the member to take it.
	generation := set(t, q).Generation
	update(t, q, func() {
		size := resource.MustParse("0")
		q.Spec.Compression = &v1alpha1.QueueCompression{MinSize: &size}
	})
	expect(t, q, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)
	changed, _ := secret(t, s)
	if changed.GetCompressionMinSize() != 0 || changed.GetRevision() == first.GetRevision() {
		t.Errorf("the member is told %v", changed)
	}
	if got := set(t, q).Generation; got != generation {
		t.Errorf("a change of compression restarts members: generation %d, before %d", got, generation)
	}
	say(address, s, changed.GetRevision(), nil)
	expect(t, q, v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	// A reset is asked of the member and echoed when it has done it.
	annotate(t, q, v1alpha1.ResetStatisticsAnnotation, "monday")
	controllertest.Eventually(t, func() error {
		changed, _ = secret(t, s)
		if changed.GetResetStatistics() != "monday" {
			return fmt.Errorf("the member is told %v", changed)
		}
		return nil
	})
	holding := func(messages uint64) {
		say(address, s, changed.GetRevision(), func(r *wirev1.QueueReport) {
			r.Statistics.Reset_, r.Content.Messages = "monday", messages
		})
	}
	holding(2)
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		if got := q.Status.Statistics; got == nil || got.LastResetRequest != "monday" || got.Depth != 2 {
			return fmt.Errorf("statistics %+v", got)
		}
		return nil
	})

	// A deletion in the foreground waits too, and takes nothing away meanwhile.
	if err := cluster.Client.Delete(ctx, q, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonMessagesRemain)
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		if len(q.Finalizers) != 1 || q.Finalizers[0] != v1alpha1.Finalizer {
			return fmt.Errorf("finalizers %v", q.Finalizers)
		}
		return nil
	})
	if set(t, q).DeletionTimestamp != nil {
		t.Error("the StatefulSet goes before the messages")
	}
	holding(0)
	gone(t, q)
	gone(
		t,
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, Name: "data-" + s.Name + "-0"}},
	)
}

// A queue whose members do not answer may have messages.
func TestDeletionOfWhatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	q := create(t, cluster.Namespace(t), nil)
	s := set(t, q)
	member(t, s)
	if err := cluster.Client.Delete(ctx, q); err != nil {
		t.Fatal(err)
	}
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonMessagesRemain)
	// A tenant's claim with the labels of the Queue's is the tenant's.
	cluster.Claim(t, q.Namespace, "ledger")
	ledger := &corev1.PersistentVolumeClaim{}
	if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: q.Namespace, Name: "ledger"}, ledger); err != nil {
		t.Fatal(err)
	}
	ledger.Labels = map[string]string{v1alpha1.QueueLabel: string(q.UID)}
	if err := cluster.Client.Update(ctx, ledger); err != nil {
		t.Fatal(err)
	}
	annotate(t, q, v1alpha1.DeleteMessagesAnnotation, "true")
	gone(t, q)
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(ledger), ledger); err != nil ||
		ledger.DeletionTimestamp != nil {
		t.Errorf("the tenant's claim: %v, deleted at %v", err, ledger.DeletionTimestamp)
	}
}

func TestNameOfSomebodyElse(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	cluster.Create(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})
	q := create(t, namespace, nil)
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonNameConflict)
}

// TestPublishedCA: clients find the CA beside the Queue, whatever somebody makes of it there, and nothing of somebody
// else's is touched.
func TestPublishedCA(t *testing.T) {
	t.Parallel()
	q := create(t, cluster.Namespace(t), nil)
	ca, err := cluster.Authority().CA(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := &corev1.ConfigMap{}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: q.Namespace, Name: "orders-ca"}, found); err != nil {
			return err
		}
		if found.Data["ca.crt"] != string(ca.CertificatePEM) || !metav1.IsControlledBy(found, q) {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})

	other := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace(t), Name: "orders-ca"},
		Data:       map[string]string{"mine": "1"},
	}
	cluster.Create(t, other)
	q = create(t, other.Namespace, nil)
	expect(t, q, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(other), found); err != nil {
		t.Fatal(err)
	}
	if len(found.Data) != 1 || found.Data["mine"] != "1" || len(found.OwnerReferences) != 0 {
		t.Errorf("somebody else's became %+v", found)
	}
}

// What the API server refuses, it refuses with what to do instead.
func TestValidation(t *testing.T) {
	t.Parallel()
	q := create(t, cluster.Namespace(t), nil)
	for name, test := range map[string]struct{ patch, says string }{
		"smaller":           {`{"storage": {"size": "512Mi"}}`, "size must not become smaller"},
		"of another type":   {`{"storage": {"type": "Memory"}}`, "type cannot be changed"},
		"of another class":  {`{"storage": {"storageClassName": "fast"}}`, "storageClassName cannot be changed"},
		"with more members": {`{"replicas": 3}`, "replicas cannot be changed"},
		"for nobody": {
			`{"authentication": {"tokens": null}}`, "at least one of tokens and clientCertificates",
		},
		"that sends to nowhere": {`{"channel": {"peer": "west"}}`, "spec.channel.queue"},
		"that prefers none": {
			`{"channel": {"peer": "west", "queue": "orders", "codings": ["none", "zstd"]}}`, "none must be the last of codings",
		},
		"that repeats itself": {
			`{"channel": {"peer": "west", "queue": "orders", "codings": ["zstd", "zstd"]}}`,
			"codings must name each codec once",
		},
		"a codec twice at two levels": {
			`{"channel": {"peer": "west", "queue": "orders", "codings": ["zstd-high", "deflate", "zstd-fast"]}}`,
			"codings must name each codec once",
		},
		"to no queue's name": {
			`{"channel": {"peer": "west", "queue": "Orders"}}`, "queue must be the name of a Queue",
		},
		"to one and to several": {
			`{"channel": {"queue": "x"}, "channels": [{"queue": "y"}]}`, "channel and channels exclude each other",
		},
		"to another namespace of its cluster": {
			`{"channel": {"queue": "x", "namespace": "shop"}}`, "namespace is for a Queue of a peer",
		},
		"that waits for long": {
			`{"channel": {"peer": "west", "queue": "orders", "batch": {"delay": "1h"}}}`, "delay must be between 0s and 1m",
		},
		"with large batches": {
			`{"channel": {"peer": "west", "queue": "orders", "batch": {"messages": 2001}}}`, "less than or equal to 2000",
		},
		"that accepts a list of nothing": {`{"receiving": {"accept": "Listed"}}`, "codings go with accept: Listed"},
		"that accepts any and a list":    {`{"receiving": {"codings": ["zstd"]}}`, "codings go with accept: Listed"},
		"that syncs all the time": {
			`{"storage": {"sync": {"interval": "1ms"}}}`, "interval must be between 100ms and 10m",
		},
		"that syncs twice": {
			`{"storage": {"sync": {"mode": "Always", "interval": "1s"}}}`, "interval is for mode Interval",
		},
		"that forgets at once":         {`{"duplicateWindow": "1ms"}`, "duplicateWindow must be"},
		"that gives out at once again": {`{"redelivery": {"visibilityTimeout": "1ms"}}`, "visibilityTimeout must be"},
	} {
		t.Run(name, func(t *testing.T) {
			err := cluster.Client.Patch(
				ctx, q.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec": `+test.patch+`}`)),
			)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("refused with %v", err)
			}
		})
	}
}

// The claims of a queue grow with it, and where they cannot, its members do not count on more space.
func TestGrowth(t *testing.T) {
	t.Parallel()
	q := create(t, cluster.Namespace(t), nil)
	s := set(t, q)
	member(t, s)
	before, _ := secret(t, s)
	update(t, q, func() { q.Spec.Storage.Size = resource.MustParse("3Gi") })
	// The claim is of no class that allows it, so the API server refuses, and status says so.
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonRefused)
	after, _ := secret(t, s)
	if got, want := after.GetStorage().GetCapacity(), before.GetStorage().GetCapacity(); got != want ||
		after.GetRevision() != before.GetRevision() {
		t.Errorf("members are told of %d bytes, with %d in their volumes", got, want)
	}
	if got := set(t, q).Generation; got != s.Generation {
		t.Errorf("the members restart for nothing: generation %d, before %d", got, s.Generation)
	}

	// All else goes on.
	update(t, q, func() {
		size := resource.MustParse("0")
		q.Spec.Compression = &v1alpha1.QueueCompression{MinSize: &size}
	})
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonRefused)
	if after, _ = secret(t, s); after.GetCompressionMinSize() != 0 ||
		after.GetStorage().GetCapacity() != before.GetStorage().GetCapacity() {
		t.Errorf("members are told %v", after)
	}
}

func checkCertificate(t *testing.T, q *v1alpha1.Queue, held *corev1.Secret) {
	t.Helper()
	block, _ := pem.Decode(held.Data[corev1.TLSCertKey])
	if block == nil {
		t.Fatal("the Secret has no certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := certificate.URIs[0].String(), "spiffe://east/ns/"+q.Namespace+"/queue/orders"; got != want {
		t.Errorf("identity %s in place of %s", got, want)
	}
	for _, name := range []string{
		string(q.UID) + ".queue.lighterage.internal", "orders." + q.Namespace + ".svc",
		pki.ChannelServerName(make([]byte, 32), "west", "bank", q.Namespace, "orders"),
	} {
		if err := certificate.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}
