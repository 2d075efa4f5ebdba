// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// States of a channel in status.
const (
	channelBlocked    = "Blocked"
	channelConnecting = "Connecting"
	channelRunning    = "Running"
	channelRetrying   = "Retrying"
	channelUnknown    = "Unknown"
)

// channelStates are those of members that send.
var channelStates = map[wirev1.ChannelState]string{
	wirev1.ChannelState_CHANNEL_STATE_CONNECTING: channelConnecting,
	wirev1.ChannelState_CHANNEL_STATE_RUNNING:    channelRunning,
	wirev1.ChannelState_CHANNEL_STATE_RETRYING:   channelRetrying,
}

// sender is what the member says that sends, nil if none does: the one that leads, else, while members do not agree on
// that, one that runs.
func sender(members []Member) *wirev1.ChannelStatus {
	var found *wirev1.ChannelStatus
	leader := contentOf(members).GetLeader()
	for _, member := range members {
		channel := member.Report.GetChannel()
		if channelStates[channel.GetState()] == "" {
			continue
		}
		if member.Pod.Name == leader {
			return channel
		}
		if found == nil || channel.GetState() == wirev1.ChannelState_CHANNEL_STATE_RUNNING {
			found = channel
		}
	}
	return found
}

// channelStillNeedsSomebody are the reasons, beside those of Transfers, that a channel meets again until somebody has
// acted.
var channelStillNeedsSomebody = []string{
	v1alpha1.ReasonSourceInUse, v1alpha1.ReasonSourceChanged, v1alpha1.ReasonSourceNotReadable,
	v1alpha1.ReasonDestinationNotWritable,
	v1alpha1.ReasonInvalidData,
}

// checkChannel is about the channel to another Queue. Clients are served whatever becomes of it.
func checkChannel(queue *v1alpha1.Queue, wanted *Wanted, facts Facts) []metav1.Condition {
	if queue.Spec.Channel == nil {
		return nil
	}
	if problem := wanted.ChannelProblem; problem != nil {
		return conditions.Stalled(problem.Reason, problem.Message)
	}
	channel := sender(facts.Members)
	switch {
	case channel == nil:
		return conditions.Reconciling(
			v1alpha1.ReasonChannelConnecting,
			fmt.Sprintf("the member that leads does not send to %s yet; messages wait in this Queue", destination(queue)),
		)
	case channel.GetState() == wirev1.ChannelState_CHANNEL_STATE_RUNNING:
		return nil
	case channel.GetState() == wirev1.ChannelState_CHANNEL_STATE_CONNECTING || channel.GetLastError() == nil:
		return conditions.Reconciling(
			v1alpha1.ReasonChannelConnecting,
			fmt.Sprintf("the channel to %s is being set up; messages wait in this Queue", destination(queue)),
		)
	}
	reason := agentreport.FailureReason(channel.GetLastError().GetReason())
	message := fmt.Sprintf("clients are served and messages wait in this Queue, because the channel to %s does not run "+
		"and is tried again: %s",
		destination(queue), channel.GetLastError().GetMessage())
	if attempt.NeedsSomebody(reason) || slices.Contains(channelStillNeedsSomebody, reason) {
		return conditions.Stalled(reason, message)
	}
	return conditions.Reconciling(reason, message)
}

// channelCompression says whether a channel that runs compresses. What was said of it stays while it does not run.
func channelCompression(queue *v1alpha1.Queue, wanted *Wanted, members []Member) []metav1.Condition {
	channel := sender(members)
	if queue.Spec.Channel == nil || wanted == nil || wanted.Config.GetChannel() == nil ||
		channel.GetState() != wirev1.ChannelState_CHANNEL_STATE_RUNNING || channel.GetCodec() == "" {
		return nil
	}
	offered := slices.DeleteFunc(slices.Clone(wanted.Config.GetChannel().GetCodecs()), func(name string) bool {
		return name == codecNone
	})
	one := func(status bool, reason, format string, args ...any) []metav1.Condition {
		return []metav1.Condition{
			conditions.New(v1alpha1.ConditionChannelCompression, status, reason, fmt.Sprintf(format, args...)),
		}
	}
	at := slices.Index(offered, channel.GetCodec())
	switch {
	case at > 0:
		return one(
			true, v1alpha1.ReasonNegotiated, "messages travel in %s: %s does not accept %s", channel.GetCodec(),
			destination(queue), strings.Join(offered[:at], ", "),
		)
	case channel.GetCodec() != codecNone:
		return one(true, v1alpha1.ReasonNegotiated, "messages travel in %s", channel.GetCodec())
	case len(offered) == 0:
		return one(
			false, v1alpha1.ReasonNoCodings,
			"messages travel uncompressed: spec.channel.codings offers nothing else, or is absent where messages are not "+
				"stored compressed either",
		)
	}
	return one(false, v1alpha1.ReasonCodingsRefused, "messages travel uncompressed: %s accepts none of %s; let its "+
		"spec.receiving accept one of them, or offer others in spec.channel.codings", destination(queue),
		strings.Join(offered, ", "))
}

// codecNone is the name of the codec that leaves messages as they are.
const codecNone = "none"

// channelStatus is what status shows of the channel. Counts change when statistics are refreshed, the rest at once.
func channelStatus(
	queue *v1alpha1.Queue, wanted *Wanted, members []Member, present *v1alpha1.QueueChannelStatus, refresh bool,
) *v1alpha1.QueueChannelStatus {
	if queue.Spec.Channel == nil {
		return nil
	}
	channel := sender(members)
	now := channelCounts(members, channel)
	now.Destination, now.State, now.NegotiatedCodec = destination(queue), channelUnknown, channel.GetCodec()
	now.NegotiatedLevel = negotiatedLevel(channel)
	switch {
	case wanted != nil && wanted.ChannelProblem != nil:
		now.State = channelBlocked
	case channel != nil:
		now.State = channelStates[channel.GetState()]
	}
	if refresh || present == nil {
		return now
	}
	kept := present.DeepCopy()
	kept.Destination, kept.State, kept.NegotiatedCodec = now.Destination, now.State, now.NegotiatedCodec
	kept.NegotiatedLevel = now.NegotiatedLevel
	if now.LastError != nil && (kept.LastError == nil || kept.LastError.Reason != now.LastError.Reason) {
		kept.LastError, kept.NextTryTime = now.LastError, now.NextTryTime
	}
	return kept
}

// negotiatedLevel is absent while nothing is compressed.
func negotiatedLevel(channel *wirev1.ChannelStatus) v1alpha1.CompressionLevel {
	for level, wire := range attempt.Levels {
		if wire == channel.GetLevel() {
			return level
		}
	}
	return ""
}

// channelCounts sums up over the members: each may have been the one that sends. channel is what that says which is it
// now.
func channelCounts(members []Member, channel *wirev1.ChannelStatus) *v1alpha1.QueueChannelStatus {
	var all wirev1.ChannelStatus
	for _, member := range members {
		one := member.Report.GetChannel()
		all.Messages += one.GetMessages()
		all.Batches += one.GetBatches()
		all.PayloadBytes += one.GetPayloadBytes()
		all.PlainBytes += one.GetPlainBytes()
		all.Recoded += one.GetRecoded()
		all.DeadLetters += one.GetDeadLetters()
		all.WireBytes += one.GetWireBytes()
		all.Starts += one.GetStarts()
		if one.GetLastError() != nil && (all.LastError == nil ||
			one.GetLastErrorTime().AsTime().After(all.GetLastErrorTime().AsTime())) {
			all.LastError, all.LastErrorTime = one.GetLastError(), one.GetLastErrorTime()
		}
	}
	if channel.GetLastError() != nil {
		all.LastError, all.LastErrorTime = channel.GetLastError(), channel.GetLastErrorTime()
	}
	clamp := replicas.Clamp
	return &v1alpha1.QueueChannelStatus{
		MessagesPerSecond: perSecond(channel.GetMilliMessagesPerSecond()),
		Decisions:         agentreport.DecisionsStatus([]*wirev1.Decisions{channel.GetDecisions()}),
		Messages:          clamp(all.GetMessages()),
		Batches:           clamp(all.GetBatches()),
		InDoubt:           clamp(channel.GetInDoubt()),
		UncompressedBytes: clamp(all.GetPlainBytes()),
		Bytes:             clamp(all.GetPayloadBytes()),
		Ratio:             replicas.Ratio(all.GetPlainBytes(), all.GetPayloadBytes()),
		Recoded:           clamp(all.GetRecoded()),
		DeadLetters:       clamp(all.GetDeadLetters()),
		WireBytes:         clamp(all.GetWireBytes()),
		Starts:            clamp(all.GetStarts()),
		LastError:         channelError(all.GetLastError(), all.GetLastErrorTime()),
		NextTryTime:       seconds(channel.GetNextTryTime()),
	}
}

func channelError(failure *wirev1.Failure, at *timestamppb.Timestamp) *v1alpha1.ChannelError {
	if failure == nil {
		return nil
	}
	return &v1alpha1.ChannelError{
		Reason: agentreport.FailureReason(
			failure.GetReason(),
		), Message: conditions.Shorten(failure.GetMessage()), Time: seconds(at),
	}
}

func seconds(at *timestamppb.Timestamp) *metav1.Time {
	if at == nil {
		return nil
	}
	return &metav1.Time{Time: at.AsTime().Truncate(time.Second)}
}

// receivedStatus sums up over the members what each has received from a Queue.
func receivedStatus(members []Member) []v1alpha1.ReceivedChannel {
	var list []v1alpha1.ReceivedChannel
	for _, member := range members {
		for _, one := range member.Report.GetReceived() {
			source := one.GetPeer() + "/" + one.GetNamespace() + "/" + one.GetQueue()
			if len(source) > maxSourceLength {
				continue // No Queue has such a name; a peer may claim any.
			}
			i := slices.IndexFunc(list, func(c v1alpha1.ReceivedChannel) bool { return c.Source == source })
			if i < 0 {
				list, i = append(list, v1alpha1.ReceivedChannel{Source: source}), len(list)
			}
			addReceived(&list[i], one)
		}
	}
	slices.SortFunc(list, func(a, b v1alpha1.ReceivedChannel) int {
		if a.Connected != b.Connected {
			if a.Connected {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Source, b.Source)
	})
	list = list[:min(len(list), maxReceivedShown)]
	slices.SortFunc(list, func(a, b v1alpha1.ReceivedChannel) int { return cmp.Compare(a.Source, b.Source) })
	return list
}

func addReceived(all *v1alpha1.ReceivedChannel, one *wirev1.ReceivedChannel) {
	clamp := replicas.Clamp
	position := clamp(one.GetPosition())
	switch {
	case one.GetConnected():
		// A member that it came to earlier may know another epoch, or an older position.
		all.Connected, all.NegotiatedCodec, all.Position = true, one.GetCodec(), position
	case !all.Connected:
		all.Position = max(all.Position, position)
	}
	all.Messages += clamp(one.GetMessages())
	all.Batches += clamp(one.GetBatches())
	all.Bytes += clamp(one.GetPayloadBytes())
	if failed := channelError(one.GetLastError(), one.GetLastErrorTime()); failed != nil &&
		(all.LastError == nil || all.LastError.Time.Before(failed.Time)) {
		all.LastError = failed
	}
}
