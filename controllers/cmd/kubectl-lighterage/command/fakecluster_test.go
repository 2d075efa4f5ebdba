// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// fakeCluster is an API server that knows a Queue and what is about it, and forwards ports. An API server of envtest
// cannot do the latter: there is no kubelet.
type fakeCluster struct {
	queue   *v1alpha1.Queue
	secrets map[string]map[string][]byte
	ca      []byte // in the operator's ConfigMap
	// published is the ConfigMap beside the Queue, absent without data.
	published corev1.ConfigMap
	pods      []corev1.Pod
	// listed are names of objects by the path of their list.
	listed map[string][]string
	// forbidden are parts of paths that may not be read.
	forbidden []string
	// sockets says whether it forwards by WebSocket, as API servers do, or by SPDY alone.
	sockets bool
	// backend is what ports of pods lead to; unreachable is what the node says in its place.
	backend, unreachable string

	kubeconfig string
	mu         sync.Mutex
	forwarded  []string // pod and port
}

func startCluster(t *testing.T, service *fakeService) *fakeCluster {
	t.Helper()
	f := &fakeCluster{
		queue: &v1alpha1.Queue{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Queue"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "orders", UID: "1234"},
			Spec: v1alpha1.QueueSpec{
				Storage:        v1alpha1.QueueStorage{Size: resource.MustParse("10Gi")},
				Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "orders-tokens"}},
			},
			Status: v1alpha1.QueueStatus{Members: []v1alpha1.QueueMember{{Name: "orders-0"}, {Name: "orders-2", Leader: true}}},
		},
		secrets: map[string]map[string][]byte{"orders-tokens": {"shop": []byte(goodToken)}},
		ca:      service.ca, backend: service.address,
	}
	for i, ready := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionTrue} {
		f.pods = append(f.pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "bank", Name: fmt.Sprintf("orders-%d", i), Labels: map[string]string{v1alpha1.QueueLabel: "1234"},
			},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{
					{
						Name:  "agent",
						Ports: []corev1.ContainerPort{{Name: "nats", ContainerPort: 4222}, {Name: servicePort, ContainerPort: 8443}},
					},
				},
			},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		})
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.kubeconfig = kubeconfig(t, server.URL)
	return f
}

// publish puts a ConfigMap beside the Queue, which who has the UID controls.
func (f *fakeCluster) publish(owner types.UID, ca []byte) {
	f.published = corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "orders-ca", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Queue", Name: "orders", UID: owner, Controller: new(true)},
		}},
		Data: map[string]string{"ca.crt": string(ca)},
	}
}

// ServeHTTP implements http.Handler.
func (f *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, part := range f.forbidden {
		if strings.Contains(r.URL.Path, part) {
			answer(
				w, http.StatusForbidden,
				metav1.Status{
					Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: "no",
				},
			)
			return
		}
	}
	if names := f.listed[r.URL.Path]; names != nil {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
		for _, name := range names {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		answer(w, http.StatusOK, list)
		return
	}
	const namespace = "/api/v1/namespaces/bank/"
	if pod, ok := strings.CutPrefix(r.URL.Path, namespace+"pods/"); ok && strings.HasSuffix(pod, "/portforward") {
		f.forward(w, r, strings.TrimSuffix(pod, "/portforward"))
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, namespace+"secrets/"); ok && f.secrets[name] != nil {
		answer(
			w, http.StatusOK,
			corev1.Secret{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: name},
				Data: f.secrets[name],
			},
		)
		return
	}
	if r.URL.Path == namespace+"configmaps/orders-ca" && f.published.Data != nil {
		answer(w, http.StatusOK, f.published)
		return
	}
	group := v1alpha1.GroupVersion.Group
	version := metav1.GroupVersionForDiscovery{
		GroupVersion: v1alpha1.GroupVersion.String(), Version: v1alpha1.GroupVersion.Version,
	}
	read := metav1.Verbs{"get", "list"}
	found := map[string]any{
		"/api": metav1.APIVersions{Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{
			Groups: []metav1.APIGroup{
				{Name: group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version},
			},
		},
		"/apis/" + group: metav1.APIGroup{
			Name: group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: read},
			{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: read},
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: read},
			{Name: "namespaces", Kind: "Namespace", Verbs: read},
		}},
		"/apis/" + version.GroupVersion: metav1.APIResourceList{GroupVersion: version.GroupVersion,
			APIResources: []metav1.APIResource{
				{Name: "queues", Kind: "Queue", Namespaced: true, Verbs: read},
				{Name: "transfers", Kind: "Transfer", Namespaced: true, Verbs: read},
				{Name: "compressiontrials", Kind: "CompressionTrial", Namespaced: true, Verbs: read},
				{Name: "peers", Kind: "Peer", Verbs: read},
			}},
		"/apis/" + version.GroupVersion + "/namespaces/bank/queues/orders": f.queue,
		namespace + "pods": corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: f.pods},
		"/api/v1/namespaces/lighterage-system/configmaps/lighterage-ca": corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"ca.crt": string(f.ca)},
		},
	}[r.URL.Path]
	if found == nil {
		answer(
			w, http.StatusNotFound,
			metav1.Status{
				Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: r.URL.Path,
			},
		)
		return
	}
	answer(w, http.StatusOK, found)
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// forward does what API server and kubelet do together.
func (f *fakeCluster) forward(w http.ResponseWriter, r *http.Request, pod string) {
	streams := make(chan httpstream.Stream, 2)
	accept := func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	}
	if !f.sockets {
		if r.Method != http.MethodPost {
			http.Error(w, "what is a WebSocket?", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			return
		}
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, accept)
		if conn == nil {
			return
		}
		go f.carry(conn, streams, pod)
		return
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{"SPDY/3.1+" + portforward.PortForwardProtocolV1Name}}
	socket, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	//nolint:staticcheck // The logger is of no interest here.
	conn, err := spdy.NewServerConnection(portforward.NewTunnelingConnection("server", socket), accept)
	if err != nil {
		return
	}
	go f.carry(conn, streams, pod)
}

// carry copies between the stream of data and the backend.
func (f *fakeCluster) carry(conn httpstream.Connection, streams chan httpstream.Stream, pod string) {
	defer conn.Close()
	byType := map[string]httpstream.Stream{}
	for range 2 {
		select {
		case s := <-streams:
			byType[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		}
	}
	data, failures := byType[corev1.StreamTypeData], byType[corev1.StreamTypeError]
	if data == nil || failures == nil {
		return
	}
	f.mu.Lock()
	f.forwarded = append(f.forwarded, pod+" "+data.Headers().Get(corev1.PortHeader))
	unreachable := f.unreachable
	f.mu.Unlock()
	if unreachable != "" {
		_, _ = io.WriteString(failures, unreachable)
		failures.Close()
		<-conn.CloseChan()
		return
	}
	backend, err := net.Dial("tcp", f.backend)
	if err != nil {
		return
	}
	defer backend.Close()
	go func() {
		_, _ = io.Copy(backend, data)
		backend.Close()
	}()
	_, _ = io.Copy(data, backend)
}
