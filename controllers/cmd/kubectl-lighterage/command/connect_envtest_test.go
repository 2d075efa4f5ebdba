// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
)

// TestConnect joins two API servers, repairs the link, and removes it.
func TestConnect(t *testing.T) {
	clusters, cas, path := twoClusters(t)
	run := func(arguments ...string) (string, string, error) {
		return try(t, "", append(arguments, "--kubeconfig", path)...)
	}
	east, west := clusters["east"], clusters["west"]

	if _, _, err := run("connect", "--to", "again"); err == nil || !strings.Contains(err.Error(), "one cluster") {
		t.Errorf("one cluster: %v", err)
	}
	_, _, err := run("connect", "--to", "west-nobody")
	if err == nil || !strings.Contains(err.Error(), "patch peers.lighterage.dev") ||
		!strings.Contains(err.Error(), "in cluster west-nobody: get configmaps lighterage-ca") ||
		strings.Contains(err.Error(), "in cluster east:") {
		t.Errorf("without rights: %v", err)
	}
	if out, _, err := run("connect", "--to", "west", "--manifests", "-"); err != nil ||
		!strings.Contains(out, "name: west") || !strings.Contains(out, "endpoint: 10.0.0.2:") ||
		!strings.Contains(out, "name: east") || strings.Contains(out, "status") || countPeers(t, east) != 0 {
		t.Errorf("manifests: %v\n%s", err, out)
	}
	directory := t.TempDir()
	grants := []string{"connect", "--to", "west", "--manifests", directory, "--to-grant", "vault/ledger=bank", "--grant",
		"a=b"}
	for _, state := range []string{"written", "unchanged"} {
		if _, said, err := run(grants...); err != nil || strings.Count(said, state) != 4 {
			t.Errorf("manifests: %v\n%s", err, said)
		}
	}
	for file, want := range map[string]string{
		"east/peer-west.yaml": "name: west", "west/peer-east.yaml": "name: east",
		"east/peergrant-a.from-west.b.yaml":               "peer: west",
		"west/peergrant-vault.from-east.bank.ledger.yaml": "peer: east",
	} {
		text, err := os.ReadFile(filepath.Join(directory, file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			t.Fatal(err)
		}
		if object.GetNamespace() != "" {
			object.SetNamespace("default")
		}
		cluster := clusters[filepath.Dir(file)]
		if err := cluster.Client.Create(t.Context(), object, client.DryRunAll); err != nil {
			t.Errorf("%s is rejected: %v", file, err)
		}
	}
	if _, _, err := run("connect", "--to", "west", "--to-grant", "nowhere"); err == nil ||
		!strings.Contains(err.Error(), "create namespace nowhere") || countPeers(t, east)+countPeers(t, west) != 0 {
		t.Errorf("a grant in a namespace that is not there: %v", err)
	}
	if _, _, err := run("connect", "--to", "west-nobody", "--to-grant", "vault"); err == nil ||
		!strings.Contains(err.Error(), "patch peergrants.lighterage.dev in namespace vault") {
		t.Errorf("a grant without rights: %v", err)
	}
	tryHalves(t, clusters, path)
	// Nobody looks at the Peers: they are made, and the command says that nothing is proved.
	if _, _, err := run("connect", "--to", "west", "--wait", "50ms"); err == nil ||
		!strings.Contains(err.Error(), "check that it runs") {
		t.Errorf("without managers: %v", err)
	}
	tryWrongDNS(t, clusters, path)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, cluster := range clusters {
		go manage(ctx, cluster.Client)
	}
	out, _, err := run("connect", "--to", "west", "-o", "json")
	var both []joined
	if err != nil || json.Unmarshal([]byte(out), &both) != nil || len(both) != 2 || !both[0].Ready || !both[1].Ready ||
		both[0].Action != link.Keep {
		t.Fatalf("%v\n%s", err, out)
	}
	peer := getPeer(t, east, "west")
	if string(peer.Spec.CABundle) != string(cas["west"].CertificatePEM) || !strings.HasPrefix(peer.Spec.Endpoint, "10.0.0.2:") ||
		peer.Labels[link.MadeByLabel] != link.MadeByConnect {
		t.Errorf("%+v", peer)
	}
	tryVerify(t, clusters, path)
	tryInterrupts(t, clusters, path)
	// Half of the link is lost, and the other half has a wrong address.
	if err := east.Client.Delete(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	if out, _, err = run("connect", "--to", "west", "--endpoint", "gateway.east.example:8443"); err != nil ||
		!strings.Contains(out, "west (created)") || !strings.Contains(out, "east (repaired)") ||
		getPeer(t, west, "east").Spec.Endpoint != "gateway.east.example:8443" {
		t.Errorf("half joined: %v\n%s", err, out)
	}
	if _, _, err := run("connect", "--to", "west", "--to-name", "w"); err == nil ||
		!strings.Contains(err.Error(), "leave out --to-name") {
		t.Errorf("another name: %v", err)
	}

	tryGrants(t, clusters, run)
	east.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank"}})
	grant := &v1alpha1.PeerGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "in"}}
	grant.Spec.From = []v1alpha1.PeerGrantFrom{{Peer: "west", Namespaces: []string{"bank"}}}
	grant.Spec.To = []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedQueue}}
	east.Create(t, grant)
	set := &v1alpha1.TransferSet{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "nightly"}}
	set.Spec.Selector = &metav1.LabelSelector{}
	set.Spec.Template.Destination.Peer = "west"
	east.Create(t, set) // without members: there are no claims
	_, said, err := run("disconnect", "--to", "west")
	if err == nil || !strings.Contains(said, "PeerGrant bank/in") || !strings.Contains(said, "TransferSet bank/nightly") ||
		countPeers(t, west) != 1 || countPeers(t, east) != 1 {
		t.Errorf("in use: %v\n%s", err, said)
	}
	tryDisconnectRights(t, west, run)
	_, said, err = run("disconnect", "--to", "west", "--force")
	if err != nil || countPeers(t, west)+countPeers(t, east) != 0 {
		t.Errorf("disconnect: %v\n%s", err, said)
	}
	var left v1alpha1.PeerGrantList
	if err := west.Client.List(t.Context(), &left); err != nil || len(left.Items) != 1 || left.Items[0].Name != "shared" {
		t.Errorf("%d grants after disconnect: %v", len(left.Items), err)
	}
	if _, _, err := run("verify", "--to", "west"); err == nil || !strings.Contains(err.Error(), "lighterage connect") {
		t.Errorf("verify without a link: %v", err)
	}
	other := west.Peer(t, "east")
	if _, _, err := run("connect", "--to", "west"); err == nil || !strings.Contains(err.Error(), "--name") ||
		getPeer(t, west, "east").Spec.Endpoint != other || countPeers(t, east) != 0 {
		t.Errorf("name of another cluster: %v", err)
	}
	if out, _, err := run("check"); err == nil || !strings.Contains(out, "there is no operator in namespace") ||
		!strings.Contains(out, "kinds are served") || !strings.Contains(out, "the cluster's CA is valid until") {
		t.Errorf("check: %v\n%s", err, out)
	}
	if out, _, err := run("check", "--context", "east-nobody", "-o", "json"); !strings.Contains(out,
		`"result": "skipped"`) {
		t.Errorf("check without rights: %v\n%s", err, out)
	}
	if out, _, err := run("check", "--to", "west"); err == nil || !strings.Contains(out, "Cluster east\n") ||
		!strings.Contains(out, "Cluster west\n") || !strings.Contains(out, "cluster east has no Peer with the CA of cluster west") {
		t.Errorf("check of two clusters: %v\n%s", err, out)
	}
	tryProve(t, east, run)
}

// tryHalves interrupts connect at the second Peer, and at the PeerGrant after both: it names what stays, and disconnect
// removes that.
func tryHalves(t *testing.T, clusters map[string]*controllertest.Cluster, path string) {
	t.Helper()
	applies := func(r *http.Request) bool { return r.Method == http.MethodPatch && !r.URL.Query().Has("dryRun") }
	east, west := "Peer west of cluster east", "Peer east of cluster west"
	for at, says := range map[int32][]string{2: {east}, 3: {east, west}} {
		// At its end the API servers have done what was broken off, or not.
		t.Run(fmt.Sprintf("request %d", at), func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			c := &counted{counts: applies, at: at, interrupt: stop}
			var said strings.Builder
			streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: &said}
			err := Run(ctx, []string{
				"connect", "--to", "west", "--to-grant", "default", "--kubeconfig", c.between(t, clusters, path),
			}, streams)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%v\n%s", err, said.String())
			}
			for _, part := range append(says, "disconnect --context east --to west") {
				if !strings.Contains(err.Error(), part) {
					t.Error(err)
				}
			}
			if len(says) == 1 && strings.Contains(err.Error(), west) {
				t.Errorf("it is not known whether the second Peer was applied: %v", err)
			}
		})
		_, removed, err := try(t, "", "disconnect", "--to", "west", "--kubeconfig", path)
		if err != nil || countPeers(t, clusters["east"])+countPeers(t, clusters["west"]) != 0 {
			t.Errorf("disconnect: %v\n%s", err, removed)
		}
	}
}

// tryWrongDNS: a name that leads nowhere is said with the manager's words, the Peers stay, and the next connect with
// another address repairs them.
func tryWrongDNS(t *testing.T, clusters map[string]*controllertest.Cluster, path string) {
	t.Helper()
	const wrong = "gateway.wrong.example:8443"
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ; ctx.Err() == nil; time.Sleep(peerPoll) {
			for _, cluster := range clusters {
				judge(ctx, cluster.Client, func(p *v1alpha1.Peer) metav1.Condition {
					if p.Spec.Endpoint != wrong {
						return reachable
					}
					return metav1.Condition{
						Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPeerUnreachable,
						Message: "lookup gateway.wrong.example: no such host" + hostile,
					}
				})
			}
		}
	}()
	_, said, err := try(t, "", "connect", "--to", "west", "--to-endpoint", wrong, "--wait", "1s", "--kubeconfig", path)
	const says = "cluster east does not reach cluster west: lookup gateway.wrong.example: no such host"
	if err == nil || ExitCode(err) != 1 || !strings.Contains(err.Error(), says) ||
		strings.ContainsAny(err.Error()+said, "\x1b\u202e") ||
		!strings.Contains(said, "east to west: "+v1alpha1.ReasonPeerUnreachable) ||
		getPeer(t, clusters["east"], "west").Spec.Endpoint != wrong {
		t.Errorf("wrong DNS: %v\n%s", err, said)
	}
	// What the Service shows is taken again, because the Peer is not Ready.
	if out, _, err := try(t, "", "connect", "--to", "west", "--kubeconfig", path); err != nil ||
		!strings.Contains(out, "west (repaired)") {
		t.Errorf("after wrong DNS: %v\n%s", err, out)
	}
	stop()
	<-ended
}

// tryGrants makes PeerGrants with the connection, twice, and one that somebody else goes on to use.
func tryGrants(
	t *testing.T, clusters map[string]*controllertest.Cluster, run func(...string) (string, string, error),
) {
	t.Helper()
	west := clusters["west"]
	west.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vault"}})
	arguments := []string{"connect", "--to", "west", "--to-grant", "vault/ledger=bank", "--to-grant", "vault"}
	var versions []string
	for range 3 {
		out, said, err := run(arguments...)
		if err != nil || !strings.Contains(out, "vault/from-east.bank.ledger") ||
			!strings.Contains(said, "spec.destination: {peer: west, namespace: vault, ...}") ||
			!strings.Contains(said, "--grant NAMESPACE") || strings.Contains(said, "--to-grant NAMESPACE") {
			t.Errorf("grants: %v\n%s\n%s", err, out, said)
		}
		var grant v1alpha1.PeerGrant
		key := client.ObjectKey{Namespace: "vault", Name: "from-east.bank.ledger"}
		if err := west.Client.Get(t.Context(), key, &grant); err != nil || grant.Spec.To[0].AllowDelete ||
			grant.Labels[link.MadeByLabel] != link.MadeByConnect {
			t.Fatalf("%v: %+v", err, grant)
		}
		versions = append(versions, grant.ResourceVersion)
	}
	if versions[1] != versions[2] { // the second adds the default of status to what is stored
		t.Error("what is as it should be was written again")
	}
	var other v1alpha1.PeerGrant
	key := client.ObjectKey{Namespace: "vault", Name: "from-east.vault"}
	if err := west.Client.Get(t.Context(), key, &other); err != nil {
		t.Fatal(err)
	}
	shared := &v1alpha1.PeerGrant{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "shared", Labels: other.Labels}}
	shared.Spec = *other.Spec.DeepCopy()
	shared.Spec.From = append(shared.Spec.From, v1alpha1.PeerGrantFrom{Peer: "north", Namespaces: []string{"vault"}})
	west.Create(t, shared)
}

// tryDisconnectRights: who may delete Peers, and not the PeerGrants that connect made, deletes nothing.
func tryDisconnectRights(
	t *testing.T, west *controllertest.Cluster, run func(...string) (string, string, error),
) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "disconnects"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces", "configmaps"}, Verbs: []string{"get"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"peers"}, Verbs: []string{"delete"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "nobody"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	west.Create(t, role, binding)
	controllertest.Eventually(t, func() error {
		_, _, err := run("disconnect", "--to", "west-nobody", "--force")
		if err == nil ||
			!strings.Contains(err.Error(), "cluster west-nobody: delete peergrants.lighterage.dev in namespace vault") ||
			strings.Contains(err.Error(), "cluster east:") {
			return fmt.Errorf("%w, %d Peers", err, countPeers(t, west))
		}
		return nil
	})
	if countPeers(t, west) != 1 {
		t.Error("it deleted the Peer")
	}
}

// twoClusters starts two API servers, east and west, that have what an installation publishes, and returns them, their
// CAs and a kubeconfig.
func twoClusters(t *testing.T) (map[string]*controllertest.Cluster, map[string]*pki.CA, string) {
	t.Helper()
	peerPoll = 10 * time.Millisecond
	clusters := map[string]*controllertest.Cluster{}
	config := clientcmdapi.NewConfig()
	cas := map[string]*pki.CA{}
	for name, address := range map[string]string{"east": "10.0.0.1", "west": "10.0.0.2"} {
		cluster, err := controllertest.Start("../../../../config/crd/bases")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cluster.Stop() })
		clusters[name] = cluster
		cas[name] = publish(t, cluster, address)
		config.Clusters[name] = &clientcmdapi.Cluster{
			Server: cluster.Config.Host, CertificateAuthorityData: cluster.Config.CAData,
		}
		for user, as := range map[string]string{"": "", "-nobody": "nobody"} {
			config.AuthInfos[name+user] = &clientcmdapi.AuthInfo{
				ClientCertificateData: cluster.Config.CertData, ClientKeyData: cluster.Config.KeyData, Impersonate: as,
			}
			if as != "" {
				config.AuthInfos[name+user].ImpersonateGroups = []string{"system:authenticated"}
			}
			config.Contexts[name+user] = &clientcmdapi.Context{Cluster: name, AuthInfo: name + user}
		}
	}
	config.Contexts["again"] = config.Contexts["east"]
	config.CurrentContext = "east"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return clusters, cas, path
}

// publish makes what an installation publishes, and returns its CA.
func publish(t *testing.T, cluster *controllertest.Cluster, address string) *pki.CA {
	t.Helper()
	ca, _, err := pki.NewCA("east", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	in := metav1.ObjectMeta{Namespace: controllertest.OperatorNamespace}
	published := &corev1.ConfigMap{ObjectMeta: in, Data: map[string]string{pki.CAKey: string(ca.CertificatePEM)}}
	published.Name = pki.CAName
	service := &corev1.Service{ObjectMeta: in}
	service.Name = gatewayService
	service.Spec.Type = corev1.ServiceTypeNodePort
	service.Spec.Ports = []corev1.ServicePort{{Name: link.PortName, Port: 8443}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	cluster.Create(t, published, service, node)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := cluster.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	// API servers make it soon after they start.
	controllertest.Eventually(t, func() error {
		return cluster.Client.Get(t.Context(), client.ObjectKey{Name: systemNamespace}, &corev1.Namespace{})
	})
	return ca
}

// reachable is what the manager says of a Peer that is.
var reachable = metav1.Condition{
	Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReachable,
}

// manage finds every Peer reachable, as the manager would.
func manage(ctx context.Context, cluster client.Client) {
	for ; ctx.Err() == nil; time.Sleep(peerPoll) {
		judge(ctx, cluster, func(*v1alpha1.Peer) metav1.Condition { return reachable })
	}
}

// judge says of each Peer that is new or changed what the manager finds.
func judge(ctx context.Context, cluster client.Client, finds func(*v1alpha1.Peer) metav1.Condition) {
	var peers v1alpha1.PeerList
	_ = cluster.List(ctx, &peers)
	for i := range peers.Items {
		peer := &peers.Items[i]
		if peer.Status.ObservedGeneration == peer.Generation {
			continue
		}
		peer.Status.ObservedGeneration = peer.Generation
		meta.SetStatusCondition(&peer.Status.Conditions, finds(peer))
		_ = cluster.Status().Update(ctx, peer) // repeated if it failed
	}
}

func getPeer(t *testing.T, cluster *controllertest.Cluster, name string) *v1alpha1.Peer {
	t.Helper()
	peer := &v1alpha1.Peer{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: name}, peer); err != nil {
		t.Fatal(err)
	}
	return peer
}

func countPeers(t *testing.T, cluster *controllertest.Cluster) int {
	t.Helper()
	var peers v1alpha1.PeerList
	if err := cluster.Client.List(t.Context(), &peers); err != nil {
		t.Fatal(err)
	}
	return len(peers.Items)
}
