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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
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

// said is what a member says of a channel.
func said(r *wirev1.QueueReport, queue *v1alpha1.Queue, channel v1alpha1.QueueChannel) *wirev1.ChannelStatus {
	if queue.Spec.Channel != nil {
		return r.GetChannel()
	}
	name := destination(queue, channel)
	for _, one := range r.GetChannels() {
		if one.GetName() == name {
			return one
		}
	}
	return nil
}

// sender is what the member says of a channel that sends, nil if none does: the one that leads, else, while members do
// not agree on that, one that runs.
func sender(members []Member, queue *v1alpha1.Queue, of v1alpha1.QueueChannel) *wirev1.ChannelStatus {
	var found *wirev1.ChannelStatus
	leader := contentOf(members).GetLeader()
	for _, member := range members {
		channel := said(member.Report, queue, of)
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

// checkChannels is about the channels to other Queues: the first for which somebody has to act, else the first that does
// not run. Clients may put whatever becomes of them.
func checkChannels(queue *v1alpha1.Queue, wanted *Wanted, facts Facts) []metav1.Condition {
	var found []metav1.Condition
	for i, channel := range queue.Spec.SendingChannels() {
		one := checkChannel(queue, channel, wanted.channelProblem(i), facts.Members)
		if meta.IsStatusConditionTrue(one, v1alpha1.ConditionStalled) {
			return one
		}
		if found == nil {
			found = one
		}
	}
	return found
}

func checkChannel(
	queue *v1alpha1.Queue, spec v1alpha1.QueueChannel, problem *agentpod.Problem, members []Member,
) []metav1.Condition {
	if problem != nil {
		return conditions.Stalled(problem.Reason, problem.Message)
	}
	channel, destination := sender(members, queue, spec), destination(queue, spec)
	switch {
	case channel == nil:
		return conditions.Reconciling(
			v1alpha1.ReasonChannelConnecting,
			fmt.Sprintf("the member that leads does not send to %s yet; messages wait in this Queue", destination),
		)
	case channel.GetState() == wirev1.ChannelState_CHANNEL_STATE_RUNNING:
		return nil
	case channel.GetState() == wirev1.ChannelState_CHANNEL_STATE_CONNECTING || channel.GetLastError() == nil:
		return conditions.Reconciling(
			v1alpha1.ReasonChannelConnecting,
			fmt.Sprintf("the channel to %s is being set up; messages wait in this Queue", destination),
		)
	}
	reason := agentreport.FailureReason(channel.GetLastError().GetReason())
	message := fmt.Sprintf("clients are served and messages wait in this Queue, because the channel to %s does not run "+
		"and is tried again: %s",
		destination, channel.GetLastError().GetMessage())
	if attempt.NeedsSomebody(reason) || slices.Contains(channelStillNeedsSomebody, reason) {
		return conditions.Stalled(reason, message)
	}
	return conditions.Reconciling(reason, message)
}

// channelCompression says whether channels that run compress: what is to be said of the first that does not, else of
// all. What was said stays while none runs.
func channelCompression(queue *v1alpha1.Queue, wanted *Wanted, members []Member) []metav1.Condition {
	if wanted == nil {
		return nil
	}
	var messages []string
	configs := wanted.Config.GetChannels()
	if queue.Spec.Channel != nil {
		configs = []*wirev1.ChannelConfig{wanted.Config.GetChannel()}
	}
	for i, spec := range queue.Spec.SendingChannels() {
		channel := sender(members, queue, spec)
		if channel.GetState() != wirev1.ChannelState_CHANNEL_STATE_RUNNING || channel.GetCodec() == "" || i >= len(configs) ||
			wanted.channelProblem(i) != nil {
			continue
		}
		ok, reason, message := codecInUse(
			destination(queue, spec), channelField(queue)+".codings", configs[i].GetCodecs(), channel.GetCodec(),
		)
		if !ok {
			return []metav1.Condition{conditions.New(v1alpha1.ConditionChannelCompression, false, reason, message)}
		}
		if !slices.Contains(messages, message) {
			messages = append(messages, message)
		}
	}
	if messages == nil {
		return nil
	}
	return []metav1.Condition{conditions.New(
		v1alpha1.ConditionChannelCompression, true, v1alpha1.ReasonNegotiated, strings.Join(messages, "; "),
	)}
}

// codecInUse says whether a channel compresses, and why.
func codecInUse(destination, field string, codecs []string, inUse string) (ok bool, reason, message string) {
	offered := slices.DeleteFunc(slices.Clone(codecs), func(name string) bool { return name == codecNone })
	at := slices.Index(offered, inUse)
	switch {
	case at > 0:
		return true, v1alpha1.ReasonNegotiated, fmt.Sprintf(
			"messages travel in %s: %s does not accept %s", inUse, destination, strings.Join(offered[:at], ", "),
		)
	case inUse != codecNone:
		return true, v1alpha1.ReasonNegotiated, "messages travel in " + inUse
	case len(offered) == 0:
		return false, v1alpha1.ReasonNoCodings,
			"messages travel to " + destination + " uncompressed: " + field + " offers nothing else, or is absent where " +
				"messages are not stored compressed either"
	}
	return false, v1alpha1.ReasonCodingsRefused, fmt.Sprintf(
		"messages travel uncompressed: %s accepts none of %s; let its spec.receiving accept one of them, or offer others in "+
			"%s", destination, strings.Join(offered, ", "), field,
	)
}

// codecNone is the name of the codec that leaves messages as they are.
const codecNone = "none"

// channelProblem is why a channel of the spec cannot be set up; nil: it can, or nothing is wanted.
func (w *Wanted) channelProblem(i int) *agentpod.Problem {
	if w == nil || i >= len(w.ChannelProblems) {
		return nil
	}
	return w.ChannelProblems[i]
}

// blocked counts the channels that cannot be set up.
func (w *Wanted) blocked() (n int) {
	if w == nil {
		return 0
	}
	for _, problem := range w.ChannelProblems {
		if problem != nil {
			n++
		}
	}
	return n
}

// showChannels writes what status shows of channels.
func showChannels(
	status *v1alpha1.QueueStatus, queue *v1alpha1.Queue, wanted *Wanted, members []Member, refresh bool,
) {
	before := status.Channels
	if status.Channel != nil {
		before = append(before, *status.Channel)
	}
	status.Channel, status.Channels = nil, nil
	for i, channel := range queue.Spec.SendingChannels() {
		var present *v1alpha1.QueueChannelStatus
		name := destination(queue, channel)
		if at := slices.IndexFunc(before, func(s v1alpha1.QueueChannelStatus) bool { return s.Destination == name }); at >= 0 {
			present = &before[at]
		}
		now := channelStatus(queue, channel, members, present, refresh)
		if wanted.channelProblem(i) != nil {
			now.State = channelBlocked
		}
		if queue.Spec.Channel != nil {
			status.Channel = now
		} else {
			status.Channels = append(status.Channels, *now)
		}
	}
}

// channelStatus is what status shows of a channel. Counts change when statistics are refreshed, the rest at once.
func channelStatus(
	queue *v1alpha1.Queue, spec v1alpha1.QueueChannel, members []Member, present *v1alpha1.QueueChannelStatus, refresh bool,
) *v1alpha1.QueueChannelStatus {
	channel := sender(members, queue, spec)
	now := channelCounts(members, queue, spec, channel)
	now.Destination, now.State, now.NegotiatedCodec = destination(queue, spec), channelUnknown, channel.GetCodec()
	now.NegotiatedLevel, now.DataPath = negotiatedLevel(channel), channelPath(channel)
	if channel != nil {
		now.State = channelStates[channel.GetState()]
	}
	if refresh || present == nil {
		return now
	}
	kept := present.DeepCopy()
	kept.Destination, kept.State, kept.NegotiatedCodec = now.Destination, now.State, now.NegotiatedCodec
	kept.NegotiatedLevel, kept.DataPath = now.NegotiatedLevel, now.DataPath
	if now.LastError != nil && (kept.LastError == nil || kept.LastError.Reason != now.LastError.Reason) {
		kept.LastError, kept.NextTryTime = now.LastError, now.NextTryTime
	}
	return kept
}

// channelPath is nil while the channel does not run.
func channelPath(channel *wirev1.ChannelStatus) *v1alpha1.DataPath {
	if channel.GetState() != wirev1.ChannelState_CHANNEL_STATE_RUNNING {
		return nil
	}
	return agentreport.DataPath(channel.GetDataPath())
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
func channelCounts(
	members []Member, queue *v1alpha1.Queue, spec v1alpha1.QueueChannel, channel *wirev1.ChannelStatus,
) *v1alpha1.QueueChannelStatus {
	var all wirev1.ChannelStatus
	for _, member := range members {
		one := said(member.Report, queue, spec)
		all.Messages += one.GetMessages()
		all.Batches += one.GetBatches()
		all.PayloadBytes += one.GetPayloadBytes()
		all.PlainBytes += one.GetPlainBytes()
		all.Recoded += one.GetRecoded()
		all.DeadLetters += one.GetDeadLetters()
		all.Dictionaries += one.GetDictionaries()
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
		Decisions:         agentreport.DecisionsStatus([]*wirev1.Decisions{channel.GetDecisions()}, nil),
		Position:          clamp(channel.GetPosition()),
		Messages:          clamp(all.GetMessages()),
		Batches:           clamp(all.GetBatches()),
		InDoubt:           clamp(channel.GetInDoubt()),
		UncompressedBytes: clamp(all.GetPlainBytes()),
		Bytes:             clamp(all.GetPayloadBytes()),
		Dictionaries:      clamp(all.GetDictionaries()),
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
			source := strings.TrimPrefix(one.GetPeer()+"/", "/") + one.GetNamespace() + "/" + one.GetQueue()
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
	all.Dictionaries += clamp(one.GetDictionaries())
	if failed := channelError(one.GetLastError(), one.GetLastErrorTime()); failed != nil &&
		(all.LastError == nil || all.LastError.Time.Before(failed.Time)) {
		all.LastError = failed
	}
}
