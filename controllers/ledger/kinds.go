// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// Node is what is known of a node.
type Node struct {
	// Labels are nil when they are not known.
	Labels map[string]string
	// Class for rows.
	Class string
}

// Facts are what accounts depend on besides their objects.
type Facts struct {
	Now time.Time
	// Tariffs of the cluster.
	Tariffs []v1alpha1.Tariff
	// Node by its name; the zero value if nothing is known of it.
	Node func(name string) Node
}

// Kind is a kind whose objects are counted.
type Kind struct {
	Name string
	// Object and List are empty ones.
	Object func() client.Object
	List   func() client.ObjectList
	// Account of an object of the kind. It is pure.
	Account func(object client.Object, facts Facts) Account
}

// Kinds are all that are counted. A kind that is added here is booked from then on.
var Kinds = []Kind{
	kindOf("Transfer", func() client.ObjectList { return &v1alpha1.TransferList{} }, transferAccount),
	kindOf("Delivery", func() client.ObjectList { return &v1alpha1.DeliveryList{} }, deliveryAccount),
	kindOf("Queue", func() client.ObjectList { return &v1alpha1.QueueList{} }, queueAccount),
	kindOf("HTTPEndpoint", func() client.ObjectList { return &v1alpha1.HTTPEndpointList{} }, endpointAccount),
}

func kindOf[T any, P interface {
	*T
	client.Object
}](name string, list func() client.ObjectList, account func(P, Facts) Account,
) Kind {
	return Kind{
		Name: name, List: list, Object: func() client.Object { return P(new(T)) },
		Account: func(object client.Object, facts Facts) Account {
			typed, ok := object.(P)
			if !ok {
				panic(fmt.Sprintf("ledger: a %T is not a %s", object, name))
			}
			a := account(typed, facts)
			a.UID, a.ResourceVersion = object.GetUID(), object.GetResourceVersion()
			a.Deleting, a.Created = object.GetDeletionTimestamp() != nil, object.GetCreationTimestamp().Time
			return a
		},
	}
}

// Empty reports whether an object has nothing that could be booked, now or later, without another report.
func Empty(object client.Object) bool {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return reflect.TypeOf(k.Object()) == reflect.TypeOf(object) })
	if i < 0 {
		return true
	}
	a := Kinds[i].Account(object, Facts{Node: func(string) Node { return Node{} }})
	return !a.Used()
}

// NodeClass is that of a node whose profile is given.
func NodeClass(profile v1alpha1.NodeProfileStatus) string {
	if profile.Accelerator != nil && profile.Accelerator.State == v1alpha1.AcceleratorVerified {
		return profile.Architecture + "-accelerated"
	}
	return profile.Architecture
}

// maxHistory is how many attempts the history of a Transfer holds.
const maxHistory = 10

// transferAccount has a life for each attempt. What the receiving agent used is in it if that is of this cluster: of
// another one it would be what that claims.
//
// One that pulls uses nothing: its Delivery does here, and the Transfer that was made for it there.
func transferAccount(t *v1alpha1.Transfer, facts Facts) Account {
	if t.Spec.Source.Peer != "" {
		return Account{}
	}
	a := Account{Trimmed: len(t.Status.History) >= maxHistory}
	peer := t.Spec.Destination.Peer
	add := func(id, engine, node string, usage *v1alpha1.UsageStatus, cost *v1alpha1.CostStatus) *Life {
		life := Life{ID: id}
		if usage != nil {
			life.Figures = figures(usage, peer == "")
		}
		life.Dimensions = Dimensions{
			Kind: "Transfer", Peer: peer, Direction: v1alpha1.DirectionSend, EngineClass: engineClass(engine, usage),
			NodeClass: facts.Node(node).Class,
		}
		life.Prices = func() v1alpha1.StatementPrices {
			return facts.prices(t.Status.Policy, node, cost, peer, v1alpha1.DirectionSend)
		}
		a.Lives = append(a.Lives, life)
		return &a.Lives[len(a.Lives)-1]
	}
	last := ""
	for i := len(t.Status.History) - 1; i >= 0; i-- {
		record := &t.Status.History[i]
		last = attemptID(record.RunID, record.Attempt)
		life := add(last, record.Engine, record.Node, record.Usage, record.Cost)
		life.Ended, life.StartTime, life.EndTime = true, timeOf(record.StartTime), timeOf(record.CompletionTime)
		life.Figures[operations], life.Figures[storedBytes] = natural(record.Operations), natural(record.StoredBytes)
	}
	run := t.Status.Run
	if run == nil {
		return a
	}
	id := attemptID(run.ID, run.Attempt)
	if run.CompletionTime != nil || run.NextAttemptTime != nil || id == last || t.Status.Usage == nil {
		// An attempt that has ended is in the history, and status shows its figures until the next one begins. The number
		// of run.attempt may be that of a later one, where the receiving cluster knew of that.
		return a
	}
	packed := t.Status.Compression
	if packed == nil {
		packed = &v1alpha1.CompressionStatus{}
	}
	present := add(id, packed.Engine, run.Node, t.Status.Usage, t.Status.Cost)
	present.StartTime = timeOf(run.StartTime)
	present.Figures[operations] = natural(agentreport.AllOperations(packed))
	present.Figures[storedBytes] = natural(packed.Stored.Bytes)
	return a
}

// Ended is how many attempts ended between two versions of an object, as far as the second one shows them.
func Ended(before, after client.Object) int {
	was, one := before.(*v1alpha1.Transfer)
	is, other := after.(*v1alpha1.Transfer)
	if !one || !other {
		return 0
	}
	for i := range is.Status.History {
		if h := was.Status.History; len(h) > 0 && h[0].RunID == is.Status.History[i].RunID &&
			h[0].Attempt == is.Status.History[i].Attempt {
			return i
		}
	}
	return len(is.Status.History)
}

func attemptID(run string, attempt int32) string { return run + "/" + strconv.Itoa(int(attempt)) }

// attemptOf reads what attemptID wrote.
func attemptOf(id string) (run string, attempt int) {
	run, number, _ := strings.Cut(id, "/")
	attempt, err := strconv.Atoi(number)
	if err != nil {
		attempt = 0
	}
	return run, attempt
}

// deliveryAccount is empty for a Transfer of this cluster, whose account has both sides.
func deliveryAccount(d *v1alpha1.Delivery, facts Facts) Account {
	if d.Spec.Peer == "" || d.Status.Usage == nil {
		return Account{}
	}
	life := Life{Figures: figures(d.Status.Usage, true)}
	life.Ended = d.Status.Phase == v1alpha1.DeliveryComplete || d.Status.Phase == v1alpha1.DeliveryFailed
	node := ""
	if run := d.Status.Run; run != nil {
		node, life.EndTime = run.Node, timeOf(run.CompletionTime)
	}
	life.Dimensions = Dimensions{
		Kind: "Delivery", Peer: d.Spec.Peer, Direction: v1alpha1.DirectionReceive, NodeClass: facts.Node(node).Class,
	}
	if inflated := d.Status.Decompression; inflated != nil {
		life.EngineClass = v1alpha1.EngineClassNone
		switch hardware, software := inflated.Hardware.Bytes, inflated.Software.Bytes; {
		case hardware > 0 && hardware >= software:
			life.EngineClass = v1alpha1.EngineClassHardware
		case software > 0:
			life.EngineClass = v1alpha1.EngineClassSoftware
		}
		life.Figures[operations] = saturated(natural(inflated.Hardware.Operations), natural(inflated.Software.Operations))
	}
	life.Prices = func() v1alpha1.StatementPrices {
		return facts.prices(nil, node, d.Status.Cost, d.Spec.Peer, v1alpha1.DirectionReceive)
	}
	return Account{Lives: []Life{life}}
}

func queueAccount(q *v1alpha1.Queue, facts Facts) Account {
	peer, direction := "", v1alpha1.DirectionReceive
	peers := q.Spec.SendingPeers()
	if len(peers) > 0 {
		direction = v1alpha1.DirectionSend
	}
	if len(peers) == 1 {
		peer = peers[0]
	}
	life := facts.serving(
		"Queue", peer, direction, q.Status.Policy, q.Status.Compression, q.Status.Usage, q.Status.ReplicaUsage,
	)
	if len(peers) > 1 {
		life.Prices = func() v1alpha1.StatementPrices {
			return facts.mean(q.Status.Policy, q.Status.ReplicaUsage, peers, direction)
		}
	}
	if len(peers) == 0 {
		life.Direction = "" // the prices are those that status.cost is of; a row is not of a direction
	}
	a := Account{Stored: life}
	a.Stored.Figures, a.Stored.EngineClass, a.Stored.Direction, a.Stored.Peer = Figures{}, "", "", ""
	if q.Status.Usage != nil {
		life.Figures = figures(q.Status.Usage, true)
		// As in status.cost, bytes with clients are not charged.
		life.Figures[wireBytes] = natural(q.Status.Usage.ChannelBytes)
		a.Lives = []Life{life}
	}
	// Claims are paid for as they are, whatever is in them.
	if size := q.Status.StorageSize; size != nil && q.Spec.Storage.Type != v1alpha1.QueueStorageMemory {
		each, members := natural(size.Value()), max(1, int64(q.Spec.Replicas))
		if each > math.MaxInt64/members {
			each = math.MaxInt64 / members
		}
		a.StoredBytes = each * members
	}
	for _, archive := range []*v1alpha1.QueueArchiveStatus{q.Status.Archive, q.Status.StoreArchive} {
		if archive != nil {
			a.StoredBytes = saturated(a.StoredBytes, natural(archive.RangeBytes))
		}
	}
	return a
}

func endpointAccount(e *v1alpha1.HTTPEndpoint, facts Facts) Account {
	if e.Status.Usage == nil {
		return Account{}
	}
	life := facts.serving(
		"HTTPEndpoint", "", v1alpha1.DirectionSend, e.Status.Policy, e.Status.Compression, e.Status.Usage,
		e.Status.ReplicaUsage,
	)
	life.Figures = figures(e.Status.Usage, true)
	return Account{Lives: []Life{life}}
}

// serving is the life of an object that has agents as long as it exists. Work goes to all of them alike, so that the
// price of a CPU hour is the mean of those of their nodes; the class of nodes is known if they have the same.
func (f Facts) serving(
	kind, peer string, direction v1alpha1.Direction, policy *v1alpha1.PolicyStatus, packed *v1alpha1.CompressionStatus,
	usage *v1alpha1.UsageStatus, agents []v1alpha1.ReplicaUsage,
) Life {
	life := Life{Dimensions: Dimensions{Kind: kind, Peer: peer, Direction: direction}}
	if packed != nil {
		life.EngineClass = engineClass(packed.Engine, usage)
	}
	for i, agent := range agents {
		if since := timeOf(agent.StartTime); life.StartTime.IsZero() || since.Before(life.StartTime) && !since.IsZero() {
			life.StartTime = since
		}
		class := f.Node(agent.Node).Class
		if i == 0 {
			life.NodeClass = class
		} else if life.NodeClass != class {
			life.NodeClass = ""
		}
	}
	life.Prices = func() v1alpha1.StatementPrices { return f.mean(policy, agents, []string{peer}, direction) }
	return life
}

// mean of the prices for peers, of each the mean of those of the nodes of agents.
func (f Facts) mean(
	policy *v1alpha1.PolicyStatus, agents []v1alpha1.ReplicaUsage, peers []string, direction v1alpha1.Direction,
) v1alpha1.StatementPrices {
	var nodes []map[string]string
	for _, agent := range agents {
		nodes = append(nodes, f.Node(agent.Node).Labels)
	}
	if len(agents) == 0 {
		nodes = []map[string]string{nil}
	}
	var all []*v1alpha1.PricesStatus
	for _, peer := range peers {
		var ofPeer []*v1alpha1.PricesStatus
		for _, labels := range nodes {
			if prices := f.resolve(policy, labels, peer, direction); prices != nil {
				ofPeer = append(ofPeer, prices)
			}
		}
		if mean := tariff.Mean(ofPeer); mean != nil {
			all = append(all, mean)
		}
	}
	return f.named(policy, tariff.Mean(all))
}

// prices in force, the zero value if there are none. When a node is gone, what was charged for it says what it cost.
func (f Facts) prices(
	policy *v1alpha1.PolicyStatus, node string, cost *v1alpha1.CostStatus, peer string, direction v1alpha1.Direction,
) v1alpha1.StatementPrices {
	labels := f.Node(node).Labels
	if node != "" && labels == nil && cost != nil && len(cost.Periods) > 0 {
		if p := cost.Periods[0].Prices; p.Source != v1alpha1.PricesOfSeveral {
			return f.named(policy, &p)
		}
	}
	return f.named(policy, f.resolve(policy, labels, peer, direction))
}

// resolve is nil without prices. A Tariff that is missing or invalid is in the conditions of its CompressionPolicy.
func (f Facts) resolve(
	policy *v1alpha1.PolicyStatus, node map[string]string, peer string, direction v1alpha1.Direction,
) *v1alpha1.PricesStatus {
	query := tariff.Query{Tariffs: f.Tariffs, Node: node, Peer: peer, Direction: direction, Time: f.Now}
	if policy != nil {
		query.Name = policy.TariffName
		if p := policy.Prices; p != nil && p.Source != v1alpha1.PricesOfTariff {
			query.Stated = p
		}
	}
	prices, err := tariff.Resolve(query)
	if err != nil {
		return nil
	}
	return prices
}

// named adds the prices of storage, which a Tariff alone states.
func (f Facts) named(policy *v1alpha1.PolicyStatus, p *v1alpha1.PricesStatus) v1alpha1.StatementPrices {
	if p == nil || p.Currency == "" {
		return v1alpha1.StatementPrices{}
	}
	prices := v1alpha1.StatementPrices{
		Currency: p.Currency, CPUHour: p.CPUHour, NetworkGiB: p.NetworkGiB, Source: p.Source, SourceName: p.Name,
		SourceUID: p.UID, SourceGeneration: p.Generation,
	}
	name := ""
	if policy != nil {
		name = policy.TariffName
	}
	if found, err := tariff.Find(f.Tariffs, name); err == nil && found != nil && found.Spec.Currency == p.Currency {
		prices.StorageGiBMonth = found.Spec.StorageGiBMonth
		of := found.Spec.ObjectStore
		prices.StoreWriteRequests, prices.StoreReadRequests, prices.StoreEgressGiB = of.WriteRequests, of.ReadRequests,
			of.EgressGiB
	}
	return prices
}

// figures of a usage, with the CPU time of the receiving side or without.
func figures(u *v1alpha1.UsageStatus, receive bool) Figures {
	var f Figures
	f[plainBytes], f[wireBytes] = natural(u.UncompressedBytes), natural(u.WireBytes)
	f[avoidedBytes] = max(0, f[plainBytes]-natural(u.CompressedBytes))
	f[storeWrites], f[storeReads] = natural(u.ObjectStore.WriteRequests), natural(u.ObjectStore.ReadRequests)
	f[storeSent], f[storeReceived] = natural(u.ObjectStore.SentBytes), natural(u.ObjectStore.ReceivedBytes)
	add := func(c *v1alpha1.CPUUsage, process int) {
		if c == nil {
			return
		}
		for i, text := range map[int]string{
			process: c.ProcessSeconds, compressNanos: c.CompressSeconds, decompressNanos: c.DecompressSeconds,
			idleNanos: c.IdleSeconds, networkNanos: c.NetworkSeconds,
		} {
			f[i] = saturated(f[i], nanosOf(text))
		}
	}
	add(u.Send, sendNanos)
	if receive {
		add(u.Receive, receiveNanos)
	}
	return f
}

// engineClass of an engine by its name. Without one, data that were sent went uncompressed.
func engineClass(engine string, used *v1alpha1.UsageStatus) v1alpha1.EngineClass {
	switch strings.ToLower(engine) {
	case "":
		if used == nil || used.UncompressedBytes <= 0 {
			return ""
		}
		return v1alpha1.EngineClassNone
	case "none":
		return v1alpha1.EngineClassNone
	case "dfltcc":
		return v1alpha1.EngineClassHardware
	}
	return v1alpha1.EngineClassSoftware
}

func natural(n int64) int64 { return max(0, n) }

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
