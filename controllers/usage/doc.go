// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage counts what work used, exactly and without counting anything twice: of the attempts of a run, and of
// replicas that come and go. Figures are in nanoseconds and bytes, and written to status without loss, so that counting
// goes on after a restart of the manager. It is pure. What usage costs is package tariff's.
package usage
