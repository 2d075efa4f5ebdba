// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Queues are the collectors that reports of Queues' members feed. They are labelled by namespace alone and safe for
// concurrent use.
type Queues struct {
	puts, refusedPuts, duplicates       *prometheus.CounterVec
	gets, storedGets                    *prometheus.CounterVec
	messages                            *prometheus.CounterVec
	decompressions, fallback            *prometheus.CounterVec
	plain, compressed, wired            *prometheus.CounterVec
	storeRequests, storeBytes           *prometheus.CounterVec
	opened, refused, unauthenticated    *prometheus.CounterVec
	forbidden                           *prometheus.CounterVec
	cpu                                 *prometheus.CounterVec
	sent, batches, sentPlain, sentBytes *prometheus.CounterVec
	recoded, starts, channelWired       *prometheus.CounterVec
	unsendable                          *prometheus.CounterVec
	received, receivedBytes             *prometheus.CounterVec
	depth, bytes, unacked, open, file   *prometheus.GaugeVec
	running, retrying, doubt, arrives   *prometheus.GaugeVec
	archives, ranges, behind, unwritten *prometheus.GaugeVec
	storeArchives, storeBehind          *prometheus.GaugeVec
	unrestored                          *prometheus.GaugeVec
	keptPlain                           *prometheus.CounterVec
	syncs, syncSeconds, syncFailures    *prometheus.CounterVec
	checkpoints, checkpointSeconds      *prometheus.CounterVec
	checkpointFailures                  *prometheus.CounterVec
	sweeps, abortedSweeps, swept        *prometheus.CounterVec
	deadLetters, consumers, redelivered *prometheus.GaugeVec
	oldest, memory, blocks, free        *prometheus.GaugeVec
	checkpointing                       *prometheus.GaugeVec
	referring, trained                  *prometheus.CounterVec
	dictionaries                        *prometheus.GaugeVec
	carried                             *prometheus.CounterVec

	mu     sync.Mutex
	series *series[*wirev1.QueueReport]
}

// NewQueues makes the collectors and registers them. What members did before started, which is now, is not counted: an
// earlier manager has.
func NewQueues(registry prometheus.Registerer, started time.Time) *Queues {
	n := namespaced{registry}
	return &Queues{
		series: newSeries(started, func(r *wirev1.QueueReport) time.Time {
			return r.GetStatistics().GetSince().AsTime()
		}),
		puts:        n.counter("lighterage_queue_puts_total", "Messages that were put into Queues and acknowledged."),
		refusedPuts: n.counter("lighterage_queue_refused_puts_total", "Messages that Queues refused."),
		duplicates: n.counter(
			"lighterage_queue_duplicates_total", "Messages that were acknowledged and not stored again.",
		),
		gets: n.counter("lighterage_queue_gets_total", "Messages that Queues delivered to clients."),
		storedGets: n.counter(
			"lighterage_queue_stored_form_gets_total", "Messages that were delivered compressed, as the client asked.",
		),
		messages: n.counter(
			"lighterage_queue_messages_total",
			"Messages that were put, or compressed for channels, by path: hardware, software, or stored for those kept as "+
				"they were.",
			"path",
		),
		decompressions: n.counter("lighterage_queue_decompressions_total", "Messages that were inflated for clients."),
		fallback: n.counter(
			"lighterage_queue_fallback_decompressions_total",
			"Messages that software inflated although hardware had compressed them.",
		),
		plain: n.counter(
			"lighterage_queue_uncompressed_bytes_total",
			"Bytes of the messages that were put, or compressed for channels, before that.",
		),
		compressed: n.counter(
			"lighterage_queue_compressed_bytes_total",
			"Bytes of the messages that were put, or compressed for channels, after that.",
		),
		referring: n.counter(
			"lighterage_queue_dictionary_messages_total", "Messages that were compressed with a dictionary of their Queue.",
		),
		trained: n.counter(
			"lighterage_queue_trained_dictionaries_total", "Dictionaries that were trained and put into use.",
		),
		dictionaries: n.gauge(
			"lighterage_queue_dictionaries", "Dictionaries that Queues keep, since messages refer to them or may.",
		),
		storeRequests: n.counter(
			"lighterage_queue_store_requests_total",
			"Requests of archives to object stores but for those that delete: class is write, lists included, or read.",
			"class",
		),
		storeBytes: n.counter(
			"lighterage_queue_store_bytes_total",
			"Bytes of bodies that archives sent to object stores and received from them.", "direction",
		),
		wired: n.counter(
			"lighterage_queue_wire_bytes_total", "Bytes that members wrote to and read from clients, TLS included.",
		),
		opened: n.counter("lighterage_queue_opened_connections_total", "Connections that clients opened."),
		refused: n.counter(
			"lighterage_queue_refused_connections_total", "Connections that were refused because of limits.maxConnections.",
		),
		unauthenticated: n.counter("lighterage_queue_failed_authentications_total", "Clients that did not authenticate."),
		forbidden: n.counter(
			"lighterage_queue_forbidden_requests_total", "Requests of clients for what their role does not allow.",
		),
		cpu: n.counter(
			"lighterage_queue_cpu_seconds_total",
			"CPU time of Queues' members: stage is compress, decompress, idle for what was spent while nothing passed, or "+
				"other for the rest.",
			"stage",
		),
		sent: n.counter(
			"lighterage_queue_channel_sent_messages_total",
			"Messages that other Queues have stored for channels from here; one that goes to several counts for each.",
		),
		batches: n.counter(
			"lighterage_queue_channel_sent_batches_total",
			"Batches that other Queues have stored for channels from here.",
		),
		sentPlain: n.counter(
			"lighterage_queue_channel_sent_uncompressed_bytes_total",
			"Bytes of the messages that channels have sent, as they were put.",
		),
		sentBytes: n.counter(
			"lighterage_queue_channel_sent_bytes_total",
			"Bytes of the messages that channels have sent, as they travelled, with the dictionaries that they referred to.",
		),
		recoded: n.counter(
			"lighterage_queue_channel_recoded_messages_total", "Messages that were compressed, inflated or both for channels.",
		),
		unsendable: n.counter(
			"lighterage_queue_channel_dead_letters_total",
			"Messages that channels cannot carry, and that became dead letters of the sending Queue.",
		),
		starts: n.counter(
			"lighterage_queue_channel_starts_total", "Starts of channels that the other Queue accepted.",
		),
		received: n.counter(
			"lighterage_queue_channel_received_messages_total", "Messages that were stored for channels from other Queues.",
		),
		receivedBytes: n.counter(
			"lighterage_queue_channel_received_bytes_total",
			"Bytes of the messages that channels have received, as they travelled, with the dictionaries that they referred to.",
		),
		carried: n.counter(
			"lighterage_queue_channel_dictionaries_total",
			"Dictionaries that channels sent and received, as a rule each once per start of a channel: direction is send or "+
				"receive, for the end that is here.",
			"direction",
		),
		channelWired: n.counter(
			"lighterage_queue_channel_wire_bytes_total",
			"Bytes that channels wrote to and read from Queues of other clusters, TLS included: direction is send or receive, "+
				"for the end that is here.",
			"direction",
		),
		running: n.gauge("lighterage_queue_channels_running", "Channels to other Queues that run."),
		retrying: n.gauge(
			"lighterage_queue_channels_retrying",
			"Channels to other Queues that failed and are tried again, or cannot be set up.",
		),
		doubt:    n.gauge("lighterage_queue_channel_in_doubt", "Messages that were sent and are not known to be stored."),
		arrives:  n.gauge("lighterage_queue_received_channels_connected", "Channels from other Queues that run."),
		archives: n.gauge("lighterage_queue_archive_bytes", "Bytes of the files on claims in which Queues are archived."),
		ranges:   n.gauge("lighterage_queue_archive_ranges", "Files on claims in which Queues are archived."),
		behind: n.gauge(
			"lighterage_queue_archive_behind", "Messages that were put since the archives on claims were written last.",
		),
		storeArchives: n.gauge(
			"lighterage_queue_store_archive_bytes", "Bytes of the objects in ObjectStores in which Queues are archived.",
		),
		storeBehind: n.gauge(
			"lighterage_queue_store_archive_behind",
			"Messages that were put since the archives in ObjectStores were written last.",
		),
		unwritten: n.gauge(
			"lighterage_queue_archives_failing", "Archives, on claims and in ObjectStores, that cannot be written, so that what is put is not archived there.",
		),
		unrestored: n.gauge(
			"lighterage_queue_restores_failing", "Queues that serve nobody, since their archive cannot be restored.",
		),
		keptPlain: n.counter(
			"lighterage_queue_stored_plain_messages_total",
			"Messages that were put and stored as they were, by the reason why they were not compressed.", "reason",
		),
		syncs: n.counter(
			"lighterage_queue_volume_syncs_total",
			"Files of 512 bytes that members wrote and synced to measure their volumes, every 10 seconds.",
		),
		syncSeconds: n.counter(
			"lighterage_queue_volume_sync_seconds_total",
			"How long these took. It is not how long the store's own syncs of messages take.",
		),
		syncFailures: n.counter(
			"lighterage_queue_volume_sync_failures_total", "Such files that could not be written or synced.",
		),
		checkpoints: n.counter(
			"lighterage_queue_checkpoints_total",
			"Syncs of all files of members' stores that had changed, every 10 seconds or each storage.sync.interval if that is "+
				"longer.",
		),
		checkpointSeconds: n.counter("lighterage_queue_checkpoint_seconds_total", "How long these took."),
		checkpointFailures: n.counter(
			"lighterage_queue_checkpoint_failures_total", "Such syncs that ended with an error of the volume.",
		),
		checkpointing: n.gauge("lighterage_queue_checkpoints_in_progress", "Such syncs that have not ended."),
		sweeps: n.counter(
			"lighterage_queue_sweeps_total", "Sweeps of the oldest files of messages from the memory of members to disks.",
		),
		abortedSweeps: n.counter("lighterage_queue_aborted_sweeps_total", "Sweeps that ended with an error of the disk."),
		swept:         n.counter("lighterage_queue_swept_bytes_total", "Bytes of files that were swept."),
		deadLetters:   n.gauge("lighterage_queue_dead_letters", "Dead letters in Queues, which are not in depth."),
		consumers:     n.gauge("lighterage_queue_consumers", "Consumers of Queues, of which a channel is one."),
		redelivered:   n.gauge("lighterage_queue_redelivered", "Unacknowledged messages that were delivered before."),
		oldest: n.gauge(
			"lighterage_queue_oldest_message_timestamp_seconds",
			"When the oldest message in a Queue of the namespace was put, in seconds since 1970; absent when all are empty.",
		),
		free: n.gauge(
			"lighterage_queue_least_free_ratio",
			"Share of its limit in bytes or messages that the fullest Queue of the namespace has free, from 0 to 1; absent "+
				"where all drop their oldest messages.",
		),
		memory:  n.gauge("lighterage_queue_memory_bytes", "Bytes that messages take in the memory of members."),
		blocks:  n.gauge("lighterage_queue_file_blocks", "Files in which members keep messages."),
		depth:   n.gauge("lighterage_queue_depth", "Messages in Queues."),
		bytes:   n.gauge("lighterage_queue_stored_bytes", "Bytes that the messages in Queues take as stored."),
		unacked: n.gauge("lighterage_queue_unacknowledged", "Messages that were delivered and not acknowledged yet."),
		open:    n.gauge("lighterage_queue_connections", "Connections of clients that are open."),
		file:    n.gauge("lighterage_queue_file_bytes", "Bytes of the files in which members keep messages."),
	}
}

// Observe counts what the members of a Queue, by their pods' UIDs, have done since they were observed last. content is
// what the Queue holds, nil when that is not known; what was known last stays then. blocked is how many of its channels
// no member can run, since something that they name is missing or wrong.
func (q *Queues) Observe(
	namespace, queue string, content *wirev1.QueueContent, members map[string]*wirev1.QueueReport, blocked int,
) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.series.observe(namespace, queue, members, func(from, to *wirev1.QueueReport) { q.add(namespace, from, to) })
	if content != nil {
		q.series.set(namespace, queue, q.depth, float64(content.GetMessages()))
		q.series.set(namespace, queue, q.bytes, float64(content.GetBytes()))
		q.series.set(namespace, queue, q.unacked, float64(content.GetUnacknowledged()))
		q.series.set(namespace, queue, q.deadLetters, float64(content.GetDeadLetters()))
		q.series.set(namespace, queue, q.consumers, float64(content.GetConsumers()))
		q.series.set(namespace, queue, q.redelivered, float64(content.GetRedelivered()))
		oldest := content.GetOldestTime()
		q.series.setLeast(namespace, queue, q.oldest, float64(oldest.AsTime().UnixMilli())/1000, oldest != nil)
	}
	q.observeMembers(namespace, queue, members, blocked)
}

// observeMembers sets what is the sum of what members say.
func (q *Queues) observeMembers(namespace, queue string, members map[string]*wirev1.QueueReport, blocked int) {
	var open, file, memory, blocks, running, doubt, arrives, checkpointing float64
	retrying := float64(blocked)
	kept, known := uint32(0), false // all members know the same, sooner or later
	files := false                  // where external servers keep messages there are none
	for _, report := range members {
		for _, channel := range sending(report) {
			switch channel.GetState() {
			case wirev1.ChannelState_CHANNEL_STATE_RUNNING:
				running, doubt = running+1, doubt+float64(channel.GetInDoubt())
			case wirev1.ChannelState_CHANNEL_STATE_RETRYING:
				retrying, doubt = retrying+1, doubt+float64(channel.GetInDoubt())
			}
		}
		for _, one := range report.GetReceived() {
			if one.GetConnected() {
				arrives++
			}
		}
		open += float64(report.GetStatistics().GetConnections())
		if d := report.GetDictionaries(); d != nil {
			kept, known = max(kept, min(d.GetKept(), 16)), true // What agents say is not trusted.
		}
		if report.GetStatistics().GetCheckpoints().GetWaitingNanos() > 0 {
			checkpointing++
		}
		if n := report.GetStatistics(); n != nil && n.FileBytes != nil {
			file, files = file+float64(n.GetFileBytes()), true
			memory, blocks = memory+float64(n.GetMemoryBytes()), blocks+float64(n.GetFileBlocks())
		}
	}
	q.series.set(namespace, queue, q.open, open)
	if known {
		q.series.set(namespace, queue, q.dictionaries, float64(kept))
	}
	q.series.set(namespace, queue, q.checkpointing, checkpointing)
	if files {
		q.series.set(namespace, queue, q.file, file)
		q.series.set(namespace, queue, q.memory, memory)
		q.series.set(namespace, queue, q.blocks, blocks)
	}
	q.series.set(namespace, queue, q.running, running)
	q.series.set(namespace, queue, q.retrying, retrying)
	q.series.set(namespace, queue, q.doubt, doubt)
	q.series.set(namespace, queue, q.arrives, arrives)
}

// ObserveArchives sets what is known of a Queue's archives, on a claim and in an object store, of which the queue has
// come to message last; nil: there is none.
func (q *Queues) ObserveArchives(namespace, queue string, last uint64, claim, store *wirev1.QueueArchiveStatus) {
	q.mu.Lock()
	defer q.mu.Unlock()
	behind := func(archive *wirev1.QueueArchiveStatus) float64 {
		if archive == nil {
			return 0
		}
		return float64(last - min(archive.GetSequence(), last))
	}
	failing := 0.0
	for _, archive := range []*wirev1.QueueArchiveStatus{claim, store} {
		if archive.GetLastError() != nil {
			failing++
		}
	}
	q.series.set(namespace, queue, q.archives, float64(claim.GetBytes()))
	q.series.set(namespace, queue, q.ranges, float64(claim.GetRanges()))
	q.series.set(namespace, queue, q.behind, behind(claim))
	q.series.set(namespace, queue, q.storeArchives, float64(store.GetBytes()))
	q.series.set(namespace, queue, q.storeBehind, behind(store))
	q.series.set(namespace, queue, q.unwritten, failing)
}

// ObserveFree sets which share of its limit a Queue has free; known is false for one of which nothing follows from it.
func (q *Queues) ObserveFree(namespace, queue string, share float64, known bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.series.setLeast(namespace, queue, q.free, share, known)
}

// ObserveRestore sets whether a Queue waits for an archive that cannot be restored.
func (q *Queues) ObserveRestore(namespace, queue string, failing bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	value := 0.0
	if failing {
		value = 1
	}
	q.series.set(namespace, queue, q.unrestored, value)
}

// Forget takes a Queue out of the gauges.
func (q *Queues) Forget(queue string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.series.forget(queue)
}

func (q *Queues) add(namespace string, from, to *wirev1.QueueReport) {
	count := func(vector *prometheus.CounterVec, value func(*wirev1.QueueReport) uint64, scale float64, labels ...string) {
		counted(vector, from, to, value, scale, append([]string{namespace}, labels...)...)
	}
	statistic := func(vector *prometheus.CounterVec, value func(*wirev1.QueueStatistics) uint64) {
		count(vector, func(r *wirev1.QueueReport) uint64 { return value(r.GetStatistics()) }, 1)
	}
	statistic(q.puts, func(s *wirev1.QueueStatistics) uint64 { return s.GetPuts().GetCount() })
	statistic(q.gets, func(s *wirev1.QueueStatistics) uint64 { return s.GetGets().GetCount() })
	statistic(q.decompressions, func(s *wirev1.QueueStatistics) uint64 { return s.GetDecompressions().GetCount() })
	statistic(q.refusedPuts, (*wirev1.QueueStatistics).GetRefusedPuts)
	statistic(q.duplicates, (*wirev1.QueueStatistics).GetDuplicates)
	statistic(q.storedGets, (*wirev1.QueueStatistics).GetStoredFormGets)
	count(q.referring, func(r *wirev1.QueueReport) uint64 { return r.GetDictionaries().GetMessages() }, 1)
	count(q.trained, func(r *wirev1.QueueReport) uint64 { return r.GetDictionaries().GetTrained() }, 1)
	statistic(q.opened, (*wirev1.QueueStatistics).GetOpened)
	statistic(q.refused, (*wirev1.QueueStatistics).GetRefusedConnections)
	statistic(q.unauthenticated, (*wirev1.QueueStatistics).GetFailedAuthentications)
	statistic(q.forbidden, (*wirev1.QueueStatistics).GetForbiddenRequests)
	for path, value := range map[string]func(*wirev1.Compression) *wirev1.Operations{
		"hardware": (*wirev1.Compression).GetHardware, "software": (*wirev1.Compression).GetSoftware,
		"stored": (*wirev1.Compression).GetStored,
	} {
		count(q.messages, func(r *wirev1.QueueReport) uint64 { return value(r.GetCompression()).GetOperations() }, 1, path)
	}
	countReasons(plainReasons, func(reason string, value func(*wirev1.Compression) uint64) {
		count(q.keptPlain, func(r *wirev1.QueueReport) uint64 { return value(r.GetCompression()) }, 1, reason)
	})
	count(q.fallback, func(r *wirev1.QueueReport) uint64 { return r.GetDecompression().GetFallback().GetOperations() }, 1)
	count(q.plain, func(r *wirev1.QueueReport) uint64 { return r.GetCompression().GetUncompressedBytes() }, 1)
	count(q.compressed, func(r *wirev1.QueueReport) uint64 { return r.GetCompression().GetCompressedBytes() }, 1)
	count(q.wired, (*wirev1.QueueReport).GetWireBytes, 1)
	for vector, by := range map[*prometheus.CounterVec]map[string]func(*wirev1.StoreTraffic) uint64{
		q.storeRequests: {
			"write": (*wirev1.StoreTraffic).GetWriteRequests, "read": (*wirev1.StoreTraffic).GetReadRequests,
		},
		q.storeBytes: {
			"send": (*wirev1.StoreTraffic).GetSentBytes, "receive": (*wirev1.StoreTraffic).GetReceivedBytes,
		},
	} {
		for label, value := range by {
			count(vector, func(r *wirev1.QueueReport) uint64 { return value(r.GetStore()) }, 1, label)
		}
	}
	for vector, value := range map[*prometheus.CounterVec]func(*wirev1.ChannelStatus) uint64{
		q.sent: (*wirev1.ChannelStatus).GetMessages, q.batches: (*wirev1.ChannelStatus).GetBatches,
		q.sentPlain:  (*wirev1.ChannelStatus).GetPlainBytes,
		q.unsendable: (*wirev1.ChannelStatus).GetDeadLetters,
		q.sentBytes:  (*wirev1.ChannelStatus).GetPayloadBytes, q.recoded: (*wirev1.ChannelStatus).GetRecoded,
		q.starts: (*wirev1.ChannelStatus).GetStarts,
	} {
		count(vector, sumOfSending(value), 1)
	}
	// Those within the cluster cost nothing, and what this counts is priced.
	count(q.channelWired, sumOfSending(func(c *wirev1.ChannelStatus) uint64 {
		if c.GetOwnCluster() {
			return 0
		}
		return c.GetWireBytes()
	}), 1, "send")
	count(q.channelWired, (*wirev1.QueueReport).GetReceivedWireBytes, 1, "receive")
	count(q.carried, sumOfSending((*wirev1.ChannelStatus).GetDictionaries), 1, "send")
	count(q.carried, sumOfReceived((*wirev1.ReceivedChannel).GetDictionaries), 1, "receive")
	count(q.received, sumOfReceived((*wirev1.ReceivedChannel).GetMessages), 1)
	count(q.receivedBytes, sumOfReceived((*wirev1.ReceivedChannel).GetPayloadBytes), 1)
	const seconds = 1e-9
	statistic(q.syncs, func(s *wirev1.QueueStatistics) uint64 { return s.GetVolumeSyncs().GetCount() })
	statistic(q.syncFailures, func(s *wirev1.QueueStatistics) uint64 { return s.GetVolumeSyncs().GetFailed() })
	statistic(q.sweeps, (*wirev1.QueueStatistics).GetSweeps)
	statistic(q.abortedSweeps, (*wirev1.QueueStatistics).GetAbortedSweeps)
	statistic(q.swept, (*wirev1.QueueStatistics).GetSweptBytes)
	statistic(q.checkpoints, func(s *wirev1.QueueStatistics) uint64 { return s.GetCheckpoints().GetCount() })
	statistic(q.checkpointFailures, func(s *wirev1.QueueStatistics) uint64 { return s.GetCheckpoints().GetFailed() })
	count(q.checkpointSeconds, func(r *wirev1.QueueReport) uint64 {
		return r.GetStatistics().GetCheckpoints().GetTotalNanos()
	}, seconds)
	count(q.syncSeconds, func(r *wirev1.QueueReport) uint64 {
		return r.GetStatistics().GetVolumeSyncs().GetTotalNanos()
	}, seconds)
	count(q.cpu, func(r *wirev1.QueueReport) uint64 { return r.GetCpu().GetCompressNanos() }, seconds, "compress")
	count(q.cpu, func(r *wirev1.QueueReport) uint64 { return r.GetCpu().GetDecompressNanos() }, seconds, "decompress")
	count(q.cpu, func(r *wirev1.QueueReport) uint64 {
		return rest(
			r.GetCpu().GetSendNanos(), r.GetCpu().GetCompressNanos()+r.GetCpu().GetDecompressNanos()+r.GetCpu().GetIdleNanos(),
		)
	}, seconds, "other")
	count(q.cpu, func(r *wirev1.QueueReport) uint64 { return r.GetCpu().GetIdleNanos() }, seconds, "idle")
}

// plainReasons are why messages are stored as they were put. Labels are no others, whatever a member says.
var plainReasons = []string{
	v1alpha1.CompressionOff, v1alpha1.CompressionPolicyNever, v1alpha1.CompressionBelowMinimum,
	v1alpha1.CompressionAlreadyEncoded,
	v1alpha1.CompressionIncompressible, v1alpha1.CompressionDidNotShrink, v1alpha1.CompressionEngineFailed,
	v1alpha1.CompressionPeerRefused, v1alpha1.CompressionNetworkFaster, v1alpha1.CompressionDiskFaster,
	v1alpha1.CompressionCPUDearer,
	v1alpha1.CompressionSoftwareDisabled, v1alpha1.CompressionNoAccelerator, v1alpha1.CompressionSelfTestFailed,
	v1alpha1.CompressionLevelNotAccelerated, v1alpha1.CompressionCodecNotAccelerated,
}

// sending are the channels by which a member sends, and what it counted of former ones.
func sending(r *wirev1.QueueReport) []*wirev1.ChannelStatus {
	if channel := r.GetChannel(); channel != nil {
		return append([]*wirev1.ChannelStatus{channel}, r.GetChannels()...)
	}
	return r.GetChannels()
}

func sumOfSending(value func(*wirev1.ChannelStatus) uint64) func(*wirev1.QueueReport) uint64 {
	return func(r *wirev1.QueueReport) uint64 {
		var all uint64
		for _, one := range sending(r) {
			all += value(one)
		}
		return all
	}
}

func sumOfReceived(value func(*wirev1.ReceivedChannel) uint64) func(*wirev1.QueueReport) uint64 {
	return func(r *wirev1.QueueReport) uint64 {
		var all uint64
		for _, one := range r.GetReceived() {
			all += value(one)
		}
		return all
	}
}
