// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package command

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/link"
)

// tryVerify moves data between joined clusters whose managers it plays: with success, in vain, and interrupted.
func tryVerify(t *testing.T, clusters map[string]*controllertest.Cluster, kubeconfig string) {
	t.Helper()
	verifyPoll = 10 * time.Millisecond
	for _, cluster := range clusters {
		manager := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: controllertest.OperatorNamespace, Name: managerDeployment},
		}
		labels := map[string]string{"a": "b"}
		manager.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		manager.Spec.Template.Labels = labels
		manager.Spec.Template.Spec.Containers = []corev1.Container{
			{Name: "manager", Image: "manager", Args: []string{"--x", agentImageFlag + "registry.example/agent:1"}},
		}
		cluster.Create(t, manager)
	}
	tryWatchNamespaces(t, clusters, kubeconfig)
	for name, test := range map[string]struct {
		end         string // of Transfers
		interrupted bool
		says        string
	}{
		"success":     {end: v1alpha1.ConditionComplete, says: "west to east"},
		"failure":     {end: v1alpha1.ConditionFailed, says: "PeerGone: evil [2J"},
		"interrupted": {interrupted: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			for _, cluster := range clusters {
				go act(t.Context(), cluster.Client, test.end, stop)
			}
			var out, said strings.Builder
			streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &said}
			err := Run(ctx, []string{"verify", "--to", "west", "--size", "1Mi", "--kubeconfig", kubeconfig}, streams)
			text := out.String()
			if err != nil {
				text = err.Error()
			}
			if (err == nil) != (test.end == v1alpha1.ConditionComplete) || !strings.Contains(text, test.says) ||
				errors.Is(err, context.Canceled) != test.interrupted {
				t.Errorf("%v\n%s\n%s", err, out.String(), said.String())
			}
			if err == nil && (strings.Count(text, "1.00 MiB, verified") != 2 || !strings.Contains(text, "12.0 MB/s") ||
				!strings.Contains(text, "XTS 0.1 CPU")) {
				t.Error(text)
			}
			for name, cluster := range clusters {
				var left corev1.NamespaceList
				err := cluster.Client.List(t.Context(), &left, client.MatchingLabels{link.MadeByLabel: link.MadeByVerify})
				if err != nil || len(left.Items) > 0 {
					t.Errorf("cluster %s: %d namespaces are left: %v", name, len(left.Items), err)
				}
			}
		})
	}
}

// tryWatchNamespaces: where an operator sees some namespaces only, on either side, verify makes none.
func tryWatchNamespaces(t *testing.T, clusters map[string]*controllertest.Cluster, kubeconfig string) {
	t.Helper()
	key := client.ObjectKey{Namespace: controllertest.OperatorNamespace, Name: managerDeployment}
	for name, cluster := range clusters {
		var manager appsv1.Deployment
		if err := cluster.Client.Get(t.Context(), key, &manager); err != nil {
			t.Fatal(err)
		}
		all := slices.Clone(manager.Spec.Template.Spec.Containers[0].Args)
		set := func(arguments ...string) {
			manager.Spec.Template.Spec.Containers[0].Args = arguments // which an update replaces
			if err := cluster.Client.Update(t.Context(), &manager); err != nil {
				t.Fatal(err)
			}
		}
		set(append(slices.Clone(all), watchFlag+"bank,shop")...)
		_, said, err := try(t, "", "verify", "--to", "west", "--kubeconfig", kubeconfig)
		if err == nil || !strings.Contains(err.Error(), "cluster "+name) ||
			!strings.Contains(err.Error(), "watchNamespaces") {
			t.Errorf("%v\n%s", err, said)
		}
		for name, cluster := range clusters {
			var made corev1.NamespaceList
			err := cluster.Client.List(t.Context(), &made, client.MatchingLabels{link.MadeByLabel: link.MadeByVerify})
			if err != nil || len(made.Items) > 0 {
				t.Errorf("cluster %s: %d namespaces were made: %v", name, len(made.Items), err)
			}
		}
		set(all...)
	}
}

// tryInterrupts interrupts verify at each object that it makes, before the API server sees the request, which goes on.
func tryInterrupts(t *testing.T, clusters map[string]*controllertest.Cluster, kubeconfig string) {
	t.Helper()
	for _, cluster := range clusters {
		go act(t.Context(), cluster.Client, v1alpha1.ConditionComplete, nil)
	}
	made := int32(-1) // by verify when it is not interrupted
	for at := int32(1); made < 0; at++ {
		ctx, stop := context.WithCancel(t.Context())
		c := &counted{counts: makesObject, at: at, interrupt: stop}
		var out, said strings.Builder
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &said}
		path := c.between(t, clusters, kubeconfig)
		err := Run(ctx, []string{"verify", "--to", "west", "--size", "1Mi", "--kubeconfig", path}, streams)
		stop()
		if n := c.n.Load(); n < at {
			made = n
		}
		if errors.Is(err, context.Canceled) != (made < 0) {
			t.Errorf("object %d: %v\n%s", at, err, said.String())
		}
		for name, cluster := range clusters {
			var left corev1.NamespaceList
			err := cluster.Client.List(t.Context(), &left, client.MatchingLabels{link.MadeByLabel: link.MadeByVerify})
			if err != nil || len(left.Items) > 0 {
				t.Fatalf("object %d: cluster %s has %d namespaces: %v\n%s", at, name, len(left.Items), err, said.String())
			}
		}
	}
	if made < 12 {
		t.Errorf("verify makes %d objects", made)
	}
	// Nothing deletes what is in namespaces here.
	for _, cluster := range clusters {
		for _, list := range []client.ObjectList{&v1alpha1.TransferList{}, &v1alpha1.PeerGrantList{}} {
			err := cluster.Client.List(t.Context(), list)
			if err == nil {
				err = meta.EachListItem(list, func(o runtime.Object) error {
					object, _ := o.(client.Object)
					return cluster.Client.Delete(t.Context(), object)
				})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// makesObject reports whether a request makes an object.
func makesObject(r *http.Request) bool {
	return r.Method == http.MethodPost && !strings.Contains(r.URL.Path, "selfsubjectaccessreviews")
}

// counted is what stands between a command and API servers, and interrupts it at one of the requests that count.
type counted struct {
	counts    func(*http.Request) bool
	at        int32
	interrupt func()
	n         atomic.Int32
}

// between returns a kubeconfig whose servers pass requests on to the clusters.
func (c *counted) between(t *testing.T, clusters map[string]*controllertest.Cluster, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name, cluster := range clusters {
		transport, err := rest.TransportFor(cluster.Config)
		if err != nil {
			t.Fatal(err)
		}
		target, err := url.Parse(cluster.Config.Host)
		if err != nil {
			t.Fatal(err)
		}
		proxy := &httputil.ReverseProxy{
			Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
			ErrorLog: log.New(io.Discard, "", 0),
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.counts(r) && c.n.Add(1) == c.at {
				c.interrupt()
			}
			// An API server may go on with a request whose client is gone.
			proxy.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
		}))
		t.Cleanup(server.Close)
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server.URL}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{}
	}
	path := filepath.Join(t.TempDir(), "between")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// act is what the manager, the kubelet and the namespace controller do. Without an end it interrupts.
func act(ctx context.Context, cluster client.Client, end string, interrupt func()) {
	for ; ctx.Err() == nil; time.Sleep(verifyPoll) {
		var namespaces corev1.NamespaceList
		_ = cluster.List(ctx, &namespaces, client.MatchingLabels{link.MadeByLabel: link.MadeByVerify})
		for i := range namespaces.Items {
			namespace := &namespaces.Items[i]
			if namespace.DeletionTimestamp != nil {
				namespace.Spec.Finalizers = nil
				_ = cluster.SubResource("finalize").Update(ctx, namespace) // repeated if it failed
				continue
			}
			in := client.InNamespace(namespace.Name)
			var pods corev1.PodList
			_ = cluster.List(ctx, &pods, in)
			for j := range pods.Items {
				pods.Items[j].Status.Phase = corev1.PodSucceeded
				_ = cluster.Status().Update(ctx, &pods.Items[j])
			}
			var transfers v1alpha1.TransferList
			_ = cluster.List(ctx, &transfers, in)
			for j := range transfers.Items {
				if end == "" {
					interrupt()
					continue
				}
				status := &transfers.Items[j].Status
				status.Progress = &v1alpha1.Progress{Bytes: 1 << 20, BytesPerSecond: 12e6}
				status.Cost = &v1alpha1.CostStatus{Currency: "XTS", CPU: "0.1"}
				meta.SetStatusCondition(&status.Conditions, metav1.Condition{
					Type: end, Status: metav1.ConditionTrue, Reason: "PeerGone", Message: "evil\x1b[2J",
				})
				_ = cluster.Status().Update(ctx, &transfers.Items[j])
			}
		}
	}
}
