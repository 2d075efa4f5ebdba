// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/queue/external"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/queue"
)

// secretWord is in every value of a Secret that must not leave the cluster.
const secretWord = "word-that-stays"

// foreignSecrets are what other programs keep in the namespace, by their types' keys.
func foreignSecrets(t *testing.T) map[string]map[string]string {
	t.Helper()
	return map[string]map[string]string{
		"service account token": {"token": secretWord, "ca.crt": "x", "namespace": "bank"},
		"basic auth":            {"username": secretWord, "password": secretWord},
		"nats user":             {"creds": natsUser(t)},
		"everything": {
			"token": secretWord, "username": secretWord, "password": secretWord, "nats.creds": natsUser(t),
			"auth_token": secretWord,
		},
	}
}

// natsUser is a file as nsc writes it, with secretWord for the JWT.
func natsUser(t *testing.T) string {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return "-----BEGIN NATS USER JWT-----\n" + secretWord + "\n------END NATS USER JWT------\n\n" +
		"-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n"
}

// externalQueue is a Queue of a tenant in servers of its choice, with the credentials of a Secret.
func externalQueue(server string, ca []byte) *v1alpha1.Queue {
	return &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "orders", UID: "uid-1", Generation: 1},
		Spec: v1alpha1.QueueSpec{
			Storage: v1alpha1.QueueStorage{Type: v1alpha1.QueueStorageFile, Size: resource.MustParse("1Gi")}, Replicas: 1,
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "orders-tokens"}},
			Engine: v1alpha1.QueueEngine{External: &v1alpha1.QueueExternal{
				Servers: []string{server}, CABundle: ca, Credentials: &v1alpha1.QueueExternalCredentials{SecretName: "victim"},
			}},
		},
	}
}

// mount writes the files that the kubelet would show a Queue's member of the Secret victim. ok is false when the
// manager makes no member.
func mount(t *testing.T, q *v1alpha1.Queue, data map[string]string) (directory string, ok bool) {
	t.Helper()
	wanted, problem := queue.Want(q, nil, nil, queue.Neighbours{NamespaceUID: "namespace-1"}, false, time.Now())
	if problem != nil {
		t.Logf("refused by the manager: %s", problem.Message)
		return "", false
	}
	directory = t.TempDir()
	for _, object := range wanted.Objects(nil, nil, agentpod.Image{Name: "agent:test"}) {
		set, ok := object.(*appsv1.StatefulSet)
		if !ok {
			continue
		}
		for _, volume := range set.Spec.Template.Spec.Volumes {
			if volume.Secret == nil || volume.Secret.SecretName != "victim" {
				continue
			}
			if volume.Secret.Optional == nil || !*volume.Secret.Optional {
				t.Error("a key that is absent keeps the pod from starting")
			}
			project(t, directory, volume.Secret.Items, data)
		}
	}
	return directory, true
}

// project writes what the kubelet does for a volume with items.
func project(t *testing.T, directory string, items []corev1.KeyToPath, data map[string]string) {
	t.Helper()
	for key, text := range data {
		path := key
		if len(items) > 0 {
			at := slices.IndexFunc(items, func(i corev1.KeyToPath) bool { return i.Key == key })
			if at < 0 {
				continue
			}
			path = items[at].Path
		}
		if err := os.WriteFile(filepath.Join(directory, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// reach has a member reach servers as the agent itself, and as a client of the Queue.
func reach(t *testing.T, q *v1alpha1.Queue, directory string) error {
	t.Helper()
	x := q.Spec.Engine.External
	e, err := external.New(external.Options{
		Egress: egress.Policy{Loopback: true},
		Queue:  "orders", Owner: "bank/orders", Member: "orders-0", Servers: x.Servers, CABundle: x.CABundle,
		Directory: directory, MaxMessage: 1 << 20,
	})
	if err != nil {
		return err
	}
	if conn, err := e.Connect("agent"); err == nil {
		defer conn.Close()
	}
	conn, err := e.Dial(t.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		return err
	}
	connect := map[string]any{"verbose": false}
	if err := e.Introduce(connect, "bm9uY2U"); err != nil {
		return err
	}
	text, err := json.Marshal(connect)
	if err != nil {
		return err
	}
	if strings.Contains(string(text), secretWord) {
		t.Errorf("a client's CONNECT would be %s", text)
	}
	_, err = conn.Write(append(append([]byte("CONNECT "), text...), "\r\nPING\r\n"...))
	return err
}

// patience bounds what takes moments, on a machine that does much else.
const patience = time.Minute

// secured is TLS for a server at 127.0.0.1, and who vouches for it.
func secured(t *testing.T) (*tls.Config, []byte) {
	t.Helper()
	certificate, _ := transporttest.SelfSigned(t)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}, bundle
}

// H4: a tenant who may create Queues has a Secret of its namespace, which it cannot read, sent to a server of its own.
func TestQueueSendsNoForeignSecret(t *testing.T) {
	for what, data := range foreignSecrets(t) {
		config, bundle := secured(t)
		plain, encrypted := startNATSServer(t, nil, nil), startNATSServer(t, config, nil)
		for server, address := range map[*natsServer]string{
			plain: "nats://" + plain.address(), encrypted: "tls://" + encrypted.address(),
		} {
			q := externalQueue(address, bundle)
			if directory, ok := mount(t, q, data); ok {
				err := reach(t, q, directory)
				if err == nil {
					t.Errorf("%s, %s: the servers were reached with these credentials", what, address[:4])
				} else if strings.Contains(err.Error(), secretWord) {
					t.Errorf("%s: the error would show the Secret in status: %v", what, err)
				}
			}
			for _, connect := range server.said() {
				if strings.Contains(connect, secretWord) || strings.Contains(connect, `"sig"`) {
					t.Errorf("%s, %s: the server was sent %s", what, address[:4], connect)
				}
			}
		}
	}
}

// H4: credentials that are meant for NATS go by TLS only, also when the spec is older than the rule, or the agent is
// told otherwise.
func TestQueueCredentialsNeedTLS(t *testing.T) {
	meant := map[string]string{"lighterage-nats-token": secretWord}
	config, bundle := secured(t)
	encrypted := startNATSServer(t, config, nil)
	q := externalQueue("tls://"+encrypted.address(), bundle)
	directory, ok := mount(t, q, meant)
	if !ok {
		t.Fatal("the manager refuses what is right")
	}
	e, err := external.New(external.Options{
		Egress: egress.Policy{Loopback: true},
		Queue:  "orders", Owner: "x", Member: "orders-0", Servers: q.Spec.Engine.External.Servers, CABundle: bundle,
		Directory: directory, MaxMessage: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := e.Connect("agent")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if said := encrypted.said(); len(said) != 1 || !strings.Contains(said[0], secretWord) {
		t.Fatalf("by TLS the server was sent %q: this test proves nothing", said)
	}
	plain := startNATSServer(t, nil, nil)
	// The second asks for TLS by itself, which a man in the middle would not.
	for _, server := range []*natsServer{plain, encrypted} {
		q = externalQueue("nats://"+server.address(), bundle)
		if _, ok := mount(t, q, meant); ok {
			t.Error("the manager makes members that would send credentials without TLS")
		}
		before := len(server.said())
		if err := reach(t, q, directory); err == nil || !strings.Contains(err.Error(), "tls://") {
			t.Errorf("the agent: %v; want what to write instead", err)
		}
		if said := server.said()[before:]; len(said) > 0 {
			t.Errorf("without TLS the server was sent %q", said)
		}
	}
}

// H4: servers name others of their cluster, to which a client of NATS would go on. Those are not dialled, with or
// without TLS.
func TestQueueFollowsNoAdvertisedServer(t *testing.T) {
	config, bundle := secured(t)
	thief := startNATSServer(t, nil, nil)
	server := startNATSServer(t, config, func(s *natsServer) {
		s.hangUp = true
		s.info = strings.Replace(
			s.info, "{",
			`{"connect_urls":["`+thief.address()+`","nats://`+thief.address()+`"],"ws_connect_urls":["`+thief.address()+
				`"],"ldm":true,`,
			1,
		)
	})
	q := externalQueue("tls://"+server.address(), bundle)
	directory, ok := mount(
		t, q, map[string]string{"lighterage-nats-username": "orders", "lighterage-nats-password": secretWord},
	)
	if !ok {
		t.Fatal("the manager refuses what is right")
	}
	e, err := external.New(external.Options{
		Egress: egress.Policy{Loopback: true},
		Queue:  "orders", Owner: "x", Member: "orders-0", Servers: q.Spec.Engine.External.Servers, CABundle: bundle,
		Directory: directory, MaxMessage: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := e.Connect("agent")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// It is sent away each time, and comes back to the server that it was told of, and to no other.
	for deadline := time.Now().Add(patience); server.reached() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come back")
		}
	}
	if n := thief.reached(); n > 0 {
		t.Errorf("the advertised server was reached %d times and was sent %q", n, thief.said())
	}
}
