// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/delivery"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/topology"
)

// The gateway passes the condition on to the sender. Names of quotas and policies are in the event alone.
func TestSenderReadsNoTextOfTheAPIServer(t *testing.T) {
	started := metav1.Now()
	object := plan.NewDelivery("bank", v1alpha1.DeliverySpec{
		Transfer: v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "a2b3c", Attempt: 1},
		Destination: v1alpha1.DeliveryDestination{
			PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"},
		},
	})
	object.UID, object.Finalizers = "uid", []string{v1alpha1.Finalizer}
	object.Status = v1alpha1.DeliveryStatus{
		Phase: v1alpha1.DeliveryStarting, Run: &v1alpha1.RunStatus{ID: "a2b3c", Attempt: 1, StartTime: &started},
	}
	s := newStubborn(object)
	full := interceptor.NewClient(s, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if _, isJob := o.(*batchv1.Job); isJob {
				resource := schema.GroupResource{Group: "batch", Resource: "jobs"}
				return apierrors.NewForbidden(resource, o.GetName(), errors.New("exceeded quota: secret-project"))
			}
			return c.Create(ctx, o, options...)
		},
	})
	recorder := events.NewFakeRecorder(10)
	r := delivery.NewReconciler(delivery.Options{
		Client: full, Reader: full, Recorder: recorder, Topology: topology.New(full),
		Reports: controllertest.Asking[*wirev1.Report](nil), Clock: clock.RealClock{}, Cluster: "west", Retention: time.Hour,
		Attempts: agentjob.NewCluster(agentjob.Options{
			Client: full, Reader: full, Lifetime: time.Hour,
			Authority: pki.NewAuthority(pki.Options{
				Client: s, Reader: s, Clock: clock.RealClock{}, Namespace: "lighterage-system", Cluster: "west",
			}),
		}),
		Image: agentpod.Image{Name: "registry.example/agent:test"},
	})
	key := client.ObjectKeyFromObject(object)
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if err := s.Get(t.Context(), key, object); err != nil {
		t.Fatal(err)
	}
	stalled := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionStalled)
	if object.Status.Phase != v1alpha1.DeliveryFailed || stalled == nil ||
		stalled.Reason != v1alpha1.ReasonAgentNotStarted {
		t.Fatalf("%+v", object.Status)
	}
	for _, condition := range object.Status.Conditions {
		if strings.Contains(condition.Message, "secret-project") {
			t.Errorf("condition %s names the quota: %s", condition.Type, condition.Message)
		}
	}
	close(recorder.Events)
	told := false
	for event := range recorder.Events {
		told = told || strings.Contains(event, v1alpha1.ReasonAgentNotStarted) &&
			strings.Contains(event, "exceeded quota: secret-project")
	}
	if !told {
		t.Error("no event names the quota")
	}
}
