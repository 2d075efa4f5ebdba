// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// counted is a cluster's client that counts what it is asked: how often each Transfer is read, which every reconcile
// does once, and how often Transfers and Nodes are listed.
type counted struct {
	client.Client
	mu               sync.Mutex
	reads            map[client.ObjectKey]int
	transfers, nodes atomic.Int64
}

func (c *counted) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	if _, ok := object.(*v1alpha1.Transfer); ok {
		c.mu.Lock()
		c.reads[key]++
		c.mu.Unlock()
	}
	return c.Client.Get(ctx, key, object, options...)
}

func (c *counted) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *v1alpha1.TransferList:
		c.transfers.Add(1)
	case *corev1.NodeList:
		c.nodes.Add(1)
	}
	return c.Client.List(ctx, list, options...)
}

// TestStart: what a manager does when it starts grows with the number of Transfers plus that of Nodes and all else that
// is there, and not with the product.
func TestStart(t *testing.T) {
	const transfers, nodes = 200, 100
	namespace := cluster.Namespace(t)
	var made []*corev1.Node
	for i := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("start-%03d", i)}}
		cluster.Create(t, node)
		made = append(made, node)
	}
	for i := range transfers {
		cluster.Claim(t, namespace, fmt.Sprintf("claim-%03d", i))
		cluster.Create(t, &v1alpha1.Transfer{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("start-%03d", i)},
			Spec: v1alpha1.TransferSpec{
				Suspend: true,
				Source: v1alpha1.TransferSource{
					PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: fmt.Sprintf("claim-%03d", i)},
				},
				Destination: v1alpha1.TransferDestination{
					Peer: "nowhere", PersistentVolumeClaim: v1alpha1.DestinationClaim{
						PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: fmt.Sprintf("copy-%03d", i)},
					},
				},
			},
		})
	}
	settled := func() error {
		list := &v1alpha1.TransferList{}
		if err := cluster.Client.List(context.Background(), list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Status.Phase != v1alpha1.TransferSuspended {
				return fmt.Errorf("Transfer %s is %q", list.Items[i].Name, list.Items[i].Status.Phase)
			}
		}
		return nil
	}
	controllertest.Eventually(t, settled)
	stopManager()
	defer func() {
		// While no manager runs, so that their end wakes nobody in other tests.
		stopManager()
		for _, node := range made {
			if err := cluster.Client.Delete(context.Background(), node); err != nil {
				t.Error(err)
			}
		}
		if err := startManager(); err != nil {
			t.Error(err)
		}
	}()
	seen := &counted{reads: map[client.ObjectKey]int{}}
	if err := startManager(func(o *ctrl.Options) {
		o.NewClient = func(config *rest.Config, options client.Options) (client.Client, error) {
			var err error
			seen.Client, err = client.New(config, options)
			return seen, err
		}
	}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for i := range transfers {
			if key := (client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("start-%03d", i)}); seen.reads[key] == 0 {
				return fmt.Errorf("%s was not looked at", key)
			}
		}
		return nil
	})
	// Whatever the first look has caused is asked for by the time that a change made now has had its effect.
	late := &v1alpha1.Transfer{}
	last := client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("start-%03d", transfers-1)}
	if err := cluster.Client.Get(context.Background(), last, late); err != nil {
		t.Fatal(err)
	}
	late.Spec.MaxAttempts = 7
	if err := cluster.Client.Update(context.Background(), late); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(context.Background(), last, late); err != nil {
			return err
		}
		if late.Status.ObservedGeneration != late.Generation {
			return fmt.Errorf("generation %d is not observed", late.Generation)
		}
		return nil
	})
	seen.mu.Lock()
	defer seen.mu.Unlock()
	reconciles := 0
	for key, times := range seen.reads {
		reconciles += times
		if key.Namespace == namespace && key != last && times > 2 {
			t.Errorf("%s was looked at %d times", key, times)
		}
	}
	// A look lists the Transfers into the same claim, twice if it is in this cluster; nothing that was there before
	// lists any besides.
	if lists := seen.transfers.Load(); lists > 2*int64(reconciles)+20 {
		t.Errorf("Transfers were listed %d times for %d looks", lists, reconciles)
	}
	if lists := seen.nodes.Load(); lists > 10 {
		t.Errorf("Nodes were listed %d times", lists)
	}
}
