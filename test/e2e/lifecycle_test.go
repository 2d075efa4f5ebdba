// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && lifecycle

package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

const system = "lighterage-system"

// installable is what can be installed: the images' tag, the chart, and how many managers and gateways, 0 for one.
type installable struct {
	version, chart string
	replicas       int
	// digests of the images, by component, when the chart names them so.
	digests map[string]string
}

// image is what references to a component's image end with.
func (r installable) image(component string) string {
	if digest := r.digests[component]; digest != "" {
		return "@" + digest
	}
	return ":" + r.version
}

// releases are the previous state and this tree (make test-lifecycle builds both).
func releases(t *testing.T) (previous, current installable) {
	t.Helper()
	previous = installable{version: os.Getenv("PREVIOUS_VERSION"), chart: os.Getenv("PREVIOUS_CHART")}
	current = installable{version: os.Getenv("LIFECYCLE_VERSION"), chart: "charts/lighterage"}
	if previous.version == "" || previous.chart == "" || current.version == "" {
		t.Fatal("PREVIOUS_VERSION, PREVIOUS_CHART and LIFECYCLE_VERSION say what to install: run make test-lifecycle")
	}
	return previous, current
}

// install makes a cluster run a release, as an administrator would with Helm, and returns when all of the operator's
// pods are of it.
func (c *cluster) install(t *testing.T, r installable) {
	t.Helper()
	installIn(t, r, c)
}

// installIn is install for clusters that cannot be peers before the operator runs in all of them.
func installIn(t *testing.T, r installable, in ...*cluster) {
	t.Helper()
	began := time.Now()
	var names []string
	for _, c := range in {
		names = append(names, c.name)
	}
	command := exec.Command("hack/demo/install.sh") //nolint:noctx // the script has time limits of its own
	command.Dir = root
	command.Env = append(os.Environ(), "VERSION="+r.version, "CHART="+r.chart, "CLUSTERS="+strings.Join(names, " "),
		fmt.Sprintf("REPLICAS=%d", max(1, r.replicas)))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("install %s in %v: %v\n%s", r.version, names, err, out)
	}
	for _, c := range in {
		var manager appsv1.Deployment
		if err := c.Get(
			context.Background(), client.ObjectKey{Namespace: system, Name: "lighterage-manager"}, &manager,
		); err != nil {
			t.Fatal(err)
		}
		if image := manager.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, r.image("manager")) {
			t.Fatalf("%s runs %s, not version %s", c.name, image, r.version)
		}
	}
	t.Logf("%v: %s is installed after %s", names, r.version, time.Since(began).Round(time.Second))
}

// traffic is what runs while something happens to installations: a Transfer, a Queue of three and an HTTPEndpoint.
type traffic struct {
	t         *testing.T
	namespace string
	transfer  *v1alpha1.Transfer
	queue     *v1alpha1.Queue
	connect   func() (*nats.Conn, error)
	messages  *queueLoad
	endpoint  *v1alpha1.HTTPEndpoint
	front     *front
	requests  *load
}

// trafficBytes is how large the file of the Transfer is, and trafficLimit how fast it goes, the slowest that the API
// allows: for 40 minutes.
const (
	trafficBytes = 600 << 20
	trafficLimit = "256Ki"
)

// beginTraffic returns when all of it flows. Clients of the Queue trust CAs beside the one that the cluster publishes.
func beginTraffic(t *testing.T, trusted ...[]byte) *traffic {
	t.Helper()
	f := &traffic{t: t, namespace: newNamespace(t)}
	f.beginTransfer()
	f.beginMessages(trusted)
	f.beginRequests()
	f.goesOn("at the beginning")
	return f
}

func (f *traffic) beginTransfer() {
	f.t.Helper()
	east.claim(f.t, f.namespace, "source", "", "1Gi")
	west.claim(f.t, f.namespace, "copy", "", "1Gi")
	east.sh(
		f.t, f.namespace, "source",
		fmt.Sprintf("head -c %d /dev/urandom > /data/large; echo small > /data/small; ln -s large /data/link", trafficBytes),
	)
	grant(f.t, f.namespace, "copy")
	f.transfer = newTransfer(f.namespace, "ledger")
	f.transfer.Spec.CheckpointInterval = resource.NewQuantity(1<<20, resource.BinarySI)
	limit := resource.MustParse(trafficLimit)
	f.transfer.Spec.BandwidthLimit = &limit
	if err := east.Create(context.Background(), f.transfer); err != nil {
		f.t.Fatal(err)
	}
}

func (f *traffic) beginMessages(trusted [][]byte) {
	f.t.Helper()
	ours := newAuthority(f.t)
	queue, clerk := east.newQueue(f.t, f.namespace, "orders", func(s *v1alpha1.QueueSpec) {
		s.Replicas, s.Authentication, s.Storage.Size = 3, only(ours), resource.MustParse("128Mi")
	})
	for _, ca := range trusted {
		clerk.roots.AppendCertsFromPEM(ca)
	}
	east.waitForQueue(f.t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	certificate := ours.clientCertificate(f.t)
	f.queue = queue
	f.connect = func() (*nats.Conn, error) {
		return (&memberDialer{cluster: east, queue: f.queue}).client(clerk.roots, certificate)
	}
	_, js := connected(f.t, f.connect)
	f.messages = beginLoad(f.t, queue, js, f.connect, "a", "b", "c")
}

func (f *traffic) beginRequests() {
	f.t.Helper()
	ctx := context.Background()
	body := backend(f.t, f.namespace)
	ca := newAuthority(f.t)
	name := "front." + f.namespace + ".svc"
	data, _ := ca.issue(f.t, name)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "front-tls"}, Type: corev1.SecretTypeTLS, Data: data,
	}
	f.endpoint = &v1alpha1.HTTPEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "front"},
		Spec: v1alpha1.HTTPEndpointSpec{
			Backend: v1alpha1.HTTPBackend{
				Service:     &v1alpha1.HTTPService{Name: "api", Port: 8080},
				HealthCheck: &v1alpha1.HTTPHealthCheck{Path: "/table.html", Timeout: &metav1.Duration{Duration: time.Minute}},
			},
			Listener: v1alpha1.HTTPListener{
				TLS: &v1alpha1.HTTPListenerTLS{SecretName: secret.Name}, ServiceType: v1alpha1.HTTPServiceNodePort,
				DrainTimeout: &metav1.Duration{Duration: 10 * time.Second},
			},
			Codings:     []v1alpha1.HTTPCoding{v1alpha1.CodingGzip},
			Compression: &v1alpha1.HTTPCompression{Mode: v1alpha1.CompressionAlways},
		},
	}
	for _, object := range []client.Object{secret, f.endpoint} {
		if err := east.Create(ctx, object); err != nil {
			f.t.Fatal(err)
		}
	}
	waitForEndpoint(f.t, f.endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "front"}}
	f.front = &front{address: east.nodePort(f.t, service), serverName: name, roots: roots, path: "/table.html", body: body}
	f.requests = f.front.start()
}

// goesOn waits until more of each has come through than had.
func (f *traffic) goesOn(after string) {
	f.t.Helper()
	before := f.staged()
	f.messages.goesOn(after)
	eventually(f.t, 6*time.Minute, "more of the Transfer's file to arrive "+after, func() (bool, string) {
		now := f.staged()
		return now > before, fmt.Sprintf("%d bytes are staged, %d were", now, before)
	})
	asked := f.requests.count()
	eventually(f.t, time.Minute, "requests to be answered "+after, func() (bool, string) {
		now := f.requests.count()
		return now >= asked+20, fmt.Sprintf("%d since", now-asked)
	})
}

// staged is how much of the Transfer's file is at the destination.
func (f *traffic) staged() int64 {
	f.t.Helper()
	var n int64
	text := west.sh(f.t, f.namespace, "copy", "du -k /data/.lighterage-staging 2>/dev/null | tail -n1; echo 0")
	if _, err := fmt.Sscan(text, &n); err != nil {
		f.t.Fatalf("size of what is staged: %q: %v", text, err)
	}
	return n << 10
}

// finish lets the Transfer end, stops clients, and checks that nothing was lost, doubled or failed.
func (f *traffic) finish() {
	f.t.Helper()
	f.finishRequests()
	f.finishMessages()
	f.finishTransfer()
}

func (f *traffic) finishRequests() {
	f.t.Helper()
	requests, failures := f.requests.end()
	f.t.Logf("%d requests, %d failed", requests, len(failures))
	for i, failure := range failures {
		if i == 20 {
			break
		}
		f.t.Error(failure)
	}
}

func (f *traffic) finishMessages() {
	f.t.Helper()
	f.messages.finish()
}

func (f *traffic) finishTransfer() {
	f.t.Helper()
	f.unlimited()
	waitFor(f.t, f.transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(f.t, f.namespace, "source", listing), west.sh(f.t, f.namespace, "copy", listing); want != got {
		f.t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
	if got := west.sh(f.t, f.namespace, "copy", "ls -A /data"); got != "large\nlink\nsmall\n" {
		f.t.Errorf("the destination has %q", got)
	}
	for _, h := range f.transfer.Status.History {
		f.t.Logf(
			"attempt %d: %s, %d bytes sent, %d resumed, %d sent again", h.Attempt, h.Reason, h.Bytes, h.ResumedBytes,
			h.ResentBytes,
		)
	}
}

// unlimited removes the limit and has the next attempt begin, which a limit that is gone is for.
func (f *traffic) unlimited() {
	f.t.Helper()
	patch(f.t, f.transfer, func() { f.transfer.Spec.BandwidthLimit = nil })
	east.KillAgent(f.t, f.namespace, "send")
}

// exchange moves a few files both ways between the clusters and wants both Transfers to be complete.
func exchange(t *testing.T, when string) {
	t.Helper()
	ctx := context.Background()
	namespace := newNamespace(t)
	for _, way := range []struct{ from, to *cluster }{{east, west}, {west, east}} {
		source, copied := "from-"+way.from.name, "to-"+way.to.name
		way.from.claim(t, namespace, source, "", "100Mi")
		way.to.claim(t, namespace, copied, "", "100Mi")
		way.from.sh(t, namespace, source, "cd /data; head -c 3000000 /dev/urandom > a; mkdir d; seq 100000 > d/b")
		grant := &v1alpha1.PeerGrant{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "from-" + way.from.name},
			Spec: v1alpha1.PeerGrantSpec{
				From: []v1alpha1.PeerGrantFrom{{Peer: way.from.name, Namespaces: []string{namespace}}},
				To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: copied}},
			},
		}
		if err := way.to.Create(ctx, grant); err != nil {
			t.Fatal(err)
		}
		transfer := newTransfer(namespace, source)
		transfer.Spec.Source.PersistentVolumeClaim.ClaimName = source
		transfer.Spec.Destination.Peer = way.to.name
		transfer.Spec.Destination.PersistentVolumeClaim.ClaimName = copied
		// Else the link may be faster than compression, and no block would be compressed.
		transfer.Spec.Compression = &v1alpha1.Compression{
			Mode: v1alpha1.CompressionAlways, Codecs: []v1alpha1.Codec{v1alpha1.CodecDeflate},
		}
		if err := way.from.Create(ctx, transfer); err != nil {
			t.Fatal(err)
		}
		eventually(t, 6*time.Minute, fmt.Sprintf(
			"a Transfer from %s to %s %s", way.from.name, way.to.name, when,
		), func() (bool, string) {
			if err := way.from.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
				return false, err.Error()
			}
			return transfer.Status.Phase == v1alpha1.TransferComplete, fmt.Sprintf(
				"%s %v", transfer.Status.Phase, transfer.Status.Conditions,
			)
		})
		if want, got := way.from.sh(t, namespace, source, listing), way.to.sh(t, namespace, copied, listing); want != got {
			t.Errorf("%s, from %s to %s, the two sides differ:\n%s\n%s", when, way.from.name, way.to.name, want, got)
		}
		if c := transfer.Status.Compression; c == nil || c.Codec != string(v1alpha1.CodecDeflate) ||
			c.Hardware.Bytes+c.Software.Bytes == 0 {
			t.Errorf("%s, from %s to %s, deflate was not used: %+v", when, way.from.name, way.to.name, c)
		}
	}
}

// versions of the pods that objects consist of, by image.
func (c *cluster) versions(t *testing.T, namespace, label string) map[string]int {
	t.Helper()
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace(namespace), client.HasLabels{label}); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for i := range pods.Items {
		_, version, _ := strings.Cut(pods.Items[i].Spec.Containers[0].Image, "/agent")
		found[cmp.Or(version, pods.Items[i].Spec.Containers[0].Image)]++
	}
	return found
}

// rolled waits until all members of the Queue and all replicas of the HTTPEndpoint are of a version and serve.
func (f *traffic) rolled(r installable) {
	f.t.Helper()
	for _, label := range []string{v1alpha1.QueueLabel, v1alpha1.HTTPEndpointLabel} {
		east.rolled(f.t, f.namespace, label, r)
	}
	east.waitForQueue(f.t, f.queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	waitForEndpoint(f.t, f.endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
}

// rolled waits until all pods with a label are of a version.
func (c *cluster) rolled(t *testing.T, namespace, label string, r installable) {
	t.Helper()
	eventually(t, 10*time.Minute, "every pod with "+label+" to be of "+r.version, func() (bool, string) {
		found := c.versions(t, namespace, label)
		return len(found) == 1 && found[r.image("agent")] > 0, fmt.Sprint(found)
	})
}

// expectNothing fails if a cluster has objects of ours in a namespace.
func (c *cluster) expectNothing(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, 6*time.Minute, "everything of ours to go from namespace "+namespace+" of "+
		c.name, func() (bool, string) {
		out, err := c.command("-n", namespace, "get", "jobs,deployments,statefulsets,services,pods,poddisruptionbudgets,secrets,networkpolicies",
			"-o", "name", "-l", "app.kubernetes.io/name=lighterage-agent").CombinedOutput()
		return err == nil && len(bytes.TrimSpace(out)) == 0, string(out)
	})
}
