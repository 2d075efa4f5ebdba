// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// only admits who shows a certificate of a CA.
func only(a *authority) v1alpha1.QueueAuthentication {
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
	return v1alpha1.QueueAuthentication{ClientCertificates: &v1alpha1.QueueClientCertificates{CABundle: bundle}}
}

// TestQueueOfThree: every message that a queue of three acknowledged is got once and in the order of its key, although
// the member that leads is killed, all are restarted one after the other, and one loses its claim, while clients with
// certificates put and get. A tenant has another queue of that name, in memory, and neither's clients come to the
// other's.
func TestQueueOfThree(t *testing.T) {
	t.Parallel()
	namespace, elsewhere := newNamespace(t), newNamespace(t)
	ours, theirs := newAuthority(t), newAuthority(t)
	queue, clerk := east.newQueue(t, namespace, "orders", func(s *v1alpha1.QueueSpec) {
		s.Replicas, s.Authentication, s.Storage.Size = 3, only(ours), resource.MustParse("128Mi")
	})
	tenant, _ := east.newQueue(t, elsewhere, "orders", func(s *v1alpha1.QueueSpec) {
		s.Storage, s.Authentication = v1alpha1.QueueStorage{
			Type: v1alpha1.QueueStorageMemory, Size: resource.MustParse("32Mi"),
		}, only(theirs)
	})
	east.waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	east.waitForQueue(t, tenant, v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	certificate, tenants := ours.clientCertificate(t), theirs.clientCertificate(t)
	members, neighbours := &memberDialer{cluster: east, queue: queue}, &memberDialer{cluster: east, queue: tenant}
	connect := func(d *memberDialer, c *tls.Certificate) func() (*nats.Conn, error) {
		return func() (*nats.Conn, error) { return d.client(clerk.roots, c) }
	}
	expectStrangersKeptOut(t, queue, map[string]func() (*nats.Conn, error){
		"without a certificate": connect(members, nil), "with one of a tenant's CA": connect(members, tenants),
	})
	expectStrangersKeptOut(
		t, tenant,
		map[string]func() (*nats.Conn, error){"with a certificate of the other queue's CA": connect(neighbours, certificate)},
	)
	memory := putInMemory(t, tenant, connect(neighbours, tenants))
	memory.put(t, 1)
	memory.put(t, 2)

	_, js := connected(t, connect(members, certificate))
	l := beginLoad(t, queue, js, connect(members, certificate), "a", "b", "c")
	l.goesOn("with three members")
	expectOwn(t, connect(members, certificate))
	// Its next member comes while other things are done.
	memory.end(t)
	leader := memberOf(t, queue, agreed(t, queue, js).Leader)
	east.KillPod(t, leader)
	l.goesOn("without the member that led")
	east.waitForNext(t, leader)
	east.waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	began := time.Now()
	restartMembers(t, queue)
	t.Logf("all members were restarted within %v", time.Since(began).Round(time.Second))
	l.goesOn("after a restart of all members")

	loseClaim(t, queue, js)
	l.goesOn("with a member that has a new claim")
	l.finish()
	memory.beginAnew(t)
	east.see(t, queue, "be empty, with three members that agree", func(s v1alpha1.QueueStatus) bool {
		leaders, serving := 0, 0
		for _, m := range s.Members {
			if m.Leader {
				leaders++
			}
			if m.State == "Serving" && m.Current {
				serving++
			}
		}
		return s.Ready == "3/3" && leaders == 1 && serving == 3 && s.Statistics != nil && s.Statistics.Depth == 0 &&
			s.Statistics.Unacknowledged == 0
	})
	showQueue(t, queue)
}

// expectStrangersKeptOut: who is to stay out does, and is counted. A try may not come as far as that, and then it is
// made once more.
func expectStrangersKeptOut(t *testing.T, queue *v1alpha1.Queue, strangers map[string]func() (*nats.Conn, error)) {
	t.Helper()
	var tried time.Time
	east.see(t, queue, "count those who were not admit", func(s v1alpha1.QueueStatus) bool {
		if s.Statistics != nil && s.Statistics.FailedAuthentications >= int64(len(strangers)) {
			return true
		}
		if time.Since(tried) < time.Minute/2 { // status says it every 15 seconds
			return false
		}
		tried = time.Now()
		for what, try := range strangers {
			conn, err := try()
			if err == nil {
				conn.Close()
				t.Fatalf("%s a client was admitted", what)
			}
			t.Logf("%s: %v", what, err)
		}
		return false
	})
}

// memoryClient puts into a queue in memory.
type memoryClient struct {
	queue  *v1alpha1.Queue
	stream jetstream.JetStream
	ended  *corev1.Pod
}

func putInMemory(t *testing.T, queue *v1alpha1.Queue, connect func() (*nats.Conn, error)) *memoryClient {
	t.Helper()
	_, js := connected(t, connect)
	return &memoryClient{queue: queue, stream: js}
}

// put puts a message that becomes number n.
func (m *memoryClient) put(t *testing.T, n uint64) {
	t.Helper()
	// The client may not have heard yet that its member has gone.
	eventually(t, 6*time.Minute, "a message to be put in memory", func() (bool, string) {
		asked, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		ack, err := m.stream.Publish(asked, m.queue.Name, document("xml", 1), jetstream.WithMsgID(fmt.Sprint("message ", n)))
		if err != nil {
			return false, err.Error()
		}
		if ack.Sequence != n {
			t.Fatalf("message %d became number %d%s", n, ack.Sequence, restarted(t, m.queue))
		}
		return true, ""
	})
}

// restarted says which members the kubelet has started again, as it does with one that a busy node has no memory for.
func restarted(t *testing.T, queue *v1alpha1.Queue) string {
	t.Helper()
	text := ""
	for _, pod := range pods(t, queue) {
		for _, c := range pod.Status.ContainerStatuses {
			if last := c.LastTerminationState.Terminated; c.RestartCount > 0 && last != nil {
				text += fmt.Sprintf(
					"; %s was restarted %d times, the last time for %s with code %d", pod.Name, c.RestartCount, last.Reason,
					last.ExitCode,
				)
			}
		}
	}
	return text
}

// end ends the only member, whose messages are lost by that: they are not persistent, and there is no claim.
func (m *memoryClient) end(t *testing.T) {
	t.Helper()
	east.see(t, m.queue, "have two messages in memory", func(s v1alpha1.QueueStatus) bool {
		return s.Statistics != nil && s.Statistics.Depth == 2 && s.Statistics.NonPersistent.Count == 2 &&
			s.Statistics.Persistent.Count == 0
	})
	var claims corev1.PersistentVolumeClaimList
	if err := east.List(context.Background(), &claims, client.InNamespace(m.queue.Namespace)); err != nil ||
		len(claims.Items) > 0 {
		t.Errorf("%d claims, %v", len(claims.Items), err)
	}
	m.ended = east.member(t, m.queue)
	if err := east.Delete(context.Background(), m.ended); err != nil {
		t.Fatal(err)
	}
}

// beginAnew puts into the member that came in place of the one that was ended.
func (m *memoryClient) beginAnew(t *testing.T) {
	t.Helper()
	east.waitForNext(t, m.ended)
	m.put(t, 1)
}

// expectOwn: a client sees the stream of its queue and no other, and what another client gets it cannot listen to.
func expectOwn(t *testing.T, connect func() (*nats.Conn, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	conn, js := connected(t, connect)
	defer conn.Close()
	// Of its own it may see more than one: what the members keep of leases and ids bears the queue's name.
	names := js.StreamNames(ctx)
	for name := range names.Name() {
		if name != "orders" && !strings.HasPrefix(name, "orders_") {
			t.Errorf("stream %s is there", name)
		}
	}
	if err := names.Err(); err != nil {
		t.Error(err)
	}
	spy, err := conn.SubscribeSync("_INBOX.>")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "a client not to be let listen to what others get", func() (bool, string) {
		m, err := spy.NextMsg(time.Second) // who waits already is not told
		if err == nil {
			t.Fatalf("a client hears what another gets: %s", m.Subject)
		}
		return errors.Is(err, nats.ErrPermissionViolation), err.Error()
	})
	// The consumer of the load has passed messages of every subject.
	_, err = js.CreateOrUpdateConsumer(
		ctx, "orders", jetstream.ConsumerConfig{Durable: loadConsumer, FilterSubject: "orders.other"},
	)
	var refused *jetstream.APIError
	if !errors.As(err, &refused) || refused.Code != http.StatusBadRequest {
		t.Errorf("other filters for a consumer: %v", err)
	}
}

// agreed waits until all members of a queue of three have what the one has that leads, and returns who is what.
func agreed(t *testing.T, queue *v1alpha1.Queue, js jetstream.JetStream) *jetstream.ClusterInfo {
	t.Helper()
	var found *jetstream.ClusterInfo
	eventually(t, 6*time.Minute, "all members of Queue "+queue.Name+" to be current", func() (bool, string) {
		asked, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		stream, err := js.Stream(asked, queue.Name)
		if err != nil {
			return false, err.Error()
		}
		found = stream.CachedInfo().Cluster
		current := found != nil && found.Leader != "" && len(found.Replicas) == 2
		for _, other := range ptr.Deref(found, jetstream.ClusterInfo{}).Replicas {
			current = current && other.Current && !other.Offline
		}
		return current, fmt.Sprintf("%+v", found)
	})
	return found
}

// memberOf is the pod of a member.
func memberOf(t *testing.T, queue *v1alpha1.Queue, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := east.Get(context.Background(), client.ObjectKey{Namespace: queue.Namespace, Name: name}, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// pods of a Queue's members.
func pods(t *testing.T, queue *v1alpha1.Queue) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := east.List(
		context.Background(), &list, client.InNamespace(queue.Namespace),
		client.MatchingLabels{v1alpha1.QueueLabel: string(queue.UID)},
	); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// restartMembers has the StatefulSet restart all of them, as an operator would.
func restartMembers(t *testing.T, queue *v1alpha1.Queue) {
	t.Helper()
	before := pods(t, queue)
	set := before[0].OwnerReferences[0].Name
	if out, err := east.command(
		"-n", queue.Namespace, "rollout", "restart", "statefulset/"+set,
	).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i := range before {
		east.waitForNext(t, &before[i])
	}
	east.waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
}

// loseClaim takes a member that does not lead the volume with all that it has while the others have that too, for one
// loss is what three members are for, and waits until it has all again.
func loseClaim(t *testing.T, queue *v1alpha1.Queue, js jetstream.JetStream) {
	t.Helper()
	ctx := context.Background()
	pod := memberOf(t, queue, agreed(t, queue, js).Replicas[0].Name)
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: queue.Namespace, Name: "data-" + pod.Name}
	if err := east.Get(ctx, key, claim); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{claim, pod} {
		if err := east.Delete(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 6*time.Minute, "another claim of "+pod.Name, func() (bool, string) {
		next := &corev1.PersistentVolumeClaim{}
		if err := east.Get(ctx, key, next); err != nil {
			return false, err.Error()
		}
		return next.UID != claim.UID &&
			next.Status.Phase == corev1.ClaimBound, fmt.Sprintf("deleted at %v, %s", next.DeletionTimestamp, next.Status.Phase)
	})
	east.waitForNext(t, pod)
	agreed(t, queue, js)
	east.waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
}

// showQueue prints what an operator sees.
func showQueue(t *testing.T, queue *v1alpha1.Queue) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "queues"},
		{"get", "queues", "-o", "wide"},
		{"describe", "queue", queue.Name},
	} {
		out, err := east.command(append([]string{"-n", queue.Namespace}, args...)...).CombinedOutput()
		if err != nil {
			t.Error(err)
		}
		t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
	out, complaint, err := east.plugin(t, "queue", "stat", queue.Name, "-n", queue.Namespace)
	t.Logf("kubectl lighterage queue stat: %v\n%s%s", err, out, complaint)
}
