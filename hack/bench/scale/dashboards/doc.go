// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboards has the test of the dashboards and rules on a Prometheus that scrapes a manager and a gateway.
package dashboards
