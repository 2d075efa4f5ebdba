// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package trial_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

func newTrial(namespace string) *v1alpha1.CompressionTrial {
	return &v1alpha1.CompressionTrial{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"},
		Spec: v1alpha1.CompressionTrialSpec{
			Source: v1alpha1.TrialSource{PersistentVolumeClaim: &v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger"}},
			Links:  []v1alpha1.TrialLink{{Name: "wan", BytesPerSecond: resource.MustParse("12500k")}},
		},
	}
}

func expect(t *testing.T, trial *v1alpha1.CompressionTrial, phase v1alpha1.TrialPhase, condition, reason string) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(trial), trial); err != nil {
			return err
		}
		if trial.Status.Phase != phase {
			return fmt.Errorf("phase %s: %+v", trial.Status.Phase, trial.Status.Conditions)
		}
		return controllertest.Expect(trial.Status.Conditions, condition, reason)
	})
}

func job(t *testing.T, trial *v1alpha1.CompressionTrial) *batchv1.Job {
	t.Helper()
	var found *batchv1.Job
	controllertest.Eventually(t, func() error {
		jobs := cluster.Jobs(t, trial.Namespace, v1alpha1.TrialLabel, string(trial.UID))
		if len(jobs) != 1 {
			return fmt.Errorf("%d Jobs", len(jobs))
		}
		found = &jobs[0]
		return nil
	})
	return found
}

func report(t *testing.T) string {
	t.Helper()
	result, err := proto.Marshal(&wirev1.TrialResult{
		Sample: &wirev1.TrialSample{Bytes: 64 << 20, Files: 3, BytesTotal: 5 << 30, FilesTotal: 9}, Cores: 2,
		Accelerator: &wirev1.AcceleratorMeasurement{
			State: wirev1.AcceleratorState_ACCELERATOR_STATE_ABSENT, Reason: "NoInstruction", Message: "none",
		},
		Rows: []*wirev1.TrialRow{
			{Codec: "none", Engine: "none", WireBytes: 64 << 20, CpuNanos: 3e9, ElapsedNanos: []uint64{86e9}},
			{
				Codec: "zstd", Engine: "libzstd", Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED, WireBytes: 16 << 20,
				CpuNanos: 8e9, ElapsedNanos: []uint64{22e9},
			},
		},
		Best: []uint32{1}, WaitCpuNanos: []uint64{1e9}, WaitCostNanos: []uint64{0},
	})
	if err != nil {
		t.Fatal(err)
	}
	message, err := protojson.Marshal(
		&wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Architecture: "amd64", Trial: result},
	)
	if err != nil {
		t.Fatal(err)
	}
	return string(message)
}

func TestMeasuresAndRecommends(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := cluster.Namespace(t)
	trial := newTrial(namespace)
	cluster.Create(t, trial)
	expect(t, trial, v1alpha1.TrialPending, v1alpha1.ConditionStalled, v1alpha1.ReasonSourceNotFound)
	cluster.Claim(t, namespace, "ledger")
	expect(t, trial, v1alpha1.TrialStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	made := job(t, trial)
	secret := &corev1.Secret{}
	secretKey := client.ObjectKey{Namespace: made.Namespace, Name: attempt.SecretName(made.Name, trial)}
	if err := cluster.Client.Get(ctx, secretKey, secret); err != nil ||
		!strings.Contains(string(secret.Data["config.json"]), "12500000") {
		t.Fatalf("%v: %s", err, secret.Data["config.json"])
	}
	pod := cluster.RunPod(t, made, "node-1")
	name := pki.TrialServerName(string(trial.UID))
	agents.Say(
		name,
		&wirev1.Report{
			State: wirev1.AgentState_AGENT_STATE_MEASURING, Detail: "measuring go at Fast, 3 of 9", Architecture: "amd64",
		},
	)
	expect(t, trial, v1alpha1.TrialMeasuring, v1alpha1.ConditionReconciling, v1alpha1.ReasonMeasuring)
	if trial.Status.Run.Node != "node-1" || trial.Status.Run.Architecture != "amd64" ||
		trial.Status.Placement.Node != "node-1" {
		t.Errorf("%+v %+v", trial.Status.Run, trial.Status.Placement)
	}
	agents.Say(name, nil)
	cluster.EndPod(t, pod, 0, report(t))
	expect(t, trial, v1alpha1.TrialComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	if !meta.IsStatusConditionTrue(trial.Status.Conditions, v1alpha1.ConditionComplete) || len(trial.Status.Results) != 2 {
		t.Errorf("%+v", trial.Status)
	}
	if err := cluster.Client.Get(ctx, secretKey, secret); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret is still there: %v", err)
	}
	// The API server takes what is recommended.
	recommended := &v1alpha1.CompressionPolicy{}
	if err := yaml.UnmarshalStrict([]byte(trial.Status.Recommendation.Policy), recommended); err != nil {
		t.Fatal(err)
	}
	recommended.Name = namespace
	cluster.Create(t, recommended)
	if err := cluster.Client.Delete(ctx, recommended); err != nil {
		t.Error(err)
	}

	// Another run, by annotation; it fails for good, and the trial goes by its time to live.
	change := client.MergeFrom(trial.DeepCopy())
	trial.Annotations = map[string]string{v1alpha1.RunAnnotation: "2"}
	if err := cluster.Client.Patch(ctx, trial, change); err != nil {
		t.Fatal(err)
	}
	expect(t, trial, v1alpha1.TrialStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	if trial.Status.LastRunRequest != "2" || trial.Status.Recommendation != nil {
		t.Errorf("%+v", trial.Status)
	}
	var second *batchv1.Job
	controllertest.Eventually(t, func() error {
		if second = job(t, trial); second.UID == made.UID {
			return fmt.Errorf("the former Job is still there")
		}
		return nil
	})
	pod = cluster.RunPod(t, second, "node-1")
	failed, err := protojson.Marshal(&wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{
		Reason: wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY, Message: "the source has no byte in it",
	}})
	if err != nil {
		t.Fatal(err)
	}
	cluster.EndPod(t, pod, 1, string(failed))
	expect(t, trial, v1alpha1.TrialFailed, v1alpha1.ConditionStalled, v1alpha1.ReasonSourceEmpty)
	change = client.MergeFrom(trial.DeepCopy())
	trial.Spec.TTLSecondsAfterFinished = ptr.To[int32](0)
	trial.Annotations = nil
	if err := cluster.Client.Patch(ctx, trial, change); err != nil {
		t.Fatal(err)
	}
	// A new spec after a failure for good is a new run.
	expect(t, trial, v1alpha1.TrialStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	controllertest.Eventually(t, func() error {
		if third := job(t, trial); third.UID == second.UID {
			return fmt.Errorf("the former Job is still there")
		}
		return nil
	})
	cluster.EndPod(t, cluster.RunPod(t, job(t, trial), "node-1"), 0, report(t))
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(trial), trial); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the trial is still there: %v", err)
		}
		return nil
	})
}

// TestRefusedStart: a quota is told of, and the trial goes on when it has gone.
func TestRefusedStart(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	cluster.Claim(t, namespace, "ledger")
	quota := cluster.NoJobs(t, namespace)
	trial := newTrial(namespace)
	cluster.Create(t, trial)
	expect(t, trial, v1alpha1.TrialStarting, v1alpha1.ConditionStalled, v1alpha1.ReasonAgentNotStarted)
	if err := cluster.Client.Delete(context.Background(), quota); err != nil {
		t.Fatal(err)
	}
	expect(t, trial, v1alpha1.TrialStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
}

// TestRules are those of the CRD.
func TestRules(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	for says, change := range map[string]func(*v1alpha1.CompressionTrialSpec){
		"spec.links": func(s *v1alpha1.CompressionTrialSpec) { s.Links = nil },
		"must be between 1k and 1T": func(s *v1alpha1.CompressionTrialSpec) {
			s.Links[0].BytesPerSecond = resource.MustParse("-1")
		},
		"bytesPerSecond must be between": func(s *v1alpha1.CompressionTrialSpec) {
			s.Links[0].BytesPerSecond = resource.MustParse("2T")
		},
		"Duplicate value":       func(s *v1alpha1.CompressionTrialSpec) { s.Links = append(s.Links, s.Links[0]) },
		"path must not contain": func(s *v1alpha1.CompressionTrialSpec) { s.Source.PersistentVolumeClaim.Path = "/a/../.." },
		"size must be between": func(s *v1alpha1.CompressionTrialSpec) {
			s.Sample = &v1alpha1.TrialSample{Size: ptr.To(resource.MustParse("1Gi"))}
		},
		"should be greater than or equal to 0": func(s *v1alpha1.CompressionTrialSpec) {
			s.Sample = &v1alpha1.TrialSample{Seed: -1}
		},
		"supported values: \"Any\"": func(s *v1alpha1.CompressionTrialSpec) {
			s.NodeClass = &v1alpha1.TrialNodeClass{Class: "Quick"}
		},
		"cannot begin with": func(s *v1alpha1.CompressionTrialSpec) { s.Include = []string{"!x"} },
	} {
		trial := newTrial(namespace)
		change(&trial.Spec)
		if err := cluster.Client.Create(context.Background(), trial); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
