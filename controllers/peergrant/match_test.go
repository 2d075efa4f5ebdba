// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package peergrant_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/peergrant"
)

func grant(namespace string, from []v1alpha1.PeerGrantFrom, claims ...string) v1alpha1.PeerGrant {
	g := v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"}, Spec: v1alpha1.PeerGrantSpec{From: from},
	}
	for _, claim := range claims {
		g.Spec.To = append(g.Spec.To, v1alpha1.PeerGrantTo{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: claim})
	}
	return g
}

func from(peer string, namespaces ...string) v1alpha1.PeerGrantFrom {
	return v1alpha1.PeerGrantFrom{Peer: peer, Namespaces: namespaces}
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var asked = peergrant.Request{
	Peer: "east", Namespace: "bank", Kind: v1alpha1.GrantedPersistentVolumeClaim, ToNamespace: "vault",
	Name: "ledger-copy",
}

func TestAllowed(t *testing.T) {
	type (
		grants = []v1alpha1.PeerGrant
		froms  = []v1alpha1.PeerGrantFrom
	)
	going := grant("vault", froms{from("east", "bank")}, "ledger-copy")
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	anotherKind := grant("vault", froms{from("east", "bank")}, "ledger-copy")
	anotherKind.Spec.To[0].Kind = "Queue"
	for name, c := range map[string]struct {
		grants grants
		want   bool
	}{
		"none":      {nil, false},
		"exact":     {grants{grant("vault", froms{from("east", "bank")}, "ledger-copy")}, true},
		"any claim": {grants{grant("vault", froms{from("east", "bank")}, "")}, true},
		"among several": {
			grants{grant("vault", froms{from("west", "a"), from("east", "a", "bank")}, "x", "ledger-copy")}, true,
		},
		"in another grant": {
			grants{grant("vault", froms{from("west", "bank")}, "ledger-copy"), grant("vault", froms{from("east", "bank")}, "")},
			true,
		},
		"another peer":            {grants{grant("vault", froms{from("west", "bank")}, "ledger-copy")}, false},
		"another namespace there": {grants{grant("vault", froms{from("east", "ban", "bank2")}, "ledger-copy")}, false},
		"another namespace here":  {grants{grant("bank", froms{from("east", "bank")}, "ledger-copy")}, false},
		"another claim":           {grants{grant("vault", froms{from("east", "bank")}, "ledger")}, false},
		"another kind":            {grants{anotherKind}, false},
		"half of each of two": {
			grants{grant("vault", froms{from("east", "bank")}, "x"), grant("vault", froms{from("west", "bank")}, "ledger-copy")},
			false,
		},
		"peer and namespace apart": {
			grants{grant("vault", froms{from("east", "x"), from("west", "bank")}, "ledger-copy")}, false,
		},
		"being deleted": {grants{going}, false},
		"to nothing":    {grants{grant("vault", froms{from("east", "bank")})}, false},
	} {
		if got := peergrant.Allowed(c.grants, asked, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Within a cluster a namespace needs nobody's leave for itself, and that of another one for the other.
func TestAllowedWithinTheCluster(t *testing.T) {
	local := asked
	local.Peer = ""
	peers := []v1alpha1.PeerGrant{grant("vault", []v1alpha1.PeerGrantFrom{from("east", "bank")}, "")}
	if peergrant.Allowed(nil, local, now) || peergrant.Allowed(peers, local, now) {
		t.Error("another namespace is written to without a grant, or with one for a peer")
	}
	own := []v1alpha1.PeerGrant{grant("vault", []v1alpha1.PeerGrantFrom{from("", "bank")}, "ledger-copy")}
	if !peergrant.Allowed(own, local, now) {
		t.Error("a grant for this cluster grants nothing")
	}
	if peergrant.Allowed(own, asked, now) {
		t.Error("a grant for this cluster lets a peer in")
	}
	if message := peergrant.Decide(nil, local, now).Refusal; !strings.Contains(
		message, "{from: [{namespaces: [bank]}], to: [{kind: PersistentVolumeClaim, name: ledger-copy}]}",
	) {
		t.Errorf("the refusal says %q", message)
	}
	local.ToNamespace = "bank"
	if !peergrant.Allowed(nil, local, now) {
		t.Error("a namespace needs a grant for itself")
	}
	peer := asked
	peer.ToNamespace = "bank"
	if peergrant.Allowed(nil, peer, now) {
		t.Error("a namespace of that name of a peer needs no grant")
	}
}

func TestRefusal(t *testing.T) {
	message := peergrant.Decide(nil, asked, now).Refusal
	for _, words := range []string{
		"PeerGrant of namespace vault",
		"{from: [{peer: east, namespaces: [bank]}], to: [{kind: PersistentVolumeClaim, name: ledger-copy}]}",
	} {
		if !strings.Contains(message, words) {
			t.Errorf("%q is not in: %s", words, message)
		}
	}
	if strings.Contains(message, "\n") {
		t.Error("the message is more than one line")
	}
}

// claimed is a grant for bank of east with one entry for the claim.
func claimed(change func(*v1alpha1.PeerGrant, *v1alpha1.PeerGrantTo)) v1alpha1.PeerGrant {
	g := grant("vault", []v1alpha1.PeerGrantFrom{from("east", "bank")}, "ledger-copy")
	change(&g, &g.Spec.To[0])
	return g
}

// M7: a grant for a directory is one for that directory and what is in it, compared by elements.
func TestPath(t *testing.T) {
	for _, c := range []struct {
		granted, asked string
		want           bool
	}{
		{"", "/", true},
		{"", "", true},
		{"/", "/any/where", true},
		{"/in", "/in", true},
		{"/in", "/in/", true},
		{"/in", "/in/a/b", true},
		{"/in", "/", false},
		{"/in", "", false},
		{"/in", "/inner", false},
		{"/in", "/IN", false},
		{"/in", "/in/..", false},
		{"/in", "/in/../out", false},
		{"/in", "/in/./a", false},
		{"/in", "//in", false},
		{"/in", "/in//a", false},
		{"/in", "in", false},
		{"/in", "../in", false},
		{"/in/a", "/in", false},
		{"/in/a", "/in/ab", false},
		{"in", "/in", false},
		{"/a/..", "/in", false},
	} {
		request := asked
		request.Path = c.asked
		g := claimed(func(_ *v1alpha1.PeerGrant, to *v1alpha1.PeerGrantTo) { to.Path = c.granted })
		v := peergrant.Decide([]v1alpha1.PeerGrant{g}, request, now)
		if v.Allowed != c.want {
			t.Errorf("%q where %q is granted: %v", c.asked, c.granted, v.Allowed)
		}
		if !c.want && !strings.Contains(v.Refusal, "path: ") {
			t.Errorf("%q where %q is granted: the refusal does not say which field to set: %s", c.asked, c.granted, v.Refusal)
		}
	}
}

// M7: mirroring and privilege take a grant of their own, all in one entry.
func TestVerbs(t *testing.T) {
	plain := claimed(func(*v1alpha1.PeerGrant, *v1alpha1.PeerGrantTo) {})
	deletes := claimed(func(_ *v1alpha1.PeerGrant, to *v1alpha1.PeerGrantTo) { to.AllowDelete = true })
	privileged := claimed(func(_ *v1alpha1.PeerGrant, to *v1alpha1.PeerGrantTo) { to.AllowPrivileged = true })
	both := claimed(func(_ *v1alpha1.PeerGrant, to *v1alpha1.PeerGrantTo) {
		to.AllowDelete, to.AllowPrivileged = true, true
	})
	elsewhere := claimed(func(_ *v1alpha1.PeerGrant, to *v1alpha1.PeerGrantTo) {
		to.AllowDelete, to.AllowPrivileged, to.Path = true, true, "/scratch"
	})
	type grants = []v1alpha1.PeerGrant
	for name, c := range map[string]struct {
		grants             grants
		delete, privileged bool
		want               bool
		says               string
	}{
		"nothing asked":        {grants{plain}, false, false, true, ""},
		"delete":               {grants{deletes}, true, false, true, ""},
		"delete without it":    {grants{plain}, true, false, false, "spec.to: allowDelete: true"},
		"privilege":            {grants{privileged}, false, true, true, ""},
		"privilege without it": {grants{deletes}, false, true, false, "spec.to: allowPrivileged: true"},
		"both":                 {grants{plain, both}, true, true, true, ""},
		"both of two grants":   {grants{deletes, privileged}, true, true, false, "spec.to: allow"},
		"in another directory": {grants{elsewhere, plain}, true, false, false, "spec.to: "},
		"ungranted learns of all": {
			nil, true, true, false,
			"to: [{kind: PersistentVolumeClaim, name: ledger-copy, allowDelete: true, allowPrivileged: true}]",
		},
	} {
		request := asked
		request.Delete, request.Privileged = c.delete, c.privileged
		v := peergrant.Decide(c.grants, request, now)
		if v.Allowed != c.want || !strings.Contains(v.Refusal, c.says) || c.want != (v.Refusal == "") {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// M7: an expired grant allows nothing; the longest of several counts.
func TestExpiry(t *testing.T) {
	until := func(at time.Time) v1alpha1.PeerGrant {
		return claimed(func(g *v1alpha1.PeerGrant, _ *v1alpha1.PeerGrantTo) {
			g.Spec.ExpirationTime = &metav1.Time{Time: at}
		})
	}
	forever := claimed(func(*v1alpha1.PeerGrant, *v1alpha1.PeerGrantTo) {})
	hour, day := now.Add(time.Hour), now.Add(24*time.Hour)
	type grants = []v1alpha1.PeerGrant
	for name, c := range map[string]struct {
		grants grants
		at     time.Time
		want   bool
		until  time.Time
	}{
		"before":          {grants{until(hour)}, now, true, hour},
		"one second left": {grants{until(hour)}, hour.Add(-time.Second), true, hour},
		"at":              {grants{until(hour)}, hour, false, time.Time{}},
		"after":           {grants{until(hour)}, day, false, time.Time{}},
		"the longest":     {grants{until(day), until(hour)}, now, true, day},
		"first expired":   {grants{until(hour), until(day)}, hour, true, day},
		"one without end": {grants{until(hour), forever, until(day)}, now, true, time.Time{}},
	} {
		v := peergrant.Decide(c.grants, asked, c.at)
		if v.Allowed != c.want || !v.Until.Equal(c.until) {
			t.Errorf("%s: %+v", name, v)
		}
		if !c.want && !strings.Contains(v.Refusal, "spec.expirationTime") {
			t.Errorf("%s: %s", name, v.Refusal)
		}
	}
	// Whom the grant was not for learns nothing of it.
	other := asked
	other.Namespace = "shop"
	stranger := peergrant.Decide([]v1alpha1.PeerGrant{until(hour)}, other, day).Refusal
	if nothing := peergrant.Decide(nil, other, day).Refusal; stranger != nothing {
		t.Errorf("the refusal says %q where a grant for others is, %q where none is", stranger, nothing)
	}
	if left := peergrant.Active([]v1alpha1.PeerGrant{until(hour), forever, until(day)}, hour); len(left) != 2 {
		t.Errorf("active: %v", left)
	}
}

// Creating a claim takes an entry that allows its class and its size.
func TestCreation(t *testing.T) {
	creates := func(size string, classes ...string) v1alpha1.PeerGrant {
		return claimed(func(_ *v1alpha1.PeerGrant, to *v1alpha1.PeerGrantTo) {
			to.Create = &v1alpha1.PeerGrantCreate{MaxSize: resource.MustParse(size), StorageClassNames: classes}
		})
	}
	plain := claimed(func(*v1alpha1.PeerGrant, *v1alpha1.PeerGrantTo) {})
	for name, c := range map[string]struct {
		grants      []v1alpha1.PeerGrant
		class, size string
		lacks       string // empty: allowed
	}{
		"plain":              {[]v1alpha1.PeerGrant{plain}, "", "1Gi", "spec.to: create: {maxSize: 1Gi}"},
		"default class":      {[]v1alpha1.PeerGrant{creates("1Gi")}, "", "1Gi", ""},
		"too large":          {[]v1alpha1.PeerGrant{creates("1Gi")}, "", "1025Mi", "create: {maxSize: 1025Mi}"},
		"a class":            {[]v1alpha1.PeerGrant{creates("1Gi", "slow", "fast")}, "fast", "1Gi", ""},
		"none of them":       {[]v1alpha1.PeerGrant{creates("1Gi", "slow", "fast")}, "", "1Gi", ""},
		"another class":      {[]v1alpha1.PeerGrant{creates("1Gi", "slow")}, "fast", "1Gi", "storageClassNames: [fast]"},
		"not any class":      {[]v1alpha1.PeerGrant{creates("1Gi")}, "fast", "1Gi", "storageClassNames: [fast]"},
		"half of each":       {[]v1alpha1.PeerGrant{creates("1Gi", "fast"), creates("5Gi")}, "fast", "5Gi", "maxSize: 5Gi"},
		"one of two allows":  {[]v1alpha1.PeerGrant{plain, creates("5Gi", "fast")}, "fast", "5Gi", ""},
		"no grant says how":  {nil, "fast", "5Gi", "create: {storageClassNames: [fast], maxSize: 5Gi}"},
		"none for the class": {nil, "", "5Gi", "create: {maxSize: 5Gi}"},
	} {
		request := asked
		request.Create = &peergrant.Creation{Class: c.class, Size: resource.MustParse(c.size)}
		verdict := peergrant.Decide(c.grants, request, now)
		if verdict.Allowed != (c.lacks == "") || !strings.Contains(verdict.Refusal, c.lacks) {
			t.Errorf("%s: %+v", name, verdict)
		}
	}
}

// Snapshots take a number, which is that of the entry that allows all.
func TestSnapshotsAreGranted(t *testing.T) {
	request := asked
	request.Snapshots = 7
	g := grant("vault", []v1alpha1.PeerGrantFrom{from("east", "bank")}, "ledger-copy", "ledger-copy")
	all := []v1alpha1.PeerGrant{g}
	for _, allowed := range []int32{0, 6} {
		all[0].Spec.To[0].MaxSnapshots = allowed
		if v := peergrant.Decide(all, request, now); v.Allowed || v.Snapshots != 0 ||
			!strings.Contains(v.Refusal, "maxSnapshots: 7") {
			t.Errorf("%d: %+v", allowed, v)
		}
	}
	all[0].Spec.To[0].MaxSnapshots = 9
	all[0].Spec.To[1].MaxSnapshots, all[0].Spec.To[1].Path = 50, "/elsewhere"
	if v := peergrant.Decide(all, request, now); !v.Allowed || v.Snapshots != 9 {
		t.Errorf("%+v", v)
	}
	if v := peergrant.Decide(nil, request, now); !strings.Contains(v.Refusal, "maxSnapshots: 7}]") {
		t.Errorf("%+v", v)
	}
}
