// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentsecret"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// Wanted is what a Queue asks for. It is pure: policies, Tariffs, neighbours, the time, and whether the namespace
// allows privilege, are given.
type Wanted struct {
	Queue  *v1alpha1.Queue
	Policy policy.Resolved
	Config *wirev1.QueueConfig
	// ChannelProblems are, for each channel of the spec, why there is none although the spec asks for it; nil: there is
	// one. The Queue does all else that it is to do.
	ChannelProblems []*agentpod.Problem
	// PolicyProblem is why Policy is the last one that status showed and not what the spec asks for. The Queue does all
	// else that it is to do.
	PolicyProblem *agentpod.Problem

	// Inherited are the least sizes that the Queue has of no policy that it names; nil where it names one.
	Inherited *v1alpha1.QueueInheritedMinSize

	// Files are what members get beside their configuration and certificate: who vouches for the other ends of channels.
	Files map[string][]byte

	neighbours Neighbours
	tariffs    []v1alpha1.Tariff
	now        time.Time
	// record is by which the StatefulSet remembers Config.
	record map[string]string
}

// Want reads a spec, with the prices of now. The problem is why nothing can be made of it; what runs goes on then, see
// Reconciler.keepServing. A policy that was deleted or made unusable is none as long as status has the last one.
func Want(
	queue *v1alpha1.Queue, policies []v1alpha1.CompressionPolicy, tariffs []v1alpha1.Tariff, neighbours Neighbours,
	privilegeAllowed bool, now time.Time,
) (Wanted, *agentpod.Problem) {
	resolved, err := policy.ResolveQueue(queue.UID, queue.Spec.Compression, policies, tariffs)
	policyProblem := agentpod.SpecProblem(err)
	if policyProblem != nil {
		if queue.Status.Policy == nil {
			return Wanted{}, policyProblem
		}
		resolved = policy.Kept(queue.Status.Policy)
	}
	inherited := queue.Status.InheritedMinSize
	if policyProblem == nil {
		inherited = inheritedMinSize(queue, policies)
	}
	if inherited != nil && (queue.Spec.Compression == nil || queue.Spec.Compression.MinSize == nil) {
		resolved.HardwareMinSize, resolved.SoftwareMinSize = inherited.Hardware.Value(), inherited.Software.Value()
	}
	if problem := checkArchiveClaims(queue, neighbours.Claims); problem != nil {
		return Wanted{}, problem
	}
	if problem := checkArchiveStores(queue, neighbours.Stores); problem != nil {
		return Wanted{}, problem
	}
	if problem := agentpod.CheckPrivilege(queue.Spec.PodTemplate, queue.Namespace, privilegeAllowed); problem != nil {
		return Wanted{}, problem
	}
	wanted := Wanted{
		Queue: queue, Policy: resolved, PolicyProblem: policyProblem, Inherited: inherited, neighbours: neighbours,
		tariffs: tariffs, now: now,
	}
	wanted, err = wanted.configured()
	if err != nil {
		return Wanted{}, agentpod.SpecProblem(err)
	}
	return wanted, nil
}

// inheritedMinSize is what status has, or, of a Queue that begins to inherit, what the default policy says now.
func inheritedMinSize(
	queue *v1alpha1.Queue, policies []v1alpha1.CompressionPolicy,
) *v1alpha1.QueueInheritedMinSize {
	if queue.Spec.Compression.Policy() != "" {
		return nil
	}
	if queue.Status.InheritedMinSize != nil {
		return queue.Status.InheritedMinSize
	}
	// Without what the Queue says itself, which it may take back.
	resolved, err := policy.ResolveQueue("", nil, policies, nil)
	if err != nil {
		return nil
	}
	status := resolved.Status()
	return &v1alpha1.QueueInheritedMinSize{Hardware: *status.HardwareMinSize, Software: *status.SoftwareMinSize}
}

// configured fills in what the members are told.
func (w Wanted) configured() (Wanted, error) {
	config, err := configOf(w.Queue, w.Policy.Serving(w.tariffs, "", w.now))
	if err != nil {
		return w, err
	}
	if err := external(config, w.Queue, w.neighbours.NamespaceUID); err != nil {
		return w, err
	}
	if err := archiveStores(config, w.Queue, w.neighbours.Stores); err != nil {
		return w, err
	}
	config.Acceptance = acceptanceOf(w.Queue, w.neighbours)
	config.Dictionaries = wantsDictionaries(w.Queue) && w.neighbours.Dictionaries
	config.DeflateDictionaries = config.GetDictionaries() && w.neighbours.DeflateDictionaries
	w.Config = config
	if err := w.addChannels(); err != nil {
		return w, err
	}
	if config.Revision, err = agentsecret.Revision(config); err != nil {
		return w, err
	}
	w.record, err = w.content().Record()
	return w, err
}

// content of the members' Secret, their identity excepted.
func (w Wanted) content() agentsecret.Content {
	return agentsecret.Content{Config: w.Config, Revision: w.Config.GetRevision(), Files: w.Files}
}

// Placement is what is wanted of nodes.
func (w Wanted) Placement(architectures []string) placement.Request {
	var tolerations []corev1.Toleration
	if template := w.Queue.Spec.PodTemplate; template != nil {
		tolerations = template.Tolerations
	}
	return placement.Request{
		Placement:        w.Policy.Placement,
		Mode:             w.Policy.Mode,
		Codecs:           w.Policy.Codecs,
		Level:            w.Policy.Level,
		SoftwareDisabled: w.Policy.SoftwareDisabled,
		SoftwareEngines:  w.Policy.SoftwareEngines,
		Tolerations:      tolerations,
		Architectures:    architectures,
	}
}

// configOf is what the members are told, channels excepted.
func configOf(queue *v1alpha1.Queue, resolved policy.Resolved) (*wirev1.QueueConfig, error) {
	spec := queue.Spec
	limits, err := limitsOf(spec.Limits)
	if err != nil {
		return nil, err
	}
	if err := checkSize(spec, limits); err != nil {
		return nil, err
	}
	authentication, err := authenticationOf(spec.Authentication)
	if err != nil {
		return nil, err
	}
	config := &wirev1.QueueConfig{
		Queue:              queue.Name,
		ListenAddress:      address(clientPort),
		ServiceAddress:     address(messagesPort),
		ControlAddress:     address(controlPort),
		HealthAddress:      address(healthPort),
		Members:            members(queue),
		Storage:            storageOf(spec.Storage),
		Limits:             limits,
		Compression:        resolved.Wire(),
		CompressionMinSize: minSize(spec.Compression, resolved),
		Authentication:     authentication,
		DuplicateWindow:    durationpb.New(duration(spec.DuplicateWindow, 2*time.Minute)),
		DrainTimeout:       durationpb.New(drainTimeout),
		Redelivery:         redeliveryOf(spec.Redelivery),
		Archive:            archiveOf(spec.Archive),
		Restore:            restoreOf(spec.Restore),
		ResetStatistics:    replicas.ResetRequest(queue),
	}
	if memberCount(spec) > 1 {
		config.RouteAddress = address(routePort)
	}
	if spec.TLS != nil {
		config.ServingDirectory = servingDirectory
	}
	return config, nil
}

func memberCount(spec v1alpha1.QueueSpec) int32 { return max(spec.Replicas, 1) }

// members are the pods that the StatefulSet will have.
func members(queue *v1alpha1.Queue) []*wirev1.QueueMember {
	var all []*wirev1.QueueMember
	set := objectName(queue)
	for i := range memberCount(queue.Spec) {
		name := set + "-" + strconv.Itoa(int(i))
		all = append(all, &wirev1.QueueMember{
			Name: name, RouteAddress: name + "." + set + "." + queue.Namespace + ".svc:" + strconv.Itoa(routePort),
		})
	}
	return all
}

// storageOf leaves a twentieth of a volume to the file system and to what is about the messages. Members leave more if
// the volume turns out to have less than that.
func storageOf(storage v1alpha1.QueueStorage) *wirev1.QueueStorage {
	size := uint64(max(storage.Size.Value(), 0))
	switch spill := storage.Spill; {
	case storage.Type != v1alpha1.QueueStorageMemory:
	case spill == nil:
		return &wirev1.QueueStorage{Directory: dataDirectory, Memory: true, Capacity: size}
	default:
		spilled := uint64(max(spill.Size.Value(), 0))
		return &wirev1.QueueStorage{
			Directory: dataDirectory, Memory: true, Capacity: spilled - spilled/20,
			Spill: &wirev1.QueueSpill{MemoryBytes: size, VolumeBytes: spilled},
		}
	}
	wire := &wirev1.QueueStorage{Directory: dataDirectory, Capacity: size - size/20}
	if sync := storage.Sync; sync != nil && sync.Mode == v1alpha1.QueueSyncAlways {
		wire.SyncAlways = true
	} else if sync != nil && sync.Interval != nil {
		wire.SyncInterval = durationpb.New(sync.Interval.Duration)
	}
	return wire
}

// limitsOf checks a little of what the API server checks: an object may be older than a rule.
func limitsOf(limits v1alpha1.QueueLimits) (*wirev1.QueueLimits, error) {
	wire := &wirev1.QueueLimits{
		MaxMessageSize: 1 << 20,
		Overflow:       wirev1.QueueOverflow_QUEUE_OVERFLOW_REJECT_NEW,
		MaxConnections: uint32(max(limits.MaxConnections, 0)),
	}
	if limits.MaxMessages != nil {
		wire.MaxMessages = uint64(max(*limits.MaxMessages, 0))
	}
	if limits.MaxBytes != nil {
		wire.MaxBytes = uint64(max(limits.MaxBytes.Value(), 0))
	}
	if limits.MaxAge != nil {
		wire.MaxAge = durationpb.New(limits.MaxAge.Duration)
	}
	if limits.MaxMessageSize != nil {
		size := limits.MaxMessageSize.Value()
		if size < 1 {
			return nil, &policy.InvalidError{
				Field: "spec.limits.maxMessageSize", Fix: "must be at least 1Ki; write for example 1Mi",
			}
		}
		wire.MaxMessageSize = uint64(size)
	}
	if wire.MaxBytes > 0 && wire.MaxBytes < wire.MaxMessageSize {
		return nil, &policy.InvalidError{Field: "spec.limits.maxBytes", Fix: fmt.Sprintf("must not be less than "+
			"maxMessageSize, which is %d bytes: a message of that size would never fit; make the one larger or the other "+
			"smaller", wire.MaxMessageSize)}
	}
	if limits.Overflow == v1alpha1.QueueOverflowDropOldest {
		wire.Overflow = wirev1.QueueOverflow_QUEUE_OVERFLOW_DROP_OLDEST
	}
	return wire, nil
}

func authenticationOf(authentication v1alpha1.QueueAuthentication) (*wirev1.QueueAuthentication, error) {
	wire := &wirev1.QueueAuthentication{}
	if authentication.Tokens != nil {
		wire.TokensDirectory = tokensDirectory
		for _, r := range authentication.Tokens.Roles {
			wire.TokenRoles = append(wire.TokenRoles, roleOf(r.Token, r.Operations))
		}
	}
	if certificates := authentication.ClientCertificates; certificates != nil {
		if _, err := pki.ParseBundle(certificates.CABundle); err != nil {
			return nil, &policy.InvalidError{
				Field: "spec.authentication.clientCertificates.caBundle", Fix: "must be CA certificates as PEM: " + err.Error(),
			}
		}
		wire.ClientCaBundle = certificates.CABundle
		for _, r := range certificates.Roles {
			wire.CertificateRoles = append(wire.CertificateRoles, roleOf(r.Certificate, r.Operations))
		}
	}
	return wire, nil
}

func roleOf(client string, operations []v1alpha1.QueueOperation) *wirev1.QueueRole {
	return &wirev1.QueueRole{
		Client: client, Put: slices.Contains(operations, v1alpha1.QueueOperationPut),
		Get: slices.Contains(operations, v1alpha1.QueueOperationGet),
	}
}

// tokenKeys are those of the Secret with tokens that are mounted; none: all are.
func tokenKeys(tokens *v1alpha1.QueueTokens) []string {
	var keys []string
	for _, r := range tokens.Roles {
		if r.Token == "*" {
			return nil
		}
		keys = append(keys, r.Token)
	}
	return keys
}

// redeliveryOf is what becomes of messages that clients of gRPC and HTTP do not acknowledge.
func redeliveryOf(redelivery v1alpha1.QueueRedelivery) *wirev1.QueueRedelivery {
	wire := &wirev1.QueueRedelivery{
		VisibilityTimeout: durationpb.New(duration(redelivery.VisibilityTimeout, 30*time.Second)), MaxDeliveries: 5,
	}
	if redelivery.MaxDeliveries != nil {
		wire.MaxDeliveries = uint32(max(*redelivery.MaxDeliveries, 0))
	}
	return wire
}

// minSize is 0 only where the Queue itself says so, which turns compression off; else no size at all is one byte.
func minSize(inline *v1alpha1.QueueCompression, resolved policy.Resolved) uint64 {
	if inline != nil && inline.MinSize != nil {
		return uint64(max(inline.MinSize.Value(), 0))
	}
	return uint64(max(min(resolved.HardwareMinSize, resolved.SoftwareMinSize), 1))
}

func duration(value *metav1.Duration, built time.Duration) time.Duration {
	if value == nil {
		return built
	}
	return value.Duration
}

func address(port int) string { return ":" + strconv.Itoa(port) }
