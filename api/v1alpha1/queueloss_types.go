// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QueueLoss says that a Queue lost what kept its messages, for example because its only claim was deleted, and has an
// empty stream since. Clients are served. With type Memory that is no loss: such messages last as long as the members
// do.
//
// +structType=atomic
type QueueLoss struct {
	// streamCreationTime is when the stream was made that is in place of the one that was lost. The annotation
	// lighterage.dev/accept-loss of the Queue with this value takes the loss from the status.
	// +required
	StreamCreationTime metav1.Time `json:"streamCreationTime,omitzero"`
	// formerCreationTime is when the stream was made that was lost; of several lost one after the other the first.
	// +required
	FormerCreationTime metav1.Time `json:"formerCreationTime,omitzero"`
	// noticedTime is when the manager saw it.
	// +required
	NoticedTime metav1.Time `json:"noticedTime,omitzero"`
	// messages that status showed in the queue last, when statistics were read before the loss. What
	// was put after that is not counted, and what was got after that is.
	// +optional
	Messages QueueMessages `json:"messages,omitzero"`
	// deadLetters of which the same is true.
	// +optional
	DeadLetters int64 `json:"deadLetters,omitempty"`
}
