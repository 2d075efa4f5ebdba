// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/plan"
)

const own = "ledger-a2b3c-1-01234567"

// ownSecret is the name of the Secret of the Job of that name.
// newBuilder builds fake clusters that find objects as the manager's cache does.
func newBuilder() *fake.ClientBuilder {
	return indextest.In(fake.NewClientBuilder(), &corev1.Pod{}, &batchv1.Job{})
}

func ownSecret() string { return attempt.SecretName(own, owner()) }

func owner() *v1alpha1.Delivery {
	return &v1alpha1.Delivery{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: own, UID: "uid"}}
}

func controlledBy(kind, name string, uid types.UID) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{Kind: kind, Name: name, UID: uid, Controller: &yes}}
}

// job has the owner's label; who controls it is for the references to say.
func job(name string, references []metav1.OwnerReference) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: name, UID: types.UID("job-" + name),
		Labels: map[string]string{v1alpha1.DeliveryLabel: "uid"}, OwnerReferences: references,
	}}
}

func pod(name string, references []metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: name, Labels: map[string]string{v1alpha1.DeliveryLabel: "uid", batchv1.JobNameLabel: own},
		OwnerReferences: references,
	}}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name}, Data: map[string][]byte{"tls.key": []byte("old")},
	}
}

// cluster is one whose cache c reads and writes, and whose API server knows of the live objects, which the cache may
// not.
func cluster(c client.Client, live ...client.Object) *agentjob.Cluster {
	store := newBuilder().Build()
	authority := pki.NewAuthority(pki.Options{
		Client: store, Reader: store, Clock: clock.RealClock{}, Namespace: "lighterage-system", Cluster: "west",
	})
	if _, err := pki.LoadOrCreateCA(context.Background(), pki.Options{
		Client: store, Reader: store, Clock: clock.RealClock{}, Namespace: "lighterage-system", Cluster: "west",
	}); err != nil {
		panic(err)
	}
	return agentjob.NewCluster(agentjob.Options{
		Client: c, Reader: newBuilder().WithObjects(live...).Build(), Authority: authority, Lifetime: time.Hour,
	})
}

func start(c *agentjob.Cluster) (*agentpod.Problem, error) {
	d := owner()
	return c.Start(context.Background(), d, plan.ReceiveAttempt(
		d, false, placement.Plan{}, agentpod.Image{Name: "agent"},
	),
		agentjob.Certificate{
			Identity: pki.DeliveryIdentity("west", d.Namespace, d.Name), ServerName: pki.ReceiveServerName("uid"),
			PeerCA: []byte("pem"),
		})
}

func key(t *testing.T, c client.Client, name string) string {
	t.Helper()
	found := &corev1.Secret{}
	err := c.Get(context.Background(), client.ObjectKey{Namespace: "bank", Name: name}, found)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return string(found.Data["tls.key"])
}

func TestStart(t *testing.T) {
	c := newBuilder().WithObjects(secret(ownSecret())).Build()
	if problem, err := start(cluster(c)); problem != nil || err != nil {
		t.Fatal(problem, err)
	}
	if got := key(t, c, ownSecret()); got == "" || got == "old" {
		t.Errorf("what a start that was cut short left is still there: %q", got)
	}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "bank", Name: own}, &batchv1.Job{}); err != nil {
		t.Error(err)
	}
}

// TestStartWithStaleCache: the Job is there and the cache does not know yet, so its agent uses the Secret.
func TestStartWithStaleCache(t *testing.T) {
	c := newBuilder().WithObjects(secret(ownSecret())).Build()
	if problem, err := start(cluster(c, job(own, controlledBy("Delivery", own, "uid")))); problem != nil || err != nil {
		t.Fatal(problem, err)
	}
	if got := key(t, c, ownSecret()); got != "old" {
		t.Errorf("the Secret of a running agent became %q", got)
	}
}

func TestStartBesideAForeignJob(t *testing.T) {
	c := newBuilder().Build()
	problem, err := start(cluster(c, job(own, nil)))
	if err != nil || problem == nil || problem.Reason != v1alpha1.ReasonAgentNotStarted ||
		!strings.Contains(problem.Message, "delete it") {
		t.Fatal(problem, err)
	}
	if key(t, c, ownSecret()) != "" {
		t.Error("a key was written for somebody else's Job")
	}
}

func TestStartRefused(t *testing.T) {
	resource := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for name, test := range map[string]struct {
		err     error
		refused bool
	}{
		"quota":           {apierrors.NewForbidden(resource, own, errors.New("exceeded quota: few")), true},
		"invalid":         {apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, own, nil), true},
		"webhook":         {apierrors.NewBadRequest("no agents on Fridays"), true},
		"no API server":   {errors.New("connection refused"), false},
		"busy API server": {apierrors.NewTooManyRequests("later", 1), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
					if _, isJob := object.(*batchv1.Job); isJob {
						return test.err
					}
					return c.Create(ctx, object, options...)
				},
			}).Build()
			problem, err := start(cluster(c))
			if (problem != nil) != test.refused || (err == nil) != test.refused {
				t.Fatal(problem, err)
			}
			if test.refused && key(t, c, ownSecret()) != "" {
				t.Error("a key is left that nobody uses")
			}
			if !test.refused && !errors.Is(err, test.err) {
				t.Error(err)
			}
		})
	}
}

func TestFindTrustsNoLabels(t *testing.T) {
	mine := job(own, controlledBy("Delivery", own, "uid"))
	forged := pod("forged", nil)
	forged.CreationTimestamp = metav1.NewTime(time.Now())
	for name, test := range map[string]struct {
		job     *batchv1.Job
		wantPod string
	}{
		"own":                    {mine, "true"},
		"of nobody":              {job(own, nil), ""},
		"of a namesake long ago": {job(own, controlledBy("Delivery", own, "uid-before")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newBuilder().WithObjects(test.job, forged, pod("true", controlledBy("Job", own, test.job.UID))).Build()
			gotJob, gotPod, err := cluster(c).Find(context.Background(), owner(), own)
			if err != nil || (gotJob != nil) != (test.wantPod != "") || (gotPod != nil) != (test.wantPod != "") {
				t.Fatal(gotJob, gotPod, err)
			}
			if gotPod != nil && gotPod.Name != test.wantPod {
				t.Errorf("took pod %s", gotPod.Name)
			}
		})
	}
}

func TestRetireTrustsNoLabels(t *testing.T) {
	mine := controlledBy("Delivery", own, "uid")
	c := newBuilder().WithObjects(
		job(own, mine), secret(ownSecret()), secret(own),
		job("labelled", nil), secret("labelled"),
		job("forged", mine), secret("forged"),
		secret("other"),
	).Build()
	if err := cluster(c).Retire(context.Background(), owner(), v1alpha1.DeliveryLabel, ""); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		ownSecret(): "", own: "old", "labelled": "old", "forged": "old", "other": "old",
	} {
		if got := key(t, c, name); got != want {
			t.Errorf("Secret %s: %q, want %q", name, got, want)
		}
	}
}

func TestPodsLeft(t *testing.T) {
	done := pod("done", controlledBy("Job", own, "job"))
	done.Status.Phase = corev1.PodSucceeded
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"running":       {pod("running", controlledBy("Job", own, "job")), true},
		"ended":         {done, false},
		"labelled":      {pod("labelled", nil), false},
		"of other Jobs": {pod("other", controlledBy("Job", "other", "job")), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newBuilder().WithObjects(test.pod).Build()
			if got, err := cluster(c).PodsLeft(context.Background(), owner(), v1alpha1.DeliveryLabel); got != test.want ||
				err != nil {
				t.Error(got, err)
			}
		})
	}
}

// TestStartOfAnAgentThatEncrypts: its Secret has a key, which is that of its owner whatever the attempt is.
func TestStartOfAnAgentThatEncrypts(t *testing.T) {
	c := newBuilder().Build()
	jobs := cluster(c)
	transfer := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "uid"}}
	var keys []string
	for _, name := range []string{"ledger-a2b3c-1", "ledger-a2b3c-2"} {
		made := attempt.New(attempt.Spec{
			Name: name, SecretName: name, Namespace: "bank",
			Config: &wirev1.LocalConfig{Encryption: &wirev1.Encryption{Recipients: []string{"age1"}}},
		})
		if problem, err := jobs.Start(t.Context(), transfer, made, agentjob.Certificate{
			Identity: pki.DeliveryIdentity("west", "bank", "ledger"), ServerName: "ledger",
		}); problem != nil || err != nil {
			t.Fatal(problem, err)
		}
		found := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "bank", Name: name}, found); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(found.Data[wirev1.ArchiveKey]))
	}
	if len(keys[0]) != 32 || keys[0] != keys[1] {
		t.Errorf("%q", keys)
	}
	if problem, err := start(jobs); problem != nil || err != nil {
		t.Fatal(problem, err)
	}
	found := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "bank", Name: ownSecret()}, found); err != nil {
		t.Fatal(err)
	}
	if found.Data[wirev1.ArchiveKey] != nil {
		t.Error("an agent that does not encrypt has a key")
	}
}
