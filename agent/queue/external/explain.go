// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Explain returns an error with a reason and with what to do.
func (e *External) Explain(err error) error {
	if err == nil {
		return nil
	}
	return e.explain(err)
}

func (e *External) explain(err error) *failure.Error {
	var known *failure.Error
	if errors.As(err, &known) {
		return known
	}
	const goesOn = "; messages stay where they are, and the Queue goes on by itself"
	switch {
	case errors.Is(err, ErrCredentials):
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED,
			"%w; correct the Secret of spec.engine.external.credentials"+goesOn, err,
		)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED,
			"the external servers do not let this Queue in (%w): put credentials that they know into the Secret of "+
				"spec.engine.external.credentials"+goesOn, err)
	case errors.Is(err, store.ErrForeign):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_IN_USE,
			"the external servers have a stream of the name that is not this Queue's (%w): give the Queue another name or "+
				"another account, or remove that stream if nobody needs it; it is left as it is", err)
	case errors.Is(err, store.ErrOld):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT, "%w: upgrade all of the external servers", err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT,
			"the external servers have no JetStream for the account of the credentials (%w): enable it there"+goesOn, err)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT,
			"the external servers do not have a stream of the Queue any more (%w): restore it there, or delete the Queue's "+
				"pods to begin with an empty one", err)
	}
	var refused *jetstream.APIError
	if errors.As(err, &refused) {
		if f := explainCode(refused); f != nil {
			return f
		}
	}
	for _, cause := range []error{err, e.lastDial()} {
		if untrusted(cause) {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNTRUSTED,
				"the external servers do not prove who they are (%w): put who vouches for them into "+
					"spec.engine.external.caBundle, and name them as their certificates do"+goesOn, cause)
		}
	}
	if what := e.forbidden.Swap(nil); what != nil && errors.Is(err, context.DeadlineExceeded) {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_REFUSED,
			"the credentials of spec.engine.external do not allow what a Queue needs (%s): give their user the permissions "+
				"that the documentation lists"+goesOn, *what)
	}
	if errors.Is(err, nats.ErrNoServers) || errors.Is(err, errDisconnected) {
		if cause := e.lastDial(); cause != nil {
			err = cause
		}
	}
	if errors.Is(err, egress.ErrBlocked) {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNREACHABLE,
			"spec.engine.external.servers lead to an address that members must not dial: name servers outside of this "+
				"cluster, or a Service as NAME.NAMESPACE.svc, whose namespace allows this one by the annotation "+
				"lighterage.dev/allow-backends-from"+goesOn)
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNREACHABLE,
		"the external servers cannot be reached, or do not answer (%w): check spec.engine.external.servers, that they run "+
			"and have a leader, and that the network lets this namespace reach them"+goesOn, generic(err))
}

var (
	errName       = errors.New("a name cannot be resolved")
	errConnection = errors.New("connection failed")
)

// generic is what of an error goes to status. The error itself is in the log: with it, status would tell which ports
// of which servers are open, and with what they begin.
func generic(err error) error {
	var name *net.DNSError
	var network net.Error
	switch {
	case errors.Is(err, errNoTLS): // known of servers of NATS only, after they have said so
		return errNoTLS
	case errors.Is(err, ErrProtocol):
		return ErrProtocol
	case errors.As(err, &name):
		return errName
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, nats.ErrNoServers),
		errors.Is(err, errDisconnected):
		return errConnection
	}
	return err
}

// explainCode says what a refusal of JetStream means for who made the Queue; nil: what others do.
func explainCode(refused *jetstream.APIError) *failure.Error {
	switch refused.ErrorCode {
	case jetstreamerror.NoPeers, jetstreamerror.Replicas:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT,
			"fewer external servers than spec.replicas have enough free storage (%w): add servers there, or make a Queue with "+
				"fewer replicas", refused)
	case jetstreamerror.SubjectOverlap, jetstreamerror.NameInUse:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_IN_USE,
			"another stream of the account takes the Queue's name or its subjects (%w): give the Queue another name or "+
				"another account", refused)
	case jetstreamerror.InsufficientResources, jetstreamerror.AccountResources, jetstreamerror.MaximumStreams,
		jetstreamerror.MemoryExceeded, jetstreamerror.StorageExceeded:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT,
			"the external servers do not have enough free storage for the Queue (%w): make spec.storage.size smaller, or the "+
				"account's limits larger", refused)
	case jetstream.ErrorCode(0):
		return nil
	}
	if refused.Code == unavailable {
		return nil
	}
	return failure.New(
		wirev1.FailureReason_FAILURE_REASON_EXTERNAL_UNFIT, "the external servers refuse the Queue's stream: %w", refused,
	)
}

// unavailable is the code of what passes, such as that servers choose a leader.
const unavailable = 503

func (e *External) lastDial() error {
	if err := e.dialled.Load(); err != nil {
		return *err
	}
	return nil
}
