// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/topology"
)

func volume(name string, phase corev1.PersistentVolumePhase, namespace, claim string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
				},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: phase},
	}
}

func schemeOfAll(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// clusterOf is a cluster with objects and with the indexes of a manager's cache.
func clusterOf(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return indextest.In(fake.NewClientBuilder().WithScheme(schemeOfAll(t)).WithObjects(objects...)).Build()
}

func TestFacts(t *testing.T) {
	at := metav1.NewTime(time.Unix(1e9, 0))
	anywhere := volume("nfs", corev1.VolumeBound, "bank", "shared")
	anywhere.Spec.NodeAffinity = nil
	reader := clusterOf(t,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&v1alpha1.NodeProfile{
			ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Status:     v1alpha1.NodeProfileStatus{Architecture: "s390x", MeasuredTime: &at},
		},
		&v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		volume("mine", corev1.VolumeBound, "bank", "ledger"),
		volume("released", corev1.VolumeReleased, "bank", "ledger"),
		volume("other", corev1.VolumeBound, "shop", "ledger"),
		anywhere,
	)
	for claim, want := range map[string]string{"ledger": "mine", "shared": "", "unbound": "", "": ""} {
		facts, err := topology.New(reader).Facts(context.Background(), "bank", claim)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if facts.Volume != nil {
			got = facts.Volume.NodeSelectorTerms[0].MatchFields[0].Values[0]
		}
		if got != want || facts.Claim != claim {
			t.Errorf("claim %q: reached from %q, want %q", claim, got, want)
		}
		if len(facts.Nodes) != 1 || len(facts.Profiles) != 1 || facts.Profiles["a"].Architecture != "s390x" {
			t.Errorf("%+v", facts)
		}
	}
}

// TestAttached: a volume that can be in use on one node only is used there.
func TestAttached(t *testing.T) {
	const once, many = corev1.ReadWriteOnce, corev1.ReadOnlyMany
	type attachment struct {
		volume, node    string
		attached, going bool
	}
	for name, test := range map[string]struct {
		modes       []corev1.PersistentVolumeAccessMode
		attachments []attachment
		want        string
	}{
		"not in use": {[]corev1.PersistentVolumeAccessMode{once}, []attachment{{"other", "z", true, false}}, ""},
		"in use": {
			[]corev1.PersistentVolumeAccessMode{once}, []attachment{{"other", "z", true, false}, {"rbd", "x", true, false}}, "x",
		},
		"by one pod": {
			[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, []attachment{{"rbd", "x", true, false}}, "x",
		},
		"about to be": {[]corev1.PersistentVolumeAccessMode{once}, []attachment{{"rbd", "x", false, false}}, "x"},
		"about to move": {
			[]corev1.PersistentVolumeAccessMode{once}, []attachment{{"rbd", "a", false, false}, {"rbd", "x", true, false}}, "x",
		},
		"being detached":      {[]corev1.PersistentVolumeAccessMode{once}, []attachment{{"rbd", "x", true, true}}, ""},
		"on several at once":  {[]corev1.PersistentVolumeAccessMode{once, many}, []attachment{{"rbd", "x", true, false}}, ""},
		"a node that is lost": {[]corev1.PersistentVolumeAccessMode{once}, []attachment{{"rbd", "lost", true, false}}, ""},
		"a node that is gone": {[]corev1.PersistentVolumeAccessMode{once}, []attachment{{"rbd", "gone", true, false}}, ""},
		"nothing is said":     {nil, []attachment{{"rbd", "x", true, false}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pv := volume("rbd", corev1.VolumeBound, "bank", "ledger")
			pv.Spec.NodeAffinity, pv.Spec.AccessModes = nil, test.modes
			objects := []client.Object{volume("another", corev1.VolumeBound, "shop", "ledger"), pv}
			for _, name := range []string{"a", "x", "z", "lost"} {
				node := &corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: name},
					Status: corev1.NodeStatus{
						Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
					},
				}
				if name == "lost" {
					node.Status.Conditions[0].Status = corev1.ConditionUnknown
				}
				objects = append(objects, node)
			}
			for i, a := range test.attachments {
				object := &storagev1.VolumeAttachment{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csi-%d", i)},
					Spec: storagev1.VolumeAttachmentSpec{
						NodeName: a.node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &a.volume},
					},
					Status: storagev1.VolumeAttachmentStatus{Attached: a.attached},
				}
				if a.going {
					at := metav1.NewTime(time.Unix(1e9, 0))
					object.DeletionTimestamp, object.Finalizers = &at, []string{"external-attacher/csi"}
				}
				if _, err := topology.Trim(true)(object); err != nil {
					t.Fatal(err)
				}
				objects = append(objects, object)
			}
			reader := clusterOf(t, objects...)
			facts, err := topology.New(reader).Facts(context.Background(), "bank", "ledger")
			if err != nil {
				t.Fatal(err)
			}
			if facts.Attached != test.want || facts.Volume != nil {
				t.Errorf("in use on %q, want %q; reached from %+v", facts.Attached, test.want, facts.Volume)
			}
		})
	}
}

// TestDetached: what waits for a volume is woken when one is let go, and not for each that is attached.
func TestDetached(t *testing.T) {
	attached := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-0"}}
	going := attached.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
	passes := topology.Detached()
	if passes.Create(event.CreateEvent{Object: attached}) ||
		passes.Update(event.UpdateEvent{ObjectOld: attached, ObjectNew: attached}) ||
		passes.Update(event.UpdateEvent{ObjectOld: going, ObjectNew: going}) {
		t.Error("woken for nothing")
	}
	if !passes.Update(event.UpdateEvent{ObjectOld: attached, ObjectNew: going}) ||
		!passes.Delete(event.DeleteEvent{Object: attached}) {
		t.Error("not woken")
	}
}

func TestFreeSlots(t *testing.T) {
	const slot = v1alpha1.AcceleratorSlotsResource
	capped := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{slot: resource.MustParse("3"), corev1.ResourceCPU: resource.MustParse("8")},
		}}
	}
	agent := func(name, node string, phase corev1.PodPhase, asks bool) *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name,
				Labels: map[string]string{agentpod.AppLabel: agentpod.AppName}},
			Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{}}},
			Status: corev1.PodStatus{Phase: phase},
		}
		if asks {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{slot: resource.MustParse("1")}
		}
		return pod
	}
	going := func(pod *corev1.Pod) *corev1.Pod {
		at := metav1.NewTime(time.Unix(1e9, 0))
		pod.DeletionTimestamp, pod.Finalizers = &at, []string{"batch.kubernetes.io/job-tracking"}
		return pod
	}
	waiting := []client.Object{
		agent("w1", "", corev1.PodPending, true), agent("w2", "", corev1.PodPending, true),
		agent("w3", "", corev1.PodPending, true), agent("w4", "", corev1.PodPending, true),
	}
	for name, test := range map[string]struct {
		objects []client.Object
		want    map[string]int64
		awaited int64
	}{
		"no cap": {[]client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}, nil, 0},
		"used": {[]client.Object{
			capped("y"), capped("z"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			agent("runs", "z", corev1.PodRunning, true), agent("starts", "z", corev1.PodPending, true),
			agent("done", "z", corev1.PodSucceeded, true), agent("without", "z", corev1.PodRunning, false),
			agent("waits", "", corev1.PodPending, true),
		}, map[string]int64{"y": 3, "z": 1}, 1},
		"all promised": {
			append(
				waiting, capped("y"), capped("z"), agent("runs", "y", corev1.PodRunning, true),
				agent("also", "z", corev1.PodRunning, true),
			),
			map[string]int64{"y": 2, "z": 2}, 4,
		},
		"on its way out": {[]client.Object{
			capped("y"), going(agent("w1", "", corev1.PodPending, true)), going(agent("runs", "y", corev1.PodRunning, true)),
			agent("gone", "x", corev1.PodRunning, true),
		},
			map[string]int64{"y": 2}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			reader := clusterOf(t, test.objects...)
			facts, err := topology.New(reader).Facts(context.Background(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, facts.FreeSlots); diff != "" || facts.AwaitedSlots != test.awaited {
				t.Errorf("%d awaited, %s", facts.AwaitedSlots, diff)
			}
		})
	}
}

// TestTrimmedSlots: slots that nodes have from when agents were capped count for nothing when they are not any more.
func TestTrimmedSlots(t *testing.T) {
	const slot = v1alpha1.AcceleratorSlotsResource
	for capped, want := range map[bool]map[string]int64{true: {"y": 3}, false: nil} {
		resources := corev1.ResourceList{slot: resource.MustParse("3"), corev1.ResourceCPU: resource.MustParse("8")}
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "y"},
			Status:     corev1.NodeStatus{Capacity: resources.DeepCopy(), Allocatable: resources},
		}
		if _, err := topology.Trim(capped)(node); err != nil || len(node.Status.Capacity) != len(want) {
			t.Errorf("%v, %+v", err, node.Status)
		}
		facts, err := topology.New(clusterOf(t, node)).Facts(context.Background(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, facts.FreeSlots); diff != "" {
			t.Errorf("capped %v: %s", capped, diff)
		}
	}
}

func TestNodeChanged(t *testing.T) {
	before := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Labels: map[string]string{"x": "y"}, Annotations: map[string]string{"heartbeat": "1"},
		},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{Architecture: "s390x", KernelVersion: "6.4"},
			Images:   []corev1.ContainerImage{{Names: []string{"x"}}},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure},
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
			},
		},
	}
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"heartbeat": {func(n *corev1.Node) { n.Annotations["heartbeat"] = "2" }, false},
		"image":     {func(n *corev1.Node) { n.Status.Images = nil }, false},
		"label":     {func(n *corev1.Node) { n.Labels["x"] = "z" }, true},
		"cordon":    {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"taint":     {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} }, true},
		"slots": {func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{v1alpha1.AcceleratorSlotsResource: resource.MustParse("1")}
		}, true},
		"not ready": {func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionUnknown }, true},
	} {
		after := before.DeepCopy()
		test.change(after)
		trimmed := []*corev1.Node{before.DeepCopy(), after}
		for _, node := range trimmed {
			if _, err := topology.Trim(true)(node); err != nil {
				t.Fatal(err)
			}
		}
		if got := topology.NodeChanged().Update(
			event.UpdateEvent{ObjectOld: trimmed[0], ObjectNew: trimmed[1]},
		); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		if after.Status.Images != nil || len(after.Status.Conditions) != 1 ||
			after.Status.NodeInfo != (corev1.NodeSystemInfo{Architecture: "s390x"}) {
			t.Errorf("not trimmed: %+v", after.Status)
		}
	}
}
