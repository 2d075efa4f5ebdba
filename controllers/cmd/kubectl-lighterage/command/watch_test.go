// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/overview"
)

// safeBuffer is written and read at once.
type safeBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// opened is a plugin whose cluster has the objects. Reads of lists and objects fail while failing says so.
func opened(
	t *testing.T, failing func(kind string) error, objects ...client.Object,
) (p *plugin, out, said *safeBuffer) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	fail := func(o runtime.Object) error {
		if failing == nil {
			return nil
		}
		return failing(o.GetObjectKind().GroupVersionKind().Kind)
	}
	out, said = &safeBuffer{}, &safeBuffer{}
	p = newPlugin(genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: said})
	p.namespace = "bank"
	p.cluster = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if err := fail(o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, options ...client.ListOption) error {
			if err := fail(o); err != nil {
				return err
			}
			return c.List(ctx, o, options...)
		},
	}).Build()
	return p, out, said
}

// running is a Transfer that runs.
func running(name string) *v1alpha1.Transfer {
	t := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name, UID: "uid-1"}}
	t.Status.Phase = v1alpha1.TransferTransferring
	t.Status.Conditions = conditions.Reconciling("Transferring", hostile)
	t.Status.Run = &v1alpha1.RunStatus{ID: "7f3c", Attempt: 1}
	t.Status.Progress = &v1alpha1.Progress{Percent: 10, BytesPerSecond: 5e6}
	return t
}

// end ends the run of a Transfer.
func end(t *testing.T, p *plugin, transfer *v1alpha1.Transfer, condition string) {
	t.Helper()
	now := metav1.Now()
	transfer.Status.Run.CompletionTime = &now
	transfer.Status.Phase = v1alpha1.TransferComplete
	transfer.Status.Conditions = nil
	meta.SetStatusCondition(&transfer.Status.Conditions, metav1.Condition{
		Type: condition, Status: metav1.ConditionTrue, Reason: "Ended",
	})
	if err := p.cluster.Update(t.Context(), transfer); err != nil {
		t.Error(err)
	}
}

// until waits until a buffer has a text.
func until(t *testing.T, b *safeBuffer, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(b.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%q is not in\n%s", text, b.String())
			return
		}
	}
}

func watchOf(p *plugin, names ...string) *watching {
	w := &watching{
		plugin: p, output: choice{"text", "json"}, seen: map[string]bool{}, interval: time.Millisecond,
		screen: func() (int, int) { return 0, 0 },
	}
	for _, name := range names {
		w.names = append(w.names, reference{transfers, name})
	}
	return w
}

// TestWatchNamed: it ends when all that are named have ended, and fails if one failed or is gone.
func TestWatchNamed(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*testing.T, *plugin, *v1alpha1.Transfer)
		says string
	}{
		"complete": {func(t *testing.T, p *plugin, a *v1alpha1.Transfer) { end(t, p, a, v1alpha1.ConditionComplete) }, ""},
		"failed": {func(t *testing.T, p *plugin, a *v1alpha1.Transfer) { end(t, p, a, v1alpha1.ConditionFailed) },
			"1 of 2 runs failed"},
		"deleted": {func(t *testing.T, p *plugin, a *v1alpha1.Transfer) {
			if err := p.cluster.Delete(t.Context(), a); err != nil {
				t.Error(err)
			}
		}, "1 of 2 runs failed"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := running("a"), running("b")
			p, out, _ := opened(t, nil, a, b)
			done := make(chan error, 1)
			go func() { done <- watchOf(p, "a", "b").run(t.Context()) }()
			until(t, out, "bank/b")
			if err := p.cluster.Get(t.Context(), client.ObjectKeyFromObject(a), a); err != nil {
				t.Fatal(err)
			}
			test.end(t, p, a)
			if err := p.cluster.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
				t.Fatal(err)
			}
			end(t, p, b, v1alpha1.ConditionComplete)
			err := <-done
			if (err == nil) != (test.says == "") || err != nil && err.Error() != test.says {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestWatchPage: a terminal gets its page back, whether a watch ends, fails or is interrupted.
func TestWatchPage(t *testing.T) {
	t.Setenv("TERM", "xterm")
	var mu sync.Mutex
	var broken error
	p, out, _ := opened(t, func(string) error {
		mu.Lock()
		defer mu.Unlock()
		return broken
	}, running("ledger"))
	w := watchOf(p)
	w.screen = func() (int, int) { return 40, 10 }
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	until(t, out, "bank/ledger")
	mu.Lock()
	broken = errors.New(hostile)
	mu.Unlock()
	until(t, out, "Not up to date")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	text := out.String()
	_, after, _ := strings.Cut(text, leavePage)
	if !strings.HasPrefix(text, enterPage) || strings.Count(text, leavePage) != 1 || !strings.Contains(after, "bank/ledger") {
		t.Errorf("%q", text)
	}
	for _, ours := range []string{enterPage, leavePage, toTop, clearLine, clearRest} {
		text = strings.ReplaceAll(text, ours, "\n")
	}
	if strings.ContainsAny(text, "\x1b\x07\u202e") {
		t.Errorf("%q", text)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if len(strings.TrimRight(line, "\r")) > 40 {
			t.Errorf("%q", line)
		}
	}
}

// TestWatchPlain: without a terminal, and on a dumb one, lines are written and nothing commands a terminal. A look that
// fails is said once, and that it ends.
func TestWatchPlain(t *testing.T) {
	t.Setenv("TERM", "dumb")
	var mu sync.Mutex
	looks := 0
	p, out, said := opened(t, func(kind string) error {
		mu.Lock()
		defer mu.Unlock()
		if kind == "DeliveryList" {
			return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("deliveries").GroupResource(), "", nil)
		}
		if looks++; looks > 2 && looks < 10 {
			return errors.New("no route to host")
		}
		return nil
	}, running("ledger"))
	w := watchOf(p)
	w.screen = func() (int, int) { return 40, 10 }
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	until(t, said, "The cluster answers again")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if text := out.String(); strings.Contains(text, "\x1b") || strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, "transfer  bank/ledger  Transferring") {
		t.Errorf("%q", text)
	}
	if strings.Count(said.String(), "no route to host") != 1 ||
		strings.Count(said.String(), "Runs are missing: you may not list deliveries") != 1 {
		t.Errorf("%q", said.String())
	}
}

// TestWatchShows: by default what runs, and what has ended since; with --all everything.
func TestWatchShows(t *testing.T) {
	ended := running("ended")
	ended.Status.Run.CompletionTime = new(metav1.Now())
	ended.Status.Conditions = nil
	local := &v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "local"}}
	received := &v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "received"}}
	received.Spec.Peer = "east"
	elsewhere := running("elsewhere")
	elsewhere.Namespace = "shop"
	trial := &v1alpha1.CompressionTrial{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "files"}}
	trial.Status.Run = &v1alpha1.RunStatus{ID: "1"}
	trial.Status.Conditions = conditions.Reconciling(v1alpha1.ReasonMeasuring, "x")
	p, _, _ := opened(t, nil, running("ledger"), ended, local, received, elsewhere, trial)
	names := func(w *watching) string {
		runs, err := w.look(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range runs {
			names = append(names, r.Name)
		}
		return strings.Join(names, " ")
	}
	w := watchOf(p)
	if got := names(w); got != "files ledger received" {
		t.Errorf("%s", got)
	}
	ledger := &v1alpha1.Transfer{}
	if err := p.cluster.Get(t.Context(), client.ObjectKey{Namespace: "bank", Name: "ledger"}, ledger); err != nil {
		t.Fatal(err)
	}
	end(t, p, ledger, v1alpha1.ConditionComplete)
	if got := names(w); got != "files received ledger" {
		t.Errorf("after the end: %s", got)
	}
	w = watchOf(p)
	w.ended, w.all = true, true
	if got := names(w); got != "files elsewhere received ended ledger" {
		t.Errorf("all: %s", got)
	}
}

// TestWatchHidden: a page says which kinds may not be listed, within its height; without all of them there is nothing
// to watch.
func TestWatchHidden(t *testing.T) {
	t.Setenv("TERM", "xterm")
	forbidden := map[string]bool{"CompressionTrialList": true, "DeliveryList": true}
	p, out, _ := opened(t, func(kind string) error {
		if forbidden[kind] {
			return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("x").GroupResource(), "", nil)
		}
		return nil
	}, running("a"), running("b"), running("c"))
	w := watchOf(p)
	w.screen = func() (int, int) { return 80, 6 }
	runs, err := w.look(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.show(runs); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(out.String(), "\r\n"); len(lines) > 6 ||
		!strings.Contains(lines[len(lines)-1], "you may not list compressiontrials, deliveries") {
		t.Errorf("%q", lines)
	}
	forbidden["TransferList"] = true
	if _, err := w.look(t.Context(), nil); err == nil || !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}

func TestWatchJSON(t *testing.T) {
	p, out, _ := opened(t, nil, running("ledger"))
	w := watchOf(p)
	w.output, w.once = choice{"json", "text"}, true
	if err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got event
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Name != "ledger" || got.Percent != 10 ||
		got.Time.IsZero() || got.State != overview.Working {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestWatchRejects finds what is wrong with a command line.
func TestWatchRejects(t *testing.T) {
	for line, says := range map[string]string{
		"watch queue/orders": "trial/NAME", "watch transfer/": "transfer/NAME", "watch ledger": "transfer/NAME",
		"watch --interval 1ms": "--interval", "watch transfer/a -A": "--all-namespaces",
	} {
		_, _, err := try(t, "", strings.Fields(line)...)
		if err == nil || ExitCode(err) != 2 || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestChange(t *testing.T) {
	trial := &v1alpha1.CompressionTrial{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "files"}}
	p, out, _ := opened(t, nil, running("ledger"), trial)
	for _, step := range []struct {
		name  string
		says  string
		check func(*v1alpha1.Transfer) bool
	}{
		{"suspend", "suspended", func(t *v1alpha1.Transfer) bool { return t.Spec.Suspend }},
		{"run", "when the Transfer is resumed", func(t *v1alpha1.Transfer) bool {
			return t.Annotations[v1alpha1.RunAnnotation] != "" && t.Spec.Suspend
		}},
		{"pause", "phase is Paused", func(t *v1alpha1.Transfer) bool { return t.Spec.Suspend && t.Spec.Pause }},
		{"resume", "resumed", func(t *v1alpha1.Transfer) bool { return !t.Spec.Suspend && !t.Spec.Pause }},
	} {
		cmd := map[string]*cobra.Command{
			"run": newRun(p), "suspend": newHold(p, suspends), "pause": newHold(p, pauses), "resume": newHold(p, resumes),
		}[step.name]
		cmd.SetArgs([]string{"transfer/ledger"})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		got := &v1alpha1.Transfer{}
		err := p.cluster.Get(t.Context(), client.ObjectKey{Namespace: "bank", Name: "ledger"}, got)
		if err != nil || !step.check(got) || !strings.Contains(out.String(), step.says) {
			t.Errorf("%s: %v: %+v: %s", step.name, err, got.Spec, out.String())
		}
	}
	cmd := newRun(p)
	cmd.SetArgs([]string{"trial", "files"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.cluster.Get(t.Context(), client.ObjectKeyFromObject(trial), trial); err != nil ||
		trial.Annotations[v1alpha1.RunAnnotation] == "" {
		t.Errorf("%v: %v", err, trial.Annotations)
	}
	for _, line := range []string{"run queue/a", "run files", "suspend trial/files", "pause queue/a", "resume"} {
		if _, _, err := try(t, "", strings.Fields(line)...); err == nil || ExitCode(err) != 2 {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestLogsOfSeveral: the pod that sends, and the one that an object store among the destinations has, which is of a
// leg.
func TestLogsOfSeveral(t *testing.T) {
	whole := running("ledger")
	whole.Spec.Destinations = []v1alpha1.NamedDestination{{Name: "vault"}, {Name: "west"}}
	pods := []client.Object{whole}
	for name, label := range map[string]string{"send": string(whole.UID), "leg": string(whole.UID), "foreign": "uid-2"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, Labels: map[string]string{v1alpha1.DestinationsLabel: label},
		}})
	}
	p, _, _ := opened(t, nil, pods...)
	found, err := (&logging{plugin: p, kind: transfers, name: "ledger"}).pods(t.Context())
	if err != nil || len(found) != 2 || found[0].Name != "leg" || found[1].Name != "send" {
		t.Errorf("%v %+v", err, found)
	}
}

// TestLogs: lines of all pods of the object, made printable, and the message of the API server where there is none.
func TestLogs(t *testing.T) {
	var objects []client.Object
	for i, name := range []string{"new", "old", "foreign"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, CreationTimestamp: metav1.Unix(int64(1000-i), 0),
			Labels: map[string]string{v1alpha1.TransferLabel: "uid-1"},
		}}
		if name == "foreign" {
			pod.Labels[v1alpha1.TransferLabel] = "uid-2"
		}
		objects = append(objects, pod)
	}
	p, out, _ := opened(t, nil, append(objects, running("ledger"))...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/bank/pods/new/log" && r.URL.Query().Get("tailLines") == "7" {
			answer(w, http.StatusBadRequest, metav1.Status{Message: "waiting to start" + hostile})
			return
		}
		fmt.Fprintf(w, "%s says %s previous %s\n%s", r.URL.Path, r.URL.Query().Get("follow"), r.URL.Query().Get("previous"),
			hostile)
	}))
	defer server.Close()
	p.config = &rest.Config{Host: server.URL}
	l := &logging{plugin: p, kind: transfers, name: "ledger", tail: 10}
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if old, newer := strings.Index(text, "old  /api"), strings.Index(text, "new  /api"); old < 0 || newer < old ||
		strings.Contains(text, "foreign") || strings.ContainsAny(text, "\x1b\r\u202e") {
		t.Errorf("%q", text)
	}
	l.follow = true
	if err := l.run(t.Context()); err != nil ||
		!strings.Contains(out.String(), "\n/api/v1/namespaces/bank/pods/new/log says true") {
		t.Errorf("%v: %q", err, out.String())
	}
	l.follow, l.pod = false, "old"
	before := len(out.String())
	if err := l.run(t.Context()); err != nil ||
		!strings.HasPrefix(out.String()[before:], "/api/v1/namespaces/bank/pods/old/") {
		t.Errorf("--pod: %v: %q", err, out.String())
	}
	if l.pod = "foreign"; l.run(t.Context()) == nil {
		t.Error("the log of a pod of another object is shown")
	}
	l.pod, l.previous = "", true
	if err := l.run(t.Context()); err == nil || !strings.Contains(err.Error(), "--previous") {
		t.Errorf("--previous without any: %v", err)
	}
	again := &corev1.Pod{}
	if err := p.cluster.Get(t.Context(), client.ObjectKey{Namespace: "bank", Name: "old"}, again); err != nil {
		t.Fatal(err)
	}
	again.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: agentpod.ContainerName, RestartCount: 1}}
	if err := p.cluster.Status().Update(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	before = len(out.String())
	if err := l.run(t.Context()); err != nil || !strings.Contains(out.String()[before:], "old/log says  previous true") {
		t.Errorf("--previous: %v: %q", err, out.String()[before:])
	}
	l.previous, l.follow = false, true
	l.tail = 7
	if err := l.run(t.Context()); err == nil || !strings.Contains(err.Error(), "waiting to start") ||
		strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
}
