// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package staging_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/receiptkey"
	"github.com/lighterage/lighterage/controllers/transfer"
)

const driver = "csi.example"

var (
	cluster  *controllertest.Cluster
	manager  controllertest.Manager
	agents   = &controllertest.Agents{}
	counters = metrics.NewTransfers(prometheus.NewRegistry())
)

// TestMain starts an API server and a manager's cache, and no controller: tests reconcile step by step.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		ctrl.SetLogger(logr.Discard())
		var err error
		if cluster, err = controllertest.Start("../../config/crd/bases"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = cluster.Stop() }()
		stop, err := cluster.StartManager(func(mgr controllertest.Manager) error {
			manager = mgr
			return nil
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer stop()
		return m.Run()
	}())
}

// reconciler is that of a manager that has just been started, with a client of its own.
func reconciler(c client.Client) *transfer.Reconciler { return reconcilerAt(c, clock.RealClock{}) }

// reconcilerAt is one with a clock of its own.
func reconcilerAt(c client.Client, at clock.PassiveClock) *transfer.Reconciler {
	return transfer.NewReconciler(transfer.Options{
		Client: c, Reader: manager.GetAPIReader(), Topology: manager.Topology,
		Egress: egress.NewCluster(egress.Options{
			Client: c, Reader: manager.GetAPIReader(), Clock: clock.RealClock{},
		}),
		Reports: agentjob.Reports(manager.Pool, "transfer", agents), Gateways: &controllertest.Gateways{}, Agents: agents,
		Keys: receiptkey.New(receiptkey.Options{
			Client: c, Reader: manager.GetAPIReader(), Clock: clock.RealClock{},
			Namespace: controllertest.OperatorNamespace, Cluster: "east",
		}),
		Attempts: agentjob.NewCluster(agentjob.Options{
			Client: c, Reader: manager.GetAPIReader(), Authority: cluster.Authority(), Lifetime: time.Hour,
		}),
		Recorder: manager.GetEventRecorder("lighterage-transfer"), Metrics: counters, Clock: at,
		Cluster: "east", Image: agentpod.Image{Name: "registry.example/agent:test"}, Concurrency: 1,
	})
}

// storage is a fake of a CSI driver, of its controllers, and of those of Jobs and claims, for one namespace.
type storage struct {
	*testing.T
	namespace string
	transfer  *v1alpha1.Transfer
	// failure is what the driver says of snapshots in place of taking them.
	failure string
	// idle: the driver does nothing.
	idle bool
	// fails is how many attempts of the agent end with a failure before one succeeds.
	fails int32
	// dies is how many agents end without a report before one does its work.
	dies int
	// stays: agents run until they are ended.
	stays bool
	// hooks are those of the namespace, which do what they are told.
	hooks hooks
	// quiescer sets triggers; nil: nobody does.
	quiescer *quiescer
	// history: snapshots are of the destination. taken are their UIDs by run.
	history bool
	taken   map[string]string
	// consumer: claims are not provisioned, as their class waits for the first consumer. cut is what the source said of
	// its copy when each clone was.
	consumer bool
	cut      []string
	// grouped is a snapshot that is not the Transfer's.
	grouped string
	// mounted are the claims that agents have mounted to read.
	mounted map[string]bool
}

// prepareStorageClass makes the class of all claims.
func prepareStorageClass(t testing.TB) {
	t.Helper()
	mode, waits := storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
	cluster.Create(t, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: driver, VolumeBindingMode: &mode,
	}, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "waits"}, Provisioner: driver, VolumeBindingMode: &waits,
	})
}

// prepareSnapshotClass makes the default class of the driver.
func prepareSnapshotClass(t testing.TB) {
	t.Helper()
	class := &unstructured.Unstructured{Object: map[string]any{"driver": driver, "deletionPolicy": "Delete"}}
	class.SetGroupVersionKind(kind("VolumeSnapshotClass"))
	class.SetName("fast")
	class.SetAnnotations(map[string]string{"snapshot.storage.kubernetes.io/is-default-class": "true"})
	cluster.Create(t, class)
}

func kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: plan.SnapshotGroup, Version: "v1", Kind: name}
}

// prepare makes a namespace with a bound claim, a Peer, and a Transfer by snapshot.
func prepare(t *testing.T) *storage {
	namespace := cluster.Namespace(t)
	cluster.Peer(t, namespace)
	s := &storage{T: t, namespace: namespace, mounted: map[string]bool{}}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: namespace},
			},
		},
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: volume.Spec.AccessModes, VolumeName: namespace, StorageClassName: ptr.To("fast"),
			Resources: corev1.VolumeResourceRequirements{Requests: volume.Spec.Capacity},
		},
	}
	cluster.Create(t, volume, claim)
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, volume.Spec.Capacity
	if err := cluster.Client.Status().Update(context.Background(), claim); err != nil {
		t.Fatal(err)
	}
	s.transfer = &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"},
				SourceCopy:            v1alpha1.SourceCopy{CopyMethod: v1alpha1.CopySnapshot},
			},
			Destination: v1alpha1.TransferDestination{
				Peer: namespace, PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy"},
				},
			},
		},
	}
	return s
}

func (s *storage) snapshots() []unstructured.Unstructured {
	s.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind("VolumeSnapshotList"))
	err := cluster.Client.List(context.Background(), list, client.InNamespace(s.namespace))
	if err != nil && !meta.IsNoMatchError(err) { // of an API server without the CRDs there are none
		s.Fatal(err)
	}
	// Those of groups are not the Transfer's.
	return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		owners := o.GetOwnerReferences()
		return len(owners) > 0 && owners[0].Kind == "VolumeGroupSnapshot"
	})
}

func (s *storage) copies() []corev1.PersistentVolumeClaim {
	s.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	if err := cluster.Client.List(
		context.Background(), list, client.InNamespace(s.namespace),
		client.MatchingLabels{agentpod.ComponentLabel: plan.StagedComponent},
	); err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// work does once what there is to do.
func (s *storage) work() {
	s.Helper()
	snapshots, claims := s.snapshots(), s.copies()
	if s.oneOfEachRun(snapshots); len(snapshots) > 1 && !s.history || len(claims) > 1 {
		s.Fatalf("a pile: %d snapshots, %d claims", len(snapshots), len(claims))
	}
	s.runHooks(snapshots)
	s.quiesce(snapshots)
	s.runJobs()
	for i := range claims {
		s.provision(&claims[i], snapshots)
	}
	for i := range snapshots {
		s.take(&snapshots[i])
	}
}

func (s *storage) take(snapshot *unstructured.Unstructured) {
	s.Helper()
	if snapshot.GetDeletionTimestamp() != nil || s.idle {
		return
	}
	status := map[string]any{"readyToUse": true, "restoreSize": "1Gi", "boundVolumeSnapshotContentName": "content",
		"creationTime": time.Now().UTC().Format(time.RFC3339)}
	if s.failure != "" {
		status = map[string]any{"readyToUse": false, "error": map[string]any{
			"message": s.failure, "time": time.Now().UTC().Format(time.RFC3339),
		}}
	}
	if _, found := snapshot.Object["status"]; found && s.failure == "" {
		if ready, _, _ := unstructured.NestedBool(snapshot.Object, "status", "readyToUse"); ready {
			return
		}
	}
	snapshot.Object["status"] = status
	s.ignoreGone(cluster.Client.Status().Update(context.Background(), snapshot))
}

func (s *storage) provision(claim *corev1.PersistentVolumeClaim, snapshots []unstructured.Unstructured) {
	s.Helper()
	if claim.DeletionTimestamp != nil {
		// Nothing uses it.
		claim.Finalizers = nil
		s.ignoreGone(cluster.Client.Update(context.Background(), claim))
		return
	}
	if claim.Status.Phase == corev1.ClaimBound || s.idle || s.consumer {
		return
	}
	if claim.Spec.DataSource.Kind == "PersistentVolumeClaim" {
		s.cut = append(s.cut, s.source().Annotations[v1alpha1.LatestCopyStatusAnnotation])
	}
	if claim.Spec.DataSource.Kind == "VolumeSnapshot" && len(snapshots) == 0 && claim.Spec.DataSource.Name != s.grouped {
		s.Errorf("claim %s has no snapshot to be made from", claim.Name)
	}
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	s.ignoreGone(cluster.Client.Status().Update(context.Background(), claim))
}

// runJobs has the agent of each Job that has no pod yet do its work.
func (s *storage) runJobs() {
	s.Helper()
	jobs := &batchv1.JobList{}
	if err := cluster.Client.List(context.Background(), jobs, client.InNamespace(s.namespace)); err != nil {
		s.Fatal(err)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if job.Labels[v1alpha1.HookLabel] != "" {
			continue
		}
		pods := &corev1.PodList{}
		if err := cluster.Client.List(context.Background(), pods, client.InNamespace(s.namespace),
			client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
			s.Fatal(err)
		}
		if len(pods.Items) > 0 || job.DeletionTimestamp != nil {
			continue
		}
		for _, volume := range job.Spec.Template.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				s.mounted[volume.PersistentVolumeClaim.ClaimName] = true
				if volume.PersistentVolumeClaim.ClaimName == "ledger" {
					s.hooks.order = append(s.hooks.order, "M")
				}
				if !volume.PersistentVolumeClaim.ReadOnly && volume.PersistentVolumeClaim.ClaimName != "copy" {
					s.Errorf("%s is mounted to be written", volume.PersistentVolumeClaim.ClaimName)
				}
			}
		}
		pod := cluster.RunPod(s, job, s.namespace)
		if s.stays {
			continue
		}
		if s.dies > 0 {
			s.dies--
			cluster.EndPod(s, pod, 137, "")
			continue
		}
		report := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED}
		if s.fails > 0 {
			s.fails--
			report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{
				Reason: wirev1.FailureReason_FAILURE_REASON_EVICTED, Message: "drained",
			}}
		}
		text, err := protojson.Marshal(report)
		if err != nil {
			s.Fatal(err)
		}
		cluster.EndPod(s, pod, 0, string(text))
	}
}

func (s *storage) ignoreGone(err error) {
	s.Helper()
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		s.Error(err)
	}
}

// refresh reports whether the Transfer still exists.
func (s *storage) refresh() bool {
	s.Helper()
	err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(s.transfer), s.transfer)
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	return err == nil
}

// step reconciles once, when the manager's cache has what was written before.
func (s *storage) step(r *transfer.Reconciler) error {
	s.Helper()
	s.caughtUp()
	_, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.transfer)})
	return err
}

func (s *storage) caughtUp() {
	s.Helper()
	for range 20000 {
		cached := &v1alpha1.Transfer{}
		err := manager.GetClient().Get(context.Background(), client.ObjectKeyFromObject(s.transfer), cached)
		exists := s.refresh()
		if exists == (err == nil) && (!exists || cached.ResourceVersion == s.transfer.ResourceVersion) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	s.Fatal("the cache is late")
}

// until reconciles and works until something holds.
func (s *storage) until(what string, r *transfer.Reconciler, holds func() bool) {
	s.Helper()
	var last error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		if s.refresh(); holds() {
			return
		}
		last = s.step(r)
		s.work()
	}
	s.Fatalf("%s: not reached: %v, %+v", what, last, s.transfer.Status)
}

func (s *storage) ended() bool {
	return s.transfer.Status.Phase == v1alpha1.TransferComplete && s.transfer.Status.Staged == nil
}

// stuck reports whether the attempt has ended with that reason.
func (s *storage) stuck(reason string) func() bool {
	return func() bool {
		run := s.transfer.Status.Run
		return run != nil && run.NextAttemptTime != nil && s.transfer.Status.History[0].Reason == reason
	}
}

// hurry ends the back-off of an attempt.
func (s *storage) hurry() {
	s.Helper()
	controllertest.Eventually(s, func() error {
		if !s.refresh() || s.transfer.Status.Run == nil || s.transfer.Status.Run.NextAttemptTime == nil {
			return nil
		}
		s.transfer.Status.Run.NextAttemptTime = ptr.To(metav1.NewTime(time.Now().Add(-time.Second)))
		return cluster.Client.Status().Update(context.Background(), s.transfer)
	})
}

func (s *storage) nothingLeft() {
	s.Helper()
	if snapshots, claims := s.snapshots(), s.copies(); len(snapshots)+len(claims) > 0 {
		s.Errorf("left behind: %d snapshots, %d claims", len(snapshots), len(claims))
	}
}

var errKilled = errors.New("the manager was killed")
