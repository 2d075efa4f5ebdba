// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the kinds of the API group lighterage.dev.
//
// Conventions that every kind keeps: quantities are resource.Quantity, durations metav1.Duration, ratios and amounts of
// money decimal strings; specs are written by users only; status carries observedGeneration and the conditions Ready,
// Reconciling and Stalled, so that kstatus, Flux and kubectl wait understand it; Argo CD does with config/argocd. An
// object that no controller has seen has the observedGeneration -1, because kstatus takes one without a status for
// ready.
//
// +kubebuilder:object:generate=true
// +groupName=lighterage.dev
package v1alpha1
