// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons why a block of data took the path it took: keys of status.compression.reasons and skipped, values of
// status.compression.reason and of the condition HardwareCompression.
const (
	// CompressionHardwareUsed: the accelerator compressed.
	CompressionHardwareUsed = "HardwareUsed"
	// CompressionSoftwareUsed: software compressed, as the policy asked.
	CompressionSoftwareUsed = "SoftwareUsed"
	// CompressionNoAccelerator: software compressed because the node has no accelerator that is known to work.
	CompressionNoAccelerator = "NoAccelerator"
	// CompressionSelfTestFailed: software compressed, because the node's accelerator did not pass the proof that it is
	// used, or the library did not use it.
	CompressionSelfTestFailed = "SelfTestFailed"
	// CompressionLevelNotAccelerated: software compressed because the accelerator does not do the policy's level.
	CompressionLevelNotAccelerated = "LevelNotAccelerated"
	// CompressionCodecNotAccelerated: software compressed because the codec agreed with the peer is one that no
	// accelerator does.
	CompressionCodecNotAccelerated = "CodecNotAccelerated"
	// CompressionBelowMinimum: not attempted, because the data is smaller than minSize.
	CompressionBelowMinimum = "BelowMinimum"
	// CompressionSoftwareDisabled: not attempted, because the node has no accelerator and the policy, or
	// spec.compression.software, disables software.
	CompressionSoftwareDisabled = "SoftwareDisabled"
	// CompressionIncompressible: not attempted, because a sample predicted that the data would not shrink enough.
	CompressionIncompressible = "Incompressible"
	// CompressionNetworkFaster: not attempted; the objective is Elapsed, and the network and the receiver handle the
	// data sooner uncompressed than they could be compressed. Of HTTP bodies and messages see status.decisions.
	CompressionNetworkFaster = "NetworkFaster"
	// CompressionDiskFaster: not attempted, of messages: the objective is Elapsed, and the volume or the memory that keeps
	// messages takes those like this one sooner uncompressed than they could be compressed. See status.decisions.
	CompressionDiskFaster = "DiskFaster"
	// CompressionDidNotShrink: attempted; the result was not smaller, so the data was sent or stored uncompressed.
	CompressionDidNotShrink = "DidNotShrink"
	// CompressionPolicyNever: not attempted, because the policy's mode is Never.
	CompressionPolicyNever = "PolicyNever"
	// CompressionPeerRefused: not attempted, because the peer accepts none of the policy's codecs or, of an
	// HTTPEndpoint, the client none of its codings.
	CompressionPeerRefused = "PeerRefused"
	// CompressionNoNetwork: not attempted, because the policy's mode is Auto and one pod copies from claim to claim, so
	// there is no network traffic to save.
	CompressionNoNetwork = "NoNetwork"
	// CompressionStoredAsIs: not attempted, because the data became objects that other tools read.
	CompressionStoredAsIs = "StoredAsIs"
	// CompressionAlreadyCompressed: not attempted, because the data travels compressed as it rests at the source.
	CompressionAlreadyCompressed = "AlreadyCompressed"
	// CompressionOtherContentType: not attempted; spec.contentTypes does not list the type of the body.
	CompressionOtherContentType = "OtherContentType"
	// CompressionAlreadyEncoded: not attempted, because the backend had encoded the body, or the client published the
	// message compressed.
	CompressionAlreadyEncoded = "AlreadyEncoded"
	// CompressionNoTransform: not attempted, because the client or the backend forbids it by Cache-Control:
	// no-transform.
	CompressionNoTransform = "NoTransform"
	// CompressionPartialContent: not attempted, because the response is partial (206).
	CompressionPartialContent = "PartialContent"
	// CompressionCrossSiteCookie: not attempted, because the response sets a cookie with SameSite=None, or any cookie
	// in answer to a request from another site.
	CompressionCrossSiteCookie = "CrossSiteCookie"
	// CompressionBusy: not attempted; as many bodies as spec.limits.maxCompressions allows were being compressed.
	CompressionBusy = "Busy"
	// CompressionCPUBudget: not attempted. Of files: compressing would take more CPU time than it saves, by the prices
	// where the objective is Cost, in itself where it is CPU; where it is Elapsed, the sender's cores are too busy with
	// other work. Of HTTP bodies: compressing had taken its share of the CPU, spec.limits.compressionCPUPercent.
	CompressionCPUBudget = "CPUBudget"
	// CompressionCPUDearer: not attempted, of HTTP bodies and messages: compressing those like this one takes more CPU
	// time than sending and storing fewer bytes saves, by the prices where the objective is Cost, in itself where it is
	// CPU; where it is Elapsed, the replica's cores are too busy with other work. See status.decisions.
	CompressionCPUDearer = "CPUDearer"
	// CompressionAcceleratorBusy: software compressed, because the accelerator takes several times as long as before,
	// as it does when others use it.
	CompressionAcceleratorBusy = "AcceleratorBusy"
	// CompressionAcceleratorShare: software compressed, because the agent had used its share of the node's accelerator,
	// which agents of the node share by the weights of their namespaces, and others on the machine use as well.
	CompressionAcceleratorShare = "AcceleratorShare"
	// CompressionEngineFailed: the engine failed, and the data was sent or stored uncompressed.
	CompressionEngineFailed = "EngineFailed"
	// CompressionOff: not attempted, minSize of the Queue is 0.
	CompressionOff = "CompressionOff"
	// CompressionNothingToSend: nothing had to be sent, so nothing was decided.
	CompressionNothingToSend = "NothingToSend"
)
