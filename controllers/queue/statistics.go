// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/usage"
)

// contentOf is what the queue holds in the words of the member that leads, else of the one that knows of most; nil if
// none says so.
func contentOf(members []Member) *wirev1.QueueContent {
	var best *wirev1.QueueContent
	for _, member := range members {
		content := member.Report.GetContent()
		if content == nil {
			continue
		}
		if content.GetLeader() != "" && content.GetLeader() == member.Pod.Name {
			return content
		}
		if best == nil || content.GetLastSequence() > best.GetLastSequence() {
			best = content
		}
	}
	return best
}

// totals are the sums of what members report.
type totals struct {
	replicas.Sum
	statistics *wirev1.QueueStatistics
	decisions  []*wirev1.Decisions
	// countedBytes are the recent plain bytes of members that say how many messages these are of.
	countedBytes uint64
}

// sum adds up the members that count.
func sum(members []Member) *totals {
	t := &totals{statistics: &wirev1.QueueStatistics{
		Puts: &wirev1.QueueRate{}, Gets: &wirev1.QueueRate{}, Compressions: &wirev1.QueueRate{},
		Decompressions: &wirev1.QueueRate{},
	}}
	for _, member := range members {
		r := member.Report
		if r.GetStatistics() == nil {
			continue
		}
		t.addStatistics(r.GetStatistics())
		t.decisions = append(t.decisions, r.GetDecisions())
		t.Add(counters(r).Report, r.GetStatistics().GetReset_(), member.Network)
	}
	return t
}

// counters of a member. Its bytes on the wire are those with everybody but the other members.
func counters(r *wirev1.QueueReport) replicas.Counters {
	// Bytes of channels with other clusters, and within this one.
	peers, own := r.GetReceivedWireBytes(), r.GetOwnReceivedWireBytes()
	for _, channel := range append([]*wirev1.ChannelStatus{r.GetChannel()}, r.GetChannels()...) {
		if channel.GetOwnCluster() {
			own += channel.GetWireBytes()
		} else {
			peers += channel.GetWireBytes()
		}
	}
	return replicas.Counters{
		Report: &wirev1.Report{
			Compression: r.GetCompression(), Decompression: r.GetDecompression(), Cpu: r.GetCpu(),
			WireBytes: r.GetWireBytes() + peers + own, Traffic: r.GetTraffic(), Store: r.GetStore(),
		},
		ChannelBytes: peers, GatewayBytes: r.GetReceivedWireBytes(), Since: r.GetStatistics().GetSince(),
	}
}

func (t *totals) addStatistics(s *wirev1.QueueStatistics) {
	all := t.statistics
	addRate(all.Puts, s.GetPuts())
	addRate(all.Gets, s.GetGets())
	addRate(all.Compressions, s.GetCompressions())
	addRate(all.Decompressions, s.GetDecompressions())
	all.CompressedPlainBytes += s.GetCompressedPlainBytes()
	all.CompressedBytes += s.GetCompressedBytes()
	all.RecentPlainBytes += s.GetRecentPlainBytes()
	all.RecentBytes += s.GetRecentBytes()
	if n := s.GetRecentOperations(); n > 0 {
		all.RecentOperations += n
		t.countedBytes += s.GetRecentPlainBytes()
	}
	all.RecentTried += s.GetRecentTried()
	all.RecentTriedNanos += s.GetRecentTriedNanos()
	all.Tried += s.GetTried()
	all.TriedNanos += s.GetTriedNanos()
	all.StoredFormGets += s.GetStoredFormGets()
	all.RefusedPuts += s.GetRefusedPuts()
	all.Duplicates += s.GetDuplicates()
	all.Connections += s.GetConnections()
	all.HighWaterConnections += s.GetHighWaterConnections()
	all.Opened += s.GetOpened()
	all.Closed += s.GetClosed()
	all.RefusedConnections += s.GetRefusedConnections()
	all.FailedAuthentications += s.GetFailedAuthentications()
	all.ForbiddenRequests += s.GetForbiddenRequests()
	addKnown(&all.FileBlocks, s.FileBlocks)
	addKnown(&all.FileBytes, s.FileBytes)
	addKnown(&all.MemoryBytes, s.MemoryBytes)
	addKnown(&all.Sweeps, s.Sweeps)
	addKnown(&all.AbortedSweeps, s.AbortedSweeps)
	addKnown(&all.SweptBytes, s.SweptBytes)
	if one := s.GetVolumeSyncs(); one != nil {
		if all.VolumeSyncs == nil {
			all.VolumeSyncs = &wirev1.QueueVolumeSyncs{}
		}
		addSyncs(all.GetVolumeSyncs(), one)
	}
	if one := s.GetCheckpoints(); one != nil {
		if all.Checkpoints == nil {
			all.Checkpoints = &wirev1.QueueVolumeSyncs{}
		}
		addSyncs(all.GetCheckpoints(), one)
	}
	if since := s.GetSince(); since != nil && (all.Since == nil || since.AsTime().Before(all.Since.AsTime())) {
		all.Since = since
	}
}

// addKnown adds what a member knows; nil stays if none does.
func addKnown(all **uint64, one *uint64) {
	if one != nil {
		*all = ptr.To(ptr.Deref(*all, 0) + *one)
	}
}

// addSyncs adds up how often was measured; the times are those of the slowest.
func addSyncs(all, one *wirev1.QueueVolumeSyncs) {
	all.Count += one.GetCount()
	all.Failed += one.GetFailed()
	all.TotalNanos += one.GetTotalNanos()
	all.LastNanos = max(all.GetLastNanos(), one.GetLastNanos())
	all.HighNanos = max(all.GetHighNanos(), one.GetHighNanos())
	all.WaitingNanos = max(all.GetWaitingNanos(), one.GetWaitingNanos())
}

// volumeSyncStatus is nil where nothing is measured.
func volumeSyncStatus(s *wirev1.QueueVolumeSyncs) *v1alpha1.QueueVolumeSync {
	if s == nil {
		return nil
	}
	status := &v1alpha1.QueueVolumeSync{Count: replicas.Clamp(s.GetCount()), Failed: replicas.Clamp(s.GetFailed())}
	for of, nanos := range map[*string]uint64{
		&status.LastSeconds: s.GetLastNanos(), &status.HighSeconds: s.GetHighNanos(),
		&status.WaitingSeconds: s.GetWaitingNanos(),
	} {
		if nanos > 0 {
			*of = replicas.AverageSeconds(nanos, 1)
		}
	}
	return status
}

// known is a count for status, absent if it is not known.
func known(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	return ptr.To(replicas.Clamp(*n))
}

func addRate(all, one *wirev1.QueueRate) {
	all.Count += one.GetCount()
	all.MilliPerSecond += one.GetMilliPerSecond()
	all.HighMilliPerSecond += one.GetHighMilliPerSecond()
}

// statisticsStatus is what status shows of the sums and of what the queue holds; lastResetRequest is what it showed
// until now.
func (t *totals) statisticsStatus(
	storage v1alpha1.QueueStorageType, content *wirev1.QueueContent, lastResetRequest string,
) *v1alpha1.QueueStatistics {
	s, clamp := t.statistics, replicas.Clamp
	status := &v1alpha1.QueueStatistics{
		Depth:                 clamp(content.GetMessages()),
		AverageRatio:          replicas.Ratio(s.GetCompressedPlainBytes(), s.GetCompressedBytes()),
		RecentRatio:           replicas.Ratio(s.GetRecentPlainBytes(), s.GetRecentBytes()),
		Compressions:          rateStatus(s.GetCompressions()),
		Decompressions:        rateStatus(s.GetDecompressions()),
		Puts:                  rateStatus(s.GetPuts()),
		Gets:                  rateStatus(s.GetGets()),
		StoredFormGets:        clamp(s.GetStoredFormGets()),
		RefusedPuts:           clamp(s.GetRefusedPuts()),
		Duplicates:            clamp(s.GetDuplicates()),
		Consumers:             clamp(content.GetConsumers()),
		Unacknowledged:        clamp(content.GetUnacknowledged()),
		Redelivered:           clamp(content.GetRedelivered()),
		DeadLetters:           clamp(content.GetDeadLetters()),
		Connections:           clamp(s.GetConnections()),
		HighWaterConnections:  clamp(s.GetHighWaterConnections()),
		Opens:                 clamp(s.GetOpened()),
		Closes:                clamp(s.GetClosed()),
		RefusedConnections:    clamp(s.GetRefusedConnections()),
		FailedAuthentications: clamp(s.GetFailedAuthentications()),
		ForbiddenRequests:     clamp(s.GetForbiddenRequests()),
		FileBlocks:            known(s.FileBlocks),
		FileBytes:             known(s.FileBytes),
		MemoryBytes:           known(s.MemoryBytes),
		VolumeSync:            volumeSyncStatus(s.GetVolumeSyncs()),
		Checkpoint:            volumeSyncStatus(s.GetCheckpoints()),
		Sweeps:                known(s.Sweeps),
		AbortedSweeps:         known(s.AbortedSweeps),
		SweptBytes:            known(s.SweptBytes),
		LastResetRequest:      lastResetRequest,
	}
	messages := v1alpha1.QueueMessages{Count: clamp(content.GetMessages()), Bytes: clamp(content.GetBytes())}
	if storage == v1alpha1.QueueStorageMemory {
		status.NonPersistent = messages
	} else {
		status.Persistent = messages
	}
	// A member of an earlier version does not say how many its bytes are of.
	if n := max(content.GetKept(), content.GetMessages()+content.GetDeadLetters()); n > 0 {
		status.AverageSize = clamp(content.GetBytes() / n)
	}
	if n := s.GetCompressions().GetCount(); n > 0 {
		status.AverageUncompressedSize = clamp(s.GetCompressedPlainBytes() / n)
	}
	if n := s.GetTried(); n > 0 {
		status.AverageCompressSeconds = replicas.AverageSeconds(s.GetTriedNanos(), n)
	}
	if n := s.GetRecentOperations(); n > 0 {
		status.RecentUncompressedSize = clamp(t.countedBytes / n)
	}
	if n := s.GetRecentTried(); n > 0 {
		status.RecentCompressSeconds = replicas.AverageSeconds(s.GetRecentTriedNanos(), n)
	}
	if oldest := content.GetOldestTime(); oldest != nil {
		status.OldestMessageTime = &metav1.Time{Time: oldest.AsTime().Truncate(time.Second)}
	}
	if s.GetSince() != nil {
		status.LastReset = &metav1.Time{Time: s.GetSince().AsTime().Truncate(time.Second)}
	}
	if t.ResetOK {
		status.LastResetRequest = t.Reset
	}
	return status
}

func rateStatus(rate *wirev1.QueueRate) v1alpha1.QueueRate {
	return v1alpha1.QueueRate{
		Count: replicas.Clamp(rate.GetCount()), PerSecond: perSecond(rate.GetMilliPerSecond()),
		HighPerSecond: perSecond(rate.GetHighMilliPerSecond()),
	}
}

func perSecond(milli uint64) string {
	return strconv.FormatFloat(float64(milli)/1000, 'f', 1, 64)
}

// memberStatus shows the members by name.
func memberStatus(members []Member, leader, revision string) []v1alpha1.QueueMember {
	var list []v1alpha1.QueueMember
	for _, member := range members {
		one := v1alpha1.QueueMember{
			Name: member.Pod.Name, Node: member.Pod.Spec.NodeName, State: "Starting",
			Leader: leader != "" && leader == member.Pod.Name,
		}
		if r := member.Report; r != nil {
			one.Architecture, one.Engine = r.GetArchitecture(), r.GetCompression().GetEngine()
			one.Current = revision != "" && r.GetRevision() == revision
			switch r.GetState() {
			case wirev1.QueueState_QUEUE_STATE_SERVING:
				one.State = "Serving"
			case wirev1.QueueState_QUEUE_STATE_DRAINING:
				one.State = "Draining"
			}
		} else if member.Asked {
			one.State = "Unreachable"
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b v1alpha1.QueueMember) int { return cmp.Compare(a.Name, b.Name) })
	return list[:min(len(list), maxMembersShown)]
}

// refresh puts the sums into status.
func refresh(status *v1alpha1.QueueStatus, queue *v1alpha1.Queue, wanted *Wanted, facts Facts) {
	members, now := facts.Members, facts.Now
	all := sum(members)
	lastResetRequest := ""
	if status.Statistics != nil {
		lastResetRequest = status.Statistics.LastResetRequest
	}
	content, before := contentOf(members), status.Statistics
	status.Statistics = all.statisticsStatus(queue.Spec.Storage.Type, content, lastResetRequest)
	if content == nil {
		keepContent(status.Statistics, before, now)
	}
	uncounted := status.Usage == nil && status.CPU != nil // written by an earlier version
	status.Compression = agentreport.CompressionStatus(&all.Report)
	status.Decompression = agentreport.DecompressionStatus(&all.Report)
	status.Decisions = agentreport.DecisionsStatus(all.decisions, status.Decisions)
	status.Dictionaries = dictionariesStatus(queue, wanted, members, status.Dictionaries)
	status.CPU = agentreport.CPUStatus(&all.Report, all.Network())
	if status.CPU != nil {
		// One process does both, and sendSeconds has all of it.
		status.CPU.ReceiveSeconds = ""
	}
	if used := replicas.Usage(members, counters); uncounted {
		status.Usage, status.ReplicaUsage = usage.Begin(used)
	} else {
		status.Usage, status.ReplicaUsage = usage.Count(status.Usage, status.ReplicaUsage, used)
	}
	if wanted == nil {
		return // a spec that cannot be used says nothing of prices
	}
	status.CanaryBaseline = canary.Baseline(status.CanaryBaseline, status.Policy, status.Usage)
	used := tariff.Used(usage.FromStatus(status.Usage))
	used.WireBytes = status.Usage.ChannelBytes
	status.Cost = tariff.Charge(status.Cost, used, prices(queue, wanted, facts), now)
}

// prices in force. Of the bytes on the wire those with other clusters are charged.
func prices(queue *v1alpha1.Queue, wanted *Wanted, facts Facts) *v1alpha1.PricesStatus {
	query := tariff.Query{
		Tariffs: facts.Tariffs, Name: wanted.Policy.TariffName, Stated: wanted.Policy.Prices,
		Direction: v1alpha1.DirectionReceive, Time: facts.Now,
	}
	peers := queue.Spec.SendingPeers()
	if len(peers) == 0 {
		return replicas.Prices(facts.Members, counters, query)
	}
	var all []*v1alpha1.PricesStatus
	for _, peer := range peers {
		query.Peer, query.Direction = peer, v1alpha1.DirectionSend
		prices := replicas.Prices(facts.Members, counters, query)
		if prices == nil {
			return nil
		}
		all = append(all, prices)
	}
	return tariff.Mean(all)
}
