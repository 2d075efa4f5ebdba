// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/hex"
	"encoding/pem"
	"errors"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/link"
	"github.com/lighterage/lighterage/controllers/pki"
)

// redeemTries is how often a redemption is tried when something else is written into the Secret at the same time.
const redeemTries = 5

// Authority tells anybody the CA, which is public.
func (s *service) Authority(ctx context.Context, _ *wirev1.AuthorityRequest) (_ *wirev1.AuthorityResponse, err error) {
	_, owner, err := s.admit(ctx)
	defer func() { s.ended("Authority", caller{peer: nameOf(owner)}, err) }()
	if err != nil {
		return nil, err
	}
	issuer, err := s.options.Issuer()
	if err != nil {
		s.log.Error(err, "The CA cannot be told")
		return nil, unavailable("the gateway does not know its CA now")
	}
	return &wirev1.AuthorityResponse{
		CaBundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Raw}),
	}, nil
}

// Redeem leaves what a cluster hands in with a link token for who made the token. It makes no Peer: that takes the
// rights of a person, who checks the seal, which the gateway cannot make.
func (s *service) Redeem(ctx context.Context, in *wirev1.RedeemRequest) (_ *wirev1.RedeemResponse, err error) {
	_, owner, err := s.admit(ctx)
	defer func() { s.ended("Redeem", caller{peer: nameOf(owner)}, err) }()
	if err != nil {
		return nil, err
	}
	offer, err := offerOf(in)
	if err != nil {
		return nil, err
	}
	for range redeemTries {
		err = s.redeem(ctx, in, offer)
		if !apierrors.IsConflict(err) {
			break
		}
	}
	switch {
	case errors.Is(err, link.ErrRejected):
		return nil, refuse(codes.PermissionDenied, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED,
			"the link token is not valid: it has expired, was used, or is of another cluster; ask for another one")
	case err != nil:
		s.log.Error(err, "What is kept of link tokens cannot be read or written")
		return nil, unavailable("the gateway cannot reach its API server now")
	}
	certificates, err := pki.ParseBundle(offer.CABundle)
	if err != nil {
		return nil, invalid("%v", err)
	}
	s.log.Info("Link token redeemed", "audit", true, "token", hex.EncodeToString(in.GetTokenId()), "name", offer.Name,
		"endpoint", offer.Endpoint, "caFingerprint", pki.Fingerprint(certificates[0]))
	return &wirev1.RedeemResponse{Version: wirev1.Version}, nil
}

// offerOf is what a request hands in, which may be anything.
func offerOf(in *wirev1.RedeemRequest) (link.Offer, error) {
	offer := link.Offer{
		Name: in.GetName(), Endpoint: in.GetEndpoint(), CABundle: in.GetCaBundle(), Seal: in.GetSeal(),
	}
	if err := offer.Check(); err != nil {
		return offer, invalid("%v", err)
	}
	return offer, nil
}

// redeem exchanges what is kept of a token for the offer. It fails with a conflict where the Secret was written at the
// same time, so that of two who redeem one token one wins.
func (s *service) redeem(ctx context.Context, in *wirev1.RedeemRequest, offer link.Offer) error {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.options.Namespace, Name: link.SecretName}
	err := s.options.Reader.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return link.ErrRejected
	}
	if err != nil {
		return err
	}
	data, err := link.Redeem(secret.Data, in.GetTokenId(), in.GetKey(), offer, s.options.Clock.Now())
	if err != nil {
		return err
	}
	secret.Data = data
	return s.options.Client.Update(ctx, secret)
}
