// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build gitops

package flux_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	namespace = "flux-system"
	// patience is for a busy machine.
	patience = 10 * time.Minute
	// poll is twice the interval in which kustomize-controller looks at health.
	poll = 10 * time.Second
)

// flux is an installation of Flux that follows a repository.
type flux struct {
	t          *testing.T
	api        client.Client
	repository *repository
	cluster    string // whose directories of the repository it applies
	log        *lines // of kustomize-controller
}

// startFlux starts Flux for a cluster that a file gives access to.
func startFlux(
	t *testing.T, config *rest.Config, kubeconfig string, api client.Client, repository *repository, cluster string,
) *flux {
	t.Helper()
	programs, crds := os.Getenv("LIGHTERAGE_FLUX"), os.Getenv("LIGHTERAGE_FLUX_CRDS")
	if programs == "" || crds == "" {
		t.Fatal("LIGHTERAGE_FLUX and LIGHTERAGE_FLUX_CRDS are not set: run make test-gitops")
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: filepath.SplitList(crds)}); err != nil {
		t.Fatalf("installing Flux's kinds: %v", err)
	}
	f := &flux{t: t, api: api, repository: repository, cluster: cluster}
	home := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := api.Create(t.Context(), &home); err != nil {
		t.Fatal(err)
	}
	artifacts := address(t)
	start(t, kubeconfig, filepath.Join(programs, "source-controller"), "--storage-path="+t.TempDir(),
		"--storage-addr="+artifacts, "--storage-adv-addr="+artifacts, "--metrics-addr=0", "--health-addr="+address(t),
		"--enable-leader-election=false")
	f.log = start(t, kubeconfig, filepath.Join(programs, "kustomize-controller"), "--requeue-dependency=2s",
		"--feature-gates=CancelHealthCheckOnNewRevision=true",
		"--metrics-addr=0", "--health-addr="+address(t), "--enable-leader-election=false")
	return f
}

// address is a free one of this machine.
func address(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// lines are what a process says.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// since are the lines from a position on, and the position after them.
func (l *lines) since(position int) ([]string, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	return strings.Split(text[position:], "\n"), len(text)
}

// start runs a program until the end of the test.
func start(t *testing.T, kubeconfig, program string, args ...string) *lines {
	t.Helper()
	said := &lines{}
	command := exec.Command(program, args...) //nolint:gosec,noctx // the test's own, which it ends below
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "RUNTIME_NAMESPACE="+namespace)
	command.Stdout, command.Stderr = said, said
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			all, _ := said.since(0)
			t.Logf("the last lines of %s:\n%s", program, strings.Join(all[max(0, len(all)-60):], "\n"))
		}
	})
	return said
}

// object is one of Flux.
func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	apiVersion := "kustomize.toolkit.fluxcd.io/v1"
	if kind == "GitRepository" {
		apiVersion = "source.toolkit.fluxcd.io/v1"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "spec": spec,
		"metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}

// follow has Flux apply what the repository, which has a commit already, has for the cluster in a directory, after
// others.
func (f *flux) follow(name string, after ...string) {
	f.t.Helper()
	source := object("GitRepository", "fleet", map[string]any{
		"url": f.repository.url, "interval": "1h", "ref": map[string]any{"branch": "main"},
	})
	if err := f.api.Create(f.t.Context(), source); client.IgnoreAlreadyExists(err) != nil {
		f.t.Fatal(err)
	}
	var needs []any
	for _, other := range after {
		needs = append(needs, map[string]any{"name": other})
	}
	if err := f.api.Create(f.t.Context(), object("Kustomization", name, map[string]any{
		"path": "./" + name + "/" + f.cluster, "dependsOn": needs, "interval": "1h", "retryInterval": "2s", "wait": true,
		"timeout": patience.String(), "prune": true, "sourceRef": map[string]any{"kind": "GitRepository", "name": "fleet"},
	})); err != nil {
		f.t.Fatal(err)
	}
}

// get reads a Kustomization.
func (f *flux) get(name string) *unstructured.Unstructured {
	f.t.Helper()
	k := object("Kustomization", name, nil)
	if err := f.api.Get(f.t.Context(), client.ObjectKeyFromObject(k), k); err != nil {
		f.t.Fatal(err)
	}
	return k
}

// ready reports whether a Kustomization has applied a commit and found all healthy.
func (f *flux) ready(name, commit string) (bool, string) {
	k := f.get(name)
	applied, _, _ := unstructured.NestedString(k.Object, "status", "lastAppliedRevision")
	condition := conditionOf(f.t, k, "Ready")
	if condition == nil {
		return false, "it has no conditions"
	}
	return strings.HasSuffix(applied, commit) && condition.Status == metav1.ConditionTrue &&
		condition.ObservedGeneration == k.GetGeneration(), fmt.Sprintf("applied %s, %s", applied, condition.Message)
}

// ask has Flux reconcile one of its objects, though it has no reason to, and waits until that has succeeded.
func (f *flux) ask(o *unstructured.Unstructured) {
	f.t.Helper()
	token := strconv.FormatInt(time.Now().UnixNano(), 10)
	patch := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":"`+token+`"}}}`))
	if err := f.api.Patch(f.t.Context(), o, patch); err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, o.GetKind()+" "+o.GetName()+" to be reconciled", func() (bool, string) {
		if err := f.api.Get(f.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return false, err.Error()
		}
		handled, _, _ := unstructured.NestedString(o.Object, "status", "lastHandledReconcileAt")
		condition := conditionOf(f.t, o, "Ready")
		return handled == token && condition != nil && condition.Status == metav1.ConditionTrue,
			fmt.Sprintf("handled %s of %s, %+v", handled, token, condition)
	})
}

// pull has Flux look at the repository. It applies a commit that is new.
func (f *flux) pull() {
	f.t.Helper()
	f.ask(object("GitRepository", "fleet", nil))
}

// reconcile has Flux look at the repository, and apply it, though it has no reason to; it returns what it changed.
func (f *flux) reconcile(commit string, names ...string) []string {
	f.t.Helper()
	_, from := f.log.since(0)
	f.pull()
	for _, name := range names {
		f.ask(object("Kustomization", name, nil))
		f.wait(name, commit)
	}
	said, _ := f.log.since(from)
	return changes(f.t, said)
}

func (f *flux) wait(name, commit string) {
	f.t.Helper()
	eventually(f.t, "Kustomization "+name+" to be ready", func() (bool, string) { return f.ready(name, commit) })
}

// forget deletes Kustomizations, with everything that Flux has applied of them.
func (f *flux) forget(names ...string) {
	f.t.Helper()
	for _, name := range names {
		k := object("Kustomization", name, nil)
		if err := f.api.Delete(f.t.Context(), k); err != nil {
			f.t.Fatal(err)
		}
		f.gone([]unstructured.Unstructured{*k})
	}
}

// changes are the objects that Flux says it has changed.
func changes(t *testing.T, log []string) []string {
	t.Helper()
	var changed []string
	applies := 0
	for _, line := range log {
		var entry struct {
			Msg    string          `json:"msg"`
			Output json.RawMessage `json:"output"`
		}
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "server-side apply completed" {
			continue
		}
		applies++
		actions := map[string]string{}
		if err := json.Unmarshal(entry.Output, &actions); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		for what, action := range actions {
			if action != "unchanged" {
				changed = append(changed, what+" "+action)
			}
		}
	}
	if applies == 0 {
		t.Fatalf("Flux applied nothing: its log has other words than this test looks for\n%s", strings.Join(log, "\n"))
	}
	return changed
}

// conditionOf is a condition of any object, nil if it has none.
func conditionOf(t *testing.T, o *unstructured.Unstructured, kind string) *metav1.Condition {
	t.Helper()
	list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var conditions []metav1.Condition
	if err := json.Unmarshal(text, &conditions); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(conditions, kind)
}

// eventually waits for what happens.
func eventually(t *testing.T, what string, try func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		done, state := try()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s: %s", what, state)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
