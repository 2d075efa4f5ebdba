// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of Peer, PeerGrant, NodeProfile, CompressionPolicy, LocalCompressionPolicy and DataQuota conditions.
const (
	// ReasonInForce (DataQuota): the limits apply.
	ReasonInForce = "InForce"
	// ReasonReachable (Peer): the peer's gateway answered and accepted this cluster's certificate.
	ReasonReachable = "Reachable"
	// ReasonReceiveOnly (Peer): the Peer has no endpoint: runs from it are accepted, none can be sent to it.
	ReasonReceiveOnly = "ReceiveOnly"
	// ReasonInvalidCABundle (Peer, Transfer, Delivery): spec.caBundle of the Peer holds no usable CA certificate.
	ReasonInvalidCABundle = "InvalidCABundle"
	// ReasonDuplicateCA (Peer): another Peer holds the same CA, so that the two cannot be told apart. Delete one of
	// them.
	ReasonDuplicateCA = "DuplicateCA"
	// ReasonReferencesResolved (PeerGrant): everything that the grant names exists.
	ReasonReferencesResolved = "ReferencesResolved"
	// ReasonReferenceNotFound (PeerGrant): something that the grant names does not exist yet.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonGrantExpired (PeerGrant): spec.expirationTime has passed.
	ReasonGrantExpired = "GrantExpired"
	// ReasonMeasured (NodeProfile): the node agent measured, and the figures are in status.
	ReasonMeasured = "Measured"
	// ReasonNodeAgentUnreachable (NodeProfile): the node agent does not answer. The figures are the last known ones.
	ReasonNodeAgentUnreachable = "NodeAgentUnreachable"
	// ReasonNodeAgentSilent (NodeProfile): the node agent has not answered for 10 minutes or longer. Agents are placed
	// as on a node without an accelerator.
	ReasonNodeAgentSilent = "NodeAgentSilent"
	// ReasonImplausibleMeasurement (NodeProfile): the node agent reported impossible figures. The figures are the last
	// plausible ones, and agents are placed as on a node without an accelerator.
	ReasonImplausibleMeasurement = "ImplausibleMeasurement"
	// ReasonNodeBusy (NodeProfile): what the network costs was not measured, because others use too much of the
	// processors' time. It is in status.network.
	ReasonNodeBusy = "NodeBusy"
	// ReasonKernelChanged (NodeProfile): the node was measured again, because its kernel changed. It is in
	// status.lastChange.
	ReasonKernelChanged = "KernelChanged"
	// ReasonImageChanged (NodeProfile): the same for the agent's image.
	ReasonImageChanged = "ImageChanged"
	// ReasonCPUModelChanged (NodeProfile): the same for the processor.
	ReasonCPUModelChanged = "CPUModelChanged"
	// ReasonAccepted (CompressionPolicy, LocalCompressionPolicy, Tariff): the object can be used.
	ReasonAccepted = "Accepted"
	// ReasonMultipleDefaults (CompressionPolicy, Tariff): more than one object of the kind is annotated as the default.
	// The oldest is used.
	ReasonMultipleDefaults = "MultipleDefaults"
	// ReasonTariffNotFound (CompressionPolicy): the Tariff that spec.tariffName names does not exist, so that nothing is
	// priced. Create it or correct the name.
	ReasonTariffNotFound = "TariffNotFound"
	// ReasonTariffInvalid (CompressionPolicy): a value of the Tariff that applies cannot be used, so that nothing is
	// priced. The message says which one and what to write.
	ReasonTariffInvalid = "TariffInvalid"
	// ReasonCurrencyMismatch (CompressionPolicy): spec.prices and the Tariff that spec.tariffName names are in different
	// currencies, so that costs of this policy cannot be compared with others. Change one of them.
	ReasonCurrencyMismatch = "CurrencyMismatch"
	// ReasonCanaryMeasuring (CompressionPolicy): objects in the canary are compared with the others.
	ReasonCanaryMeasuring = "CanaryMeasuring"
	// ReasonCanaryPromoted (CompressionPolicy): the canary is within spec.canary.maxCostIncreasePercent, so that all
	// objects use its settings. Write them into the spec and remove spec.canary.
	ReasonCanaryPromoted = "CanaryPromoted"
	// ReasonCanaryRolledBack (CompressionPolicy): the canary takes more than spec.canary.maxCostIncreasePercent allows, so
	// that no object uses its settings. Remove spec.canary, or try others.
	ReasonCanaryRolledBack = "CanaryRolledBack"
	// ReasonCanaryTooLittle (CompressionPolicy): too few objects, or those of too few namespaces, moved enough on one of
	// the sides, so that no object uses the settings of the canary. Give it a longer duration or a larger share.
	ReasonCanaryTooLittle = "CanaryTooLittle"
	// ReasonCanaryUndecided (CompressionPolicy): objects differ too much to say whether the canary is within its bound, so
	// that no object uses its settings. Give it a longer duration, a larger share or a higher bound.
	ReasonCanaryUndecided = "CanaryUndecided"
)
