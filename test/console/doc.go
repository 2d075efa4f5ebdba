// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package console tests the console of the kubectl plugin in a browser. It is a module of its own, because nothing that
// is shipped needs the library that drives browsers (chromedp, MIT) or the checks of accessibility (axe-core, MPL-2.0).
package console
