// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view turns objects and their explanations into what the pages of the console show: tables, pictures, and the
// map of clusters. It is pure, and knows neither HTTP nor HTML; what it returns is not escaped.
package view
