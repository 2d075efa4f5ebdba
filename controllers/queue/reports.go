// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// Reports has members asked for reports.
func Reports(pool *agentpoll.Pool, agents agentclient.Agents) agentpoll.Poller[*wirev1.QueueReport] {
	return agentpoll.NewPoller(pool, agentpoll.Question[*wirev1.QueueReport]{
		Name: "queue", Class: agentpoll.Serving, Ask: agents.QueueReport,
		News:  func(before, after *wirev1.QueueReport) bool { return !proto.Equal(stateOf(before), stateOf(after)) },
		Lacks: replicas.Lacks[*wirev1.QueueReport],
		Configure: func(ctx context.Context, target agentclient.Target, config agentpoll.Configuration) error {
			own, ok := config.(*wirev1.QueueConfig)
			if !ok {
				return fmt.Errorf("configuring the agent at %s: %T is no configuration of it", target.Address, config)
			}
			return agents.SetQueueConfig(ctx, target, own)
		},
	})
}

// stateOf is what of a report conditions follow from. What failures say may change with each try; why they are does
// not.
func stateOf(r *wirev1.QueueReport) *wirev1.QueueReport {
	content, channel, archive, restore := r.GetContent(), r.GetChannel(), r.GetArchive(), r.GetRestore()
	state := &wirev1.QueueReport{
		State: r.GetState(), Revision: r.GetRevision(), ConfigError: r.GetConfigError(), Certificate: r.GetCertificate(),
		Configuration:       r.GetConfiguration(),
		AuthenticationError: r.GetAuthenticationError(), ExternalFailure: reason(r.GetExternalFailure()),
		StorageFailure: reason(r.GetStorageFailure()),
		Content: &wirev1.QueueContent{
			Leader: content.GetLeader(), Unreachable: content.GetUnreachable(), Created: content.GetCreated(),
		},
		Statistics: &wirev1.QueueStatistics{Reset_: r.GetStatistics().GetReset_()},
		Compression: &wirev1.Compression{
			Codec: r.GetCompression().GetCodec(), Engine: r.GetCompression().GetEngine(), Reason: r.GetCompression().GetReason(),
		},
	}
	if channel != nil {
		state.Channel = channelState(channel)
	}
	if r.GetDictionaries() != nil {
		state.Dictionaries = &wirev1.QueueDictionaries{Deflate: r.GetDictionaries().GetDeflate()}
	}
	for _, one := range r.GetChannels() {
		state.Channels = append(state.Channels, channelState(one))
	}
	state.Archive, state.StoreArchive = archiveState(archive), archiveState(r.GetStoreArchive())
	if restore != nil {
		state.Restore = &wirev1.QueueRestoreStatus{Done: restore.GetDone(), LastError: reason(restore.GetLastError())}
	}
	return state
}

func channelState(channel *wirev1.ChannelStatus) *wirev1.ChannelStatus {
	return &wirev1.ChannelStatus{
		Name: channel.GetName(), State: channel.GetState(), Codec: channel.GetCodec(),
		LastError: reason(channel.GetLastError()),
	}
}

func archiveState(archive *wirev1.QueueArchiveStatus) *wirev1.QueueArchiveStatus {
	if archive == nil {
		return nil
	}
	state := &wirev1.QueueArchiveStatus{Path: archive.GetPath(), LastError: reason(archive.GetLastError())}
	if archive.GetLastTime() != nil {
		state.Sequence = 1 // it has come to the end once
	}
	return state
}

func reason(failure *wirev1.Failure) *wirev1.Failure {
	if failure == nil {
		return nil
	}
	return &wirev1.Failure{Reason: failure.GetReason()}
}
