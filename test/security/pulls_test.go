// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// TestPulls: only the gateway makes and changes Transfers for clusters that pull, and it makes no others; the manager
// makes PeerGrants of its own pulls only.
func TestPulls(t *testing.T) {
	t.Parallel()
	pulled := func(change ...func(*v1alpha1.Transfer)) *v1alpha1.Transfer {
		spec := newTransfer("bank", "ledger", nil).Spec
		spec.Destination.Peer, spec.Destination.Namespace, spec.PodTemplate = "west", "shop", nil
		of := plan.PullReference{Peer: "west", Namespace: "shop", Name: "ledger", UID: "u"}
		transfer := plan.NewPulled("bank", of, spec, "abcde", time.Unix(0, 0))
		transfer.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Transfer"))
		for _, f := range change {
			f(transfer)
		}
		return transfer
	}
	plain := func(t *v1alpha1.Transfer) { t.Name, t.Labels, t.Annotations = "ledger", nil, nil }
	named := func(t *v1alpha1.Transfer) { t.Labels, t.Annotations = nil, nil }
	labelled := func(t *v1alpha1.Transfer) { t.Name, t.Annotations = "ledger", nil }
	faster := func(t *v1alpha1.Transfer) { t.Spec.Streams = 4 }
	finalizer := func(t *v1alpha1.Transfer) { t.Finalizers = []string{"x"} }
	elsewhere := func(t *v1alpha1.Transfer) { t.Spec.Destination.Peer = "south" }
	hooked := func(t *v1alpha1.Transfer) { t.Spec.Source.Hooks = &v1alpha1.SourceHooks{} }
	privileged := func(t *v1alpha1.Transfer) { t.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{} }
	ask := func(user string, operation admission.Operation, object, old client.Object) request {
		r := request{user: user, operation: operation, namespace: bank}
		r.resource = v1alpha1.GroupVersion.WithResource("transfers")
		if object != nil {
			r.object = object
		}
		if old != nil {
			r.old = old
		}
		return r
	}
	const gateway, tenant = gatewayAccount, "deployer"
	expect(t, "made", ask(gateway, admission.Create, pulled(), nil), "")
	expect(t, "changed", ask(gateway, admission.Update, pulled(faster), pulled()), "")
	expect(t, "deleted by the gateway", ask(gateway, admission.Delete, nil, pulled()), "")
	expect(t, "deleted by the manager", ask(managerAccount, admission.Delete, nil, pulled()), "")
	expect(t, "finalizer of the manager", ask(managerAccount, admission.Update, pulled(finalizer), pulled()), "")
	expect(t, "deleted by a tenant", ask(tenant, admission.Delete, nil, pulled()), "")
	expect(t, "a tenant's own", ask(tenant, admission.Create, pulled(plain), nil), "")

	expect(t, "the gateway's own", ask(gateway, admission.Create, pulled(plain), nil), "gateway of Lighterage writes")
	expect(t, "a tenant's, changed", ask(gateway, admission.Update, pulled(plain, faster), pulled(plain)),
		"gateway of Lighterage writes")
	expect(t, "a tenant's, deleted", ask(gateway, admission.Delete, nil, pulled(plain)), "gateway of Lighterage writes")
	for name, change := range map[string]func(*v1alpha1.Transfer){
		"to another Peer": elsewhere, "with hooks": hooked, "with privilege": privileged,
		"to another namespace": func(t *v1alpha1.Transfer) { t.Spec.Destination.Namespace = "west" },
		"with a schedule":      func(t *v1alpha1.Transfer) { t.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: "@daily"} },
		"with a form":          func(t *v1alpha1.Transfer) { t.Spec.Source.Form = "Compressed" },
		"through a store":      func(t *v1alpha1.Transfer) { t.Spec.Destination.Via = &v1alpha1.TransferVia{} },
		"of a set":             func(t *v1alpha1.Transfer) { t.Labels[v1alpha1.TransferSetLabel] = "x" },
		"as a leg": func(t *v1alpha1.Transfer) {
			t.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Transfer", Name: "x"}}
		},
	} {
		expect(t, name, ask(gateway, admission.Create, pulled(change), nil), "sends a claim to that cluster")
	}
	controller := true
	for name, forge := range map[string]func(*v1alpha1.Transfer){
		"forged member": func(t *v1alpha1.Transfer) {
			t.Labels = map[string]string{"app.kubernetes.io/managed-by": "lighterage-manager", v1alpha1.TransferSetLabel: "x"}
		},
		"forged leg": func(t *v1alpha1.Transfer) {
			t.Name, t.OwnerReferences = "whole-west", []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Transfer", Name: "whole", Controller: &controller,
			}}
		},
		"forged fill": func(t *v1alpha1.Transfer) {
			t.Name, t.OwnerReferences = "populate-u", []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: "x", UID: "u",
			}}
			t.Spec.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{}}
			t.Spec.Destination.PersistentVolumeClaim.ClaimName = "populate-u"
		},
	} {
		const only = "gateway of Lighterage writes"
		expect(t, name, ask(gateway, admission.Create, pulled(plain, forge), nil), only)
		expect(t, name+", changed", ask(gateway, admission.Update, pulled(plain, forge, faster), pulled(plain, forge)), only)
		expect(t, name+", deleted", ask(gateway, admission.Delete, nil, pulled(plain, forge)), only)
	}
	expect(t, "metadata of a tenant's", ask(gateway, admission.Update, pulled(plain, finalizer), pulled(plain)),
		"gateway of Lighterage writes")
	expect(t, "marked by the gateway", ask(gateway, admission.Update, pulled(), pulled(plain)),
		"gateway of Lighterage writes")
	expect(t, "half marked, deleted by the manager", ask(managerAccount, admission.Delete, nil, pulled(named)), "")
	expect(t, "a tenant's, deleted by the manager", ask(managerAccount, admission.Delete, nil, pulled(plain)),
		"manager of Lighterage")
	for name, forged := range map[string]*v1alpha1.Transfer{
		"forged": pulled(), "by name": pulled(named), "by label": pulled(labelled),
	} {
		expect(t, name, ask(tenant, admission.Create, forged, nil), "only the gateway")
	}
	expect(t, "made by the manager", ask(managerAccount, admission.Create, pulled(), nil), "Lighterage")
	expect(t, "changed by a tenant", ask(tenant, admission.Update, pulled(faster), pulled()), "only the gateway")
	expect(t, "unmarked by a tenant", ask(tenant, admission.Update, pulled(named), pulled()), "only the gateway")
	expect(t, "started by a tenant", ask(tenant, admission.Update, pulled(func(t *v1alpha1.Transfer) {
		t.Annotations[v1alpha1.RunAnnotation] = "now"
	}), pulled()), "only the gateway")

	grant := func(change ...func(*v1alpha1.PeerGrant)) *v1alpha1.PeerGrant {
		transfer := newTransfer("bank", "ledger", nil)
		transfer.Spec.Source.Peer, transfer.Spec.Destination.Peer = "west", ""
		g := plan.PullGrant(transfer)
		g.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PeerGrant"))
		for _, f := range change {
			f(g)
		}
		return g
	}
	granted := func(user string, operation admission.Operation, object, old client.Object) request {
		r := ask(user, operation, object, old)
		r.resource = v1alpha1.GroupVersion.WithResource("peergrants")
		return r
	}
	const own = "Transfers that pull"
	expect(t, "granted", granted(managerAccount, admission.Create, grant(), nil), "")
	expect(t, "revoked", granted(managerAccount, admission.Delete, nil, grant()), "")
	expect(t, "granted by a tenant", granted(tenant, admission.Create, grant(func(g *v1alpha1.PeerGrant) {
		g.Name, g.OwnerReferences, g.Spec.From[0].Transfers = "mine", nil, nil
	}), nil), "")
	for name, change := range map[string]func(*v1alpha1.PeerGrant){
		"of nobody":        func(g *v1alpha1.PeerGrant) { g.OwnerReferences = []metav1.OwnerReference{} },
		"to all Transfers": func(g *v1alpha1.PeerGrant) { g.Spec.From[0].Transfers = nil },
		"to another":       func(g *v1alpha1.PeerGrant) { g.Spec.From[0].Transfers = []string{"ledger"} },
		"to this cluster":  func(g *v1alpha1.PeerGrant) { g.Spec.From[0].Peer = "" },
		"into all claims":  func(g *v1alpha1.PeerGrant) { g.Spec.To[0].Name = "" },
		"to read":          func(g *v1alpha1.PeerGrant) { g.Spec.To[0].Verbs = []v1alpha1.GrantedVerb{v1alpha1.GrantedRead} },
		"into a Queue":     func(g *v1alpha1.PeerGrant) { g.Spec.To[0].Kind = v1alpha1.GrantedQueue },
		"with privilege":   func(g *v1alpha1.PeerGrant) { g.Spec.To[0].AllowPrivileged = true },
		"of another name":  func(g *v1alpha1.PeerGrant) { g.Name = "mine" },
	} {
		expect(t, name, granted(managerAccount, admission.Create, grant(change), nil), own)
		// What somebody else made of its spec, the manager sets right and deletes.
		theirs := ""
		if name == "of nobody" || name == "of another name" {
			theirs = own
		}
		expect(t, name+", deleted", granted(managerAccount, admission.Delete, nil, grant(change)), theirs)
		expect(t, name+", set right", granted(managerAccount, admission.Update, grant(), grant(change)), theirs)
	}
}
