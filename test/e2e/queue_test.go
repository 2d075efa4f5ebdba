// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// waitForQueue waits until status of a Queue in east is about the present spec and a condition is True with a reason;
// it returns the message.
func waitForQueue(t *testing.T, queue *v1alpha1.Queue, condition, reason string) string {
	t.Helper()
	return east.waitForQueue(t, queue, condition, reason)
}

func (c *cluster) waitForQueue(t *testing.T, queue *v1alpha1.Queue, condition, reason string) string {
	t.Helper()
	message := ""
	eventually(t, 6*time.Minute, "Queue "+queue.Name+" of "+c.name+" to be "+condition+" for "+
		reason, func() (bool, string) {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(queue), queue); err != nil {
			return false, err.Error()
		}
		found := meta.FindStatusCondition(queue.Status.Conditions, condition)
		if found == nil {
			return false, "no such condition yet"
		}
		message = found.Message
		return queue.Status.ObservedGeneration == queue.Generation && found.Status == metav1.ConditionTrue &&
				found.Reason == reason,
			string(found.Status) + " " + found.Reason + ": " + found.Message
	})
	return message
}

// TestQueue is the life of a queue: messages put and got by an ordinary client, what status says of them, a member that
// ends and comes back with what it kept, and a deletion that waits for leave to lose messages.
func TestQueue(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders-tokens"},
		Data:       map[string][]byte{"clerk": []byte("let the clerk in\n")},
	}
	queue := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"},
		Spec: v1alpha1.QueueSpec{
			Storage: v1alpha1.QueueStorage{Size: resource.MustParse("100Mi")},
			Compression: &v1alpha1.QueueCompression{
				Mode: v1alpha1.CompressionAlways, MinSize: ptr.To(resource.MustParse("10000")),
			},
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: secret.Name}},
		},
	}
	for _, object := range []client.Object{secret, queue} {
		if err := east.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { east.abandonQueue(t, queue) })
	waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	expectServiceInside(t, queue)

	clerk := &queueClient{cluster: east, queue: queue, roots: east.certificateAuthority(t), token: "let the clerk in"}
	clerk.connect(t)
	clerk.expectStrangersKeptOut(t)
	messages := orders(40)
	clerk.put(t, messages)
	clerk.get(t, messages[:20])
	checkQueueStatistics(t, queue, messages, 20)

	endMember(t, queue)
	clerk.connect(t)
	clerk.get(t, messages[20:30])

	if err := east.Delete(ctx, queue); err != nil {
		t.Fatal(err)
	}
	message := ""
	// It may first be about what the member counted before the last acknowledgements.
	eventually(t, 6*time.Minute, "the message to name the 10 messages that would be lost", func() (bool, string) {
		message = waitForQueue(t, queue, v1alpha1.ConditionStalled, v1alpha1.ReasonMessagesRemain)
		return strings.Contains(message, " 10 messages "), message
	})
	t.Logf("deleted with messages in it: %s", message)
	if !strings.Contains(message, v1alpha1.DeleteMessagesAnnotation) {
		t.Errorf("the message does not name how to lose them: %s", message)
	}
	clerk.get(t, messages[30:31])
	clerk.close()
	patch(t, queue, func() { metav1.SetMetaDataAnnotation(&queue.ObjectMeta, v1alpha1.DeleteMessagesAnnotation, "true") })
	eventually(t, 6*time.Minute, "the Queue to go with everything that it was made of", func() (bool, string) {
		out, err := east.command("-n", namespace, "get", "statefulsets,services,secrets,pods,poddisruptionbudgets,persistentvolumeclaims",
			"-o", "name", "-l", v1alpha1.QueueLabel).CombinedOutput()
		return err == nil && len(bytes.TrimSpace(out)) == 0 &&
			apierrors.IsNotFound(east.Get(ctx, client.ObjectKeyFromObject(queue), queue)), string(out)
	})
}

// expectServiceInside asks the Service by its name and address, from a pod of the cluster, for what a NATS server says
// first.
func expectServiceInside(t *testing.T, queue *v1alpha1.Queue) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: queue.Namespace, Name: "visitor"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  ptr.To(false),
			RestartPolicy:                 corev1.RestartPolicyOnFailure,
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "visitor", Image: east.Busybox(),
				Command: []string{
					"/bin/sh", "-ec", "nc " + queue.Name + "." + queue.Namespace + ".svc 4222 </dev/null | grep '^INFO '",
				},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	if err := east.Create(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Minute, "a pod of the cluster to reach the Service", func() (bool, string) {
		err := east.Get(context.Background(), client.ObjectKeyFromObject(pod), pod)
		return err == nil && pod.Status.Phase == corev1.PodSucceeded, fmt.Sprintf("%s, %v", pod.Status.Phase, err)
	})
	said, err := east.command("-n", pod.Namespace, "logs", pod.Name).Output()
	if err != nil || !bytes.Contains(said, []byte(`"tls_required":true`)) ||
		!bytes.Contains(said, []byte(`"auth_required":true`)) {
		t.Errorf("the Service says %s, %v; want TLS and authentication to be required", said, err)
	}
}

// checkQueueStatistics waits until status counts the messages, of which the first got ones were acknowledged, and says
// the rest of it. All of it stays as it is; what it is made of comes from several reports.
func checkQueueStatistics(t *testing.T, queue *v1alpha1.Queue, messages [][]byte, got int) {
	t.Helper()
	eventually(t, 6*time.Minute, "status to count what was put and got", func() (bool, string) {
		if err := east.Get(context.Background(), client.ObjectKeyFromObject(queue), queue); err != nil {
			return false, err.Error()
		}
		problem := statisticsProblem(queue, messages, got)
		return problem == "", problem
	})
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
}

// statisticsProblem is what of a Queue's status is not as it should be, "" for nothing.
func statisticsProblem(queue *v1alpha1.Queue, messages [][]byte, got int) string {
	compressed, decompressed, plain, plainLeft := int64(0), int64(0), int64(0), int64(0)
	for i, message := range messages {
		if i >= got {
			plainLeft += int64(len(message))
		}
		if len(message) < 10000 {
			continue
		}
		compressed, plain = compressed+1, plain+int64(len(message))
		if i < got {
			decompressed++
		}
	}
	put, left := int64(len(messages)), int64(len(messages)-got)
	status := queue.Status
	s, c := status.Statistics, status.Compression
	if s == nil {
		return "no statistics"
	}
	if s.Depth != left || s.Puts.Count != put || s.Gets.Count != int64(got) || s.Unacknowledged != 0 {
		return fmt.Sprintf("depth, puts, gets or unacknowledged: %+v", *s)
	}
	if s.Compressions.Count != compressed || s.Decompressions.Count != decompressed ||
		s.AverageUncompressedSize != plain/compressed {
		return fmt.Sprintf("%d compressions of %d bytes, %d decompressions; want %d of %d, "+
			"%d", s.Compressions.Count, s.AverageUncompressedSize,
			s.Decompressions.Count, compressed, plain/compressed, decompressed)
	}
	if ratio, err := strconv.ParseFloat(s.AverageRatio, 64); err != nil || ratio <= 2 {
		return fmt.Sprintf("the average ratio is %q, want more than 2", s.AverageRatio)
	}
	if s.Persistent.Count != left || s.Persistent.Bytes <= 0 || s.Persistent.Bytes*2 > plainLeft ||
		s.NonPersistent.Count != 0 || s.OldestMessageTime == nil ||
		ptr.Deref(s.FileBytes, 0) <= 0 || s.Consumers != 1 || s.Connections < 1 || s.FailedAuthentications < 1 ||
		s.AverageCompressSeconds == "" || s.Puts.HighPerSecond == "" {
		return fmt.Sprintf("unexpected statistics: %+v", *s)
	}
	if c == nil || c.Engine == "" || c.SavedPercent <= 0 || status.CPU == nil || status.Ready != "1/1" ||
		len(status.Members) != 1 ||
		!status.Members[0].Leader || !status.Members[0].Current || status.Members[0].State != "Serving" ||
		status.Address != "tls://orders."+queue.Namespace+".svc:4222" {
		return fmt.Sprintf("unexpected status: %+v", status)
	}
	return ""
}

// endMember deletes the pod and waits until another serves from its volume.
func endMember(t *testing.T, queue *v1alpha1.Queue) {
	t.Helper()
	pod := east.member(t, queue)
	if err := east.Delete(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	east.waitForNext(t, pod)
}

// member is the pod of a Queue of one member.
func (c *cluster) member(t *testing.T, queue *v1alpha1.Queue) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := c.Get(
		context.Background(), client.ObjectKey{Namespace: queue.Namespace, Name: queue.Status.Members[0].Name}, pod,
	); err != nil {
		t.Fatal(err)
	}
	return pod
}

// waitForNext waits until another process is ready than the one that ran in a pod, in that pod or in one that came in
// its place.
func (c *cluster) waitForNext(t *testing.T, former *corev1.Pod) {
	t.Helper()
	eventually(t, 6*time.Minute, "another process to be ready in place of that of "+former.Name, func() (bool, string) {
		next := &corev1.Pod{}
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(former), next); err != nil {
			return false, err.Error()
		}
		if next.UID == former.UID && restarts(next) == restarts(former) {
			return false, "the same process"
		}
		for _, condition := range next.Status.Conditions {
			if condition.Type == corev1.PodReady {
				return condition.Status == corev1.ConditionTrue, condition.Message
			}
		}
		return false, string(next.Status.Phase)
	})
}

func restarts(pod *corev1.Pod) (n int32) {
	for _, container := range pod.Status.ContainerStatuses {
		n += container.RestartCount
	}
	return n
}

// abandonQueue prints what an operator would look at after a failure, and lets the Queue go with its messages.
func (c *cluster) abandonQueue(t *testing.T, queue *v1alpha1.Queue) {
	t.Helper()
	ctx := context.Background()
	if t.Failed() {
		for _, args := range [][]string{
			{"get", "queues,statefulsets,services,endpointslices,pods,persistentvolumeclaims", "-o", "wide"},
			{"describe", "queues"},
			{"describe", "pods", "-l", v1alpha1.QueueLabel},
		} {
			out, _ := c.command(append([]string{"-n", queue.Namespace}, args...)...).CombinedOutput()
			t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
		}
	}
	leave := client.RawPatch(
		types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.DeleteMessagesAnnotation),
	)
	if err := client.IgnoreNotFound(c.Patch(ctx, queue, leave)); err != nil {
		t.Errorf("let Queue %s go: %v", client.ObjectKeyFromObject(queue), err)
	}
	if err := client.IgnoreNotFound(c.Delete(ctx, queue)); err != nil {
		t.Errorf("delete Queue %s: %v", client.ObjectKeyFromObject(queue), err)
	}
}

// certificateAuthority is what Lighterage in a cluster publishes for those who verify certificates of its own CA.
func (c *cluster) certificateAuthority(t *testing.T) *x509.CertPool {
	t.Helper()
	config := &corev1.ConfigMap{}
	if err := c.Get(
		context.Background(), client.ObjectKey{Namespace: "lighterage-system", Name: "lighterage-ca"}, config,
	); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(config.Data["ca.crt"])) {
		t.Fatalf("%s: ConfigMap lighterage-ca has no certificate", c.name)
	}
	return roots
}
