// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build browser

package console_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/cmd/kubectl-lighterage/command"
	"github.com/lighterage/lighterage/controllers/console/consoletest"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

const crds = "../../config/crd/bases"

// bed is a console that runs, on two API servers.
type bed struct {
	t          *testing.T
	clusters   map[string]*controllertest.Cluster
	kubeconfig string
}

// newBed starts two clusters with the objects of consoletest, and a user for each who may read all kinds and patch
// Transfers of east.
func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, clusters: map[string]*controllertest.Cluster{}}
	config := clientcmdapi.NewConfig()
	for _, name := range []string{"east", "west"} {
		c, err := controllertest.Start(crds)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Stop() })
		b.clusters[name] = c
		populate(t, c, name)
		rules := []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list"},
		}}
		if name == "east" {
			rules = append(rules, rbacv1.PolicyRule{
				APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"transfers"}, Verbs: []string{"patch"},
			})
		}
		c.Allow(t, "engineer", rules...)
		config.Clusters[name] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{
			ClientCertificateData: c.Config.CertData, ClientKeyData: c.Config.KeyData, Impersonate: "engineer",
			ImpersonateGroups: []string{"system:authenticated"},
		}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	config.CurrentContext = "east"
	b.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, b.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return b
}

func populate(t *testing.T, c *controllertest.Cluster, name string) {
	t.Helper()
	objects, err := consoletest.Objects(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	namespaces := map[string]bool{"": true}
	for _, o := range objects {
		if n := o.GetNamespace(); !namespaces[n] {
			namespace := &corev1.Namespace{}
			namespace.Name = n
			c.Create(t, namespace)
			namespaces[n] = true
		}
		object, ok := o.(client.Object)
		if !ok {
			t.Fatalf("%T is no object", o)
		}
		status, _ := o.DeepCopyObject().(client.Object)
		c.Create(t, object)
		status.SetResourceVersion(object.GetResourceVersion())
		status.SetUID(object.GetUID())
		status.SetGeneration(object.GetGeneration())
		if err := c.Client.Status().Update(t.Context(), status); err != nil {
			t.Fatalf("status of %T %s: %v", o, o.GetName(), err)
		}
	}
}

// serving is a console.
type serving struct {
	links <-chan string
	enter io.WriteCloser
	end   func() error
}

// serve runs the command as kubectl does.
func (b *bed) serve(arguments ...string) *serving {
	b.t.Helper()
	in, enter := io.Pipe()
	out, said := io.Pipe()
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() {
		err := command.Run(ctx, append([]string{"console", "--kubeconfig", b.kubeconfig}, arguments...),
			genericiooptions.IOStreams{In: in, Out: said, ErrOut: io.Discard})
		_ = said.CloseWithError(io.EOF)
		ended <- err
	}()
	links := make(chan string, 8)
	go func() {
		defer close(links)
		pattern := regexp.MustCompile(`http://\S+`)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if link := pattern.FindString(lines.Text()); link != "" {
				links <- link
			}
		}
	}()
	once := sync.OnceValue(func() error {
		cancel()
		_ = enter.Close()
		return <-ended
	})
	b.t.Cleanup(func() { _ = once() })
	return &serving{links, enter, once}
}

// browser starts Chromium, with a profile of its own.
func browser(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(t.Context(), chromedp.WithAllocatorOptions(
		chromedp.NoSandbox, chromedp.ExecPath("chromium"), chromedp.Flag("font-render-hinting", "none"),
	))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// axeSource is the program that checks accessibility.
func axeSource(t *testing.T) string {
	t.Helper()
	path := os.Getenv("LIGHTERAGE_AXE")
	if path == "" {
		t.Fatal("LIGHTERAGE_AXE is not set: run make test-console")
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// home is the address of the first page after a link was opened.
func home(link string) string {
	before, _, _ := strings.Cut(link, "/open?")
	return before + "/"
}
