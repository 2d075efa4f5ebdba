// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// probeTimeout bounds the question whether a member serves.
const probeTimeout = 20 * time.Second

// queueStat is how a Queue is. Statistics are of its status, which is up to some minutes old; what the service says is of now.
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
	Restore *v1alpha1.QueueRestoreStatus `json:"restore,omitempty"`
	Service serviceStat                  `json:"service"`
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

// stat writes how a Queue is.
func stat(ctx context.Context, h *home, s settings, out io.Writer) error {
	queue, err := h.queue(ctx)
	if err != nil {
		return err
	}
	found := statOf(queue)
	found.Service = probe(ctx, h, s.queue)
	if ctx.Err() != nil {
		return fmt.Errorf("asking for queue %s: %w", queue.Name, ctx.Err())
	}
	if s.output == "text" {
		return found.writeText(out, time.Now())
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(found); err != nil {
		return fmt.Errorf("writing what was found: %w", err)
	}
	return nil
}

func statOf(queue *v1alpha1.Queue) *queueStat {
	status := &queue.Status
	found := &queueStat{
		Queue: queue.Name, Namespace: queue.Namespace, Ready: status.Ready, Members: status.Members, Address: status.Address,
		Storage: queue.Spec.Storage.Size.String(), InMemory: queue.Spec.Storage.Type == v1alpha1.QueueStorageMemory, Statistics: status.Statistics, Channel: status.Channel, Received: status.Received,
		Archive: status.Archive, Restore: status.Restore,
	}
	if status.Compression != nil {
		found.Engine = status.Compression.Engine
	}
	stalled := apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	ready := apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	switch {
	case stalled != nil && stalled.Status == metav1.ConditionTrue:
		found.Problem = stalled.Reason + ": " + stalled.Message
	case ready == nil:
		found.Problem = "the manager has not seen it yet"
	case ready.Status != metav1.ConditionTrue:
		found.Problem = ready.Reason + ": " + ready.Message
	}
	return found
}

// probe asks a member to acknowledge nothing, which it does for who may put and get, and which changes nothing.
func probe(ctx context.Context, h *home, q queueSettings) serviceStat {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	start := time.Now()
	s, err := reach(ctx, h, q)
	if err != nil {
		return serviceStat{Error: err.Error()}
	}
	defer s.Close()
	if _, err := s.Acknowledge(ctx, &wirev1.AcknowledgeRequest{}); err != nil {
		return serviceStat{Where: s.where, Error: s.explain("asking the service", err).Error()}
	}
	return serviceStat{Serves: true, Where: s.where, Seconds: time.Since(start).Seconds()}
}

// writeText writes for people.
func (f *queueStat) writeText(to io.Writer, now time.Time) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Queue %s/%s\n", f.Namespace, f.Queue)
	rows := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(name, format string, values ...any) {
		fmt.Fprintf(rows, "  %s\t%s\n", name, fmt.Sprintf(format, values...))
	}
	if f.Ready != "" {
		row("members", "%s", f.members())
	}
	if f.Problem != "" {
		row("problem", "%s", f.Problem)
	}
	if f.Address != "" {
		row("address", "%s", f.Address)
	}
	if s := f.Statistics; s == nil {
		row("messages", "not known: no member has reported yet")
	} else {
		f.writeStatistics(row, s, now)
	}
	f.writeChannels(row, now)
	f.writeArchive(row, now)
	if f.Service.Serves {
		row("service", "%s serves you, asked and answered in %.0f ms", f.Service.Where, f.Service.Seconds*1000)
	} else {
		row("service", "%s", strings.TrimSpace("does not serve you, or could not be asked: "+f.Service.Error))
	}
	if err := rows.Flush(); err != nil {
		return fmt.Errorf("writing what was found: %w", err)
	}
	if _, err := io.WriteString(to, text.String()); err != nil {
		return fmt.Errorf("writing what was found: %w", err)
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
			text += "; " + m.Name + " has not taken the present spec"
		}
		if m.Leader && len(f.Members) > 1 {
			text += "; " + m.Name + " leads"
		}
	}
	return text
}

func (f *queueStat) writeStatistics(row func(name, format string, values ...any), s *v1alpha1.QueueStatistics, now time.Time) {
	if s.ContentTime != nil {
		row("content", "not known for %s; this is what it was then", duration.HumanDuration(max(now.Sub(s.ContentTime.Time), 0)))
	}
	row("depth", "%d messages", s.Depth)
	if s.Depth > 0 && s.OldestMessageTime != nil {
		row("oldest", "%s ago", duration.HumanDuration(max(now.Sub(s.OldestMessageTime.Time), 0)))
	}
	stored := bytesOf(s.Persistent.Bytes+s.NonPersistent.Bytes) + " of " + f.Storage
	if f.InMemory {
		stored += ", in memory: lost when the last member ends"
	}
	row("stored", "%s", stored)
	row("unacknowledged", "%d, of which %d were delivered before", s.Unacknowledged, s.Redelivered)
	row("dead letters", "%d", s.DeadLetters)
	row("puts", "%s; %d refused, %d duplicates", rateOf(s.Puts), s.RefusedPuts, s.Duplicates)
	row("gets", "%s", rateOf(s.Gets))
	row("ratio", "%s", f.ratio(s))
	row("connections", "%d of clients, %d consumers; %d refused, %d without a valid token or certificate", s.Connections, s.Consumers, s.RefusedConnections, s.FailedAuthentications)
	if s.LastReset != nil {
		row("counted since", "%s", s.LastReset.UTC().Format(time.RFC3339))
	}
}

// writeChannels writes a row for the channel from this Queue, one for what went wrong with it last, and one for each channel to it.
func (f *queueStat) writeChannels(row func(name, format string, values ...any), now time.Time) {
	if c := f.Channel; c != nil {
		row("channel to", "%s, %s", c.Destination, channelState(c.State, c.NegotiatedCodec))
		row("sent", "%d messages, now %s/s, %d in doubt", c.Messages, orZero(c.MessagesPerSecond), c.InDoubt)
		if c.LastError != nil {
			row("ended last", "%s", endOf(c.LastError, now))
		}
	}
	for _, r := range f.Received {
		state := "Disconnected"
		if r.Connected {
			state = "Running"
		}
		row("channel from", "%s, %s, %d messages", r.Source, channelState(state, r.NegotiatedCodec), r.Messages)
		if r.LastError != nil && !r.Connected {
			row("ended last", "%s", endOf(r.LastError, now))
		}
	}
}

// writeArchive writes rows for the archive of the Queue and for what it was made of.
func (f *queueStat) writeArchive(row func(name, format string, values ...any), now time.Time) {
	if a := f.Archive; a != nil {
		row("archive", "%s, %d messages behind, %s in %d files", a.Path, a.Behind, bytesOf(a.RangeBytes), a.Ranges)
		if a.Ratio != "" {
			row("archived", "%d messages, ratio %s", a.Messages, a.Ratio)
		}
		if a.LastError != nil {
			row("failed last", "%s", endOf((*v1alpha1.ChannelError)(a.LastError), now))
		}
	}
	if r := f.Restore; r != nil {
		row("restore", "%s, %d messages of %s", r.State, r.Messages, r.Path)
		if r.MegabytesPerSecond != "" && r.CPUSecondsPerMegabyte != "" {
			row("recovery", "%s MB/s, %s s of CPU per MB", r.MegabytesPerSecond, r.CPUSecondsPerMegabyte)
		}
		if r.LastError != nil {
			row("failed last", "%s", endOf((*v1alpha1.ChannelError)(r.LastError), now))
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

// orZero is for rates, which are empty before there was a first.
func orZero(rate string) string {
	if rate == "" {
		return "0"
	}
	return rate
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

func rateOf(r v1alpha1.QueueRate) string {
	high := r.HighPerSecond
	text := fmt.Sprintf("%d, now %s/s", r.Count, orZero(r.PerSecond))
	if high != "" {
		text += ", at most " + high + "/s"
	}
	return text
}

// bytesOf writes bytes in the units of spec.storage.size.
func bytesOf(n int64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f%s", value, unit)
}
