// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/receipt"
	"github.com/lighterage/lighterage/controllers/receiptkey"
	"github.com/lighterage/lighterage/controllers/route"
)

// The other side is asked for its signature after receiptPause, and then again when a tenth of the time since the
// end of the run has passed, at least every receiptPauseMax.
const (
	receiptPause    = 2 * time.Second
	receiptPauseMax = 5 * time.Minute
	// receiptGrace is how long after the run the other side may not know of it: its gateway answers from a cache.
	receiptGrace = time.Minute
)

// errGone is returned when the other side has no record of the run, or one of a failure.
var errGone = errors.New("there will be no receipt")

// receiver is the other side of a receipt.
type receiver interface {
	// exchange hands over what the sender has signed, if it has, and returns the receiver's part and the receipt with
	// both signatures; either is empty while it does not exist.
	exchange(ctx context.Context, offer []byte) (part, complete []byte, err error)
}

// receiptDue: a run is complete, its content was digested, and the receipt is not kept yet.
func receiptDue(transfer *v1alpha1.Transfer) bool {
	status := &transfer.Status
	return status.Phase == v1alpha1.TransferComplete && status.Receipt != nil && status.Receipt.ConfigMapName == "" &&
		transfer.DeletionTimestamp == nil && !receiptMissing(transfer)
}

// receiptMissing: there will be no receipt of the run. When a run completes the condition says otherwise.
func receiptMissing(transfer *v1alpha1.Transfer) bool {
	signed := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionReceiptSigned)
	return signed != nil && signed.Reason == v1alpha1.ReasonReceiptMissing
}

// sign does the next steps of the receipt of a run that is complete and returns when to look again; 0 when it is
// done. Each step is written into status before the next one, so whoever is killed goes on from there: what was
// signed once is never signed with another content.
func (r *Reconciler) sign(
	ctx context.Context, transfer *v1alpha1.Transfer, facts *plan.TransferFacts,
) (again time.Duration, err error) {
	if !receiptDue(transfer) {
		r.exchanges.forget(transfer.UID)
		return 0, nil
	}
	pause := min(max(receiptPause, r.Clock.Now().Sub(transfer.Status.Run.CompletionTime.Time)/10), receiptPauseMax)
	var complete []byte
	other, err := r.receiverOf(transfer, facts)
	if err != nil {
		r.exchanges.forget(transfer.UID) // its Peer wakes it
	}
	if peer, ok := other.(peerReceiver); ok {
		end, wait := r.exchanges.begin(transfer.UID, peer.peer.Name, pause)
		if wait > 0 {
			return wait, nil
		}
		defer func() { end(again) }()
	}
	status := transfer.Status.DeepCopy()
	if err == nil {
		complete, err = r.signed(ctx, transfer, other)
	}
	if errors.Is(err, errGone) {
		if r.Clock.Now().Sub(transfer.Status.Run.CompletionTime.Time) < receiptGrace {
			complete, err = nil, nil
		} else {
			pause = 0
		}
	}
	var state metav1.Condition
	switch {
	case err == nil && complete != nil:
		kept := receipt.ConfigMap(transfer.Namespace, receipt.RunOf(transfer), complete)
		if err := receiptkey.Keep(ctx, r.Client, kept); err != nil {
			return 0, err
		}
		status.Receipt.Envelope, status.Receipt.ConfigMapName, pause = string(complete), kept.Name, 0
		state = conditions.New(v1alpha1.ConditionReceiptSigned, true, v1alpha1.ReasonSucceeded,
			fmt.Sprintf("both sides have signed the receipt of run %s: ConfigMap %s", transfer.Status.Run.ID, kept.Name))
	case err == nil:
		status.Receipt = transfer.Status.Receipt // with what was signed
		state = plan.ReceiptPending(transfer.Status.Run)
	case receiptProblem(err) == "":
		return 0, err
	default:
		status.Receipt = transfer.Status.Receipt
		state = conditions.New(v1alpha1.ConditionReceiptSigned, false, receiptProblem(err), conditions.Shorten(err.Error()))
	}
	status.Conditions = conditions.Merge(
		transfer.Status.Conditions, []metav1.Condition{state}, transfer.Generation, r.now(),
	)
	return pause, r.writeReceipt(ctx, transfer, *status)
}

// receiptProblem is the condition reason of an error that trying again later may fix; empty for one of this cluster.
func receiptProblem(err error) string {
	switch {
	case errors.Is(err, errGone):
		return v1alpha1.ReasonReceiptMissing
	case errors.Is(err, agentclient.ErrUnreachable):
		return v1alpha1.ReasonPeerUnreachable
	case errors.Is(err, agentclient.ErrUntrusted):
		return v1alpha1.ReasonPeerUntrusted
	case errors.Is(err, agentclient.ErrIncompatible):
		return v1alpha1.ReasonReceiptUnsupported
	case errors.Is(err, receipt.ErrContradiction), errors.Is(err, receipt.ErrMalformed),
		errors.Is(err, receipt.ErrSignature), errors.Is(err, receiptkey.ErrNoKey):
		return v1alpha1.ReasonReceiptRejected
	}
	return ""
}

// signed returns the receipt with both signatures; nil while it has not.
func (r *Reconciler) signed(ctx context.Context, transfer *v1alpha1.Transfer, other receiver) ([]byte, error) {
	offer := []byte(transfer.Status.Receipt.Envelope)
	if len(offer) == 0 {
		part, complete, err := other.exchange(ctx, nil)
		switch {
		case err != nil:
			return nil, err
		case len(complete) > 0:
			return complete, r.adopt(ctx, transfer, complete)
		case len(part) == 0:
			return nil, nil
		}
		if offer, err = r.offer(ctx, transfer, part); err != nil {
			return nil, err
		}
		status := *transfer.Status.DeepCopy()
		status.Receipt.Envelope = string(offer)
		if err := r.writeReceipt(ctx, transfer, status); err != nil {
			return nil, err
		}
	}
	_, complete, err := other.exchange(ctx, offer)
	if err != nil || len(complete) == 0 {
		return nil, err
	}
	return complete, receipt.Complete(offer, complete)
}

// offer signs both parts.
func (r *Reconciler) offer(ctx context.Context, transfer *v1alpha1.Transfer, part []byte) ([]byte, error) {
	theirs, err := receipt.ParseReceiver(part)
	if err != nil {
		return nil, fmt.Errorf("reading the receiving cluster's part of the receipt: %w", err)
	}
	to := &transfer.Spec.Destination
	if namespace := plan.DestinationNamespace(transfer); !theirs.At(
		namespace, to.PersistentVolumeClaim.PersistentVolumeClaimPath, to.ObjectStore,
	) {
		return nil, fmt.Errorf("%w: the receiving cluster names the destination %.300q, which is not spec.destination",
			receipt.ErrContradiction, theirs.Place())
	}
	key, err := r.Keys.Signing(ctx)
	if err != nil {
		return nil, err
	}
	own := receipt.SenderOf(transfer, receipt.Signer{Cluster: r.Cluster, KeyID: key.ID(), Now: r.now()})
	return receipt.Offer(own, *theirs, key)
}

// adopt accepts a receipt of which this cluster has lost its own record, as after a restore.
func (r *Reconciler) adopt(ctx context.Context, transfer *v1alpha1.Transfer, complete []byte) error {
	public, err := r.Keys.Public(ctx)
	if err != nil {
		return err
	}
	owns := func(keyID string) bool { return public.Find(keyID) != nil }
	return receipt.Adopt(
		complete, receipt.RunOf(transfer), string(transfer.UID), receipt.ContentsOf(transfer.Status.Receipt), owns,
	)
}

func (r *Reconciler) writeReceipt(
	ctx context.Context, transfer *v1alpha1.Transfer, status v1alpha1.TransferStatus,
) error {
	before := transfer.DeepCopy()
	transfer.Status = status
	_, err := conditions.WriteStatus(ctx, r.Client, before, transfer)
	return err
}

// receiverOf finds the other side.
func (r *Reconciler) receiverOf(transfer *v1alpha1.Transfer, facts *plan.TransferFacts) (receiver, error) {
	switch {
	case transfer.Status.Run.Route == v1alpha1.RoutePod, transfer.Status.Run.Route == v1alpha1.RouteObjectStore:
		return podReceiver{r, transfer}, nil
	case plan.IsLocal(transfer):
		return localReceiver{r, transfer}, nil
	case facts.Peer == nil || !route.Reaches(facts.Peer):
		return nil, fmt.Errorf("%w: Peer %q does not exist or has no endpoint; create it again to get the receipt",
			agentclient.ErrUnreachable, transfer.Spec.Destination.Peer)
	}
	if problem := plan.CheckPeer(facts.Peer.Name, facts.Peer); problem != nil {
		// Nobody is asked who is known not to answer: the Peer wakes its Transfers when it is Ready.
		cause := agentclient.ErrUnreachable
		switch problem.Reason {
		case v1alpha1.ReasonPeerUntrusted:
			cause = agentclient.ErrUntrusted
		case v1alpha1.ReasonPeerIncompatible:
			cause = agentclient.ErrIncompatible
		}
		return nil, fmt.Errorf("%w: %s", cause, problem.Message)
	}
	return peerReceiver{r, transfer, facts.Peer}, nil
}

// peerReceiver is another cluster.
type peerReceiver struct {
	r        *Reconciler
	transfer *v1alpha1.Transfer
	peer     *v1alpha1.Peer
}

func (p peerReceiver) exchange(ctx context.Context, offer []byte) (part, complete []byte, err error) {
	gateway := p.r.gatewayOf(p.peer)
	run := p.transfer.Status.Run
	answer, err := p.r.Gateways.Receipt(ctx, gateway, agentclient.ReceiptRequest{
		Namespace: p.transfer.Namespace, Name: p.transfer.Name, Run: run.ID, Attempt: run.Attempt, Envelope: offer,
	})
	if answer.GetGone() {
		return nil, nil, fmt.Errorf("%w of run %s: the receiving cluster has no Delivery of it, or one that failed; run the "+
			"Transfer again to get one", errGone, run.ID)
	}
	return answer.GetReceiver(), answer.GetEnvelope(), err
}

// localReceiver is a Delivery of this cluster, whose controller signs.
type localReceiver struct {
	r        *Reconciler
	transfer *v1alpha1.Transfer
}

func (l localReceiver) exchange(ctx context.Context, offer []byte) (part, complete []byte, err error) {
	delivery := plan.LocalDelivery(l.transfer)
	key := client.ObjectKeyFromObject(delivery)
	if err := l.r.Reader.Get(ctx, key, delivery); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("reading Delivery %s for the receipt: %w", key, err)
	} else if err != nil || delivery.Status.Phase == v1alpha1.DeliveryFailed {
		return nil, nil, fmt.Errorf("%w of run %s: its Delivery was deleted or failed; run the Transfer again to get one",
			errGone, l.transfer.Status.Run.ID)
	}
	status := delivery.Status.Receipt
	if status == nil {
		return nil, nil, nil
	}
	if status.ConfigMapName != "" {
		return []byte(status.Part), []byte(status.Envelope), nil
	}
	if len(offer) > 0 && delivery.Annotations[v1alpha1.ReceiptOfferAnnotation] != string(offer) {
		before := delivery.DeepCopy()
		metav1.SetMetaDataAnnotation(&delivery.ObjectMeta, v1alpha1.ReceiptOfferAnnotation, string(offer))
		err := l.r.Client.Patch(ctx, delivery, client.MergeFrom(before), client.FieldOwner(conditions.FieldOwner))
		if err != nil {
			return nil, nil, fmt.Errorf("offering the receipt to Delivery %s: %w", key, err)
		}
	}
	return []byte(status.Part), nil, nil
}

// podReceiver is the agent that sent as well: no second controller looked at it, so one signs for both sides.
type podReceiver struct {
	r        *Reconciler
	transfer *v1alpha1.Transfer
}

func (p podReceiver) exchange(ctx context.Context, offer []byte) (part, complete []byte, err error) {
	if len(offer) == 0 {
		key, err := p.r.Keys.Signing(ctx)
		if err != nil {
			return nil, nil, err
		}
		own := receipt.ReceiverInPod(p.transfer, receipt.Signer{Cluster: p.r.Cluster, KeyID: key.ID(), Now: p.r.now()})
		part, err = own.Encode()
		return part, nil, err
	}
	own, err := receipt.Offered(offer)
	if err != nil {
		return nil, nil, err
	}
	key, err := p.r.Keys.Private(ctx, own.KeyID)
	if err != nil {
		return nil, nil, err
	}
	complete, err = receipt.Countersign(offer, *own, key)
	return nil, complete, err
}
