// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/queue"
)

// Jobs mount what users name for object stores, and nothing else of a Secret.
func TestCredentialsOfStores(t *testing.T) {
	t.Parallel()
	// withKeys is a Job's pod in a mode with so many Secrets of users, of which it mounts a key.
	withKeys := func(mode, key string, paths ...string) corev1.PodTemplateSpec {
		pod := template()
		first(&pod).Args[0] = mode
		for i, path := range paths {
			name := "credentials" + string(rune('0'+i))
			source := &corev1.SecretVolumeSource{SecretName: "payroll"}
			if key != "" {
				source.Items = []corev1.KeyToPath{{Key: key, Path: key}}
			}
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
				Name: name, VolumeSource: corev1.VolumeSource{Secret: source},
			})
			first(&pod).VolumeMounts = append(first(&pod).VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
		}
		return pod
	}
	const own, one, two = "lighterage-s3-access-key-id", "/etc/lighterage-store", "/etc/lighterage-store-1"
	for what, c := range map[string]struct {
		pod corev1.PodTemplateSpec
		fix string
	}{
		"a probe":              {withKeys("probe", own, one), ""},
		"a Transfer":           {withKeys("local", own, one), ""},
		"through a store":      {withKeys("handoff", own, one), ""},
		"a relay":              {withKeys("relay", own, one), ""},
		"between stores":       {withKeys("local", own, one, two), ""},
		"three":                {withKeys("local", own, one, two, two), "modes probe, local, handoff and relay only"},
		"a sender":             {withKeys("send", own, one), "modes probe, local, handoff and relay only"},
		"a key of others":      {withKeys("local", "password", one), "modes probe, local, handoff and relay only"},
		"all keys":             {withKeys("local", "", one), "modes probe, local, handoff and relay only"},
		"in place of a config": {withKeys("local", own, "/etc/lighterage"), "modes probe, local, handoff and relay only"},
		"as data":              {withKeys("local", own, "/volume"), "under the names of their keys"},
	} {
		expect(t, what, request{managerAccount, admission.Create, resources["Job"], job("bank", c.pod), nil, bank}, c.fix)
	}
}

// Members of Queues mount what users name for archives in object stores, as the manager makes them, and nothing else of
// a Secret.
func TestCredentialsOfArchives(t *testing.T) {
	t.Parallel()
	at := &v1alpha1.ObjectStorePath{Name: "vault", Path: "/queues"}
	q := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "orders", UID: "uid-1", Generation: 1},
		Spec: v1alpha1.QueueSpec{
			Storage: v1alpha1.QueueStorage{Type: v1alpha1.QueueStorageFile, Size: resource.MustParse("1Gi")}, Replicas: 1,
			Authentication: v1alpha1.QueueAuthentication{Tokens: &v1alpha1.QueueTokens{SecretName: "orders-tokens"}},
			Archive:        &v1alpha1.QueueArchive{ObjectStore: at},
			Restore:        &v1alpha1.QueueRestore{ObjectStore: at, Queue: "orders"},
		},
	}
	stores := []v1alpha1.ObjectStore{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "vault"},
		Spec: v1alpha1.ObjectStoreSpec{
			Endpoint: "https://s3.example", Bucket: "cargo", Credentials: &v1alpha1.StoreCredentials{SecretName: "vault-keys"},
		},
		Status: v1alpha1.ObjectStoreStatus{Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPromisesKept,
		}}},
	}}
	neighbours := queue.Neighbours{NamespaceUID: "namespace-1", Stores: stores}
	wanted, problem := queue.Want(q, nil, nil, neighbours, false, time.Now())
	if problem != nil {
		t.Fatal(problem.Message)
	}
	objects := wanted.Objects(nil, nil, agentpod.Image{Name: agentImage})
	i := slices.IndexFunc(objects, func(o client.Object) bool { _, is := o.(*appsv1.StatefulSet); return is })
	if i < 0 {
		t.Fatalf("there is no StatefulSet in %v", objects)
	}
	made := objects[i].(*appsv1.StatefulSet)
	// keys has the Secret of the ObjectStore with other keys.
	keys := func(items ...corev1.KeyToPath) *appsv1.StatefulSet {
		changed := made.DeepCopy()
		for _, v := range changed.Spec.Template.Spec.Volumes {
			if v.Secret != nil && v.Secret.SecretName == "vault-keys" {
				v.Secret.Items = items
			}
		}
		return changed
	}
	const fix = "StatefulSets alone have Secrets"
	for what, c := range map[string]struct {
		kind   string
		object client.Object
		fix    string
	}{
		"archive and restore": {"StatefulSet", made, ""},
		"a key of others":     {"StatefulSet", keys(corev1.KeyToPath{Key: "password", Path: "password"}), fix},
		"all keys":            {"StatefulSet", keys(), fix},
		"a Deployment":        {"Deployment", deployment("bank", made.Spec.Template), fix},
	} {
		expect(t, what, request{managerAccount, admission.Create, resources[c.kind], c.object, nil, bank}, c.fix)
	}
}

// Jobs that read encrypted archives mount what users name for it, as the manager describes them, and nothing else of a
// Secret.
func TestIdentitiesOfArchives(t *testing.T) {
	t.Parallel()
	const key, path = "lighterage-age-identities", "/etc/lighterage-identities"
	with := func(mode, name, key, path string) corev1.PodTemplateSpec {
		pod := template()
		first(&pod).Args[0] = mode
		source := &corev1.SecretVolumeSource{SecretName: "ledger-identity"}
		if key != "" {
			source.Items = []corev1.KeyToPath{{Key: key, Path: key}}
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{Secret: source},
		})
		first(&pod).VolumeMounts = append(first(&pod).VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
		return pod
	}
	const fix = "in a volume identities"
	for what, c := range map[string]struct {
		pod corev1.PodTemplateSpec
		fix string
	}{
		"a Transfer":      {with("local", "identities", key, path), ""},
		"a sender":        {with("send", "identities", key, path), ""},
		"a probe":         {with("probe", "identities", key, path), fix},
		"another key":     {with("local", "identities", "lighterage-s3-access-key-id", path), fix},
		"all keys":        {with("local", "identities", "", path), fix},
		"at another path": {with("local", "identities", key, "/etc/lighterage-store"), fix},
		"another volume":  {with("local", "other", "lighterage-s3-access-key-id", path), "modes probe, local, handoff and relay only"},
		"as data":         {with("local", "identities", key, "/volume"), "under the names of their keys"},
	} {
		expect(t, what, request{managerAccount, admission.Create, resources["Job"], job("bank", c.pod), nil, bank}, c.fix)
	}
	expect(t, "a Deployment", request{
		managerAccount, admission.Create, resources["Deployment"], deployment("bank", with("http", "identities", key, path)),
		nil, bank,
	}, "under the names of their keys")
}
