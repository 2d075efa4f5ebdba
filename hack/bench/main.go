// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures: `make bench-NAME` runs the benchmark of that name, and docs/development/benchmarks.md says
// what there is.
package main

import (
	"github.com/lighterage/lighterage/hack/bench/codec"
	"github.com/lighterage/lighterage/hack/bench/fanout"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/http"
	"github.com/lighterage/lighterage/hack/bench/ledger"
	"github.com/lighterage/lighterage/hack/bench/object"
	"github.com/lighterage/lighterage/hack/bench/online"
	"github.com/lighterage/lighterage/hack/bench/policy"
	"github.com/lighterage/lighterage/hack/bench/queue"
	"github.com/lighterage/lighterage/hack/bench/rest"
	"github.com/lighterage/lighterage/hack/bench/scale"
	"github.com/lighterage/lighterage/hack/bench/transfer"
	"github.com/lighterage/lighterage/hack/bench/wan"
)

func main() {
	harness.Main(
		codec.Benchmark(), fanout.Benchmark(), http.Benchmark(), http.Long(), ledger.Benchmark(), object.Benchmark(),
		online.Benchmark(), policy.Benchmark(), queue.Benchmark(), rest.Benchmark(), scale.Benchmark(), transfer.Benchmark(),
		transfer.Block(), transfer.Checkpoint(), transfer.Memory(), wan.Benchmark(), wan.Links(),
	)
}
