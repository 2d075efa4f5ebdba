// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package statement_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/statement"
	"github.com/lighterage/lighterage/controllers/topology"
)

var cluster *controllertest.Cluster

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	if cluster, err = controllertest.Start("../../config/crd/bases"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	return m.Run(), nil
}

// errKilled is what a call of a manager returns that was killed.
var errKilled = errors.New("the manager was killed")

// killer counts calls and, from one on, fails all: before they are sent, or for a write after it was done.
type killer struct {
	calls, kill atomic.Int64
	after       atomic.Bool
	writes      atomic.Int64
}

// dead reports whether the manager is not alive any more before a call, and whether it dies with it.
func (k *killer) call() (dead, dies bool) {
	n, kill := k.calls.Add(1), k.kill.Load()
	return kill > 0 && n > kill, kill > 0 && n == kill
}

func (k *killer) do(write bool, call func() error) error {
	dead, dies := k.call()
	if dead || dies && !k.after.Load() {
		return errKilled
	}
	err := call()
	if write && err == nil {
		k.writes.Add(1)
	}
	if dies {
		return errKilled
	}
	return err
}

func (k *killer) client() client.WithWatch {
	return interceptor.NewClient(cluster.Client, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption,
		) error {
			return k.do(false, func() error { return c.Get(ctx, key, object, o...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			return k.do(false, func() error { return c.List(ctx, list, o...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.CreateOption) error {
			return k.do(true, func() error { return c.Create(ctx, object, o...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.DeleteOption) error {
			return k.do(true, func() error { return c.Delete(ctx, object, o...) })
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch,
			o ...client.SubResourcePatchOption,
		) error {
			return k.do(true, func() error { return c.SubResource(sub).Patch(ctx, object, patch, o...) })
		},
	})
}

// newBooks is a manager that has just been started.
func newBooks(k *killer, clock *clocktesting.FakePassiveClock) *statement.Books {
	c := k.client()
	return statement.New(statement.Options{
		Client: c, Reader: c, Topology: topology.New(c), Metrics: metrics.NewStatements(prometheus.NewRegistry()),
		Clock: clock, Months: 13,
	})
}

func book(ctx context.Context, b *statement.Books, namespace string) (reconcile.Result, error) {
	return b.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}})
}

// transfer makes a Transfer that has run.
func transfer(t *testing.T, namespace, name string) *v1alpha1.Transfer {
	t.Helper()
	path := func(claim string) v1alpha1.PersistentVolumeClaimPath {
		return v1alpha1.PersistentVolumeClaimPath{ClaimName: claim, Path: "/"}
	}
	made := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{PersistentVolumeClaim: path("a")},
			Destination: v1alpha1.TransferDestination{
				Peer: "west", PersistentVolumeClaim: v1alpha1.DestinationClaim{PersistentVolumeClaimPath: path("b")},
			},
		},
	}
	cluster.Create(t, made)
	return made
}

// report writes what an agent said: bytes on the wire and seconds of CPU time since the attempt began.
func report(t *testing.T, on *v1alpha1.Transfer, attempt int32, wire int64) {
	t.Helper()
	before := on.DeepCopy()
	usage := func() *v1alpha1.UsageStatus {
		return &v1alpha1.UsageStatus{
			Send: &v1alpha1.CPUUsage{ProcessSeconds: fmt.Sprintf("%d.000000001", wire)}, WireBytes: wire,
			// What a peer claims is nobody's here.
			Receive: &v1alpha1.CPUUsage{ProcessSeconds: "1000000"}, UncompressedBytes: 3 * wire, CompressedBytes: wire,
		}
	}
	if run := on.Status.Run; run != nil && run.Attempt != attempt {
		on.Status.History = append([]v1alpha1.AttemptRecord{{
			RunID: "abcde", Attempt: run.Attempt, Usage: on.Status.Usage, CompletionTime: &metav1.Time{Time: time.Now()},
		}}, on.Status.History...)
		on.Status.History = on.Status.History[:min(len(on.Status.History), 10)]
	}
	on.Status.Run, on.Status.Usage = &v1alpha1.RunStatus{ID: "abcde", Attempt: attempt}, usage()
	if err := cluster.Client.Status().Patch(t.Context(), on, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// sums of all Statements of a namespace: bytes on the wire, and seconds of CPU time.
func sums(t *testing.T, namespace string) (wire int64, cpu []string) {
	t.Helper()
	list := &v1alpha1.StatementList{}
	if err := cluster.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		for _, r := range s.Status.Rows {
			wire += r.WireBytes
			cpu = append(cpu, r.CPU.SendSeconds)
			if r.CPU.ReceiveSeconds != "" {
				t.Errorf("what a peer claims is booked: %+v", r.CPU)
			}
		}
	}
	return wire, cpu
}
