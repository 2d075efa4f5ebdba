// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "lighterage.dev", Version: "v1alpha1"}

// AddToScheme registers every kind of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Transfer{}, &TransferList{},
		&TransferSet{}, &TransferSetList{},
		&Delivery{}, &DeliveryList{},
		&Peer{}, &PeerList{},
		&PeerGrant{}, &PeerGrantList{},
		&NodeProfile{}, &NodeProfileList{},
		&CompressionPolicy{}, &CompressionPolicyList{},
		&LocalCompressionPolicy{}, &LocalCompressionPolicyList{},
		&Tariff{}, &TariffList{},
		&HTTPEndpoint{}, &HTTPEndpointList{},
		&CompressionTrial{}, &CompressionTrialList{},
		&Queue{}, &QueueList{},
		&DataQuota{}, &DataQuotaList{},
		&ObjectStore{}, &ObjectStoreList{},
		&Statement{}, &StatementList{},
		&Drill{}, &DrillList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
