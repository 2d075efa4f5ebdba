// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

// TestClockSkew: in the middle of a run the clock of one cluster is set 90 minutes ahead or behind, and later right
// again, and each time another attempt has to go on with clocks that differ, from each other and from what came before.
// A schedule goes on, too.
//
// Nothing on a Linux machine gives a static program another time. So manager, gateway and agents are replaced by ones
// that were built with one (hack/images -clock-offset). The API server keeps its clock: the manager's differs from that
// as well.
func TestClockSkew(t *testing.T) {
	for _, c := range []*clusters.Cluster{west, east} {
		// Half of the life of a run's certificate is always left, which is two hours.
		t.Run(c.Name+" ahead", func(t *testing.T) { clockSkew(t, c, 90*time.Minute) })
		t.Run(c.Name+" behind", func(t *testing.T) { clockSkew(t, c, -90*time.Minute) })
	}
}

// TestClocksTooFarApart: to a cluster that is a day ahead of the other one the certificates of runs have expired. The
// Transfer says so, and goes on when the clock is right again.
func TestClocksTooFarApart(t *testing.T) {
	t.Run("receiver ahead", func(t *testing.T) { clocksApart(t, 24*time.Hour) })
	t.Run("receiver behind", func(t *testing.T) { clocksApart(t, -24*time.Hour) })
}

func clocksApart(t *testing.T, offset time.Duration) {
	registry, tag := installed(t, west)
	inRoot(
		t, "go", "run", "-C", "hack/images", ".", "-registry", registry, "-version", tag, "-platforms",
		"linux/"+runtime.GOARCH, "-clock-offset", offset.String(),
	)
	t.Cleanup(func() { install(t, west, tag, 0) })
	install(t, west, tag+"-clock"+strings.Replace(offset.String(), "-", "minus", 1), offset)
	r := start(t, 8<<20, options{path: "run", attempts: 10})
	clusters.Eventually(t, patience, "the Transfer to say that the clocks differ", func() (bool, string) {
		r.refresh(t)
		ready := meta.FindStatusCondition(r.transfer.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil {
			return false, "no condition"
		}
		return ready.Reason == v1alpha1.ReasonPeerUntrusted &&
			strings.Contains(ready.Message, "clocks"), ready.Reason + ": " + ready.Message
	})
	install(t, west, tag, 0)
	r.complete(t, r.wait(t))
}

func clockSkew(t *testing.T, c *clusters.Cluster, offset time.Duration) {
	registry, tag := installed(t, c)
	inRoot(
		t, "go", "run", "-C", "hack/images", ".", "-registry", registry, "-version", tag, "-platforms",
		"linux/"+runtime.GOARCH, "-clock-offset", offset.String(),
	)
	t.Cleanup(func() { install(t, c, tag, 0) })

	// It lasts longer than an upgrade takes on a loaded machine.
	r := start(t, 300<<20, options{limit: "1Mi", path: "run", attempts: 10})
	minutely := everyMinute(t, r.namespace)
	r.underway(t, 2)

	install(t, c, tag+"-clock"+strings.Replace(offset.String(), "-", "minus", 1), offset)
	r.goesOn(t)
	if c == east {
		nextRun(t, minutely)
	}
	wasOff(t, r, c, offset)

	install(t, c, tag, 0)
	r.unlimited(t)
	killComponent(t, west, "gateway")
	r.complete(t, r.wait(t))
	nextRun(t, minutely)
	for _, h := range r.transfer.Status.History {
		if h.Reason == v1alpha1.ReasonPeerUntrusted {
			t.Errorf("attempt %d was not believed: %s", h.Attempt, h.Message)
		}
		if h.Duration == nil || h.Duration.Duration > time.Hour {
			t.Errorf("attempt %d took %v", h.Attempt, h.Duration)
		}
	}
}

// goesOn cuts the connections of the attempt that is under way and waits until another one brings more.
func (r *run) goesOn(t *testing.T) {
	t.Helper()
	r.refresh(t)
	attempt, before := r.transfer.Status.Run.Attempt, r.staged(t)
	killComponent(t, west, "gateway")
	clusters.Eventually(t, patience, fmt.Sprintf("another attempt than %d to bring more", attempt), func() (bool, string) {
		r.refresh(t)
		now := r.staged(t)
		return r.transfer.Status.Run.Attempt > attempt && r.transfer.Status.Phase == v1alpha1.TransferTransferring &&
				now > before+interval,
			fmt.Sprintf("attempt %d, %s, %d bytes are staged", r.transfer.Status.Run.Attempt, r.transfer.Status.Phase, now)
	})
}

// wasOff checks that the fault did hit: what the cluster says of the run is by a clock that is off.
func wasOff(t *testing.T, r *run, c *clusters.Cluster, offset time.Duration) {
	t.Helper()
	off := func(at time.Time) bool { return (time.Until(at) - offset).Abs() < 30*time.Minute }
	if c == east {
		transfer := minutelyOf(t, r.namespace)
		// The agent's own word.
		if len(transfer.Status.History) == 0 || !off(transfer.Status.History[0].StartTime.Time) {
			t.Errorf("no agent of %s had a clock that is off by %s: %+v", c.Name, offset, transfer.Status.History)
		}
		return
	}
	var deliveries v1alpha1.DeliveryList
	if err := c.List(context.Background(), &deliveries, client.InNamespace(r.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range deliveries.Items {
		if run := deliveries.Items[i].Status.Run; run != nil && run.StartTime != nil && off(run.StartTime.Time) &&
			deliveries.Items[i].Spec.Transfer.Name == r.transfer.Name {
			return
		}
	}
	t.Errorf("%s received nothing by a clock that is off by %s", c.Name, offset)
}

// everyMinute makes a Transfer of the small files that runs every minute.
func everyMinute(t *testing.T, namespace string) *v1alpha1.Transfer {
	t.Helper()
	transfer := clusters.NewTransfer(namespace, "minutely")
	transfer.Spec.Source.PersistentVolumeClaim.Path = "/small"
	transfer.Spec.Destination.PersistentVolumeClaim.Path = "/minutely"
	transfer.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: "* * * * *"}
	if err := east.Create(context.Background(), transfer); err != nil {
		t.Fatal(err)
	}
	return transfer
}

func minutelyOf(t *testing.T, namespace string) *v1alpha1.Transfer {
	t.Helper()
	transfer := &v1alpha1.Transfer{}
	if err := east.Get(
		context.Background(), client.ObjectKey{Namespace: namespace, Name: "minutely"}, transfer,
	); err != nil {
		t.Fatal(err)
	}
	return transfer
}

// nextRun waits until a run that begins from now on is complete.
func nextRun(t *testing.T, transfer *v1alpha1.Transfer) {
	t.Helper()
	id := func(t *v1alpha1.Transfer) string {
		if t.Status.Run == nil {
			return ""
		}
		return t.Status.Run.ID
	}
	now := id(minutelyOf(t, transfer.Namespace))
	clusters.Eventually(t, patience, "the next run by the schedule", func() (bool, string) {
		seen := minutelyOf(t, transfer.Namespace)
		return id(seen) != now && seen.Status.Phase == v1alpha1.TransferComplete,
			fmt.Sprintf("run %q is %s, the schedule %+v", id(seen), seen.Status.Phase, seen.Status.Schedule)
	})
}

// installed is where the images of a cluster come from, and their tag, without that of another clock.
func installed(t *testing.T, c *clusters.Cluster) (registry, tag string) {
	t.Helper()
	var manager appsv1.Deployment
	if err := c.Get(
		context.Background(), client.ObjectKey{Namespace: system, Name: "lighterage-manager"}, &manager,
	); err != nil {
		t.Fatal(err)
	}
	image := manager.Spec.Template.Spec.Containers[0].Image
	registry, tag, found := strings.Cut(image, "/lighterage/manager:")
	if !found {
		t.Fatalf("the manager of %s has the image %s, not one of hack/images", c.Name, image)
	}
	tag, _, _ = strings.Cut(tag, "-clock")
	return registry, tag
}

// install replaces the images of a cluster by those of the tag, whose clock is off by that. It returns when nothing
// with another clock is left but the agents of runs that are under way.
func install(t *testing.T, c *clusters.Cluster, tag string, offset time.Duration) {
	t.Helper()
	inRoot(t, "go", "tool", "-modfile=hack/tools/helm/go.mod", "helm", "upgrade", "lighterage", "charts/lighterage",
		"--kubeconfig", ".cluster/"+c.Name+".kubeconfig", "--namespace", system, "--reuse-values", "--set", "image.tag="+
			tag, "--wait", "--timeout", "5m")
	for _, component := range []string{"manager", "gateway"} {
		clusters.Eventually(t, patience, "one "+component+" in "+c.Name, func() (bool, string) {
			n := restarts(t, c, client.MatchingLabels{"app.kubernetes.io/component": component})
			return n >= 0, fmt.Sprintf("%d restarts", n)
		})
	}
	clusters.Eventually(t, patience, "a manager that leads by its clock", func() (bool, string) {
		var lease coordinationv1.Lease
		if err := c.Get(
			context.Background(), client.ObjectKey{Namespace: system, Name: "manager.lighterage.dev"}, &lease,
		); err != nil {
			return false, err.Error()
		}
		if lease.Spec.RenewTime == nil {
			return false, "none leads"
		}
		off := time.Until(lease.Spec.RenewTime.Time)
		return (off - offset).Abs() < time.Minute, fmt.Sprintf("it is off by %s", off)
	})
	peersReady(t)
}

// inRoot runs a command where the module's root is.
func inRoot(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...) //nolint:gosec,noctx // the test's own arguments and time limit
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
}
