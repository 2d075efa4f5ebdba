// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package receipt is what the clusters at both ends of a run sign at its end: the form of receipts, how they are signed
// and how they are verified. It is pure: no clock, no network, no cluster.
//
// A receipt is a DSSE envelope around an in-toto Statement. Its subject is the content manifest of the run (package
// agent/wire/contents), its predicate is Predicate. The envelope has two Ed25519 signatures over one payload, the
// sending cluster's first. A signature vouches for the part of its own side, which the signer observed; the other part
// is what the other side claims of itself.
//
//	receiver: Receiver, its own part   ──>  sender: Offer, both parts with one signature
//	receiver: Countersign              <──  sender
//	receiver: both signatures          ──>  sender: Complete
package receipt
