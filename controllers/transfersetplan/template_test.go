// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfersetplan_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// own are fields of Transfers that a template does not have, with the reason.
var own = map[string]string{
	"suspend":                        "spec.suspend of the set",
	"source.persistentVolumeClaim":   "the claim is the member's; its path is source.path",
	"source.objectStore":             "members read claims",
	"destination.scrub":              "Drills use it",
	"destinations":                   "several destinations take several sets",
	"inflate":                        "members read claims",
	"pause":                          "a member is paused by itself",
	"destination.ephemeral":          "for proving that an objectStore can be restored",
	"source.peer":                    "a set finds the claims of its own cluster",
	"source.namespace":               "a set finds the claims of its own cluster",
	"source.volumeGroupSnapshotName": "spec.group of the set",
	"destination.snapshot":           "members write to other namespaces and clusters, where no sender keeps history",

	"destination.persistentVolumeClaim.claimName": "by namePrefix",
}

// fields are the JSON names of a struct's, those of source and destination included.
func fields(t reflect.Type, prefix string) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			names = append(names, fields(f.Type, prefix)...)
			continue
		}
		names = append(names, prefix+name)
		if slices.Contains([]string{"source", "destination", "destination.persistentVolumeClaim"}, prefix+name) {
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			names = append(names, fields(of, prefix+name+".")...)
		}
	}
	return names
}

// TestTemplateHasAll: a field that Transfers get, templates get too, unless it means nothing there.
func TestTemplateHasAll(t *testing.T) {
	has := map[string]bool{}
	for _, name := range fields(reflect.TypeFor[v1alpha1.TransferSetTemplate](), "") {
		has[name] = true
	}
	all := fields(reflect.TypeFor[v1alpha1.TransferSpec](), "")
	if len(all) < 20 {
		t.Fatalf("found %v only", all)
	}
	for _, name := range all {
		if !has[name] && own[name] == "" {
			t.Errorf("the template of a TransferSet has no %s: add it there and to memberSpec, or say here why not", name)
		}
	}
}

// TestTemplateReachesMembers: each field of a template is in the spec of its members.
func TestTemplateReachesMembers(t *testing.T) {
	identity := &v1alpha1.ArchiveDecryption{IdentitySecretName: "identity"}
	template := v1alpha1.TransferSetTemplate{
		Source: &v1alpha1.TransferSetSource{
			Path: "/data", Form: v1alpha1.RestingGzip, Encryption: identity,
			SourceCopy: v1alpha1.SourceCopy{
				CopyMethod: v1alpha1.CopySnapshot, SnapshotClassName: "fast", StagedStorageClassName: "slow",
				StagedAccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany},
				StagingDeadline:   &metav1.Duration{Duration: time.Minute}, Hooks: &v1alpha1.SourceHooks{},
			},
		},
		Destination: v1alpha1.TransferSetDestination{
			Peer: "west", Via: &v1alpha1.TransferVia{ObjectStore: v1alpha1.ObjectStoreReference{Name: "s3"}}, Namespace: "shop",
			Form: "Gzip", Encryption: &v1alpha1.ArchiveEncryption{Recipients: []v1alpha1.AgeRecipient{"age1x"}},
			Records: &v1alpha1.FileRecords{Format: v1alpha1.RecordFixed, Length: 80},
			PersistentVolumeClaim: &v1alpha1.TransferSetClaim{
				NamePrefix: "from-", Path: "/in", Template: &v1alpha1.ClaimTemplate{
					StorageClassName: "fast", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Size: new(resource.MustParse("1Gi")), HeadroomPercent: new(int32(50)),
				},
			},
			ObjectStore: &v1alpha1.ObjectStorePath{Name: "s3", Path: "/base/"},
		},
		Include: []string{"*.csv"}, Exclude: []string{"tmp"}, Delete: true, AllowEmptySource: true,
		Compression: &v1alpha1.Compression{PolicyName: "high"}, Verify: v1alpha1.VerifyNone, Receipt: true,
		CheckpointInterval: new(resource.MustParse("1Gi")), Streams: 2, BandwidthLimit: new(resource.MustParse("1Mi")),
		MaxAttempts: 7, Schedule: &v1alpha1.TransferSchedule{Cron: "@daily"},
		Objective: &v1alpha1.TransferObjective{MaxAge: metav1.Duration{Duration: time.Hour}},
		Deadline: &v1alpha1.TransferDeadline{
			Within: &metav1.Duration{Duration: time.Hour}, Time: &metav1.Time{Time: time.Unix(1, 0)},
		},
		PodTemplate: &v1alpha1.AgentPodTemplate{PriorityClassName: "low"},
	}
	filled(t, reflect.ValueOf(template), "template")
	member := func(change func(*v1alpha1.TransferSetTemplate)) v1alpha1.TransferSpec {
		b := newBed(t, newSet("move", 0, func(s *v1alpha1.TransferSetSpec) {
			s.Template = *template.DeepCopy()
			change(&s.Template)
		}), "ledger")
		b.round("create move-ledger")
		return b.member("move-ledger").Spec
	}
	got := member(func(s *v1alpha1.TransferSetTemplate) { s.Destination.ObjectStore = nil })
	if claim := got.Source.PersistentVolumeClaim; claim.ClaimName != "ledger" || claim.Path != "/data" {
		t.Errorf("from %+v", claim)
	}
	if claim := got.Destination.PersistentVolumeClaim; claim.ClaimName != "from-ledger" || claim.Path != "/in" ||
		!reflect.DeepEqual(claim.Template, template.Destination.PersistentVolumeClaim.Template) {
		t.Errorf("to %+v", claim)
	}
	wanted, shown := flat(t, template), flat(t, got)
	for name, value := range wanted {
		if name == "source.path" || strings.HasPrefix(name, "destination.persistentVolumeClaim") ||
			strings.HasPrefix(name, "destination.objectStore") {
			continue
		}
		if shown[name] != value {
			t.Errorf("%s is %q of the member and %q of the template", name, shown[name], value)
		}
	}
	to := member(func(s *v1alpha1.TransferSetTemplate) { s.Destination.PersistentVolumeClaim = nil }).Destination
	if to.ObjectStore == nil || to.ObjectStore.Path != "/base/ledger" || to.PersistentVolumeClaim.ClaimName != "" {
		t.Errorf("to %+v", to)
	}
	plain := member(func(s *v1alpha1.TransferSetTemplate) {
		*s = v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "west"}}
	})
	same := v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger", Path: "/"}
	if to := plain.Destination.PersistentVolumeClaim; plain.Source.PersistentVolumeClaim != same ||
		to.PersistentVolumeClaimPath != same || to.Template != nil {
		t.Errorf("without more %+v", plain)
	}
}

// filled reports fields that are not set, so that none is forgotten above.
func filled(t *testing.T, v reflect.Value, name string) {
	t.Helper()
	for i := range v.NumField() {
		f, of := v.Field(i), v.Type().Field(i)
		if f.IsZero() {
			t.Errorf("%s.%s is not set", name, of.Name)
			continue
		}
		if f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		if f.Kind() == reflect.Struct && (of.Anonymous || of.Name == "Source" || of.Name == "Destination") {
			filled(t, f, name+"."+of.Name)
		}
	}
}

// flat are the values of an object, by their paths.
func flat(t *testing.T, object any) map[string]string {
	t.Helper()
	encoded, err := json.Marshal(object)
	var root any
	if err == nil {
		err = json.Unmarshal(encoded, &root)
	}
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	var walk func(string, any)
	walk = func(path string, value any) {
		if inner, ok := value.(map[string]any); ok {
			for name, v := range inner {
				walk(strings.TrimPrefix(path+"."+name, "."), v)
			}
			return
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		values[path] = string(text)
	}
	walk("", root)
	return values
}
