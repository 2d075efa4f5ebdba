// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/queue"
)

func policyWith(change func(*v1alpha1.CompressionPolicySpec)) v1alpha1.CompressionPolicy {
	p := v1alpha1.CompressionPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: "all", Annotations: map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"},
	}}
	change(&p.Spec)
	return p
}

// TestInheritedSizes: a default policy that changes later does not change the sizes of a Queue, a named one does.
func TestInheritedSizes(t *testing.T) {
	sized := func(size string) v1alpha1.CompressionPolicy {
		return policyWith(func(s *v1alpha1.CompressionPolicySpec) {
			s.Hardware = &v1alpha1.HardwareCompression{MinSize: ptr.To(resource.MustParse(size))}
			s.Software = &v1alpha1.SoftwareCompression{MinSize: ptr.To(resource.MustParse(size))}
		})
	}
	q := newQueue(nil)
	expect := func(when string, hardware uint64, recorded bool, policies ...v1alpha1.CompressionPolicy) {
		t.Helper()
		wanted := want(t, q, policies...)
		if got := wanted.Config.GetCompression().GetHardwareMinSize(); got != hardware {
			t.Errorf("%s: %d bytes, want %d", when, got, hardware)
		}
		q.Status = queue.Observe(q, &wanted, well(wanted))
		if (q.Status.InheritedMinSize != nil) != recorded {
			t.Errorf("%s: recorded %v", when, q.Status.InheritedMinSize)
		}
		if again := want(t, q, policies...); again.Config.GetRevision() != wanted.Config.GetRevision() {
			t.Errorf("%s: what is wanted changes with what was recorded", when)
		}
	}
	expect("a new Queue", 8000, true, sized("8000"))
	expect("the default has changed", 8000, true, sized("50"))
	expect("the default is gone", 8000, true)
	q.Spec.Compression = &v1alpha1.QueueCompression{MinSize: ptr.To(resource.MustParse("16000"))}
	expect("a size of its own", 16000, true, sized("50"))
	q.Spec.Compression.MinSize = nil
	expect("its own size is taken back", 8000, true, sized("50"))
	q.Spec.Compression.PolicyName = "all"
	expect("a policy is named", 50, false, sized("50"))
	expect("the named policy has changed", 70, false, sized("70"))
	q.Spec.Compression.PolicyName = ""
	expect("it is named no more", 90, true, sized("90"))
}

func TestWantOfMinimumSizes(t *testing.T) {
	quantity := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	sized := policyWith(func(s *v1alpha1.CompressionPolicySpec) {
		s.Hardware = &v1alpha1.HardwareCompression{MinSize: quantity("8000")}
		s.Software = &v1alpha1.SoftwareCompression{MinSize: quantity("0")}
	})
	for name, test := range map[string]struct {
		inline                   *resource.Quantity
		policies                 []v1alpha1.CompressionPolicy
		size, hardware, software uint64
	}{
		"built in":            {nil, nil, 1024, 20000, 1024},
		"of the policy":       {nil, []v1alpha1.CompressionPolicy{sized}, 1, 8000, 0},
		"of the queue":        {quantity("16000"), []v1alpha1.CompressionPolicy{sized}, 16000, 16000, 16000},
		"off, for this queue": {quantity("0"), []v1alpha1.CompressionPolicy{sized}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := want(t, newQueue(func(s *v1alpha1.QueueSpec) {
				s.Compression = &v1alpha1.QueueCompression{MinSize: test.inline}
			}), test.policies...).Config
			if c.GetCompressionMinSize() != test.size || c.GetCompression().GetHardwareMinSize() != test.hardware ||
				c.GetCompression().GetSoftwareMinSize() != test.software {
				t.Errorf(
					"sizes %d, %d in hardware, %d in software", c.GetCompressionMinSize(), c.GetCompression().GetHardwareMinSize(),
					c.GetCompression().GetSoftwareMinSize(),
				)
			}
		})
	}
}

func TestWantOfLimits(t *testing.T) {
	c := want(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.Limits = v1alpha1.QueueLimits{
			MaxMessages: ptr.To[int64](7), MaxBytes: ptr.To(resource.MustParse("8Mi")),
			MaxAge:         &metav1.Duration{Duration: time.Hour},
			MaxMessageSize: ptr.To(resource.MustParse("2Mi")), Overflow: v1alpha1.QueueOverflowDropOldest, MaxConnections: 9,
		}
	})).Config
	l := c.GetLimits()
	if l.GetMaxMessages() != 7 || l.GetMaxBytes() != 8<<20 || l.GetMaxAge().AsDuration() != time.Hour ||
		l.GetMaxMessageSize() != 2<<20 ||
		l.GetOverflow() != wirev1.QueueOverflow_QUEUE_OVERFLOW_DROP_OLDEST || l.GetMaxConnections() != 9 {
		t.Errorf("limits %v", l)
	}
	if got, most := c.GetStorage().GetCapacity(), uint64(1<<30); got >= most || got < most*9/10 {
		t.Errorf("capacity %d of a volume of %d", got, most)
	}
	if c.GetRouteAddress() != "" || len(c.GetMembers()) != 1 {
		t.Errorf("one member has routes at %q to %v", c.GetRouteAddress(), c.GetMembers())
	}
}

func TestWantRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.QueueSpec)
		reason string
		says   string
	}{
		"a policy that is not there": {
			func(s *v1alpha1.QueueSpec) { s.Compression = &v1alpha1.QueueCompression{PolicyName: "gone"} },
			v1alpha1.ReasonPolicyNotFound, "gone",
		},
		"storage for less than a message": {
			func(s *v1alpha1.QueueSpec) { s.Limits.MaxBytes = ptr.To(resource.MustParse("64Ki")) }, v1alpha1.ReasonInvalidSpec,
			"spec.limits.maxBytes",
		},
		"a volume for less than some messages": {func(s *v1alpha1.QueueSpec) {
			s.Storage.Size, s.Limits.MaxMessageSize = resource.MustParse("64Mi"), ptr.To(resource.MustParse("32Mi"))
		}, v1alpha1.ReasonInvalidSpec, "spec.storage.size"},
		"a volume of an older release for three": {func(s *v1alpha1.QueueSpec) {
			s.Replicas, s.Storage.Size = 3, resource.MustParse("64Mi")
		}, v1alpha1.ReasonInvalidSpec, "must be at least 88Mi"},
		"a bundle without certificates": {
			func(s *v1alpha1.QueueSpec) {
				s.Authentication.ClientCertificates = &v1alpha1.QueueClientCertificates{CABundle: []byte("none")}
			}, v1alpha1.ReasonInvalidSpec, "caBundle",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, problem := queue.Want(newQueue(test.change), nil, nil, queue.Neighbours{}, false, now)
			if problem == nil || problem.Reason != test.reason || !strings.Contains(problem.Message, test.says) {
				t.Errorf("problem %+v", problem)
			}
		})
	}
}

// What members read again must not restart them, and what they do not must.
func TestMembersRestartOnlyForWhatCountsAtTheStart(t *testing.T) {
	template := func(change func(*v1alpha1.QueueSpec)) (string, string) {
		wanted := want(t, newQueue(change))
		set := statefulSet(t, wanted, nil)
		return set.Spec.Template.String(), wanted.Config.GetRevision()
	}
	base, revision := template(nil)
	for name, test := range map[string]struct {
		change   func(*v1alpha1.QueueSpec)
		restarts bool
	}{
		"limits": {func(s *v1alpha1.QueueSpec) { s.Limits.MaxMessages = ptr.To[int64](5) }, false},
		"compression": {func(s *v1alpha1.QueueSpec) {
			s.Compression = &v1alpha1.QueueCompression{MinSize: ptr.To(resource.MustParse("1Ki"))}
		}, false},
		"storage": {func(s *v1alpha1.QueueSpec) { s.Storage.Size = resource.MustParse("2Gi") }, true},
		"syncs": {func(s *v1alpha1.QueueSpec) {
			s.Storage.Sync = &v1alpha1.QueueSync{
				Mode: v1alpha1.QueueSyncInterval, Interval: &metav1.Duration{Duration: 10 * time.Second},
			}
		}, true},
		"every put synced": {
			func(s *v1alpha1.QueueSpec) { s.Storage.Sync = &v1alpha1.QueueSync{Mode: v1alpha1.QueueSyncAlways} }, true,
		},
		"longest message": {
			func(s *v1alpha1.QueueSpec) { s.Limits.MaxMessageSize = ptr.To(resource.MustParse("2Mi")) }, false,
		},
		"longer message yet": {
			func(s *v1alpha1.QueueSpec) { s.Limits.MaxMessageSize = ptr.To(resource.MustParse("20Mi")) }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := template(test.change)
			if changed == revision {
				t.Error("the configuration is the same")
			}
			if (got != base) != test.restarts {
				t.Errorf("members restart: %v", got != base)
			}
		})
	}
}

func TestWantOfSync(t *testing.T) {
	for name, test := range map[string]struct {
		sync     *v1alpha1.QueueSync
		always   bool
		interval time.Duration
	}{
		"built in":    {nil, false, 0},
		"no interval": {&v1alpha1.QueueSync{Mode: v1alpha1.QueueSyncInterval}, false, 0},
		"interval": {
			&v1alpha1.QueueSync{Mode: v1alpha1.QueueSyncInterval, Interval: &metav1.Duration{Duration: time.Minute}}, false,
			time.Minute,
		},
		"always": {&v1alpha1.QueueSync{Mode: v1alpha1.QueueSyncAlways}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			storage := want(t, newQueue(func(s *v1alpha1.QueueSpec) { s.Storage.Sync = test.sync })).Config.GetStorage()
			if storage.GetSyncAlways() != test.always || storage.GetSyncInterval().AsDuration() != test.interval {
				t.Errorf("storage %v", storage)
			}
		})
	}
}

func TestWantOfRedelivery(t *testing.T) {
	for name, test := range map[string]struct {
		spec       v1alpha1.QueueRedelivery
		visibility time.Duration
		deliveries uint32
	}{
		"built in": {v1alpha1.QueueRedelivery{}, 30 * time.Second, 5},
		"stated": {
			v1alpha1.QueueRedelivery{
				VisibilityTimeout: &metav1.Duration{Duration: time.Minute}, MaxDeliveries: ptr.To[int32](0),
			},
			time.Minute, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := want(t, newQueue(func(s *v1alpha1.QueueSpec) { s.Redelivery = test.spec }))
			if r := w.Config.GetRedelivery(); r.GetVisibilityTimeout().AsDuration() != test.visibility ||
				r.GetMaxDeliveries() != test.deliveries {
				t.Errorf("redelivery %v", r)
			}
			if w.Config.GetServiceAddress() == "" {
				t.Error("clients of gRPC and HTTP are not served")
			}
		})
	}
}

// TestRoles: members are told of the roles of the spec, and of a Secret with tokens they get those keys only that have
// one, unless others may have.
func TestRoles(t *testing.T) {
	keys := func(roles ...v1alpha1.QueueTokenRole) (mounted []string, told string) {
		wanted := want(t, newQueue(func(s *v1alpha1.QueueSpec) {
			s.Authentication.Tokens.Roles = roles
			s.Authentication.ClientCertificates = &v1alpha1.QueueClientCertificates{
				CABundle: authority(t, "clients"),
				Roles: []v1alpha1.QueueCertificateRole{
					{Certificate: "CN:till", Operations: []v1alpha1.QueueOperation{v1alpha1.QueueOperationGet}},
				},
			}
		}))
		for _, volume := range statefulSet(t, wanted, nil).Spec.Template.Spec.Volumes {
			if volume.Name != "tokens" {
				continue
			}
			for _, item := range volume.Secret.Items {
				mounted = append(mounted, item.Key)
			}
		}
		a := wanted.Config.GetAuthentication()
		for _, r := range append(a.GetTokenRoles(), a.GetCertificateRoles()...) {
			told += fmt.Sprint(r.GetClient(), " ", r.GetPut(), " ", r.GetGet(), "; ")
		}
		return mounted, told
	}
	put, both := []v1alpha1.QueueOperation{v1alpha1.QueueOperationPut}, []v1alpha1.QueueOperation{
		v1alpha1.QueueOperationGet, v1alpha1.QueueOperationPut,
	}
	const certificate = "CN:till false true; "
	if mounted, told := keys(); mounted != nil || told != certificate {
		t.Errorf("without roles: %v, %s", mounted, told)
	}
	if mounted, told := keys(
		v1alpha1.QueueTokenRole{Token: "till", Operations: put}, v1alpha1.QueueTokenRole{Token: "clerk", Operations: both},
	); !slices.Equal(mounted, []string{"till", "clerk"}) ||
		told != "till true false; clerk true true; "+certificate {
		t.Errorf("with roles: %v, %s", mounted, told)
	}
	if mounted, told := keys(
		v1alpha1.QueueTokenRole{Token: "till", Operations: both}, v1alpha1.QueueTokenRole{Token: "*", Operations: put},
	); mounted != nil || told != "till true true; * true false; "+certificate {
		t.Errorf("with others: %v, %s", mounted, told)
	}
}

// TestWantPrices: members are told the prices of the Tariff that applies where they decide by them, channels those of
// their Peers, and a change of prices by which nothing is decided does not change their configuration.
func TestWantPrices(t *testing.T) {
	price := func(cpuHour string) []v1alpha1.Tariff {
		return []v1alpha1.Tariff{{
			ObjectMeta: metav1.ObjectMeta{
				Name: "datacentre", Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"},
			},
			Spec: v1alpha1.TariffSpec{
				Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: cpuHour},
				NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0.05", Rules: []v1alpha1.NetworkGiBRule{
					{Price: "7", Peers: []string{"west"}, Direction: v1alpha1.DirectionReceive},
					{Price: "0.09", Peers: []string{"west"}},
				}},
			},
		}}
	}
	neighbours := queue.Neighbours{
		Peers:  []v1alpha1.Peer{peerOf("west", "west.example:8443", authority(t, "west"))},
		Queues: []v1alpha1.Queue{{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "copies"}}},
	}
	channels := func(s *v1alpha1.QueueSpec) {
		s.Channels = []v1alpha1.QueueChannel{
			{Peer: "west", Queue: "invoices"}, {Queue: "copies"}, {Peer: "gone", Queue: "lost"},
		}
	}
	config := func(
		objective v1alpha1.CompressionObjective, cpuHour string, change func(*v1alpha1.QueueSpec),
	) *wirev1.QueueConfig {
		t.Helper()
		policies := []v1alpha1.CompressionPolicy{policyWith(func(s *v1alpha1.CompressionPolicySpec) {
			s.Objective = objective
		})}
		wanted, problem := queue.Want(newQueue(change), policies, price(cpuHour), neighbours, false, now)
		if problem != nil {
			t.Fatal(problem.Message)
		}
		if wanted.Policy.Prices != nil {
			t.Errorf("status shows prices of the Tariff as those of the policy: %v", wanted.Policy.Prices)
		}
		return wanted.Config
	}
	cost := config(v1alpha1.ObjectiveCost, "0.04", channels)
	if p := cost.GetCompression().GetPrices(); p.GetCpuHourNanos() != 40_000_000 || p.GetNetworkGibNanos() != 50_000_000 {
		t.Errorf("prices of the Tariff: %v", p)
	}
	west, copies, gone := cost.GetChannels()[0], cost.GetChannels()[1], cost.GetChannels()[2]
	if p := west.GetPrices(); p.GetCpuHourNanos() != 40_000_000 || p.GetNetworkGibNanos() != 90_000_000 {
		t.Errorf("prices of the channel to a Peer: %v", p)
	}
	if copies.GetPrices() != nil || gone.GetPrices() != nil {
		t.Errorf("prices within the cluster: %v, and of no Peer: %v", copies.GetPrices(), gone.GetPrices())
	}
	if p := config(v1alpha1.ObjectiveCost, "0.04", toWest).GetChannel().GetPrices(); p.GetNetworkGibNanos() != 90_000_000 {
		t.Errorf("prices of the only channel: %v", p)
	}
	if config(v1alpha1.ObjectiveCost, "0.01", channels).GetRevision() == cost.GetRevision() {
		t.Error("another price is the same configuration")
	}
	elapsed := config(v1alpha1.ObjectiveElapsed, "0.01", channels)
	if elapsed.GetRevision() != config(v1alpha1.ObjectiveElapsed, "0.04", channels).GetRevision() {
		t.Error("a price that does not matter is another configuration")
	}
	if p := elapsed.GetChannels()[0].GetPrices(); p != nil {
		t.Errorf("a channel that does not decide by money is told %v", p)
	}
}
