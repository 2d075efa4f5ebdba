// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/agent/wire/datapath"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Setup gives the manager a Gateway that listens on the address while the manager runs, and on another for pods of this
// cluster. Client and Log of the options are the manager's, and so is Reader if it is nil.
func Setup(ctx context.Context, mgr ctrl.Manager, address, tunnels string, o Options) error {
	o.Client, o.Log = mgr.GetClient(), mgr.GetLogger()
	if o.Reader == nil {
		o.Reader = mgr.GetAPIReader()
	}
	g, err := New(o) //nolint:contextcheck // lookups in the cache
	if err != nil {
		return fmt.Errorf("making the gateway: %w", err)
	}
	for name, values := range map[string]client.IndexerFunc{ServerNameIndex: IndexServerName, SenderIndex: IndexSender} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Delivery{}, name, values); err != nil {
			return fmt.Errorf("indexing Deliveries by %s: %w", name, err)
		}
	}
	deliveries, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.Delivery{})
	if err != nil {
		return fmt.Errorf("watching Deliveries: %w", err)
	}
	if _, err := deliveries.AddEventHandler(deliveryEvents(g)); err != nil {
		return fmt.Errorf("watching Deliveries: %w", err)
	}
	// The other kinds are read before the port opens, not with the first request.
	peers, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.Peer{})
	if err != nil {
		return fmt.Errorf("watching Peers: %w", err)
	}
	if _, err := peers.AddEventHandler(peerEvents(g)); err != nil { //nolint:contextcheck // lookups in the cache
		return fmt.Errorf("watching Peers: %w", err)
	}
	grants, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.PeerGrant{})
	if err != nil {
		return fmt.Errorf("watching PeerGrants: %w", err)
	}
	if _, err := grants.AddEventHandler(grantEvents(g)); err != nil { //nolint:contextcheck // lookups in the cache
		return fmt.Errorf("watching PeerGrants: %w", err)
	}
	if _, err := mgr.GetCache().GetInformer(ctx, queueMetadata()); err != nil {
		return fmt.Errorf("watching Queues: %w", err)
	}
	if o.Namespace != "" {
		if err := mgr.Add(&spender{
			client: o.Client, reader: o.Reader, namespace: o.Namespace, passed: g.passes.Passed, log: o.Log,
		}); err != nil {
			return fmt.Errorf("counting what the gateway spends: %w", err)
		}
	}
	listens := &listening{gateway: g, address: address, tunnels: tunnels, path: o.DataPath}
	if err := mgr.AddReadyzCheck("gateway", listens.ready); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr.Add(listens)
}

// peerEvents tell the gateway that somebody may have lost what authenticates them, or is to be dialled.
func peerEvents(g *Gateway) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { g.outbound.follow() },
		UpdateFunc: func(before, after any) {
			if changed(before, after) {
				g.PeersChanged()
			}
		},
		DeleteFunc: func(any) { g.PeersChanged() },
	}
}

// grantEvents tell the gateway what becomes of PeerGrants.
func grantEvents(g *Gateway) toolscache.ResourceEventHandler {
	tell := func(object any, gone bool) {
		if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = missed.Obj
		}
		if grant, ok := object.(*v1alpha1.PeerGrant); ok {
			g.GrantChanged(grant, gone)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { tell(object, false) },
		UpdateFunc: func(before, after any) {
			if changed(before, after) {
				tell(after, false)
			}
		},
		DeleteFunc: func(object any) { tell(object, true) },
	}
}

// changed reports whether more than a status may have: a spec, or that the object is being deleted.
func changed(before, after any) bool {
	old, ok := before.(client.Object)
	now, ok2 := after.(client.Object)
	return !ok || !ok2 || old.GetUID() != now.GetUID() || old.GetGeneration() != now.GetGeneration() ||
		old.GetDeletionTimestamp().IsZero() != now.GetDeletionTimestamp().IsZero()
}

// deliveryEvents tell the gateway what becomes of Deliveries.
func deliveryEvents(g *Gateway) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if delivery, ok := object.(*v1alpha1.Delivery); ok {
				g.DeliveryChanged(delivery, false)
			}
		},
		UpdateFunc: func(_, object any) {
			if delivery, ok := object.(*v1alpha1.Delivery); ok {
				g.DeliveryChanged(delivery, false)
			}
		},
		DeleteFunc: func(object any) {
			if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if delivery, ok := object.(*v1alpha1.Delivery); ok {
				g.DeliveryChanged(delivery, true)
			}
		},
	}
}

// listening is what the manager starts when its caches are filled.
type listening struct {
	gateway *Gateway
	// address for other clusters, and for pods of this one.
	address, tunnels string
	path             datapath.Path
	open             atomic.Bool
}

// ready is a healthz.Checker.
func (l *listening) ready(*http.Request) error {
	if !l.open.Load() {
		return errors.New("the gateway's port is not open")
	}
	return nil
}

// Start is of manager.Runnable.
func (l *listening) Start(ctx context.Context) error {
	listener, err := datapath.Listen(ctx, l.path, "tcp", l.address)
	if err != nil {
		return fmt.Errorf("opening the gateway's port: %w", err)
	}
	inner, err := new(net.ListenConfig).Listen(ctx, "tcp", l.tunnels)
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("opening the gateway's port for this cluster: %w", err)
	}
	l.open.Store(true)
	stop := context.AfterFunc(ctx, func() { l.open.Store(false) })
	defer stop()
	l.gateway.options.Log.Info("Gateway listens", "address", listener.Addr().String())
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer cancel() // without one of its ports the gateway is of no use
		ended <- l.gateway.ServeTunnels(both, inner.(*net.TCPListener))
	}()
	err = l.gateway.Serve(both, listener.(*net.TCPListener))
	cancel()
	return errors.Join(err, <-ended)
}

// NeedLeaderElection is false: every replica serves.
func (l *listening) NeedLeaderElection() bool {
	return false
}
