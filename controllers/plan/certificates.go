// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"path"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/pki"
)

// RunClaims say what the sending agent of the run in status may ask for; who may be asked is left to who knows the
// Peer.
func RunClaims(transfer *v1alpha1.Transfer) *pki.RunClaims {
	if UsesStore(transfer) || Scrubs(transfer) {
		return nil // It asks nobody for anything.
	}
	destination := transfer.Spec.Destination.PersistentVolumeClaim
	return &pki.RunClaims{
		Run:        transfer.Status.Run.ID,
		Namespace:  DestinationNamespace(transfer),
		Claim:      destination.ClaimName,
		Path:       path.Clean("/" + destination.Path),
		Delete:     transfer.Spec.Delete,
		Privileged: agentpod.AsksToWrite(transfer.Spec.PodTemplate),
	}
}

// renew has the certificate of the agent renewed when it is due. Without its Peer nobody is left who would accept it.
func (d *transferDecision) renew() {
	if d.shares() || d.out.Start != nil || d.out.Finished != nil || !IsLocal(d.transfer) && d.facts.Peer == nil {
		return
	}
	run := d.transfer.Status.Run
	d.out.Renew = attempt.Certify(run, d.facts.Now, d.facts.CertificateLifetime)
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, attempt.UntilRenewal(run, d.facts.Now,
		d.facts.CertificateLifetime))
}
