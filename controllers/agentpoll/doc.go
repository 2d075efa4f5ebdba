// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentpoll asks agents in the background, so that no reconciler waits for one, and says when what they answer
// is worth a write.
//
// A reconciler names the agents of its object in Observe, and gets what they said last. It is woken when an agent
// answers for the first time, says something that may change a phase or a condition, falls silent or answers again, and
// else when it is its object's turn to show progress. Turns are taken by the object whose progress is oldest, at most
// 20 of them a second, so the more objects there are the older is what they show: with n runs n/16 seconds, at least 5.
//
// Agents of runs that have just begun answer when they end, so that a short run is complete when its agent says so, and
// not when the kubelet has noticed that.
//
// Agents that do not answer are asked less and less often, and have slots of their own, so that those that do answer do
// not wait for them.
package agentpoll

import "time"

// Class is what objects have in common whose agents are asked equally often.
type Class int

// Classes.
const (
	// Runs are agents that end.
	Runs Class = iota
	// Serving are agents that run until they are stopped.
	Serving
	// Nodes are node agents, whose objects need no turns: what they say seldom changes.
	Nodes

	classCount
)

func (c Class) String() string { return [...]string{"runs", "serving", "nodes"}[c] }

const (
	// Grace is for how long an agent may leave questions unanswered before it is silent.
	Grace = 10 * time.Second

	// firstSpacing is the time between the first questions to agents, which come all at once when a manager starts.
	firstSpacing = 5 * time.Millisecond
	// soon is the longest time between two questions for which a connection is kept.
	soon = 10 * time.Second
	// retryFirst doubles with each question in vain, up to retryLast, or the interval of agents that answer if that is
	// longer.
	retryFirst, retryLast = 2 * time.Second, time.Minute

	// An agent of class Runs that is younger than youth has patience to answer when its run ends. Of mostPatient questions
	// at once, that is: the others are asked as older ones are. patientSpacing is the time between two of them.
	youth, patience = 10 * time.Second, 2 * time.Second
	mostPatient     = 32
	patientSpacing  = 50 * time.Millisecond

	// turnsPerSecond bounds what is written of progress; objects of class Runs take at most runTurnsPerSecond of it.
	turnsPerSecond, runTurnsPerSecond = 20, 16
	// newsCredit is how many wakes for news an object may have in a row. It gets another one in the time between two
	// turns: an agent that says something else each time must not have the manager write each time.
	newsCredit = 4
)

// questionsPerSecond to agents of a class that answer. First questions and those for turns, which save others, come on
// top.
var questionsPerSecond = [classCount]int{Runs: 50, Serving: 30, Nodes: 20}

// pollLeast is the shortest time between two questions to an agent that answers, turnLeast between two turns of an
// object; 0: it has none.
var (
	pollLeast = [classCount]time.Duration{Runs: 2 * time.Second, Serving: 3 * time.Second, Nodes: 5 * time.Minute}
	turnLeast = [classCount]time.Duration{Runs: 5 * time.Second, Serving: 15 * time.Second}
)

// lane separates agents that answer from those that did not answer last.
type lane int

const (
	answering lane = iota
	failing

	laneCount
)

// atOnce bounds the questions of a lane that are under way. Failing agents take the whole timeout of a question.
var atOnce = [laneCount]int{answering: 64, failing: 32}
