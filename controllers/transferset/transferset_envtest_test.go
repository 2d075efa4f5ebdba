// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transferset_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/transferset"
)

var (
	cluster *controllertest.Cluster
	writes  counted
)

func TestMain(m *testing.M) {
	os.Exit(controllertest.Main(m, &cluster, func() (func(), error) {
		// The manager's own requests are counted, and not those of tests.
		given := cluster.Config
		cluster.Config = rest.CopyConfig(given)
		cluster.Config.Wrap(writes.count)
		stop, err := cluster.StartManager(func(mgr controllertest.Manager) error {
			return transferset.Setup(mgr, transferset.Options{
				Client: mgr.GetClient(), Reader: mgr.GetAPIReader(),
				Recorder: mgr.GetEventRecorder("lighterage-transferset"), Clock: clock.RealClock{},
				OperatorNamespace: controllertest.OperatorNamespace, Concurrency: 4,
			})
		})
		cluster.Config = given
		return stop, err
	}))
}

// counted are the writes of the manager in each namespace.
type counted struct {
	mu  sync.Mutex
	all []string
}

func (c *counted) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if path := request.URL.Path; request.Method != http.MethodGet && !strings.Contains(path, "/events") {
			c.mu.Lock()
			c.all = append(c.all, request.Method+" "+path)
			c.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// of a namespace so far.
func (c *counted) of(namespace string) (found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.all {
		if strings.Contains(one, "/namespaces/"+namespace+"/") {
			found = append(found, one)
		}
	}
	return found
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// fixture is a namespace.
type fixture struct {
	*testing.T
	namespace string
}

func newFixture(t *testing.T, claims ...string) *fixture {
	t.Parallel()
	return another(t, claims...)
}

// another namespace of the same test.
func another(t *testing.T, claims ...string) *fixture {
	t.Helper()
	f := &fixture{t, cluster.Namespace(t)}
	for _, name := range claims {
		cluster.Claim(t, f.namespace, name)
	}
	return f
}

func (f *fixture) set(name string, change ...func(*v1alpha1.TransferSetSpec)) *v1alpha1.TransferSet {
	f.Helper()
	set := &v1alpha1.TransferSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec: v1alpha1.TransferSetSpec{
			Selector: &metav1.LabelSelector{},
			Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "west"}},
		},
	}
	for _, c := range change {
		c(&set.Spec)
	}
	cluster.Create(f, set)
	return set
}

// expect waits for a condition and what members there are.
func (f *fixture) expect(set *v1alpha1.TransferSet, condition, reason string, members ...string) {
	f.Helper()
	controllertest.Eventually(f, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if set.Status.ObservedGeneration != set.Generation {
			return fmt.Errorf("generation %d is observed of %d", set.Status.ObservedGeneration, set.Generation)
		}
		if err := controllertest.Expect(set.Status.Conditions, condition, reason); err != nil {
			return err
		}
		if found := f.members(set.Name); !slices.Equal(found, members) {
			return fmt.Errorf("members %q, want %q", found, members)
		}
		return nil
	})
}

// members are the names of the Transfers of a set, sorted.
func (f *fixture) members(set string) (names []string) {
	f.Helper()
	list := &v1alpha1.TransferList{}
	if err := cluster.Client.List(
		context.Background(), list, client.InNamespace(f.namespace), client.MatchingLabels{v1alpha1.TransferSetLabel: set},
	); err != nil {
		f.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

func (f *fixture) transfer(name string) *v1alpha1.Transfer {
	f.Helper()
	t, key := &v1alpha1.Transfer{}, client.ObjectKey{Namespace: f.namespace, Name: name}
	if err := cluster.Client.Get(context.Background(), key, t); err != nil {
		f.Fatal(err)
	}
	return t
}

// end does what the controller of Transfers would.
func (f *fixture) end(phase v1alpha1.TransferPhase, names ...string) {
	f.Helper()
	for _, name := range names {
		t := f.transfer(name)
		now := metav1.Now().Rfc3339Copy()
		t.Status.Phase, t.Status.ObservedGeneration = phase, t.Generation
		wanted := conditions.Ready(v1alpha1.ReasonSucceeded, "done")
		if phase == v1alpha1.TransferFailed {
			wanted = conditions.Stalled(v1alpha1.ReasonMaxAttemptsReached, "no more")
			wanted = append(wanted, conditions.New(v1alpha1.ConditionFailed, true, v1alpha1.ReasonMaxAttemptsReached, "no more"))
		} else {
			t.Status.RecoveryPoint = &now
			t.Status.Progress = &v1alpha1.Progress{Bytes: 10, BytesTotal: 10}
		}
		t.Status.Conditions = conditions.Merge(t.Status.Conditions, wanted, t.Generation, now.Time)
		if err := cluster.Client.Status().Update(context.Background(), t); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fixture) patch(object client.Object, text string) {
	f.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(text))
	if err := cluster.Client.Patch(context.Background(), object, patch); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) remove(object client.Object) {
	f.Helper()
	if err := cluster.Client.Delete(context.Background(), object); err != nil {
		f.Fatal(err)
	}
}

// quiet checks that looking at a set again, which an annotation of a claim does not do and another set does, writes
// nothing but the status of that other set.
func (f *fixture) quiet(set *v1alpha1.TransferSet) {
	f.Helper()
	before := 0
	// Status says what is wanted before the set was looked at with what it has made itself.
	controllertest.Eventually(f, func() error {
		before = len(f.without(set))
		time.Sleep(300 * time.Millisecond)
		if after := f.without(set); len(after) > before {
			return fmt.Errorf("it goes on writing %q", after[before:])
		}
		return nil
	})
	other := f.set("other", func(s *v1alpha1.TransferSetSpec) {
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"nothing": "has-this"}}
	})
	f.expect(other, "", v1alpha1.ReasonNoClaims)
	time.Sleep(time.Second)
	if after := f.without(set); len(after) > before {
		f.Errorf("a second look wrote %q", after[before:])
	}
	f.remove(other)
}

// without the writes for other sets.
func (f *fixture) without(set *v1alpha1.TransferSet) (found []string) {
	for _, one := range writes.of(f.namespace) {
		if !strings.Contains(one, "/transfersets/") || strings.Contains(one, "/transfersets/"+set.Name+"/") {
			found = append(found, one)
		}
	}
	return found
}

// TestSet: claims become members a few at a time, new ones join, those that leave or are deleted go, a changed template
// reaches all, and looking again writes nothing.
func TestSet(t *testing.T) {
	f := newFixture(t, "a", "b", "c")
	set := f.set("move", func(s *v1alpha1.TransferSetSpec) { s.MaxConcurrent = 2 })
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a", "move-b")
	made := f.transfer("move-a")
	if owner := metav1.GetControllerOf(made); owner == nil || owner.UID != set.UID || owner.Kind != "TransferSet" {
		t.Errorf("owner %+v", owner)
	}
	if made.Spec.Verify != v1alpha1.VerifyDigest || made.Spec.Destination.PersistentVolumeClaim.ClaimName != "a" {
		t.Errorf("spec %+v", made.Spec)
	}
	f.quiet(set)
	f.end(v1alpha1.TransferComplete, "move-a", "move-b")
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a", "move-b", "move-c")
	f.end(v1alpha1.TransferFailed, "move-c")
	f.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonMembersFailed, "move-a", "move-b", "move-c")
	f.end(v1alpha1.TransferComplete, "move-c")
	f.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonMembersFailed, "move-a", "move-b", "move-c")
	f.ended("move-c")
	f.expect(set, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete, "move-a", "move-b", "move-c")
	if set.Status.Bytes != 30 || set.Status.RecoveryPoint == nil || set.Status.Members.Complete != 3 {
		t.Errorf("status %+v", set.Status)
	}
	f.quiet(set)

	f.patch(set, `{"spec":{"template":{"streams":3,"schedule":{"cron":"@daily"}}}}`)
	controllertest.Eventually(t, func() error {
		for _, name := range []string{"move-a", "move-b", "move-c"} {
			if spec := f.transfer(name).Spec; spec.Streams != 3 || spec.Schedule == nil {
				return fmt.Errorf("%s has %+v", name, spec)
			}
		}
		return nil
	})
	f.expect(set, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete, "move-a", "move-b", "move-c")
	f.quiet(set)

	cluster.Claim(t, f.namespace, "d")
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a", "move-b", "move-c", "move-d")
	if f.transfer("move-d").Annotations[v1alpha1.RunAnnotation] == "" {
		t.Error("the first run waits for the schedule")
	}
	claim := func(name string) client.Object {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	}
	f.remove(claim("d"))
	f.patch(claim("a"), `{"metadata":{"labels":{"leave":"true"}}}`)
	f.patch(set, `{"spec":{"selector":{"matchExpressions":[{"key":"leave","operator":"DoesNotExist"}]}}}`)
	f.expect(set, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete, "move-b", "move-c")
	f.patch(claim("a"), `{"metadata":{"labels":{"leave":null}}}`)
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a", "move-b", "move-c")
	f.remove(f.transfer("move-b")) // by hand
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a", "move-b", "move-c")
}

// ended takes back what end has said of a failure.
func (f *fixture) ended(name string) {
	f.Helper()
	t := f.transfer(name)
	meta.RemoveStatusCondition(&t.Status.Conditions, v1alpha1.ConditionFailed)
	if err := cluster.Client.Status().Update(context.Background(), t); err != nil {
		f.Fatal(err)
	}
}

// TestRetain: members stay when their claims leave, and have no owner with which they would be deleted.
func TestRetain(t *testing.T) {
	f := newFixture(t, "a", "b")
	set := f.set("move", func(s *v1alpha1.TransferSetSpec) { s.MemberPolicy = v1alpha1.MembersRetain })
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a", "move-b")
	if owners := f.transfer("move-a").OwnerReferences; len(owners) > 0 {
		t.Errorf("owners %+v", owners)
	}
	f.end(v1alpha1.TransferComplete, "move-a", "move-b")
	f.remove(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "b"}})
	controllertest.Eventually(t, func() error {
		f.expect(set, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete, "move-a", "move-b")
		if set.Status.Members.Selected != 1 || set.Status.Members.Retained != 1 {
			return fmt.Errorf("members %+v", set.Status.Members)
		}
		return nil
	})
	f.quiet(set)
	f.patch(set, `{"spec":{"memberPolicy":"Delete"}}`)
	f.expect(set, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete, "move-a")
	controllertest.Eventually(t, func() error {
		if owner := metav1.GetControllerOf(f.transfer("move-a")); owner == nil || owner.UID != set.UID {
			return fmt.Errorf("owner %+v", owner)
		}
		return nil
	})
	f.patch(set, `{"spec":{"memberPolicy":"Retain"}}`)
	controllertest.Eventually(t, func() error {
		if owners := f.transfer("move-a").OwnerReferences; len(owners) > 0 {
			return fmt.Errorf("owners %+v", owners)
		}
		return nil
	})
	f.remove(set)
	// One of the same name takes them up.
	set = f.set("move")
	f.expect(set, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete, "move-a")
}

// TestForeign: a Transfer that somebody else made is left alone, and the set says so until it is gone.
func TestForeign(t *testing.T) {
	f := newFixture(t, "a", "b")
	foreign := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "move-a"},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "a"}},
			Destination: v1alpha1.TransferDestination{
				Peer: "east", PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "mine"},
				},
			},
		},
	}
	cluster.Create(t, foreign)
	set := f.set("move")
	f.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict, "move-b")
	f.quiet(set)
	f.patch(set, `{"spec":{"template":{"streams":2}}}`)
	f.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict, "move-b")
	if got := f.transfer("move-a"); got.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("it was written: %+v", got)
	}
	f.remove(foreign)
	f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "move-a", "move-b")
}

// TestTwoSets: the older of two sets has what both select, until it is deleted.
func TestTwoSets(t *testing.T) {
	f := newFixture(t, "a", "b")
	f.patch(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "a"}},
		`{"metadata":{"labels":{"tier":"gold"}}}`)
	older := f.set("gold", func(s *v1alpha1.TransferSetSpec) {
		s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	})
	f.expect(older, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "gold-a")
	time.Sleep(1100 * time.Millisecond) // the API server's times are of seconds
	younger := f.set("all")
	f.expect(younger, v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict, "all-b")
	if failures := younger.Status.Failures; len(failures) != 1 || failures[0].ClaimName != "a" {
		t.Errorf("failures %+v", failures)
	}
	f.expect(older, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "gold-a")
	f.patch(older, `{"spec":{"selector":{"matchLabels":{"tier":null}}}}`)
	f.expect(younger, v1alpha1.ConditionStalled, v1alpha1.ReasonSetConflict)
	f.expect(older, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "gold-a", "gold-b")
	f.remove(older)
	f.expect(younger, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "all-a", "all-b")
}

// TestRejectedMembers: what the API server rejects is shown in its words, and tried again.
func TestRejectedMembers(t *testing.T) {
	f := newFixture(t, "a", "b")
	example := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, GenerateName: "any-"},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "a"}},
			Destination: v1alpha1.TransferDestination{
				Peer: "west", PersistentVolumeClaim: v1alpha1.DestinationClaim{PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "a"}},
			},
		},
	}
	cluster.NoneOf(t, "count/transfers.lighterage.dev", example)
	set := f.set("move")
	f.expect(set, v1alpha1.ConditionStalled, v1alpha1.ReasonMembersRejected)
	if failures := set.Status.Failures; len(failures) != 2 || !strings.Contains(failures[0].Message, "exceeded quota") {
		t.Errorf("failures %+v", failures)
	}
}

// toSomebody has the form of a recipient.
var toSomebody = &v1alpha1.ArchiveEncryption{
	Recipients: []v1alpha1.AgeRecipient{"age1" + v1alpha1.AgeRecipient(strings.Repeat("q", 58))},
}

// TestMembersThatEncrypt: the API server takes members that write archives for somebody, in a store or in claims of the
// namespace, and those that decrypt archives of claims; and a second look writes nothing.
func TestMembersThatEncrypt(t *testing.T) {
	store := &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}
	for name, change := range map[string]func(*v1alpha1.TransferSetTemplate){
		"store": func(s *v1alpha1.TransferSetTemplate) {
			s.Destination = v1alpha1.TransferSetDestination{
				ObjectStore: store, Form: v1alpha1.RestingArchive, Encryption: toSomebody,
			}
		},
		"claims": func(s *v1alpha1.TransferSetTemplate) {
			s.Destination = v1alpha1.TransferSetDestination{
				PersistentVolumeClaim: &v1alpha1.TransferSetClaim{NamePrefix: "sealed-"}, Form: v1alpha1.RestingArchive,
				Encryption: toSomebody,
			}
		},
		"restore": func(s *v1alpha1.TransferSetTemplate) {
			s.Source = &v1alpha1.TransferSetSource{
				Form: v1alpha1.RestingArchive, Encryption: &v1alpha1.ArchiveDecryption{IdentitySecretName: "identity"},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "a", "b")
			set := f.set("seal", func(s *v1alpha1.TransferSetSpec) { change(&s.Template) })
			f.expect(set, v1alpha1.ConditionReconciling, v1alpha1.ReasonMembersRunning, "seal-a", "seal-b")
			for _, member := range []string{"seal-a", "seal-b"} {
				s := f.transfer(member).Spec
				if sealed, opened := s.Destination.Encryption, s.Source.Encryption; name == "restore" &&
					(opened == nil || opened.IdentitySecretName != "identity" || sealed != nil) ||
					name != "restore" && (sealed == nil || !slices.Equal(sealed.Recipients, toSomebody.Recipients)) {
					t.Errorf("%s: %+v", member, s)
				}
			}
			f.quiet(set)
		})
	}
}

// TestRefusals: what the API server rejects of sets, and which words lead to the fix.
func TestRefusals(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct {
		change func(*v1alpha1.TransferSet)
		fix    string
	}{
		"no destination": {func(s *v1alpha1.TransferSet) {
			s.Spec.Template.Destination = v1alpha1.TransferSetDestination{Form: "Files"}
		}, "add peer, namespace"},
		"a store of a Peer": {func(s *v1alpha1.TransferSet) {
			s.Spec.Template.Destination.ObjectStore = &v1alpha1.ObjectStorePath{Name: "s3", Path: "/"}
		}, "remove persistentVolumeClaim, peer"},
		"via without a Peer": {func(s *v1alpha1.TransferSet) {
			s.Spec.Template.Destination = v1alpha1.TransferSetDestination{
				Namespace: "shop", Via: &v1alpha1.TransferVia{ObjectStore: v1alpha1.ObjectStoreReference{Name: "s3"}},
			}
		}, "add peer or remove via"},
		"no selector":  {func(s *v1alpha1.TransferSet) { s.Spec.Selector = nil }, "selector"},
		"a long name":  {func(s *v1alpha1.TransferSet) { s.Name = strings.Repeat("n", 64) }, "63 characters"},
		"many at once": {func(s *v1alpha1.TransferSet) { s.Spec.MaxConcurrent = 1001 }, "1000"},
		"a path out": {func(s *v1alpha1.TransferSet) {
			s.Spec.Template.Source = &v1alpha1.TransferSetSource{Path: "/../x"}
		}, ". or .. elements"},
		"encrypted files": {func(s *v1alpha1.TransferSet) {
			s.Spec.Template.Destination.Form, s.Spec.Template.Destination.Encryption = v1alpha1.RestingGzip, toSomebody
		}, "set form: Archive, or remove encryption"},
		"an identity for files": {func(s *v1alpha1.TransferSet) {
			s.Spec.Template.Source = &v1alpha1.TransferSetSource{
				Encryption: &v1alpha1.ArchiveDecryption{IdentitySecretName: "identity"},
			}
		}, "set form: Archive, or remove encryption"},
		"a class for nothing": {func(s *v1alpha1.TransferSet) {
			s.Spec.Template.Source = &v1alpha1.TransferSetSource{SourceCopy: v1alpha1.SourceCopy{SnapshotClassName: "fast"}}
		}, "copyMethod: Snapshot"},
	} {
		set := &v1alpha1.TransferSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "move"},
			Spec: v1alpha1.TransferSetSpec{
				Selector: &metav1.LabelSelector{},
				Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "west"}},
			},
		}
		c.change(set)
		err := cluster.Client.Create(context.Background(), set, client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.fix) {
			t.Errorf("%s: %v", name, err)
		}
	}
	set := f.set("move")
	for text, fix := range map[string]string{
		`{"spec":{"template":{"destination":{"peer":"east"}}}}`: "destination is immutable",
		`{"spec":{"template":{"source":{"path":"/data"}}}}`:     "source.path is immutable",
	} {
		patch := client.RawPatch("application/merge-patch+json", []byte(text))
		err := cluster.Client.Patch(context.Background(), set.DeepCopy(), patch, client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), fix) {
			t.Errorf("%s: %v", text, err)
		}
	}
	f.patch(set, `{"spec":{"template":{"source":{"copyMethod":"Snapshot"}}}}`)
}

// TestFiveHundredClaims: all become members, and what is written grows with their number and not with its square.
func TestFiveHundredClaims(t *testing.T) {
	f := newFixture(t)
	const many = 500
	for i := range many {
		cluster.Claim(t, f.namespace, fmt.Sprintf("claim-%03d", i))
	}
	set := f.set("move", func(s *v1alpha1.TransferSetSpec) { s.MaxConcurrent = 100 })
	done := 0
	for done < many {
		controllertest.Eventually(t, func() error {
			if found := f.members("move"); len(found) < min(done+100, many) {
				return fmt.Errorf("%d members", len(found))
			}
			return nil
		})
		members := f.members("move")
		if len(members) > done+100 {
			t.Fatalf("%d members while %d are complete", len(members), done)
		}
		f.end(v1alpha1.TransferComplete, members[done:]...)
		done = len(members)
	}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		return controllertest.Expect(set.Status.Conditions, v1alpha1.ConditionReady, v1alpha1.ReasonMembersComplete)
	})
	if set.Status.Members.Complete != many || len(set.Status.Failures) > 0 {
		t.Errorf("status %+v", set.Status)
	}
	if written := len(writes.of(f.namespace)); written > 4*many {
		t.Errorf("%d writes for %d members", written, many)
	}
	f.quiet(set)
}
