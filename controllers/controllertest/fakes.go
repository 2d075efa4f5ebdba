// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllertest holds what tests of controllers share: a cluster that is an API server alone, and fakes of
// agents, of gateways and of the kubelet.
package controllertest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentclient"
)

// Agents is a fake of all agents of a cluster, known by their server names.
type Agents struct {
	mu      sync.Mutex
	reports map[string]*wirev1.Report
	asked   map[string]int
	paused  map[string]int
	limits  map[string]uint64
	// http is by address: replicas share a server name.
	http   map[string]*wirev1.HTTPReport
	queues map[string]*wirev1.QueueReport
	given  map[string]int
}

var _ agentclient.Agents = (*Agents)(nil)

// Say sets what the agent of that server name answers; nil makes it unreachable.
func (a *Agents) Say(serverName string, report *wirev1.Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reports == nil {
		a.reports = map[string]*wirev1.Report{}
	}
	a.reports[serverName] = report
}

// Asked says how often an agent was asked.
func (a *Agents) Asked(serverName string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[serverName]
}

// Report implements agentclient.Agents.
func (a *Agents) Report(_ context.Context, target agentclient.Target) (*wirev1.Report, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == nil {
		a.asked = map[string]int{}
	}
	a.asked[target.ServerName]++
	report := a.reports[target.ServerName]
	if report == nil {
		return nil, fmt.Errorf("agent at %s: %w", target.Address, agentclient.ErrUnreachable)
	}
	return proto.CloneOf(report), nil
}

// Pause implements agentclient.Agents.
func (a *Agents) Pause(_ context.Context, target agentclient.Target) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reports[target.ServerName] == nil {
		return fmt.Errorf("agent at %s: %w", target.Address, agentclient.ErrUnreachable)
	}
	if a.paused == nil {
		a.paused = map[string]int{}
	}
	a.paused[target.ServerName]++
	return nil
}

// Limit implements agentclient.Agents.
func (a *Agents) Limit(_ context.Context, target agentclient.Target, bytesPerSecond uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reports[target.ServerName] == nil {
		return fmt.Errorf("agent at %s: %w", target.Address, agentclient.ErrUnreachable)
	}
	if a.limits == nil {
		a.limits = map[string]uint64{}
	}
	a.limits[target.ServerName] = bytesPerSecond
	return nil
}

// Limited says which limit an agent was given, if it was.
func (a *Agents) Limited(serverName string) (limit uint64, given bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	limit, given = a.limits[serverName]
	return limit, given
}

// Paused says how often an agent was asked to pause.
func (a *Agents) Paused(serverName string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.paused[serverName]
}

// Profile implements agentclient.Agents; no node agent answers.
func (a *Agents) Profile(_ context.Context, target agentclient.Target) (*wirev1.NodeMeasurement, error) {
	return nil, fmt.Errorf("node agent at %s: %w", target.Address, agentclient.ErrUnreachable)
}

// SayHTTP sets what the replica of an HTTPEndpoint at that address (host and port) answers; nil makes it unreachable.
func (a *Agents) SayHTTP(address string, report *wirev1.HTTPReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.http == nil {
		a.http = map[string]*wirev1.HTTPReport{}
	}
	a.http[address] = report
}

// HTTPReport implements agentclient.Agents.
func (a *Agents) HTTPReport(_ context.Context, target agentclient.Target) (*wirev1.HTTPReport, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	report := a.http[target.Address]
	if report == nil {
		return nil, fmt.Errorf("agent at %s: %w", target.Address, agentclient.ErrUnreachable)
	}
	return proto.CloneOf(report), nil
}

// SayQueue is what the member at an address answers from now on; nil: nothing.
func (a *Agents) SayQueue(address string, report *wirev1.QueueReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.queues == nil {
		a.queues = map[string]*wirev1.QueueReport{}
	}
	a.queues[address] = report
}

// QueueReport implements agentclient.Agents.
func (a *Agents) QueueReport(_ context.Context, target agentclient.Target) (*wirev1.QueueReport, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	report := a.queues[target.Address]
	if report == nil {
		return nil, fmt.Errorf("agent at %s: %w", target.Address, agentclient.ErrUnreachable)
	}
	return proto.CloneOf(report), nil
}

// SetHTTPConfig implements agentclient.Agents. The agent is in the configuration from then on.
func (a *Agents) SetHTTPConfig(_ context.Context, target agentclient.Target, config *wirev1.HTTPConfig) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	report := a.http[target.Address]
	if report.GetConfiguration() == nil {
		return fmt.Errorf("agent at %s: %w", target.Address, agentclient.ErrIncompatible)
	}
	report = proto.CloneOf(report)
	report.Revision = config.GetRevision()
	report.Configuration = &wirev1.ConfigurationState{Generation: config.GetGeneration()}
	a.http[target.Address] = report
	a.gave(target.Address)
	return nil
}

// SetQueueConfig implements agentclient.Agents. The agent is in the configuration from then on.
func (a *Agents) SetQueueConfig(_ context.Context, target agentclient.Target, config *wirev1.QueueConfig) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	report := a.queues[target.Address]
	if report.GetConfiguration() == nil {
		return fmt.Errorf("agent at %s: %w", target.Address, agentclient.ErrIncompatible)
	}
	report = proto.CloneOf(report)
	report.Revision = config.GetRevision()
	report.Configuration = &wirev1.ConfigurationState{Generation: config.GetGeneration()}
	a.queues[target.Address] = report
	a.gave(target.Address)
	return nil
}

func (a *Agents) gave(address string) {
	if a.given == nil {
		a.given = map[string]int{}
	}
	a.given[address]++
}

// Given says how often an agent that serves was sent a configuration.
func (a *Agents) Given(address string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.given[address]
}

// Gateways is a fake of other clusters' gateways, known by their endpoints.
type Gateways struct {
	mu        sync.Mutex
	errors    map[string]error
	withdrawn []string
	receipt   func(agentclient.ReceiptRequest) (*wirev1.ReceiptResponse, error)
	history   func(*wirev1.HistoryRequest) (*wirev1.HistoryResponse, error)
	pull      func(*wirev1.PullRequest) (*wirev1.PullResponse, error)
}

var _ agentclient.PeerGateway = (*Gateways)(nil)

// Fail makes the gateway at an endpoint answer with an error; nil makes it well again.
func (g *Gateways) Fail(endpoint string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.errors == nil {
		g.errors = map[string]error{}
	}
	g.errors[endpoint] = err
}

// Withdrawn reports whether that Transfer was withdrawn.
func (g *Gateways) Withdrawn(namespace, name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.withdrawn, namespace+"/"+name)
}

// Hello implements agentclient.PeerGateway.
func (g *Gateways) Hello(_ context.Context, gateway agentclient.Gateway) (*wirev1.HelloResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.errors[gateway.Endpoint]; err != nil {
		return nil, err
	}
	return &wirev1.HelloResponse{ProtocolVersion: wirev1.ProtocolVersion, Version: "test", KnownAs: "known"}, nil
}

// OnReceipt sets what answers questions for receipts; nil: none is supported.
func (g *Gateways) OnReceipt(answer func(agentclient.ReceiptRequest) (*wirev1.ReceiptResponse, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.receipt = answer
}

// Receipt implements agentclient.PeerGateway.
func (g *Gateways) Receipt(
	_ context.Context, gateway agentclient.Gateway, request agentclient.ReceiptRequest,
) (*wirev1.ReceiptResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.errors[gateway.Endpoint]; err != nil {
		return nil, err
	}
	if g.receipt == nil {
		return nil, fmt.Errorf("gateway at %s: %w", gateway.Endpoint, agentclient.ErrIncompatible)
	}
	return g.receipt(request)
}

// OnHistory sets what answers questions for snapshots; nil: none are taken for peers.
func (g *Gateways) OnHistory(answer func(*wirev1.HistoryRequest) (*wirev1.HistoryResponse, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.history = answer
}

// History implements agentclient.PeerGateway.
func (g *Gateways) History(
	_ context.Context, gateway agentclient.Gateway, request *wirev1.HistoryRequest,
) (*wirev1.HistoryResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.errors[gateway.Endpoint]; err != nil {
		return nil, err
	}
	if g.history == nil {
		return nil, fmt.Errorf("gateway at %s: %w", gateway.Endpoint, agentclient.ErrIncompatible)
	}
	return g.history(request)
}

// Withdraw implements agentclient.PeerGateway.
func (g *Gateways) Withdraw(_ context.Context, gateway agentclient.Gateway, namespace, name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.errors[gateway.Endpoint]; err != nil {
		return err
	}
	g.withdrawn = append(g.withdrawn, namespace+"/"+name)
	return nil
}

// WithdrawPull implements agentclient.PeerGateway.
func (g *Gateways) WithdrawPull(
	ctx context.Context, gateway agentclient.Gateway, request *wirev1.WithdrawRequest,
) error {
	return g.Withdraw(ctx, gateway, request.GetPull().GetNamespace(), request.GetPull().GetUid())
}

// OnPull sets what answers those who pull; nil: nobody may.
func (g *Gateways) OnPull(answer func(*wirev1.PullRequest) (*wirev1.PullResponse, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pull = answer
}

// Pull implements agentclient.PeerGateway.
func (g *Gateways) Pull(
	_ context.Context, gateway agentclient.Gateway, request *wirev1.PullRequest,
) (*wirev1.PullResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.errors[gateway.Endpoint]; err != nil {
		return nil, err
	}
	if g.pull == nil {
		return nil, fmt.Errorf("gateway at %s: %w", gateway.Endpoint, agentclient.ErrIncompatible)
	}
	return g.pull(request)
}
