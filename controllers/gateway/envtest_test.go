// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/compressionpolicy"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/gateway/gatewaytest"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/node"
	"github.com/lighterage/lighterage/controllers/peer"
	"github.com/lighterage/lighterage/controllers/peergrant"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// answers are other clusters' gateways and this cluster's node agents, all of which are well.
type answers struct {
	agentclient.PeerGateway
	agentclient.Agents
}

func (answers) Hello(context.Context, agentclient.Gateway) (*wirev1.HelloResponse, error) {
	return &wirev1.HelloResponse{ProtocolVersion: wirev1.ProtocolVersion, Version: "v9", KnownAs: "us"}, nil
}

func (answers) Profile(context.Context, agentclient.Target) (*wirev1.NodeMeasurement, error) {
	levels := []*wirev1.LevelMeasurement{
		{
			Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, CompressBytesPerSecond: 1 << 30, SampleCompressedBytes: 25,
			Selected: true,
		},
		{
			Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH, CompressBytesPerSecond: 1 << 30, SampleCompressedBytes: 25,
			Selected: true,
		},
	}
	return &wirev1.NodeMeasurement{
		Architecture: "s390x",
		Cores:        2,
		MeasuredTime: timestamppb.Now(),
		Engines: []*wirev1.EngineMeasurement{{
			Name: "dfltcc", Verified: true, CompressBytesPerSecond: 1 << 30, SampleBytes: 100, Levels: levels, Inflates: true,
		}},
		Accelerator: &wirev1.AcceleratorMeasurement{
			State: wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED, Reason: "Proved", Message: strings.Repeat("m", 5000),
			InflateMinSize: 1 << 63,
		},
	}, nil
}

// TestAgainstAnAPIServer runs the gateway, with the rights that it is installed with, and the controllers of Peers,
// PeerGrants, NodeProfiles and CompressionPolicies beside it.
func TestAgainstAnAPIServer(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	cluster, err := controllertest.Start("../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	w := &west{t: t, ca: westCA(), api: cluster.Client}
	startManager(t, cluster)
	startGateway(t, cluster, w)
	w.Cluster = &gatewaytest.Cluster{T: t, CA: w.ca, Address: w.address, API: w.api, Gateway: w.gateway}

	t.Run("Peers", func(t *testing.T) { testPeers(t, cluster) })
	t.Run("PeerGrants", func(t *testing.T) { testPeerGrants(t, cluster) })
	t.Run("CompressionPolicies", func(t *testing.T) { testPolicies(t, cluster) })
	t.Run("NodeProfiles", func(t *testing.T) { testNodes(t, cluster) })
	t.Run("Open, Withdraw, revoke", func(t *testing.T) { w.t, w.T = t, t; testGateway(t, cluster, w) })
}

func start(t *testing.T, mgr ctrl.Manager) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer stop() // when it ends early the caches are never filled
		ended <- mgr.Start(ctx)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the caches were not filled")
	}
}

func newManager(t *testing.T, cluster *controllertest.Cluster, config *rest.Config) ctrl.Manager {
	t.Helper()
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: cluster.Scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		// Names must be unique for the sake of metrics; with -count this test makes the same controllers again.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func startManager(t *testing.T, cluster *controllertest.Cluster) {
	t.Helper()
	mgr := newManager(t, cluster, cluster.Config)
	pool, err := controllertest.Pool(mgr)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		index.Setup(t.Context(), mgr.GetFieldIndexer()),
		peer.Setup(mgr, peer.Options{Gateways: answers{}}),
		peergrant.Setup(mgr, peergrant.Options{}),
		compressionpolicy.Setup(mgr, compressionpolicy.Options{}),
		node.Setup(mgr, node.Options{Profiles: node.Profiles(pool, answers{}), Namespace: controllertest.OperatorNamespace}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	start(t, mgr)
}

// startGateway starts it as a user who has the gateway's role and nothing else.
func startGateway(t *testing.T, cluster *controllertest.Cluster, w *west) {
	t.Helper()
	const user = "the-gateway"
	var rules []rbacv1.PolicyRule
	for _, file := range []string{"rbac/gateway_role.yaml", "pulls/pulls_role.yaml"} {
		manifest, err := os.ReadFile("../../config/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(manifest, &role); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, role.Rules...)
	}
	cluster.Allow(t, user, rules...)
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}

	// On an address that nobody else uses, so that the port is free still when the gateway opens it.
	free, err := net.Listen("tcp", "127.0.0.77:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = free.Addr().String()
	_ = free.Close()
	serving := issue(t, w.ca, pki.Identity{Cluster: "west", Path: pki.GatewayPath}, time.Now(), pki.GatewayServerName)
	mgr := newManager(t, cluster, config)
	err = gateway.Setup(context.Background(), mgr, w.address, "127.0.0.1:0", gateway.Options{
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &serving, nil },
		Issuer:      func() (*x509.Certificate, error) { return w.ca.Certificate, nil },
		Limits:      passthrough.Limits{HelloTimeout: patience, DrainTimeout: time.Second},
		Registerer:  prometheus.NewRegistry(),
		// Clients below ask again and again until what they wait for is there.
		RequestsPerSecond: 1000, RequestBurst: 10_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, mgr)
	controllertest.Eventually(t, func() error {
		conn, err := net.Dial("tcp", w.address)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
}

// becomes waits for a condition of an object.
func becomes(
	t *testing.T, cluster *controllertest.Cluster, object client.Object, found func() []metav1.Condition, ready bool,
	reason, words string,
) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		c := meta.FindStatusCondition(found(), v1alpha1.ConditionReady)
		if c == nil || (c.Status == metav1.ConditionTrue) != ready || c.Reason != reason ||
			!strings.Contains(c.Message, words) {
			return fmt.Errorf("%s is %+v, want %v, %s, %q", object.GetName(), c, ready, reason, words)
		}
		return nil
	})
}

func remove(t *testing.T, cluster *controllertest.Cluster, object client.Object) {
	t.Helper()
	if err := cluster.Client.Delete(context.Background(), object); err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, cluster *controllertest.Cluster, object client.Object, change func()) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change()
		return cluster.Client.Update(context.Background(), object)
	})
}

func testPeers(t *testing.T, cluster *controllertest.Cluster) {
	shared, own := newCA(t, "shared"), newCA(t, "own")
	make := func(name string, ca *pki.CA) *v1alpha1.Peer {
		p := &v1alpha1.Peer{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.PeerSpec{Endpoint: "gateway.example:8443", CABundle: ca.CertificatePEM},
		}
		cluster.Create(t, p)
		return p
	}
	first := make("first", shared)
	conditionsOf := func(p *v1alpha1.Peer) func() []metav1.Condition {
		return func() []metav1.Condition { return p.Status.Conditions }
	}
	becomes(t, cluster, first, conditionsOf(first), true, v1alpha1.ReasonReachable, "us")
	second, third := make("second", shared), make("third", shared)
	becomes(t, cluster, first, conditionsOf(first), false, v1alpha1.ReasonDuplicateCA, "second, third")
	becomes(t, cluster, second, conditionsOf(second), false, v1alpha1.ReasonDuplicateCA, "first, third")
	remove(t, cluster, third)
	becomes(t, cluster, second, conditionsOf(second), false, v1alpha1.ReasonDuplicateCA, "first holds")
	update(t, cluster, second, func() { second.Spec.CABundle = own.CertificatePEM })
	becomes(t, cluster, first, conditionsOf(first), true, v1alpha1.ReasonReachable, "us")
	becomes(t, cluster, second, conditionsOf(second), true, v1alpha1.ReasonReachable, "us")
	update(t, cluster, second, func() { second.Spec.Endpoint = "" })
	becomes(t, cluster, second, conditionsOf(second), true, v1alpha1.ReasonReceiveOnly, "")
	if second.Status.KnownAs != "" || second.Status.CAExpirationTime == nil {
		t.Errorf("status %+v", second.Status)
	}
	update(t, cluster, second, func() { second.Spec.CABundle = []byte("hello") })
	becomes(t, cluster, second, conditionsOf(second), false, v1alpha1.ReasonInvalidCABundle, "caBundle")
}

func testPeerGrants(t *testing.T, cluster *controllertest.Cluster) {
	namespace := cluster.Namespace(t)
	given := grantOf(namespace, "later", "bank", "copy")
	cluster.Create(t, given)
	found := func() []metav1.Condition { return given.Status.Conditions }
	becomes(
		t, cluster, given, found, false, v1alpha1.ReasonReferenceNotFound,
		`"later" does not exist, PersistentVolumeClaim "copy" does not exist`,
	)
	cluster.Claim(t, namespace, "copy")
	becomes(t, cluster, given, found, false, v1alpha1.ReasonReferenceNotFound, `Peer "later" does not exist:`)
	cluster.Peer(t, "later")
	becomes(t, cluster, given, found, true, v1alpha1.ReasonReferencesResolved, "")
	later := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "later"}}
	remove(t, cluster, later)
	becomes(t, cluster, given, found, false, v1alpha1.ReasonReferenceNotFound, "later")
}

func testPolicies(t *testing.T, cluster *controllertest.Cluster) {
	make := func(name string) *v1alpha1.CompressionPolicy {
		p := &v1alpha1.CompressionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"}},
			Spec:       v1alpha1.CompressionPolicySpec{Mode: v1alpha1.CompressionAuto},
		}
		cluster.Create(t, p)
		return p
	}
	a, b := make("a"), make("b")
	foundA, foundB := func() []metav1.Condition {
		return a.Status.Conditions
	}, func() []metav1.Condition { return b.Status.Conditions }
	becomes(t, cluster, a, foundA, true, v1alpha1.ReasonAccepted, "oldest of several")
	becomes(t, cluster, b, foundB, false, v1alpha1.ReasonMultipleDefaults, `"a" is the default`)
	update(t, cluster, a, func() { a.Annotations = nil })
	becomes(t, cluster, b, foundB, true, v1alpha1.ReasonAccepted, "where none is")
	becomes(t, cluster, a, foundA, true, v1alpha1.ReasonAccepted, "where it is named")
}

func testNodes(t *testing.T, cluster *controllertest.Cluster) {
	ctx := context.Background()
	z15 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "z15-a"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: controllertest.OperatorNamespace, Name: "node-agent-1",
			Labels: map[string]string{node.ComponentLabel: node.NodeAgent},
		},
		Spec: corev1.PodSpec{NodeName: "z15-a", Containers: []corev1.Container{{Name: "agent", Image: "agent"}}},
	}
	cluster.Create(
		t,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: controllertest.OperatorNamespace, Name: "default"}},
		z15, pod,
	)
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "10.0.0.1"
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
	if err := cluster.Client.Status().Update(ctx, pod); err != nil {
		t.Fatal(err)
	}
	profile := &v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "z15-a"}}
	becomes(t, cluster, profile, func() []metav1.Condition {
		return profile.Status.Conditions
	}, true, v1alpha1.ReasonMeasured, "")
	label := func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(z15), z15); err != nil {
			return err
		}
		if z15.Labels[v1alpha1.DeflateLabel] != "hardware" {
			return fmt.Errorf("labels %v", z15.Labels)
		}
		return nil
	}
	controllertest.Eventually(t, label)
	update(t, cluster, z15, func() { delete(z15.Labels, v1alpha1.DeflateLabel) })
	controllertest.Eventually(t, label)
	if err := cluster.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	becomes(t, cluster, profile, func() []metav1.Condition {
		return profile.Status.Conditions
	}, false, v1alpha1.ReasonNodeAgentUnreachable, "last known")
	if engines := profile.Status.Engines; len(engines) != 1 || len(engines[0].Levels) != 2 ||
		engines[0].Levels[1].Ratio != "4" || !engines[0].Inflates {
		t.Errorf("engines %+v", engines)
	}
	if a := profile.Status.Accelerator; a == nil || a.State != v1alpha1.AcceleratorVerified || len(a.Message) != 1024 {
		t.Errorf("accelerator %+v", a)
	}
}

func testGateway(t *testing.T, cluster *controllertest.Cluster, w *west) {
	ctx := context.Background()
	namespace := cluster.Namespace(t)
	cluster.Claim(t, namespace, "ledger-copy")
	east := newCA(t, "east")
	given := grantOf(namespace, "east", "bank", "ledger-copy")
	cluster.Create(
		t,
		&v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: v1alpha1.PeerSpec{CABundle: east.CertificatePEM}},
		given,
	)
	agentOf := func(run string) wirev1.GatewayClient {
		return w.dial(issueFor(t, east, sender("east"), time.Now(), func(c *pki.RunClaims) {
			c.Run, c.Namespace = run, namespace
		}))
	}
	c := agentOf("7f3ca")
	controllertest.Eventually(t, func() error {
		_, err := c.Hello(ctx, &wirev1.HelloRequest{ProtocolVersion: wirev1.ProtocolVersion})
		return err
	})
	request := ledger("7f3ca", 1)
	request.Destination.Namespace = namespace
	key := ledgerKey("7f3ca", 1)
	key.Namespace = namespace
	admitted := func() *stream {
		t.Helper()
		var s *stream
		controllertest.Eventually(t, func() error { // the grant may not have come to the gateway yet
			s = open(t, c, request)
			if response := s.next(); response.GetPending() == nil {
				return fmt.Errorf("%v", response)
			}
			return nil
		})
		return s
	}
	gone := func() {
		t.Helper()
		controllertest.Eventually(t, func() error {
			err := cluster.Client.Get(ctx, key, &v1alpha1.Delivery{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("the Delivery is still there: %w", err)
		})
	}

	s := admitted()
	name := w.ready(key, w.receiver(func() string {
		var delivery v1alpha1.Delivery
		_ = cluster.Client.Get(ctx, key, &delivery)
		return delivery.Status.ServerName
	}))
	if got := s.next().GetReady().GetServerName(); got != name {
		t.Fatalf("server name %q, want %q", got, name)
	}
	conn, err := w.connect(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Withdraw(ctx, &wirev1.WithdrawRequest{Namespace: "bank", Name: "ledger"}); err != nil {
		t.Fatal(err)
	}
	gone()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection outlived its Delivery")
	}
	testPulls(t, cluster, w, east, namespace)

	c, request.RunId = agentOf("8a4db"), "8a4db"
	key.Name = plan.DeliveryName(
		"east", v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "8a4db", Attempt: 1},
	)
	s = admitted()
	remove(t, cluster, given)
	s.refused(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED)
	gone()
}

// testPulls: the gateway's own rights suffice, and asking again writes nothing, whatever the API server filled in.
func testPulls(t *testing.T, cluster *controllertest.Cluster, w *west, east *pki.CA, namespace string) {
	t.Helper()
	ctx := context.Background()
	given := readGrant("east", "ledger")
	given.Namespace, given.Name, given.ResourceVersion = namespace, "read", ""
	cluster.Create(t, given)
	c := w.dial(issue(t, east, manager("east"), time.Now()))
	request := pullOf("ledger")
	request.Source.Namespace = namespace
	ask := func() {
		t.Helper()
		controllertest.Eventually(t, func() error { // the grant may not have come to the gateway yet
			_, err := c.Pull(ctx, request)
			return err
		})
	}
	made := &v1alpha1.Transfer{}
	key := client.ObjectKey{Namespace: namespace, Name: plan.PullName("bank", "ledger", pullUID)}
	version := func() string {
		t.Helper()
		if err := cluster.Client.Get(ctx, key, made); err != nil {
			t.Fatal(err)
		}
		return made.ResourceVersion
	}
	ask()
	before := version()
	if ask(); version() != before {
		t.Error("asking again wrote something")
	}
	request.Suspend = true
	if ask(); version() == before || !made.Spec.Suspend {
		t.Errorf("it was not suspended: %+v", made.Spec)
	}
	if _, err := c.Withdraw(ctx, &wirev1.WithdrawRequest{
		Namespace: "bank", Name: "ledger", Pull: &wirev1.PullName{Namespace: namespace, Uid: pullUID},
	}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Get(ctx, key, made); !apierrors.IsNotFound(err) {
		t.Errorf("it was not withdrawn: %v", err)
	}
}
