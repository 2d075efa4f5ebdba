// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/table"
)

// probeTimeout bounds the test whether a member serves.
const probeTimeout = 20 * time.Second

// queueStat is the state of a Queue. Statistics are from its status, which may be some minutes old; Service is of now.
type queueStat struct {
	Queue     string `json:"queue"`
	Namespace string `json:"namespace"`
	// Ready members and those that are wanted, as ready/wanted, and what the conditions say if it is not Ready.
	Ready   string                 `json:"ready,omitempty"`
	Members []v1alpha1.QueueMember `json:"members,omitempty"`
	Problem string                 `json:"problem,omitempty"`
	Address string                 `json:"address,omitempty"`
	Storage string                 `json:"storage"`
	// InMemory says that messages are lost with the last member.
	InMemory bool `json:"inMemory,omitempty"`
	// Statistics are absent as long as no member has reported.
	Statistics *v1alpha1.QueueStatistics `json:"statistics,omitempty"`
	Engine     string                    `json:"engine,omitempty"`
	// Channel to another cluster, and Received from such channels.
	Channel  *v1alpha1.QueueChannelStatus `json:"channel,omitempty"`
	Received []v1alpha1.ReceivedChannel   `json:"received,omitempty"`
	// Archive of the Queue, and what it was restored from.
	Archive *v1alpha1.QueueArchiveStatus `json:"archive,omitempty"`
	// StoreArchive is that in an object store.
	StoreArchive *v1alpha1.QueueArchiveStatus `json:"storeArchive,omitempty"`
	Restore      *v1alpha1.QueueRestoreStatus `json:"restore,omitempty"`
	Service      serviceStat                  `json:"service"`
}

// serviceStat says whether a member serves who asks.
type serviceStat struct {
	Serves bool `json:"serves"`
	// Where was asked, and how long the answer took in seconds, connecting included.
	Where   string  `json:"where,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	// Error says why it does not serve, or could not be asked.
	Error string `json:"error,omitempty"`
}

func newStat(q *queue) *cobra.Command {
	output := choice{"text", "json", "yaml"}
	return output.addTo(&cobra.Command{
		Use:   "stat NAME",
		Short: "Show the state of a Queue and whether it serves you",
		Long: `Show how many messages a Queue has, the age of the oldest, the rates of puts and gets, the compression ratio, and the
state of members, channels and archive. That is from the status of the Queue, which may be some minutes old, and takes
the verb get on queues.

Also connect to a member as put and get do. Where you lack rights for that, the row service tells which.`,
		Example: `  kubectl lighterage queue stat orders -n bank
  kubectl lighterage queue stat orders -n bank -o json`,
		RunE: action(func(ctx context.Context) error {
			object, err := q.object(ctx)
			if err != nil {
				return err
			}
			found := statOf(object)
			found.Service = q.probe(ctx)
			if ctx.Err() != nil {
				return fmt.Errorf("asking for queue %s: %w", q.name, ctx.Err())
			}
			return output.write(q.Out, found, func(to io.Writer) error { return found.writeText(to, time.Now()) })
		}),
	})
}

func statOf(queue *v1alpha1.Queue) *queueStat {
	status := &queue.Status
	found := &queueStat{
		Queue: queue.Name, Namespace: queue.Namespace, Ready: status.Ready, Members: status.Members, Address: status.Address,
		Storage: storageOf(queue.Spec.Storage), InMemory: queue.Spec.Storage.Type == v1alpha1.QueueStorageMemory,
		Statistics: status.Statistics, Channel: status.Channel, Received: status.Received,
		Archive: status.Archive, StoreArchive: status.StoreArchive, Restore: status.Restore, Problem: problemOf(queue),
	}
	if status.Compression != nil {
		found.Engine = status.Compression.Engine
	}
	return found
}

// storageOf is what messages may take.
func storageOf(storage v1alpha1.QueueStorage) string {
	if storage.Spill != nil {
		return storage.Spill.Size.String()
	}
	return storage.Size.String()
}

// problemOf is what the conditions say of a Queue that is not Ready; empty for one that is.
func problemOf(queue *v1alpha1.Queue) string {
	stalled := apimeta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionStalled)
	ready := apimeta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case stalled != nil && stalled.Status == metav1.ConditionTrue:
		return stalled.Reason + ": " + stalled.Message
	case ready == nil:
		return "it has no status yet; check that the manager runs"
	case ready.Status != metav1.ConditionTrue:
		return ready.Reason + ": " + ready.Message
	}
	return ""
}

// probe has a member acknowledge nothing, which tests the rights to put and get, and changes nothing.
func (q *queue) probe(ctx context.Context) serviceStat {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	start := time.Now()
	s, err := q.reach(ctx)
	if err != nil {
		return serviceStat{Error: err.Error()}
	}
	defer s.Close()
	if _, err := s.Service().Acknowledge(ctx, &messagesv1.AcknowledgeRequest{}); err != nil {
		return serviceStat{Where: s.where, Error: s.explain("asking the service", err).Error()}
	}
	return serviceStat{Serves: true, Where: s.where, Seconds: time.Since(start).Seconds()}
}

// writeText writes a table for people.
func (f *queueStat) writeText(to io.Writer, now time.Time) error {
	var rows table.Rows
	if f.Ready != "" {
		rows.Add("members", f.members())
	}
	if f.Problem != "" {
		rows.Add("problem", f.Problem)
	}
	if f.Address != "" {
		rows.Add("address", f.Address)
	}
	if f.Statistics == nil {
		rows.Add("messages", "unknown: no member has reported yet")
	} else {
		f.writeStatistics(&rows, f.Statistics, now)
	}
	f.writeChannels(&rows, now)
	f.writeArchive(&rows, now)
	if f.Service.Serves {
		rows.Addf("service", "%s serves you, answered in %.0f ms", f.Service.Where, f.Service.Seconds*1000)
	} else {
		rows.Addf("service", "does not serve you, or was not reached: %s", f.Service.Error)
	}
	if _, err := fmt.Fprintf(to, "Queue %s/%s\n%s", f.Namespace, f.Queue, rows.Text("  ")); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// members says how many are ready, which one leads, and what is with those that do not serve as the spec says now.
func (f *queueStat) members() string {
	text := f.Ready + " ready"
	for _, m := range f.Members {
		switch {
		case m.State != "" && m.State != "Serving":
			text += "; " + m.Name + " is " + m.State
		case !m.Current:
			text += "; " + m.Name + " does not run the current spec"
		}
		if m.Leader && len(f.Members) > 1 {
			text += "; " + m.Name + " leads"
		}
	}
	return text
}

func (f *queueStat) writeStatistics(rows *table.Rows, s *v1alpha1.QueueStatistics, now time.Time) {
	if s.ContentTime != nil {
		rows.Addf(
			"content", "last reported %s ago; what follows is of then",
			duration.HumanDuration(max(now.Sub(s.ContentTime.Time), 0)),
		)
	}
	rows.Addf("depth", "%d messages", s.Depth)
	if s.Depth > 0 && s.OldestMessageTime != nil {
		rows.Addf("oldest", "%s ago", duration.HumanDuration(max(now.Sub(s.OldestMessageTime.Time), 0)))
	}
	stored := table.Bytes(s.Persistent.Bytes+s.NonPersistent.Bytes) + " of " + f.Storage
	if f.InMemory {
		stored += ", in memory: lost with the last member"
	}
	rows.Add("stored", stored)
	if s.Sweeps != nil && s.AbortedSweeps != nil && s.SweptBytes != nil {
		rows.Addf("sweeps", "%d to disk, %s; %d aborted", *s.Sweeps, table.Bytes(*s.SweptBytes), *s.AbortedSweeps)
	}
	rows.Addf("unacknowledged", "%d, %d of them redelivered", s.Unacknowledged, s.Redelivered)
	rows.Addf("dead letters", "%d", s.DeadLetters)
	rows.Addf("puts", "%s; %d refused, %d duplicates", rateOf(s.Puts), s.RefusedPuts, s.Duplicates)
	rows.Add("gets", rateOf(s.Gets))
	rows.Add("ratio", f.ratio(s))
	if s.AverageUncompressedSize > 0 {
		rows.Add("compressed size", withRecent(table.Bytes, s.AverageUncompressedSize, s.RecentUncompressedSize)+
			" a message, before compression")
	}
	if average, recent := cpuSeconds(s.AverageCompressSeconds), cpuSeconds(s.RecentCompressSeconds); average > 0 {
		rows.Add("compress time", withRecent(microseconds, average, recent)+" of CPU a message")
	}
	rows.Addf(
		"connections", "%d of clients, %d consumers; %d refused, %d without a valid token or certificate", s.Connections,
		s.Consumers, s.RefusedConnections, s.FailedAuthentications,
	)
	if s.LastReset != nil {
		rows.Add("counted since", s.LastReset.UTC().Format(time.RFC3339))
	}
}

// writeChannels writes a row for the channel from this Queue, one for what went wrong with it last, and one for each
// channel to it.
func (f *queueStat) writeChannels(rows *table.Rows, now time.Time) {
	if c := f.Channel; c != nil {
		rows.Addf("channel to", "%s, %s", c.Destination, channelState(
			c.State, strings.TrimSpace(c.NegotiatedCodec+" "+string(c.NegotiatedLevel)),
		))
		rows.Addf("sent", "%d messages, now %s/s, %d in doubt", c.Messages, cmp.Or(c.MessagesPerSecond, "0"), c.InDoubt)
		if c.LastError != nil {
			rows.Add("ended last", endOf(c.LastError, now))
		}
	}
	for _, r := range f.Received {
		state := "Disconnected"
		if r.Connected {
			state = "Running"
		}
		rows.Addf("channel from", "%s, %s, %d messages", r.Source, channelState(state, r.NegotiatedCodec), r.Messages)
		if r.LastError != nil && !r.Connected {
			rows.Add("ended last", endOf(r.LastError, now))
		}
	}
}

// writeArchive writes rows for the archive of the Queue and for what it was made of.
func (f *queueStat) writeArchive(rows *table.Rows, now time.Time) {
	for _, one := range []struct {
		name, files string
		status      *v1alpha1.QueueArchiveStatus
	}{{"archive", "files", f.Archive}, {"archive in store", "objects", f.StoreArchive}} {
		a := one.status
		if a == nil {
			continue
		}
		rows.Addf(one.name, "%s, %d messages behind, %s in %d %s", a.Path, a.Behind, table.Bytes(a.RangeBytes), a.Ranges,
			one.files)
		if a.Ratio != "" {
			rows.Addf("archived", "%d messages, ratio %s", a.Messages, a.Ratio)
		}
		if a.LastError != nil {
			rows.Add("failed last", endOf((*v1alpha1.ChannelError)(a.LastError), now))
		}
	}
	if r := f.Restore; r != nil {
		rows.Addf("restore", "%s, %d messages of %s", r.State, r.Messages, r.Path)
		if r.MegabytesPerSecond != "" && r.CPUSecondsPerMegabyte != "" {
			rows.Addf("recovery", "%s MB/s, %s s of CPU per MB", r.MegabytesPerSecond, r.CPUSecondsPerMegabyte)
		}
		if r.LastError != nil {
			rows.Add("failed last", endOf((*v1alpha1.ChannelError)(r.LastError), now))
		}
	}
}

func endOf(e *v1alpha1.ChannelError, now time.Time) string {
	text := e.Reason + ": " + e.Message
	if e.Time != nil {
		text = duration.HumanDuration(max(now.Sub(e.Time.Time), 0)) + " ago: " + text
	}
	return text
}

func channelState(state, codec string) string {
	if codec == "" {
		return state
	}
	return state + " in " + codec
}

func (f *queueStat) ratio(s *v1alpha1.QueueStatistics) string {
	if s.AverageRatio == "" {
		return "nothing was compressed"
	}
	text := s.AverageRatio
	if s.RecentRatio != "" {
		text += ", recently " + s.RecentRatio
	}
	if f.Engine != "" {
		text += ", by " + f.Engine
	}
	return text
}

// withRecent is an average in words, and beside it the recent value, which is absent after a time without compression.
func withRecent[T int64 | float64](text func(T) string, average, recent T) string {
	if recent == 0 {
		return text(average)
	}
	return text(average) + ", recently " + text(recent)
}

// cpuSeconds reads a decimal of the status; 0 if it is absent or no decimal.
func cpuSeconds(decimal string) float64 {
	seconds, err := strconv.ParseFloat(decimal, 64)
	if err != nil {
		return 0
	}
	return seconds
}

func microseconds(seconds float64) string { return fmt.Sprintf("%.0f µs", seconds*1e6) }

func rateOf(r v1alpha1.QueueRate) string {
	text := fmt.Sprintf("%d, now %s/s", r.Count, cmp.Or(r.PerSecond, "0"))
	if r.HighPerSecond != "" {
		text += ", at most " + r.HighPerSecond + "/s"
	}
	return text
}
